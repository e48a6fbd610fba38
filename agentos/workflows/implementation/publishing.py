"""Pushes implemented branches and opens their pull requests, once each. Done by the command, never by a worker:
model-written code and whoever runs it hold no token."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from agentos.errors import UsageError
from agentos.sources.github_client import AnswerLostError, GitHubClient, GitHubError, Json
from agentos.sources.github_token import api_url, find_token
from agentos.workflows.implementation.records import Implemented
from agentos.workstreams.worktree import Repository

REMOTE: Final = "origin"
_OWNER_AND_NAME: Final = re.compile(r"[/:](?P<owner>[\w.-]+)/(?P<name>[\w.-]+?)(?:\.git)?/?$")
_PUSH_SECONDS: Final = 300.0


@dataclass(frozen=True, slots=True)
class Publication:
    """One implemented item to publish."""

    item_id: str
    title: str
    record: Implemented


def push(repository: Repository, publication: Publication) -> None:
    """Push an item's branch. The same commit again changes nothing; somebody else's commits are never overwritten."""
    git = repository.git
    if REMOTE not in git.text("remote").splitlines():
        raise UsageError(f"--push needs a remote named {REMOTE}: add one with `git remote add {REMOTE} URL`.")
    record = publication.record
    git.run(
        *("push", "--no-verify", REMOTE, f"{record.commit}:refs/heads/{record.branch}"),
        network=True,
        timeout_seconds=_PUSH_SECONDS,
    )


def open_pull_request(repository: Repository, publication: Publication, reports_dir: str) -> str:
    """The address of the item's pull request: the one that is open, or a new one."""
    git = repository.git
    owner, name = repository_of(git.text("remote", "get-url", REMOTE))
    path = f"/repos/{owner}/{name}/pulls"
    wanted = {"head": f"{owner}:{publication.record.branch}", "state": "open"}
    with GitHubClient(api_url(), find_token(api_url())) as client:
        found = _open_one(client, path, wanted)
        if found is not None:
            return found
        try:
            return _address(client.post(path, _body(repository, publication, reports_dir)))
        except AnswerLostError:
            # It may have been opened all the same.
            found = _open_one(client, path, wanted)
            if found is None:
                raise
            return found


def _open_one(client: GitHubClient, path: str, wanted: dict[str, str]) -> str | None:
    return next((_address(row) for row in client.rows(path, wanted)), None)


def _body(repository: Repository, publication: Publication, reports_dir: str) -> Json:
    reports = f"{reports_dir}/{publication.item_id}"
    return {
        "title": " ".join(publication.title.split())[:200],
        "head": publication.record.branch,
        "base": _base_branch(repository, publication.record.base),
        "body": f"Implements LLD-{publication.item_id}. On the branch: `{reports}/implementation-report.md` and "
        f"`{reports}/test-report.md`.\n",
    }


def _base_branch(repository: Repository, base: str) -> str:
    """The branch to merge into: a name the remote knows, not a place that moves with the user."""
    if base != "HEAD":
        return base.removeprefix(f"{REMOTE}/")
    name = repository.git.run("symbolic-ref", "--quiet", "--short", "HEAD", ok=(0, 1)).stdout.strip()
    return name or "main"


def _address(row: Json) -> str:
    address = row.get("html_url")
    if not isinstance(address, str):
        raise GitHubError("GitHub's answer about the pull request has no address.")
    return address


def repository_of(remote_url: str) -> tuple[str, str]:
    """Owner and name in the address of a remote (pure)."""
    match = _OWNER_AND_NAME.search(remote_url.strip())
    if match is None:
        raise UsageError(f"--pr: the address of the remote {REMOTE} names no GitHub repository.")
    return match["owner"], match["name"]

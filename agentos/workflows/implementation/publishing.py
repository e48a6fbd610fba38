"""Pushes implemented branches and opens their pull requests, once each. Done by the command, never by a worker:
model-written code and whoever runs it hold no token."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from agentos.errors import AgentosError, UsageError
from agentos.git.worktrees import BRANCH_PREFIX, Repository
from agentos.hints import Hint, Place
from agentos.sources.github_client import AnswerLostError, GitHubClient, GitHubError, Json
from agentos.sources.github_token import api_url, find_token
from agentos.workflows.implementation.branch import KEPT_REFS
from agentos.workflows.implementation.records import Implemented

REMOTE: Final = "origin"
_OWNER_AND_NAME: Final = re.compile(r"[/:](?P<owner>[\w.-]+)/(?P<name>[\w.-]+?)(?:\.git)?/?$")
_PUSH_SECONDS: Final = 300.0
_SAID_CHARACTERS: Final = 300


@dataclass(frozen=True, slots=True)
class Publication:
    """One implemented item to publish."""

    item_id: str
    title: str
    record: Implemented


class PushRejectedError(AgentosError):
    """The remote's branch has commits that are not ours to replace."""


def check_remote(repository: Repository, *, opens_pull_requests: bool) -> None:
    """Raises UsageError when nothing could be published: better said before the work than after it."""
    if REMOTE not in repository.git.text("remote").splitlines():
        raise UsageError(
            f"--push needs a remote named {REMOTE}, and this repository has none (see `git remote add`)."
        )
    if opens_pull_requests:
        repository_of(repository.git.text("remote", "get-url", REMOTE))
        if find_token(api_url()) is None:
            raise UsageError("--pr needs a token for GitHub: set GITHUB_TOKEN, or run `gh auth login`.")


def push(repository: Repository, publication: Publication) -> None:
    """Push an item's branch. The same commit again changes nothing; somebody else's commits are never overwritten.

    An earlier attempt of ours is replaced, if it is still what the remote has.
    """
    git = repository.git
    record = publication.record
    target = f"refs/heads/{record.branch}"
    earlier = _earlier_attempt(repository, record)
    answer = git.run(
        *("push", "--porcelain", "--no-verify", *([f"--force-with-lease={target}:{earlier}"] if earlier else [])),
        *(REMOTE, f"{record.commit}:{target}"),
        network=True,
        timeout_seconds=_PUSH_SECONDS,
        ok=(0, 1),
    )
    if answer.exit_code == 0:
        return
    if any(line.startswith("!") and "[rejected]" in line for line in answer.stdout.splitlines()):
        typed_in = Place.of_user().project or "."
        fetch = Hint.FETCH_BRANCH.line(repository=typed_in, remote=REMOTE, branch=record.branch)
        raise PushRejectedError(
            f"{record.branch} is not pushed: on {REMOTE} it has commits that are not in yours. "
            f"Get them with `{fetch}`, then merge them or remove that branch there."
        )
    said = " ".join(f"{answer.stdout}\n{answer.stderr}".split())
    raise PushRejectedError(f"{record.branch} is not pushed to {REMOTE}: {said[-_SAID_CHARACTERS:]}")


def _earlier_attempt(repository: Repository, record: Implemented) -> str | None:
    """What we pushed before the item started over: the remote's commit as last seen, if it is one that was kept."""
    git = repository.git
    seen = git.resolve(f"refs/remotes/{REMOTE}/{record.branch}")
    if seen is None:
        return None
    kept = git.resolve(f"{KEPT_REFS}/{record.branch.removeprefix(BRANCH_PREFIX)}/{seen[:12]}")
    return seen if kept == seen else None


def open_pull_request(repository: Repository, publication: Publication, reports_dir: str) -> str:
    """The address of the item's pull request: the one that is open, or a new one."""
    path, wanted = _pulls(repository, publication)
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


def closed_pull_request(repository: Repository, publication: Publication) -> str | None:
    """The address of a pull request for this very commit that somebody merged or closed, unless another is open."""
    path, wanted = _pulls(repository, publication)
    with GitHubClient(api_url(), find_token(api_url())) as client:
        rows = list(client.rows(path, {**wanted, "state": "all"}))
    if any(row.get("state") == "open" for row in rows):
        return None
    return next((_address(row) for row in rows if _head_commit(row) == publication.record.commit), None)


def _pulls(repository: Repository, publication: Publication) -> tuple[str, dict[str, str]]:
    """Where the repository's pull requests are, and which of them are open for the item's branch."""
    owner, name = repository_of(repository.git.text("remote", "get-url", REMOTE))
    return f"/repos/{owner}/{name}/pulls", {"head": f"{owner}:{publication.record.branch}", "state": "open"}


def _head_commit(row: Json) -> object:
    head = row.get("head")
    return head.get("sha") if isinstance(head, dict) else None


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

"""Pushes and pull requests: once each, against a real repository and a server that answers like GitHub."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentos.errors import UsageError
from agentos.git.worktrees import Repository
from agentos.workflows.implementation.publishing import (
    Publication,
    PushRejectedError,
    check_remote,
    closed_pull_request,
    open_pull_request,
    push,
    repository_of,
)
from agentos.workflows.implementation.records import Implemented
from fakes.github_server import GitHubServer, Scripted

_TOKEN = "ghp_" + "x" * 36


def git(directory: Path, *arguments: str) -> str:
    identity = {
        f"GIT_{who}_{what}": "a@example.invalid" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
    }
    done = subprocess.run(
        ["git", "-c", "commit.gpgsign=false", *arguments],
        cwd=directory,
        env={"PATH": os.environ["PATH"], **identity},
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    monkeypatch.setenv("AGENTOS_HOME", str(tmp_path / "home"))
    remote = tmp_path / "owner/repo.git"
    project = tmp_path / "project"
    project.mkdir()
    git(project, "init", "--quiet", "--initial-branch=main")
    git(project, "commit", "--quiet", "--allow-empty", "-m", "One")
    git(project, "branch", "agentos/1")
    git(project, "init", "--quiet", "--bare", str(remote))
    git(project, "remote", "add", "origin", str(remote))
    return Repository.open(project)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[GitHubServer]:
    with GitHubServer(token=_TOKEN) as made:
        made.add_repository("owner/repo")
        monkeypatch.setenv("GITHUB_API_URL", made.url)
        monkeypatch.setenv("GITHUB_TOKEN", _TOKEN)
        yield made


def publication(repository: Repository, base: str = "HEAD") -> Publication:
    commit = repository.git.resolve("agentos/1") or ""
    return Publication("1", "A title", Implemented(document_hash="h", branch="agentos/1", commit=commit, base=base))


def test_pushing_twice_is_pushing_once(repository: Repository) -> None:
    wanted = publication(repository)

    push(repository, wanted)
    push(repository, wanted)

    assert (
        git(repository.project_dir, "ls-remote", "origin", "refs/heads/agentos/1").split()[0] == wanted.record.commit
    )


def test_without_a_remote_the_push_says_how_to_get_one(repository: Repository) -> None:
    git(repository.project_dir, "remote", "remove", "origin")

    with pytest.raises(UsageError, match="a remote named origin"):
        check_remote(repository, opens_pull_requests=False)


def test_a_pull_request_needs_a_token_and_says_so_before_anything_runs(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", _TOKEN)
    check_remote(repository, opens_pull_requests=True)

    monkeypatch.delenv("GITHUB_TOKEN")
    # Nobody is logged in with `gh` in a home that is empty.
    monkeypatch.setenv("HOME", str(repository.project_dir))
    monkeypatch.setenv("GH_CONFIG_DIR", str(repository.project_dir))
    with pytest.raises(UsageError, match="set GITHUB_TOKEN, or run `gh auth login`"):
        check_remote(repository, opens_pull_requests=True)


def again(repository: Repository, *, by: str = "us") -> Publication:
    """Another commit on the branch in place of the one there; an earlier attempt of ours is kept as the item does."""
    project = repository.project_dir
    old = git(project, "rev-parse", "agentos/1")
    if by == "us":
        git(project, "update-ref", f"refs/agentos/kept/1/{old[:12]}", old)
    new = git(project, "commit-tree", "main^{tree}", "-p", "main", "-m", f"Another attempt after {old}")
    git(project, "update-ref", "refs/heads/agentos/1", new)
    return publication(repository)


def pushed(repository: Repository) -> str:
    return git(repository.project_dir, "ls-remote", "origin", "refs/heads/agentos/1").split()[0]


def test_an_earlier_attempt_of_ours_is_replaced(repository: Repository) -> None:
    for _ in range(3):
        wanted = again(repository)
        push(repository, wanted)
        assert pushed(repository) == wanted.record.commit


@pytest.mark.parametrize("have_seen_it", [True, False])
def test_commits_of_others_are_never_replaced(repository: Repository, tmp_path: Path, have_seen_it: bool) -> None:
    first = again(repository)
    push(repository, first)
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", "--branch", "agentos/1", str(tmp_path / "owner/repo.git"), str(clone))
    git(clone, "commit", "--quiet", "--allow-empty", "-m", "By a colleague")
    git(clone, "push", "--quiet", "origin", "agentos/1")
    theirs = git(clone, "rev-parse", "HEAD")
    if have_seen_it:
        git(repository.project_dir, "fetch", "--quiet", "origin")

    with pytest.raises(PushRejectedError, match="git fetch origin agentos/1"):
        push(repository, again(repository))

    assert pushed(repository) == theirs


def test_a_push_that_fails_otherwise_says_what_git_said(repository: Repository, tmp_path: Path) -> None:
    hook = tmp_path / "owner/repo.git/hooks/pre-receive"
    hook.write_text("#!/bin/sh\necho no pushes on Friday >&2\nexit 1\n")
    hook.chmod(0o755)

    with pytest.raises(PushRejectedError, match="no pushes on Friday"):
        push(repository, publication(repository))


def test_a_pull_request_is_opened_once(repository: Repository, server: GitHubServer) -> None:
    first = open_pull_request(repository, publication(repository), "docs/reports")
    again = open_pull_request(repository, publication(repository), "docs/reports")

    assert first == again
    posted = [request for request in server.requests if request.method == "POST"]
    assert len(posted) == 1
    assert posted[0].body == {
        "title": "A title",
        "head": "agentos/1",
        "base": "main",
        "body": "Implements LLD-1. On the branch: `docs/reports/1/implementation-report.md` and "
        "`docs/reports/1/test-report.md`.\n",
    }


def test_a_lost_answer_does_not_lead_to_a_second_pull_request(repository: Repository, server: GitHubServer) -> None:
    server.script(Scripted(method="POST", path="/pulls", handle_first=True, hang_up=True))

    address = open_pull_request(repository, publication(repository, base="agentos/0"), "docs/reports")

    assert address.startswith("https://github.example/owner/repo/")
    assert server.count("POST", "/pulls") == 1


def test_a_pull_request_that_was_closed_is_not_opened_again_for_the_same_commit(
    repository: Repository, server: GitHubServer
) -> None:
    wanted = publication(repository)
    address = open_pull_request(repository, wanted, "docs/reports")
    number = int(address.rpartition("/")[2])
    head = {"ref": "agentos/1", "sha": wanted.record.commit}
    server.edit_pull("owner/repo", number, head=head)
    assert closed_pull_request(repository, wanted) is None

    server.edit_pull("owner/repo", number, state="closed")

    assert closed_pull_request(repository, wanted) == address
    assert closed_pull_request(repository, again(repository)) is None


@pytest.mark.parametrize(
    "address",
    ["https://github.com/owner/repo", "git@github.com:owner/repo.git", "ssh://git@ghe.example/owner/repo.git/"],
)
def test_a_remotes_address_names_its_repository(address: str) -> None:
    assert repository_of(address) == ("owner", "repo")


def test_an_address_that_names_none_is_refused() -> None:
    with pytest.raises(UsageError, match="names no GitHub repository"):
        repository_of("somewhere")

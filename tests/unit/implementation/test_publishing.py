"""Pushes and pull requests: once each, against a real repository and a server that answers like GitHub."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentos.errors import UsageError
from agentos.testing.github_server import GitHubServer, Scripted
from agentos.workflows.implementation.publishing import Publication, open_pull_request, push, repository_of
from agentos.workflows.implementation.records import Implemented
from agentos.workstreams.worktree import Repository

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

    with pytest.raises(UsageError, match="git remote add origin"):
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


@pytest.mark.parametrize(
    "address",
    ["https://github.com/owner/repo", "git@github.com:owner/repo.git", "ssh://git@ghe.example/owner/repo.git/"],
)
def test_a_remotes_address_names_its_repository(address: str) -> None:
    assert repository_of(address) == ("owner", "repo")


def test_an_address_that_names_none_is_refused() -> None:
    with pytest.raises(UsageError, match="names no GitHub repository"):
        repository_of("somewhere")

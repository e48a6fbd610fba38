"""The item's branch and the project's place in its worktree, on a real repository."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from agentos.errors import UsageError
from agentos.git.commits import commit_all
from agentos.git.worktrees import Repository, Worktree
from agentos.settings import Settings, Workstreams
from agentos.workflows.implementation.branch import (
    AUTHOR,
    Base,
    DependencyConflictError,
    base_name,
    choose_base,
    folder_of,
    open_repository,
    rewind,
    start_branch,
)
from agentos.workflows.implementation.project_worktree import ProjectWorktree


def git(cwd: Path, *arguments: str, email: str = "me@example.invalid") -> str:
    identity = {
        f"GIT_{role}_{what}": value
        for role in ("AUTHOR", "COMMITTER")
        for what, value in (("NAME", "me"), ("EMAIL", email))
    }
    done = subprocess.run(
        ["git", "-c", "commit.gpgsign=false", *arguments],
        cwd=cwd,
        env={"PATH": os.environ["PATH"], "HOME": str(cwd), **identity},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of a repository."""
    monkeypatch.setenv("AGENTOS_HOME", str(tmp_path / "home"))
    path = tmp_path / "repository/services/api"
    path.mkdir(parents=True)
    (path / "app.py").write_text("x = 1\n")
    (path / ".gitignore").write_text(".env\nlocal/\n")
    (path.parent / "shared.py").write_text("y = 1\n")
    git(tmp_path / "repository", "init", "--quiet", "--initial-branch=main")
    git(tmp_path / "repository", "add", ".")
    git(tmp_path / "repository", "commit", "--quiet", "-m", "Start")
    return path


@pytest.fixture
def repository(project: Path) -> Repository:
    return open_repository(project, Settings())


def started(repository: Repository, slug: str, base: str = "HEAD", *also: str) -> tuple[Worktree, str]:
    commit = repository.git.resolve(base)
    assert commit is not None
    return start_branch(repository, Settings(), slug, Base(base, commit, also))


def commit_file(worktree: Worktree, name: str, text: str = "x\n", *, by_us: bool = True) -> str:
    (worktree.path / name).write_text(text)
    if by_us:
        return commit_all(worktree, name, AUTHOR) or ""
    git(worktree.path, "add", ".")
    git(worktree.path, "commit", "--quiet", "-m", name)
    return git(worktree.path, "rev-parse", "HEAD")


def kept(repository: Repository) -> set[str]:
    return set(repository.git.text("for-each-ref", "--format=%(objectname)", "refs/agentos/kept").split())


def test_ignored_files_are_named_from_the_project(project: Path, repository: Repository) -> None:
    (project / ".env").write_text("A=1\n")
    (project / "local").mkdir()
    (project / "local/settings").write_text("B=1\n")
    settings = Settings(workstreams=Workstreams(copy=(".env",), link=("local/settings",)))
    head = repository.git.text("rev-parse", "HEAD")

    worktree, _ = start_branch(repository, settings, "1", Base("HEAD", head), folder="services/api")

    place = worktree.path / "services/api"
    assert (place / ".env").read_text() == "A=1\n"
    assert (place / "local/settings").is_symlink()


def test_an_earlier_attempt_is_kept_and_a_persons_commits_are_built_upon(repository: Repository) -> None:
    worktree, start = started(repository, "1")
    attempt = commit_file(worktree, "attempt.txt")
    _, again = started(repository, "1")
    assert (again, kept(repository)) == (start, {attempt})

    by_hand = commit_file(worktree, "by-hand.txt", by_us=False)
    ours = commit_file(worktree, "ours.txt")
    (worktree.path / "loose.txt").write_text("nobody committed it\n")
    _, again = started(repository, "1")

    assert again == by_hand
    assert not (worktree.path / "loose.txt").exists()
    assert any(
        {"loose.txt", "ours.txt"} <= set(repository.git.text("ls-tree", "--name-only", tip).split())
        for tip in kept(repository)
    )
    assert ours not in repository.git.text("rev-list", "agentos/1").split()


def test_commits_of_others_on_the_branch_are_kept_when_a_node_starts_again(repository: Repository) -> None:
    worktree, start = started(repository, "1")
    theirs = commit_file(worktree, "theirs.txt", by_us=False)

    rewind(worktree, start)

    assert kept(repository) == {theirs}
    assert repository.git.text("rev-parse", "agentos/1") == start


def test_dependencies_are_merged_and_those_that_conflict_are_named(repository: Repository) -> None:
    for slug, text in (("1", "one\n"), ("2", "two\n"), ("3", "three\n")):
        worktree, _ = started(repository, slug)
        commit_file(worktree, "same.txt" if slug != "2" else "other.txt", text)
    settings = Settings()

    base = choose_base(repository, settings, ["1", "2", "8"])
    assert (base.name, base.also) == ("agentos/1", ("agentos/2",))
    worktree, _ = started(repository, "4", "agentos/1", "agentos/2")
    assert {"same.txt", "other.txt"} <= {path.name for path in worktree.path.iterdir()}

    with pytest.raises(DependencyConflictError, match="agentos/3 conflicts"):
        started(repository, "5", "agentos/1", "agentos/3")


def test_a_base_is_named_after_the_branch_the_user_is_on(repository: Repository) -> None:
    base = choose_base(repository, Settings(), [])
    assert (base.name, base_name(repository, base)) == ("HEAD", "main")
    assert base_name(repository, Base("v1", base.commit)) == "v1"

    git(repository.project_dir, "checkout", "--quiet", "--detach")
    assert base_name(repository, base) == "HEAD"


def test_work_begun_by_hand_gets_the_dependencys_branch_merged(repository: Repository) -> None:
    worktree, _ = started(repository, "1")
    commit_file(worktree, "one.txt")
    worktree, _ = started(repository, "2")
    by_hand = commit_file(worktree, "begun.txt", by_us=False)

    worktree, head = started(repository, "2", "agentos/1")

    assert {"one.txt", "begun.txt"} <= {path.name for path in worktree.path.iterdir()}
    assert repository.git.says_yes("merge-base", "--is-ancestor", by_hand, head)


def test_a_dependency_counts_as_merged_by_its_commits_or_its_finished_design(
    project: Path, repository: Repository
) -> None:
    top = repository.project_dir
    worktree, _ = started(repository, "api--1")
    commit_file(worktree, "one.txt")

    def base() -> str:
        return choose_base(repository, Settings(), ["1"], folder="services/api", prefix="api--").name

    assert base() == "agentos/api--1"
    done = project / "docs/lld/done/LLD-1.md"
    done.parent.mkdir(parents=True)
    done.write_text("# Done\n")
    git(top, "add", ".")
    git(top, "commit", "--quiet", "-m", "Squashed")
    assert base() == "HEAD"

    git(top, "reset", "--quiet", "--hard", "HEAD^")
    assert base() == "agentos/api--1"
    git(top, "merge", "--quiet", "--no-edit", "agentos/api--1")
    assert base() == "HEAD"


def test_a_place_knows_its_own_files_only(project: Path, repository: Repository) -> None:
    worktree, start = started(repository, "1")
    place = ProjectWorktree(worktree, folder_of(project, repository))
    commit_file(worktree, "services/api/new.py")
    commit_file(worktree, "services/other.py")

    assert place.folder == "services/api"
    assert place.changed_files(start) == ("new.py",)
    assert place.python_files() == ("app.py", "new.py")
    assert place.submodules() == ()
    whole = ProjectWorktree(worktree, "")
    assert whole.changed_files(start) == ("services/api/new.py", "services/other.py")


def test_a_repository_that_tests_made_in_the_place_is_removed(repository: Repository) -> None:
    worktree, _ = started(repository, "1")
    place = ProjectWorktree(worktree, "services/api")
    for make in (
        lambda path: path.mkdir(),
        lambda path: path.write_text("gitdir: /elsewhere\n"),
        lambda path: path.symlink_to("/etc"),
    ):
        make(place.path / ".git")
        place.clear()
        assert not os.path.lexists(place.path / ".git")


def test_a_repository_that_tests_made_and_that_stays_is_not_worked_in(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    worktree, _ = started(repository, "1")
    place = ProjectWorktree(worktree, "services/api")
    (place.path / ".git/busy").mkdir(parents=True)
    monkeypatch.setattr("agentos.workflows.implementation.project_worktree.remove_tree", lambda _path: None)
    with pytest.raises(UsageError, match="cannot be removed"):
        place.clear()


def test_a_place_that_is_not_in_the_base_is_made_and_one_behind_a_link_refused(
    tmp_path: Path, repository: Repository
) -> None:
    worktree, _ = started(repository, "1")
    ProjectWorktree(worktree, "new/place").clear()
    assert (worktree.path / "new/place").is_dir()

    (worktree.path / "linked").symlink_to(tmp_path)
    with pytest.raises(UsageError, match="reached through a link on agentos/1"):
        ProjectWorktree(worktree, "linked/place").clear()
    assert not (tmp_path / "place").exists()


def test_documents_are_written_replaced_and_deleted_in_the_place(repository: Repository) -> None:
    worktree, _ = started(repository, "1")
    place = ProjectWorktree(worktree, "services/api")

    place.put_files({"docs/report.md": "one", "app.py": "y = 2\n", "no-such.py": None})
    assert (place.path / "docs/report.md").read_text() == "one"
    assert (place.path / "app.py").read_text() == "y = 2\n"
    place.put_files({"docs/report.md": None})
    assert not (place.path / "docs/report.md").exists()


@pytest.mark.parametrize("configured", ["", "../../../trees", "linked-trees"])
def test_worktrees_are_made_and_found_behind_links_and_dots(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, configured: str
) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "home").symlink_to(tmp_path / "real")
    (project / "linked-trees").symlink_to(tmp_path / "real")
    repository = open_repository(project, Settings(workstreams=Workstreams(dir=configured)))

    worktree, _ = started(repository, "1")

    found = repository.find("1")
    assert found is not None
    assert found.path == worktree.path
    assert started(repository, "1")[0].path == worktree.path

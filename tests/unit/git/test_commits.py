"""Rounds are commits, a branch can become one commit, and merge orders are tried without a trace."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from agentos.errors import UsageError
from agentos.git.commits import (
    Author,
    changed_files,
    commit_all,
    discard_changes,
    restore,
    squash,
    submodule_paths,
)
from agentos.git.merge_check import MergeCheck, check_merges
from agentos.git.worktrees import Repository, Worktree

AUTHOR = Author("Agent", "agent@example.com")
GitCommand = Callable[..., str]


@pytest.fixture
def worktree(repository: Repository) -> Worktree:
    return repository.create("a").worktree


def write(worktree: Worktree, **files: str) -> None:
    for name, content in files.items():
        (worktree.path / f"{name}.py").write_text(content)


def test_commit_takes_all_changes_under_the_given_name(worktree: Worktree, git: GitCommand) -> None:
    write(worktree, app="changed = 1\n", new="x = 1\n")
    (worktree.path / "README.md").unlink()
    commit = commit_all(worktree, "Round 1\n\n# not a comment\n", AUTHOR)
    assert git(worktree.path, "log", "-1", "--format=%H|%an|%ce|%B") == (
        f"{commit}|Agent|agent@example.com|Round 1\n\n# not a comment"
    )
    assert git(worktree.path, "status", "--porcelain") == ""
    assert set(changed_files(worktree, "main")) == {"app.py", "new.py", "README.md"}


def test_nothing_to_commit_is_none(worktree: Worktree) -> None:
    assert commit_all(worktree, "Nothing", AUTHOR) is None


def test_stale_index_lock_of_a_killed_git_does_not_stop_the_commit(worktree: Worktree) -> None:
    lock_path = worktree.git_dir / "index.lock"
    lock_path.touch()
    os.utime(lock_path, (0, 0))
    write(worktree, new="x = 1\n")
    assert commit_all(worktree, "Work", AUTHOR)


def test_repository_made_inside_the_worktree_is_left_out(worktree: Worktree, git: GitCommand) -> None:
    inner = worktree.path / "inner"
    git(worktree.path, "clone", "--quiet", str(worktree.path), str(inner))
    write(worktree, new="x = 1\n")
    commit_all(worktree, "Work", AUTHOR)
    assert changed_files(worktree, "main") == ("new.py",)
    assert submodule_paths(worktree) == ()


def test_submodules_are_named(worktree: Worktree, git: GitCommand) -> None:
    head = git(worktree.path, "rev-parse", "HEAD")
    git(worktree.path, "update-index", "--add", "--cacheinfo", f"160000,{head},vendor/lib")
    assert submodule_paths(worktree) == ("vendor/lib",)


def test_discard_goes_back_to_the_last_commit_and_keeps_ignored_files(worktree: Worktree, git: GitCommand) -> None:
    write(worktree, app="broken", extra="half")
    (worktree.path / "deep").mkdir()
    (worktree.path / "deep" / "x.py").write_text("half")
    (worktree.path / ".env").write_text("keep")
    discard_changes(worktree)
    assert git(worktree.path, "status", "--porcelain") == ""
    assert not (worktree.path / "extra.py").exists()
    assert (worktree.path / ".env").read_text() == "keep"


def test_best_round_comes_back_as_a_new_commit(worktree: Worktree, git: GitCommand) -> None:
    write(worktree, app="good\n")
    best = commit_all(worktree, "Round 1", AUTHOR)
    assert best is not None
    write(worktree, app="worse\n", junk="x")
    commit_all(worktree, "Round 2", AUTHOR)
    write(worktree, half="uncommitted")
    restored = restore(worktree, best, "Back to round 1", AUTHOR)
    assert restored is not None
    assert git(worktree.path, "rev-parse", f"{restored}^{{tree}}") == git(
        worktree.path, "rev-parse", f"{best}^{{tree}}"
    )
    assert not (worktree.path / "junk.py").exists()
    assert git(worktree.path, "rev-list", "--count", "main..HEAD") == "3"
    assert restore(worktree, best, "Again", AUTHOR) is None


def test_squash_keeps_the_content_in_one_commit(worktree: Worktree, git: GitCommand) -> None:
    for number in range(3):
        write(worktree, app=f"x = {number}\n")
        commit_all(worktree, f"Round {number}", AUTHOR)
    tree = git(worktree.path, "rev-parse", "HEAD^{tree}")
    commit = squash(worktree, "main", "Add x\n\nBody", AUTHOR)
    assert git(worktree.path, "rev-list", "main..HEAD") == commit
    assert git(worktree.path, "rev-parse", "HEAD^{tree}") == tree
    assert git(worktree.path, "symbolic-ref", "--short", "HEAD") == "agentos/a"
    assert git(worktree.path, "status", "--porcelain") == ""
    assert squash(worktree, "main", "Add x\n\nBody", AUTHOR) == commit


def test_merge_order_is_tried_one_after_the_other(repository: Repository, project: Path, git: GitCommand) -> None:
    for slug, content in (
        ("a", "def answer():\n    return 1\n"),
        ("b", "def answer():\n    return 2\n"),
        ("c", None),
    ):
        worktree = repository.create(slug).worktree
        write(worktree, **({"app": content} if content else {"other": "x = 1\n"}))
        commit_all(worktree, slug, AUTHOR)
    before = sorted(path for path in (project / ".git" / "objects").rglob("*"))
    checks = check_merges(repository, "main", ["agentos/a", "agentos/b", "agentos/gone", "agentos/c"])
    assert checks == (
        MergeCheck("agentos/a"),
        MergeCheck("agentos/b", conflicts=("app.py",)),
        MergeCheck("agentos/gone", problem="there is no such branch"),
        MergeCheck("agentos/c"),
    )
    assert [check.is_clean for check in checks] == [True, False, False, True]
    assert sorted(path for path in (project / ".git" / "objects").rglob("*")) == before
    assert check_merges(repository, "main", ["agentos/b", "agentos/c"])[0].is_clean


def test_unrelated_history_is_a_problem_and_an_unknown_base_a_usage_error(
    repository: Repository, project: Path, git: GitCommand
) -> None:
    tree = git(project, "rev-parse", "HEAD^{tree}")
    git(project, "branch", "alien", git(project, "commit-tree", tree, "-m", "Alien"))
    (check,) = check_merges(repository, "main", ["alien"])
    assert "unrelated" in str(check.problem)
    with pytest.raises(UsageError, match="names no commit"):
        check_merges(repository, "nope", [])


def test_no_program_that_files_in_the_worktree_choose_is_run(
    repository: Repository, project: Path, git: GitCommand
) -> None:
    """The user has filters, comparisons and merge programs; what a model wrote would like to use them."""
    marker = project.parent / "ran"
    for name in (
        "filter.evil.clean",
        "filter.evil.smudge",
        "diff.evil.textconv",
        "diff.evil.command",
        "diff.external",
    ):
        git(project, "config", name, f"touch {marker}; cat")
    git(project, "config", "filter.evil.required", "true")
    git(project, "config", "filter.worse.process", f"touch {marker}")
    git(project, "config", "core.fsmonitor", f"touch {marker}")
    worktree = repository.create("one").worktree
    attributes = "*.py filter=evil diff=evil\n*.txt filter=worse\n"
    for name, text in {".gitattributes": attributes, "a.py": "x = 1\n", "b.txt": "words\n"}.items():
        (worktree.path / name).write_text(text)

    commit = commit_all(worktree, "What a model wrote", AUTHOR)
    write(worktree, a="x = 2\n")
    commit_all(worktree, "And changed", AUTHOR)
    assert changed_files(worktree, str(commit)) == ("a.py",)
    discard_changes(worktree)
    restore(worktree, str(commit), "Back", AUTHOR)
    repository.unsaved_work("one", worktree)

    assert not marker.exists()
    assert git(project, "show", "--no-ext-diff", "--no-textconv", "agentos/one:a.py") == "x = 1"


def test_a_repository_inside_the_worktree_is_not_asked_what_to_run(
    repository: Repository, project: Path, git: GitCommand
) -> None:
    marker = project.parent / "ran"
    worktree = repository.create("one").worktree
    git(worktree.path, "update-index", "--add", "--cacheinfo", f"160000,{worktree.head},sub")
    git(worktree.path, "commit", "--quiet", "-m", "A submodule")
    inner = worktree.path / "sub"
    inner.mkdir(exist_ok=True)
    git(inner, "init", "--quiet")
    (inner / "file.py").write_text("x = 1\n")
    git(inner, "add", ".")
    git(inner, "-c", "user.name=x", "-c", "user.email=x@x", "commit", "--quiet", "-m", "Inside")
    git(inner, "config", "core.fsmonitor", f"touch {marker}")
    git(inner, "config", "filter.evil.clean", f"touch {marker}; cat")
    (inner / ".gitattributes").write_text("* filter=evil\n")
    (inner / "file.py").write_text("x = 2\n")
    marker.unlink(missing_ok=True)

    unsaved = repository.unsaved_work("one", worktree)
    commit_all(worktree, "More", AUTHOR)

    assert not marker.exists()
    assert unsaved is not None
    assert "sub" in unsaved.uncommitted


def test_a_branch_of_a_sparse_checkout_has_and_changes_every_file(
    repository: Repository, project: Path, git: GitCommand
) -> None:
    (project / "docs").mkdir()
    (project / "docs" / "guide.md").write_text("hello\n")
    git(project, "add", "docs")
    git(project, "commit", "--quiet", "-m", "A guide")
    git(project, "sparse-checkout", "set", "--cone", "other")
    worktree = repository.create("a").worktree
    assert (worktree.path / "docs" / "guide.md").read_text() == "hello\n"
    (worktree.path / "docs" / "new.md").write_text("new\n")
    assert commit_all(worktree, "Work", AUTHOR)
    discard_changes(worktree)
    assert (worktree.path / "docs" / "new.md").is_file()
    assert changed_files(worktree, "main") == ("docs/new.md",)
    assert not (project / "docs").exists()


@pytest.mark.parametrize("name", ["a:b", 'a"b\\c:d'])
def test_merges_are_tried_in_a_folder_of_any_name(project: Path, tmp_path: Path, name: str) -> None:
    moved = Repository.open(project.rename(tmp_path / name), tmp_path / "worktrees")
    worktree = moved.create("a").worktree
    write(worktree, new="x = 1\n")
    commit_all(worktree, "Work", AUTHOR)
    assert check_merges(moved, "main", ["agentos/a"]) == (MergeCheck("agentos/a"),)


def test_a_line_break_in_the_path_is_said(project: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"a\\nb.* has a line break in its path"):
        Repository.open(project.rename(tmp_path / "a\nb"))

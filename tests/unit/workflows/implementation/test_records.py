"""What is known of implemented designs without asking git."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentos.errors import UsageError
from agentos.text.identifiers import sanitize_identifier
from agentos.workflows.implementation.records import (
    Implemented,
    as_text,
    branch_prefix,
    check_start,
    has_branch,
    has_code,
    read_record,
    record_path,
)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTOS_HOME", str(tmp_path / "home"))


def test_a_record_survives_and_a_damaged_one_counts_as_none(tmp_path: Path) -> None:
    record = Implemented(document_hash="h", branch="agentos/1", commit="c", base="HEAD")
    path = record_path(tmp_path, "1")
    path.parent.mkdir(parents=True)
    path.write_text(as_text(record))
    assert read_record(tmp_path, "1") == record

    for damaged in ("", "{}", "[]", '{"document_hash": "h"'):
        path.write_text(damaged)
        assert read_record(tmp_path, "1") is None
    assert read_record(tmp_path, "2") is None


def test_branches_are_found_loose_packed_and_from_a_linked_worktree(tmp_path: Path) -> None:
    git_dir = tmp_path / "main/.git"
    (git_dir / "refs/heads/agentos").mkdir(parents=True)
    (git_dir / "refs/heads/agentos/1").write_text("0" * 40)
    (git_dir / "packed-refs").write_text(f"# pack-refs\n{'1' * 40} refs/heads/agentos/2\n")
    linked = tmp_path / "linked"
    linked.mkdir()
    (git_dir / "worktrees/linked").mkdir(parents=True)
    (git_dir / "worktrees/linked/commondir").write_text("../..\n")
    (linked / ".git").write_text(f"gitdir: {git_dir}/worktrees/linked\n")

    for project in (tmp_path / "main", linked):
        assert has_branch(project, "agentos/1")
        assert has_branch(project, "agentos/2")
        assert not has_branch(project, "agentos/3")


@pytest.mark.parametrize(
    ("tip", "has_it"),
    [("c" * 40, True), ("d" * 40, True), ("a" * 40, False), ("b" * 40, False), (None, False)],
    ids=["as it was left", "moved on", "put back to its base", "put where the checkout is", "deleted"],
)
@pytest.mark.parametrize("head", ["ref: refs/heads/work\n", "b" * 40 + "\n"], ids=["on a branch", "detached"])
def test_a_branch_that_was_put_back_has_no_code(tmp_path: Path, tip: str | None, has_it: bool, head: str) -> None:
    heads = tmp_path / ".git/refs/heads"
    (heads / "agentos").mkdir(parents=True)
    (tmp_path / ".git/HEAD").write_text(head)
    (heads / "work").write_text("b" * 40)
    (heads / "main").write_text("a" * 40 + "\n")
    if tip is not None:
        (heads / "agentos/1").write_text(tip + "\n")

    assert (
        has_code(tmp_path, Implemented(document_hash="h", branch="agentos/1", commit="c" * 40, base="main")) is has_it
    )


def test_a_branch_that_was_put_back_to_where_it_started_has_no_code_whatever_became_of_its_base(
    tmp_path: Path,
) -> None:
    heads = tmp_path / ".git/refs/heads"
    (heads / "agentos").mkdir(parents=True)
    (tmp_path / ".git/HEAD").write_text("ref: refs/heads/main\n")
    (heads / "main").write_text("f" * 40 + "\n")
    (heads / "agentos/1").write_text("b" * 40 + "\n")
    record = Implemented(document_hash="h", branch="agentos/1", commit="c" * 40, base="main", started="b" * 40)

    assert not has_code(tmp_path, record)


def test_a_branch_that_somebody_has_checked_out_to_work_on_has_code(tmp_path: Path) -> None:
    (tmp_path / ".git/refs/heads/agentos").mkdir(parents=True)
    (tmp_path / ".git/HEAD").write_text("ref: refs/heads/agentos/1\n")
    (tmp_path / ".git/refs/heads/agentos/1").write_text("d" * 40 + "\n")

    assert has_code(tmp_path, Implemented(document_hash="h", branch="agentos/1", commit="c" * 40, base="main"))


def test_without_a_repository_there_is_no_branch(tmp_path: Path) -> None:
    assert not has_branch(tmp_path, "agentos/1")
    (tmp_path / ".git").mkdir()
    assert not has_branch(tmp_path, "agentos/1")


@pytest.mark.parametrize(
    ("folder", "prefix"),
    [
        ("", ""),
        ("api", "api--"),
        ("services/my-api", "services--my-api--"),
    ],
)
def test_branches_of_a_project_in_a_folder_start_with_the_folder(tmp_path: Path, folder: str, prefix: str) -> None:
    (tmp_path / ".git").mkdir()

    assert branch_prefix(tmp_path / folder) == prefix


def test_folders_that_look_alike_in_a_branch_do_not_share_branches(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    folders = ["a/b", "a--b", "a b", "a-b", "ä-b", "/".join(["deep"] * 40), "/".join(["deep"] * 41)]

    prefixes = [branch_prefix(tmp_path / folder) for folder in folders]

    assert len(set(prefixes)) == len(folders)
    assert all(sanitize_identifier(f"{prefix}12") for prefix in prefixes)


def test_a_project_in_no_repository_has_no_prefix(tmp_path: Path) -> None:
    assert branch_prefix(tmp_path) == ""


def test_commits_to_start_from_are_found_in_gits_files_and_what_those_do_not_tell_is_left_to_git(
    tmp_path: Path,
) -> None:
    with pytest.raises(UsageError, match=r"is not in a git checkout: run `git init .*` and commit"):
        check_start(tmp_path, "HEAD")
    git_dir = tmp_path / ".git"
    git_dir.mkdir()
    check_start(tmp_path, "HEAD")
    (git_dir / "HEAD").write_text("ref: refs/heads/main\n")
    with pytest.raises(UsageError, match=r"'HEAD' names no commit in .*: commit something or set --base"):
        check_start(tmp_path, "HEAD")
    check_start(tmp_path, "v1")
    (git_dir / "packed-refs").write_text(f"{'1' * 40} refs/heads/main\n")
    check_start(tmp_path, "HEAD")
    (git_dir / "packed-refs").unlink()
    (git_dir / "HEAD").write_text("1" * 40)
    check_start(tmp_path, "HEAD")
    (git_dir / "HEAD").write_text("ref: refs/heads/.invalid\n")
    (git_dir / "reftable").mkdir()
    check_start(tmp_path, "HEAD")

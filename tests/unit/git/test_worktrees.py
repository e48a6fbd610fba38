"""Worktrees are made, healed and removed without touching what is the user's."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agentos.errors import InvalidIdentifier, UsageError
from agentos.git.command import GitError
from agentos.git.commits import Author, commit_all
from agentos.git.provisioning import provide_files
from agentos.git.unsaved_work import UnsavedWork
from agentos.git.worktrees import (
    Repository,
    Worktree,
    WouldLoseWorkError,
    branch_of,
    read_origin,
    size_on_disk,
)
from agentos.paths import worktrees_dir

AUTHOR = Author("Agent", "agent@example.com")
GitCommand = Callable[..., str]


def unsaved_in(repository: Repository, worktree: Worktree) -> UnsavedWork:
    unsaved = repository.unsaved_work("a", worktree)
    assert unsaved is not None
    return unsaved


def user_state(project: Path, git: GitCommand) -> tuple[str, ...]:
    """All of the user's own: branch, head, index, files, configuration, hooks."""
    return (
        git(project, "symbolic-ref", "HEAD"),
        git(project, "rev-parse", "main"),
        git(project, "status", "--porcelain", "--ignored"),
        git(project, "ls-files", "--stage"),
        (project / ".git" / "config").read_text(),
    )


def test_worktree_is_on_its_branch_from_the_base(repository: Repository, project: Path, git: GitCommand) -> None:
    created = repository.create("issue-1", base="main")
    assert created.worktree.path == repository.worktrees_dir / "issue-1"
    assert git(created.worktree.path, "symbolic-ref", "--short", "HEAD") == "agentos/issue-1"
    assert created.origin.base == "main"
    assert created.origin.commit == created.worktree.head == git(project, "rev-parse", "main")
    assert (created.worktree.path / "app.py").read_text() == (project / "app.py").read_text()
    assert created.worktree.slug == "issue-1"
    assert not created.was_there


def test_user_checkout_index_config_and_hooks_are_untouched(
    repository: Repository, project: Path, git: GitCommand, tmp_path: Path
) -> None:
    for hook in ("post-checkout", "pre-commit", "commit-msg", "post-commit", "reference-transaction"):
        path = project / ".git" / "hooks" / hook
        path.write_text(f"#!/bin/sh\ntouch {tmp_path}/hook-ran\nexit 1\n")
        path.chmod(0o755)
    (project / "app.py").write_text("the user is in the middle of this\n")
    before = user_state(project, git)
    worktree = repository.create("a").worktree
    (worktree.path / "new.py").write_text("x = 1\n")
    assert commit_all(worktree, "Work", AUTHOR)
    repository.remove("a", force=True, delete_branch=True)
    assert user_state(project, git) == before
    assert not (tmp_path / "hook-ran").exists()
    assert git(project, "branch", "--list") == "* main"


def test_create_again_finds_it_as_it_is(repository: Repository) -> None:
    worktree = repository.create("a").worktree
    (worktree.path / "work.txt").write_text("in progress")
    again = repository.create("a")
    assert again.was_there
    assert (again.worktree.path / "work.txt").read_text() == "in progress"


def test_unknown_base_unsafe_slug_and_no_repository_are_usage_errors(repository: Repository, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="names no commit"):
        repository.create("a", base="nope")
    with pytest.raises(InvalidIdentifier):
        repository.create("../a")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="git init"):
        Repository.open(tmp_path / "empty")


def test_default_folder_is_outside_of_the_checkout(project: Path) -> None:
    repository = Repository.open(project)
    assert repository.worktrees_dir == worktrees_dir(project)
    assert not repository.worktrees_dir.is_relative_to(project)


def test_a_folder_inside_of_the_checkout_is_not_taken_for_the_users_files(project: Path, git: GitCommand) -> None:
    before = user_state(project, git)[:2]
    repository = Repository.open(project, project / "trees")
    worktree = repository.create("a").worktree
    assert git(project, "status", "--porcelain") == ""
    (worktree.path / "new.txt").write_text("x\n")
    assert git(worktree.path, "status", "--porcelain") == "?? new.txt"
    (project / "trees" / ".gitignore").write_text("*\n# mine\n")
    repository.create("b")
    assert (project / "trees" / ".gitignore").read_text() == "*\n# mine\n"
    assert user_state(project, git)[:2] == before


def test_branch_that_exists_is_taken_up_again(repository: Repository) -> None:
    worktree = repository.create("a").worktree
    (worktree.path / "new.py").write_text("x = 1\n")
    commit = commit_all(worktree, "Work", AUTHOR)
    repository.remove("a", force=True)
    again = repository.create("a")
    assert again.worktree.head == commit
    assert again.origin.commit != commit


def test_directory_deleted_by_hand_is_made_again(repository: Repository) -> None:
    worktree = repository.create("a").worktree
    shutil.rmtree(worktree.path)
    assert (repository.create("a").worktree.path / "app.py").exists()


def test_worktree_moved_with_mv_is_recognised_with_its_work(repository: Repository) -> None:
    worktree = repository.create("a").worktree
    (worktree.path / "work.txt").write_text("in progress")
    moved_path = repository.worktrees_dir / "elsewhere"
    worktree.path.rename(moved_path)
    again = repository.create("a")
    assert again.was_there
    assert again.worktree.path == moved_path
    assert (moved_path / "work.txt").exists()


def test_half_made_worktree_of_a_killed_git_is_healed(repository: Repository, git: GitCommand) -> None:
    worktree = repository.create("a").worktree
    (worktree.git_dir / "locked").write_text("initializing")
    (worktree.git_dir / "index").unlink()
    (worktree.git_dir / "index.lock").touch()
    (worktree.path / "app.py").unlink()
    healed = repository.create("a")
    assert not healed.was_there
    assert git(healed.worktree.path, "status", "--porcelain") == ""
    assert (healed.worktree.path / "app.py").exists()


def test_records_git_had_just_begun_are_cleared(repository: Repository) -> None:
    admin_dir = repository.common_dir / "worktrees"
    (admin_dir / "a").mkdir(parents=True)
    (admin_dir / "a1").mkdir()
    (admin_dir / "a1" / "locked").write_text("initializing")
    repository.create("a")
    assert [path.name for path in admin_dir.iterdir()] == ["a"]


def test_git_killed_at_any_moment_of_adding_does_not_stop_the_next_create(
    repository: Repository, project: Path, git: GitCommand
) -> None:
    for number in range(300):
        (project / f"file{number}.txt").write_text("content\n")
    git(project, "add", "--all")
    git(project, "commit", "--quiet", "--message", "Many files")
    code = f"""
        from pathlib import Path
        from agentos.git.worktrees import Repository
        Repository.open(Path({str(project)!r}), Path({str(repository.worktrees_dir)!r})).create("a")
    """
    for delay_seconds in (0.0, 0.01, 0.02, 0.03, 0.05):
        killed = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)])
        deadline = time.monotonic() + 30
        while not repository.worktrees_dir.exists() and killed.poll() is None and time.monotonic() < deadline:
            time.sleep(0.001)
        time.sleep(delay_seconds)
        killed.kill()
        killed.wait()
        healed = repository.create("a")
        assert git(healed.worktree.path, "status", "--porcelain") == ""
        assert read_origin(healed.worktree) == healed.origin
        repository.remove("a", delete_branch=True)
        shutil.rmtree(repository.worktrees_dir)


def test_git_that_outlives_its_killed_parent_is_waited_for(
    repository: Repository, project: Path, git: GitCommand, tmp_path: Path
) -> None:
    """Between its fork and its exec a git carries no mark yet by which it could be found and killed."""
    path, slow_dir, has_begun = repository.path_for("a"), tmp_path / "slow", tmp_path / "has-begun"
    slow_dir.mkdir()
    slow_git = slow_dir / "git"
    slow_git.write_text(f"""#!/bin/sh
case "$*" in
*"worktree add"*)
    # In the background, where no death of a parent reaches it.
    (unset AGENTOS_GIT_WORKTREE; mkdir -p {path}; echo half >{path}/half; touch {has_begun}; exec "$0" finish) &
    wait;;
finish) sleep 2; rm -r {path};;
*) exec {shutil.which("git")} "$@";;
esac
""")
    slow_git.chmod(0o755)
    code = f"""
        from pathlib import Path
        from agentos.git.worktrees import Repository
        Repository.open(Path({str(project)!r}), Path({str(repository.worktrees_dir)!r})).create("a")
    """
    environment = {**os.environ, "PATH": f"{slow_dir}{os.pathsep}{os.environ['PATH']}"}
    killed = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], env=environment)
    deadline = time.monotonic() + 30
    while not has_begun.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    killed.kill()
    killed.wait()
    created = repository.create("a")
    assert not created.was_there
    assert git(created.worktree.path, "status", "--porcelain") == ""


def test_foreign_directory_in_the_way_is_refused_and_kept(repository: Repository) -> None:
    path = repository.path_for("a")
    path.mkdir(parents=True)
    (path / "precious.txt").write_text("keep me")
    with pytest.raises(UsageError, match="move it away"):
        repository.create("a")
    assert (path / "precious.txt").exists()
    (path / "precious.txt").unlink()
    assert repository.create("a").worktree.path == path


def test_worktree_switched_to_another_branch_is_refused_and_kept(repository: Repository, git: GitCommand) -> None:
    worktree = repository.create("a").worktree
    git(worktree.path, "checkout", "--quiet", "-b", "mine")
    with pytest.raises(UsageError, match="is on mine"):
        repository.create("a")
    with pytest.raises(UsageError, match="is on mine"):
        repository.remove("a", delete_branch=True)
    assert repository.branches() == ("agentos/a",)
    repository.remove("a", delete_branch=True, force=True)
    assert repository.branches() == ()
    assert worktree.path.exists()


def test_redirected_git_file_is_put_back_and_never_followed(
    repository: Repository, tmp_path: Path, git: GitCommand
) -> None:
    worktree = repository.create("a").worktree
    evil = tmp_path / "evil"
    git(tmp_path, "init", "--quiet", str(evil))
    (evil / ".git" / "config").write_text(f"[core]\n\tfsmonitor = touch {tmp_path}/owned\n")
    (worktree.path / ".git").write_text(f"gitdir: {evil}/.git\n")
    (worktree.path / "new.py").write_text("x = 1\n")
    assert commit_all(worktree, "Work", AUTHOR)
    assert git(repository.project_dir, "log", "-1", "--format=%s", "agentos/a") == "Work"
    assert not (tmp_path / "owned").exists()
    assert repository.create("a").was_there
    assert git(worktree.path, "rev-parse", "--git-dir") == str(worktree.git_dir)


def test_ignored_files_are_copied_and_escapes_refused(repository: Repository, project: Path, tmp_path: Path) -> None:
    (project / "notes.txt").write_text("not ignored")
    (project / "settings.local").write_text("a")
    (tmp_path / "outside").write_text("secret")
    (project / "leak.local").symlink_to(tmp_path / "outside")
    created = repository.create("a", files=(".env", "*.local", "notes.txt", "absent.local"))
    problems = {provided.path: provided.problem for provided in created.provided}
    assert problems[".env"] is problems["settings.local"] is None
    assert (created.worktree.path / ".env").read_text() == "COLOUR=blue\n"
    assert "out of the project" in str(problems["leak.local"])
    assert ".gitignore" in str(problems["notes.txt"])
    assert "no such file" in str(problems["absent.local"])
    assert not (created.worktree.path / "leak.local").exists()
    assert not (created.worktree.path / "notes.txt").exists()
    for name in ("../outside", "/etc/passwd", ".git/config", ""):
        with pytest.raises(UsageError, match="inside the project"):
            repository.create("b", files=(name,))


def test_ignored_files_can_be_linked(repository: Repository, project: Path) -> None:
    worktree = repository.create("a").worktree
    provide_files(project, worktree.path, worktree.git(), (".env",), link=True)
    path = worktree.path / ".env"
    assert path.is_symlink()
    assert path.resolve() == project / ".env"


def test_target_directory_that_is_a_link_out_of_the_worktree_is_refused(
    repository: Repository, project: Path, tmp_path: Path, git: GitCommand
) -> None:
    (tmp_path / "outside").mkdir()
    (project / "conf").symlink_to(tmp_path / "outside")
    git(project, "add", "conf")
    git(project, "commit", "--quiet", "--message", "A link")
    (project / "conf").unlink()
    (project / "conf").mkdir()
    (project / "conf" / "x.local").write_text("a")
    (provided,) = repository.create("a", files=("conf/x.local",)).provided
    assert "leads out" in str(provided.problem)
    assert not any((tmp_path / "outside").iterdir())


def test_remove_refuses_uncommitted_work_and_says_which(repository: Repository) -> None:
    worktree = repository.create("a").worktree
    for number in range(7):
        (worktree.path / f"new{number}.py").write_text("x = 1\n")
    with pytest.raises(WouldLoseWorkError, match=r"7 files not committed \(new0.py, .* and 2 more\); use --force"):
        repository.remove("a")
    assert worktree.path.exists()
    lost = repository.remove("a", force=True)
    assert lost is not None
    assert len(lost.uncommitted) == 7
    assert not worktree.path.exists()
    assert repository.find("a") is None


def test_remove_refuses_unmerged_commits_until_they_are_merged(
    repository: Repository, project: Path, git: GitCommand
) -> None:
    worktree = repository.create("a").worktree
    (worktree.path / "new.py").write_text("x = 1\n")
    commit_all(worktree, "Work", AUTHOR)
    with pytest.raises(WouldLoseWorkError, match="1 commit not merged into main"):
        repository.remove("a")
    git(project, "merge", "--quiet", "agentos/a")
    assert repository.remove("a", delete_branch=True) is None
    assert repository.branches() == ()


def test_squash_merged_branch_loses_nothing(repository: Repository, project: Path, git: GitCommand) -> None:
    worktree = repository.create("a").worktree
    for name in ("one.py", "two.py"):
        (worktree.path / name).write_text("x = 1\n")
        commit_all(worktree, name, AUTHOR)
    git(project, "merge", "--quiet", "--squash", "agentos/a")
    git(project, "commit", "--quiet", "--message", "Squashed")
    assert unsaved_in(repository, worktree).is_nothing
    assert unsaved_in(repository, worktree).words() == "nothing would be lost"


def test_words_say_how_much_is_on_a_remote(
    repository: Repository, project: Path, git: GitCommand, tmp_path: Path
) -> None:
    git(tmp_path, "init", "--quiet", "--bare", "remote.git")
    git(project, "remote", "add", "origin", str(tmp_path / "remote.git"))
    worktree = repository.create("a").worktree
    (worktree.path / "one.py").write_text("x = 1\n")
    commit_all(worktree, "One", AUTHOR)
    git(project, "push", "--quiet", "origin", "agentos/a")
    assert "all on a remote" in unsaved_in(repository, worktree).words()
    (worktree.path / "two.py").write_text("x = 2\n")
    commit_all(worktree, "Two", AUTHOR)
    assert "2 commits not merged into main, 1 of them on no remote" in unsaved_in(repository, worktree).words()


def test_detached_head_with_commits_is_work_too(repository: Repository, git: GitCommand) -> None:
    worktree = repository.create("a").worktree
    git(worktree.path, "checkout", "--quiet", "--detach")
    (worktree.path / "one.py").write_text("x = 1\n")
    (detached,) = repository.worktrees()
    assert detached.branch is None
    assert detached.slug is None
    commit_all(detached, "One", AUTHOR)
    assert unsaved_in(repository, detached).unmerged_commits == 1


def test_locked_worktree_is_kept_unless_forced(repository: Repository, project: Path, git: GitCommand) -> None:
    worktree = repository.create("a").worktree
    git(project, "worktree", "lock", "--reason", "on a stick", str(worktree.path))
    with pytest.raises(UsageError, match="on a stick"):
        repository.remove("a")
    repository.remove("a", force=True)
    assert not worktree.path.exists()


def test_remove_goes_on_where_a_killed_one_stopped(repository: Repository) -> None:
    worktree = repository.create("a").worktree
    trash_path = worktree.path.with_name(".a.removing-12345678")
    worktree.path.rename(trash_path)
    assert repository.repair_moved() == ()
    repository.remove("a")
    assert not trash_path.exists()
    assert repository.find("a") is None
    repository.remove("a")


def test_other_worktrees_of_the_user_survive_even_when_missing(
    repository: Repository, project: Path, tmp_path: Path, git: GitCommand
) -> None:
    git(project, "worktree", "add", "--quiet", "-b", "stick", str(tmp_path / "stick"))
    (tmp_path / "stick").rename(tmp_path / "unplugged")
    worktree = repository.create("a").worktree
    shutil.rmtree(worktree.path)
    repository.create("a")
    repository.remove("a")
    assert any(found.branch == "stick" for found in repository.worktrees())


def test_size_and_distance_from_the_base(repository: Repository, project: Path, git: GitCommand) -> None:
    worktree = repository.create("a").worktree
    before = size_on_disk(worktree.path)
    (worktree.path / "big.bin").write_bytes(os.urandom(200_000))
    assert size_on_disk(worktree.path) - before >= 200_000
    commit_all(worktree, "Big", AUTHOR)
    git(project, "commit", "--quiet", "--allow-empty", "--message", "Meanwhile")
    found = repository.find("a")
    assert found is not None
    assert repository.ahead_behind(found) == (1, 1)


def test_twenty_worktrees_ten_at_a_time_without_a_lock_error(repository: Repository, git: GitCommand) -> None:
    def live(number: int) -> str | None:
        slug = f"item-{number}"
        worktree = repository.create(slug).worktree
        (worktree.path / f"{slug}.py").write_text("x = 1\n")
        commit = commit_all(worktree, slug, AUTHOR)
        repository.remove(slug, force=True, delete_branch=number % 2 == 0)
        return commit

    with ThreadPoolExecutor(10) as executor:
        commits = list(executor.map(live, range(20)))
    assert len(set(commits)) == 20
    assert repository.worktrees() == ()
    assert set(repository.branches()) == {branch_of(f"item-{number}") for number in range(1, 20, 2)}
    assert git(repository.project_dir, "fsck", "--no-dangling") == ""


def test_a_record_that_is_half_written_for_an_instant_is_read_again(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.create("a")
    commondir = repository.common_dir / "worktrees" / "a" / "commondir"
    whole = commondir.read_text()
    commondir.write_text("")
    monkeypatch.setattr("time.sleep", lambda _seconds: commondir.write_text(whole))
    assert [worktree.slug for worktree in repository.worktrees()] == ["a"]


def test_a_record_that_stays_half_written_is_an_error(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.create("a")
    (repository.common_dir / "worktrees" / "a" / "commondir").write_text("")
    monkeypatch.setattr("agentos.git.worktrees.LIST_PAUSES_SECONDS", (0.0,))
    with pytest.raises(GitError, match="failed to read"):
        repository.worktrees()


def test_a_record_that_a_killed_git_left_half_written_does_not_stop_the_others(repository: Repository) -> None:
    repository.create("a")
    remains = repository.common_dir / "worktrees" / "b"
    remains.mkdir()
    (remains / "locked").write_text("initializing")
    (remains / "gitdir").write_text(f"{repository.path_for('b')}/.git\n")
    (remains / "commondir").write_text("")
    assert [worktree.slug for worktree in repository.worktrees()] == ["a"]
    assert repository.create("b").worktree.slug == "b"


def test_listing_waits_for_whoever_removes_a_worktree_however_long_that_takes(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record that is half deleted makes `git worktree list` fail; only the remover's lock tells when it is over."""
    monkeypatch.setattr("agentos.git.worktrees.LIST_PAUSES_SECONDS", ())
    repository.create("a")
    record = repository.create("b").worktree.git_dir
    is_waiting = threading.Event()

    def wait_and_finish(_seconds: float) -> None:
        is_waiting.set()
        threading.Event().wait(0.01)

    monkeypatch.setattr("agentos.files.time.sleep", wait_and_finish)
    with ThreadPoolExecutor(1) as executor:
        with repository.locked():
            (record / "commondir").write_text("")
            listing = executor.submit(repository.worktrees)
            assert is_waiting.wait(30)
            shutil.rmtree(record)
        assert [worktree.slug for worktree in listing.result(30)] == ["a"]


def test_listing_never_fails_while_others_add_and_remove(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentos.git.worktrees.LIST_PAUSES_SECONDS", ())
    repository.create("stays")
    is_over = threading.Event()

    def come_and_go(number: int) -> None:
        for _ in range(6):
            repository.create(f"w{number}")
            repository.remove(f"w{number}", delete_branch=True)

    def look() -> set[bool]:
        seen = set()
        while not is_over.is_set():
            seen.add("stays" in {worktree.slug for worktree in repository.worktrees()})
        return seen

    with ThreadPoolExecutor(8) as executor:
        looks = [executor.submit(look) for _ in range(3)]
        try:
            list(executor.map(come_and_go, range(5)))
        finally:
            is_over.set()
        assert [each.result(30) for each in looks] == [{True}] * 3


def test_one_workstream_is_removed_by_many_at_once_without_an_error(repository: Repository) -> None:
    for _ in range(3):
        repository.create("a")
        with ThreadPoolExecutor(6) as executor:
            removals = [executor.submit(repository.remove, "a", delete_branch=True) for _ in range(6)]
            assert [removal.result(60) for removal in removals] == [None] * 6
        assert (repository.worktrees(), repository.branches()) == ((), ())

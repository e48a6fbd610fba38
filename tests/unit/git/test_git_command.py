"""Git never asks, never leaks, never hangs, and stale locks of ours do not stop it."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from pathlib import Path

import pytest

from agentos.errors import AgentosError
from agentos.files import LockBusyError, locked
from agentos.git.command import (
    OWNER_VARIABLE,
    Git,
    GitError,
    GitLockedError,
    GitMissingError,
    GitTimeoutError,
    git_environment,
    lock_in_the_way,
    remove_stale_lock,
)


def make_old(path: Path) -> None:
    path.touch()
    an_hour_ago = time.time() - 3600
    os.utime(path, (an_hour_ago, an_hour_ago))


def test_error_names_command_directory_and_gits_words(project: Path) -> None:
    with pytest.raises(GitError) as caught:
        Git(project).run("checkout", "no-such-branch")
    error = caught.value
    assert isinstance(error, AgentosError)
    assert "git checkout no-such-branch" in str(error)
    assert str(project) in str(error)
    assert "no-such-branch" in error.stderr_tail
    assert "\n" not in str(error)


def test_environment_has_neither_secrets_nor_redirections() -> None:
    given = {
        "PATH": "/bin",
        "OPENAI_API_KEY": "k",
        "GIT_DIR": "/elsewhere",
        "SSH_AUTH_SOCK": "/s",
        "GITHUB_TOKEN": "t",
    }
    environment = git_environment(given, network=False)
    assert environment["PATH"] == "/bin"
    assert environment["GIT_TERMINAL_PROMPT"] == "0"
    assert not {"OPENAI_API_KEY", "GIT_DIR", "SSH_AUTH_SOCK", "GITHUB_TOKEN"} & environment.keys()
    assert git_environment(given, network=True)["SSH_AUTH_SOCK"] == "/s"


def test_git_dir_of_a_calling_hook_does_not_redirect_us(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    assert Git(project).text("rev-parse", "--abbrev-ref", "HEAD") == "main"


def test_a_command_that_wants_an_editor_does_not_open_the_users(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = tmp_path / "opened"
    monkeypatch.setenv("GIT_EDITOR", f"touch {opened};:")
    before = Git(project).text("rev-parse", "HEAD")
    Git(project).run("commit", "--amend", "--allow-empty", "--date", "2001-01-01T00:00:00Z")
    assert not opened.exists()
    assert Git(project).text("rev-parse", "HEAD") != before


def test_too_slow_git_is_ended_with_a_typed_error(project: Path) -> None:
    with pytest.raises(GitTimeoutError, match="time limit"):
        Git(project).run("-c", "alias.slow=!sleep 600", "slow", timeout_seconds=0.3)


def test_missing_directory_and_missing_git_are_told_apart(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(GitError, match="directory does not exist"):
        Git(tmp_path / "nowhere").run("status")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(GitMissingError, match="install git"):
        Git(project).run("status")


def test_resolve_answers_none_for_what_names_no_commit(project: Path) -> None:
    assert Git(project).resolve("main") == Git(project).text("rev-parse", "HEAD")
    assert Git(project).resolve("nothing-here") is None
    assert Git(project).resolve("--upload-pack=evil") is None


@pytest.mark.parametrize(
    ("stderr", "path"),
    [
        ("fatal: Unable to create '/r/.git/index.lock': File exists.\n\nAnother git process", "/r/.git/index.lock"),
        ("error: could not lock config file .git/config: File exists", ".git/config.lock"),
        ("fatal: pathspec 'x' did not match", None),
    ],
)
def test_lock_in_the_way_is_read_from_gits_words(stderr: str, path: str | None) -> None:
    assert lock_in_the_way(stderr) == (Path(path) if path else None)


def test_stale_lock_in_our_own_worktree_is_removed_and_the_command_goes_on(project: Path) -> None:
    lock_path = project / ".git" / "index.lock"
    make_old(lock_path)
    (project / "new.txt").write_text("new")
    Git(project, owned_locks=(project / ".git",)).run("add", "new.txt")
    assert not lock_path.exists()


def test_lock_that_is_not_ours_is_never_removed(project: Path) -> None:
    lock_path = project / ".git" / "index.lock"
    make_old(lock_path)
    with pytest.raises(GitLockedError, match=r"index\.lock"):
        Git(project, lock_patience_seconds=0.3).run("add", "--all")
    assert lock_path.exists()


def test_contended_lock_is_waited_for(project: Path) -> None:
    lock_path = project / ".git" / "index.lock"
    lock_path.touch()
    (project / "new.txt").write_text("new")
    remover = threading.Timer(0.3, lock_path.unlink)
    remover.start()
    Git(project).run("add", "new.txt")
    remover.join()
    assert Git(project).text("ls-files", "new.txt") == "new.txt"


def test_lock_of_a_living_git_of_ours_is_left_alone(project: Path) -> None:
    lock_path = project / ".git" / "index.lock"
    make_old(lock_path)
    owner = str(project)
    with subprocess.Popen(["sleep", "600"], env={"PATH": os.environ["PATH"], OWNER_VARIABLE: owner}) as living:
        deadline = time.monotonic() + 20
        while remove_stale_lock(project / ".git" / "absent.lock", owner=owner, now=0) and time.monotonic() < deadline:
            if Path(f"/proc/{living.pid}/environ").read_bytes().count(owner.encode()):
                break
        assert not remove_stale_lock(lock_path, owner=owner, now=time.time())
        living.kill()
    assert remove_stale_lock(lock_path, owner=owner, now=time.time())


def test_young_lock_is_left_alone(project: Path) -> None:
    lock_path = project / ".git" / "index.lock"
    lock_path.touch()
    assert not remove_stale_lock(lock_path, owner="nobody", now=lock_path.stat().st_mtime + 0.1)


def test_file_lock_names_its_holder_when_it_stays_busy(tmp_path: Path) -> None:
    lock_path = tmp_path / "a.lock"
    with (
        locked(lock_path),
        pytest.raises(LockBusyError, match=str(os.getpid())),
        locked(lock_path, timeout_seconds=0.1),
    ):
        pass
    with locked(lock_path, timeout_seconds=0.1):
        pass

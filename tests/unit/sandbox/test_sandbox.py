"""Model-written code gets no secret, no network, no way out, and no life after its command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agentos.errors import UsageError
from agentos.processes.host import processes_with
from agentos.sandbox.bubblewrap import (
    CommandMissingError,
    Isolation,
    Sandbox,
    SandboxResult,
    is_available,
    sandbox_environment,
    strongest_isolation,
)

BWRAP = pytest.param(Isolation.BWRAP, marks=pytest.mark.needs_bubblewrap, id="bwrap")
NAMESPACES = pytest.param(Isolation.NAMESPACES, marks=pytest.mark.needs_namespaces, id="unshare")
WITHOUT_NETWORK = [BWRAP, NAMESPACES]
IN_A_NEW_SESSION = f"{sys.executable} -c 'import os, sys; os.setsid(); os.execvp(sys.argv[1], sys.argv[1:])'"
ALL = [*WITHOUT_NETWORK, pytest.param(Isolation.NONE, id="none")]


@pytest.fixture
def worktree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("home", "agentos-home", "worktree"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("AGENTOS_HOME", str(tmp_path / "agentos-home"))
    return tmp_path / "worktree"


def run_python(sandbox: Sandbox, code: str, timeout_seconds: float = 30.0) -> SandboxResult:
    return sandbox.run([sys.executable, "-c", textwrap.dedent(code)], timeout_seconds=timeout_seconds)


def wait_until(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "condition not met in time"
        time.sleep(0.01)


@pytest.mark.parametrize("isolation", ALL)
def test_exit_code_output_and_worktree_writes(isolation: Isolation, worktree: Path) -> None:
    code = """
        import os, sys
        print("out", flush=True)
        print("err", file=sys.stderr)
        open("made.txt", "w").write(os.getcwd())
        open(os.path.join(os.environ["TMPDIR"], "x"), "w").close()
        open(os.path.expanduser("~/x"), "w").close()
        sys.exit(3)
    """
    result = run_python(Sandbox(worktree, isolation), code)
    assert (result.exit_code, result.signal_number, result.timed_out) == (3, None, False), result.output
    assert result.output == "out\nerr\n"
    assert result.isolation is isolation
    assert (worktree / "made.txt").read_text() == str(worktree)


@pytest.mark.parametrize("isolation", ALL)
def test_environment_has_no_secret_and_standard_input_is_empty(
    isolation: Isolation, worktree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GEMINI_API_KEY", "GITHUB_TOKEN", "SSH_AUTH_SOCK", "DATABASE_URL", "AGENTOS_WORKFLOW_DB"):
        monkeypatch.setenv(name, "hunter2")
    code = "import json, os, sys; print(json.dumps([dict(os.environ), sys.stdin.read()]))"
    environment, stdin = json.loads(run_python(Sandbox(worktree, isolation), code).output)
    assert "hunter2" not in environment.values()
    assert stdin == ""


@pytest.mark.parametrize("isolation", ALL)
def test_time_limit_leaves_nothing_running(isolation: Isolation, worktree: Path) -> None:
    argv = ["sh", "-c", f"sleep 600 & {IN_A_NEW_SESSION} sleep 600 & echo $AGENTOS_SANDBOX; sleep 600"]
    result = Sandbox(worktree, isolation).run(argv, timeout_seconds=5.0)
    assert result.timed_out
    assert result.exit_code is None
    mark = result.output.strip()
    assert len(mark) == 32
    wait_until(lambda: not (processes_with("AGENTOS_SANDBOX", mark)))


@pytest.mark.parametrize("isolation", ALL)
def test_daemon_left_behind_dies_with_the_command(isolation: Isolation, worktree: Path) -> None:
    code = """
        import os, subprocess, sys
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
        print(os.environ["AGENTOS_SANDBOX"], flush=True)
    """
    result = run_python(Sandbox(worktree, isolation), code)
    assert result.exit_code == 0
    wait_until(lambda: not (processes_with("AGENTOS_SANDBOX", result.output.strip())))


@pytest.mark.parametrize("isolation", WITHOUT_NETWORK)
def test_everything_dies_when_the_starter_is_killed(isolation: Isolation, worktree: Path) -> None:
    code = f"""
        from pathlib import Path
        from agentos.sandbox.bubblewrap import Isolation, Sandbox
        said = "echo $AGENTOS_SANDBOX > mark.tmp; mv mark.tmp mark"
        argv = ["sh", "-c", {IN_A_NEW_SESSION!r} + " sleep 600 & " + said + "; sleep 600"]
        Sandbox(Path({str(worktree)!r}), Isolation({isolation.value!r})).run(argv, timeout_seconds=600)
    """
    starter = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)])
    wait_until((worktree / "mark").exists)
    mark = (worktree / "mark").read_text().strip()
    assert processes_with("AGENTOS_SANDBOX", mark)
    starter.kill()
    starter.wait()
    wait_until(lambda: not (processes_with("AGENTOS_SANDBOX", mark)))


@pytest.mark.parametrize("isolation", ALL)
def test_signal_is_told_from_an_exit_code(isolation: Isolation, worktree: Path) -> None:
    result = run_python(Sandbox(worktree, isolation), "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    assert (result.exit_code, result.signal_number) == (None, 11)


@pytest.mark.parametrize("isolation", WITHOUT_NETWORK)
def test_no_network_but_loopback_works(isolation: Isolation, worktree: Path) -> None:
    code = """
        import socket
        with socket.create_server(("127.0.0.1", 0)) as server:
            with socket.create_connection(server.getsockname(), 5):
                print("loopback works")
        try:
            socket.create_connection(("192.0.2.1", 80), 5)
        except OSError as error:
            print(error.strerror)
    """
    result = run_python(Sandbox(worktree, isolation), code)
    assert result.output == "loopback works\nNetwork is unreachable\n"


@pytest.mark.parametrize("isolation", WITHOUT_NETWORK)
def test_other_processes_and_their_environment_are_out_of_sight(isolation: Isolation, worktree: Path) -> None:
    code = f"import os; print(os.path.exists('/proc/{os.getpid()}/environ'), os.getpid() < 100)"
    assert run_python(Sandbox(worktree, isolation), code).output == "False True\n"


@pytest.mark.parametrize("isolation", [BWRAP])
def test_outside_of_the_worktree_is_read_only_and_secrets_are_hidden(isolation: Isolation, worktree: Path) -> None:
    base = worktree.parent
    (base / "neighbour.txt").write_text("readable")
    (base / "agentos-home" / "credentials.toml").write_text("key")
    (base / "home" / ".ssh").mkdir()
    (base / "home" / ".ssh" / "id_rsa").write_text("key")
    (base / "home" / ".netrc").write_text("key")
    (base / "project").mkdir()
    (base / "project" / ".env").write_text("key")
    (worktree / ".git").write_text("gitdir: somewhere\n")
    code = f"""
        from pathlib import Path
        base = Path({str(base)!r})
        print((base / "neighbour.txt").read_text())
        for path in (base / "neighbour.txt", base / "new.txt", base / "worktree" / ".git", Path("/usr/evil")):
            try:
                path.write_text("evil")
                print("wrote", path)
            except OSError as error:
                print(error.strerror)
        print([path.exists() for path in (base / "agentos-home/credentials.toml", base / "home/.ssh/id_rsa")])
        for path in (base / "home/.netrc", base / "project/.env"):
            try:
                print(path.read_text())
            except PermissionError:
                print("hidden")
    """
    result = run_python(Sandbox(worktree, isolation, hidden=(base / "project" / ".env",)), code)
    refused = ["Read-only file system"] * 4
    assert result.output.splitlines() == ["readable", *refused, "[False, False]", "hidden", "hidden"]
    assert (worktree / ".git").read_text() == "gitdir: somewhere\n"


@pytest.mark.parametrize("isolation", [BWRAP])
def test_worktree_inside_the_hidden_home_is_still_there(isolation: Isolation, worktree: Path) -> None:
    inner = worktree.parent / "agentos-home" / "worktrees" / "a"
    inner.mkdir(parents=True)
    (inner.parent.parent / "tools").mkdir()
    (inner.parent.parent / "tools" / "tool").write_text("tool")
    sandbox = Sandbox(inner, isolation, readable=(inner.parent.parent / "tools",))
    code = "import os; open('made', 'w').close(); print(os.listdir('../..'), open('../../tools/tool').read())"
    result = run_python(sandbox, code)
    assert result.output in ("['worktrees', 'tools'] tool\n", "['tools', 'worktrees'] tool\n")
    assert (inner / "made").exists()


def test_output_keeps_head_and_tail(worktree: Path) -> None:
    result = Sandbox(worktree).run(
        [sys.executable, "-c", "print('a' * 10**6); print('z')"], timeout_seconds=30, output_limit_bytes=1000
    )
    assert len(result.output) < 1200
    assert "bytes left out" in result.output
    assert result.output.endswith("z\n")


def test_scratch_directory_given_outlives_the_command(worktree: Path, tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    argv = ["sh", "-c", "echo kept > $TMPDIR/x; echo $HOME"]
    result = Sandbox(worktree).run(argv, timeout_seconds=30, scratch_dir=scratch)
    assert (scratch / "tmp" / "x").read_text() == "kept\n"
    assert result.output.strip() == str(scratch / "home")


def test_programs_are_found_on_path_or_in_the_worktree(worktree: Path) -> None:
    (worktree / "check.sh").write_text("#!/bin/sh\necho checked $1\n")
    with pytest.raises(CommandMissingError, match=r"\./check\.sh"):
        Sandbox(worktree).run(["./check.sh"], timeout_seconds=5)
    (worktree / "check.sh").chmod(0o755)
    assert Sandbox(worktree).run(["./check.sh", "it"], timeout_seconds=30).output == "checked it\n"
    with pytest.raises(CommandMissingError, match="install it"):
        Sandbox(worktree).run(["no-such-program"], timeout_seconds=5)


def test_variables_are_passed_on_by_name_unless_they_look_secret(tmp_path: Path) -> None:
    given = {"PATH": "/bin:.:relative", "DJANGO_SETTINGS_MODULE": "x", "MY_TOKEN": "y"}
    environment = sandbox_environment(given, tmp_path, tmp_path, ("DJANGO_SETTINGS_MODULE",))
    assert environment["DJANGO_SETTINGS_MODULE"] == "x"
    assert environment["PATH"] == "/bin"
    with pytest.raises(UsageError, match="MY_TOKEN looks like a secret"):
        sandbox_environment(given, tmp_path, tmp_path, ("MY_TOKEN",))


@pytest.mark.parametrize("isolation", ALL)
def test_network_can_be_allowed(isolation: Isolation, worktree: Path) -> None:
    assert Sandbox(worktree, isolation, allow_network=True).run(["true"], timeout_seconds=30).exit_code == 0


@pytest.fixture
def fresh_probe() -> Iterator[None]:
    is_available.cache_clear()
    yield
    is_available.cache_clear()


@pytest.mark.usefixtures("fresh_probe")
@pytest.mark.parametrize(
    ("programs", "strongest"),
    [
        ({"bwrap": 0, "unshare": 0}, Isolation.BWRAP),
        ({"bwrap": 1, "unshare": 0}, Isolation.NAMESPACES),
        ({"unshare": 1}, Isolation.NONE),
        ({}, Isolation.NONE),
    ],
)
def test_probe_takes_the_strongest_that_works(
    programs: dict[str, int], strongest: Isolation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, exit_code in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\nexit {exit_code}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))

    assert strongest_isolation() is strongest


def test_every_isolation_says_what_it_is() -> None:
    assert all(isolation.words().startswith(isolation.value) for isolation in Isolation)

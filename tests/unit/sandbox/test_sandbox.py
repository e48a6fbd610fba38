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
from agentos.sandbox.isolation import Isolation
from agentos.sandbox.limits import EndedBy, Limits
from agentos.sandbox.sandbox import (
    CommandMissingError,
    Sandbox,
    SandboxResult,
    is_available,
    sandbox_environment,
    strongest_isolation,
)

BWRAP = pytest.param(Isolation.BWRAP, marks=pytest.mark.needs_bubblewrap, id="bwrap")
NAMESPACES = pytest.param(Isolation.NAMESPACES, marks=pytest.mark.needs_namespaces, id="namespaces")
LANDLOCK = pytest.param(Isolation.LANDLOCK, marks=pytest.mark.needs_landlock, id="landlock")
WITHOUT_NETWORK = [BWRAP, NAMESPACES]
CONFINED = [*WITHOUT_NETWORK, LANDLOCK]
IN_A_NEW_SESSION = f"{sys.executable} -c 'import os, sys; os.setsid(); os.execvp(sys.argv[1], sys.argv[1:])'"
ALL = [*CONFINED, pytest.param(Isolation.NONE, id="none")]


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


@pytest.mark.parametrize("isolation", ALL)
def test_everything_dies_when_the_starter_is_killed(isolation: Isolation, worktree: Path) -> None:
    code = f"""
        from pathlib import Path
        from agentos.sandbox.isolation import Isolation
        from agentos.sandbox.sandbox import Sandbox
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


@pytest.mark.parametrize("isolation", CONFINED)
def test_nothing_is_there_but_the_worktree_and_what_is_readable(isolation: Isolation, worktree: Path) -> None:
    base = worktree.parent
    for name in ("neighbour.txt", "agentos-home/credentials.toml", "home/.ssh/id_rsa", "project/.env", "shown/tool"):
        (base / name).parent.mkdir(parents=True, exist_ok=True)
        (base / name).write_text("key")
    (worktree / ".git").write_text("gitdir: somewhere\n")
    code = f"""
        from pathlib import Path
        base = Path({str(base)!r})
        def outcome(deed):
            try:
                return deed()
            except OSError:
                return "refused"
        for name in ("neighbour.txt", "agentos-home/credentials.toml", "home/.ssh/id_rsa", "project/.env"):
            print(outcome((base / name).read_text))
        for path in (base / "neighbour.txt", base / "new.txt"):
            outcome(lambda: path.write_text("evil"))
        for path in (base / "shown/tool", Path("/usr/evil"), Path("/etc/passwd"), Path("/evil")):
            print(outcome(lambda: path.write_text("evil")))
        print(outcome((base / "shown/tool").read_text), outcome((base / "worktree/new.txt").touch))
        outcome(lambda: (base / "worktree/.git").write_text("gitdir: elsewhere"))
    """
    result = run_python(Sandbox(worktree, isolation, readable=(base / "shown",)), code)
    assert result.output.splitlines()[:9] == [*["refused"] * 8, "key None"], result.output
    assert (worktree / ".git").read_text() == "gitdir: somewhere\n"
    assert (base / "neighbour.txt").read_text() == "key"
    assert not (base / "new.txt").exists()
    assert ("changed .git, which was put back" in result.output) == (isolation is Isolation.LANDLOCK)


@pytest.mark.parametrize("isolation", WITHOUT_NETWORK)
def test_a_worktree_in_the_hidden_home_is_all_there_is_of_it(isolation: Isolation, worktree: Path) -> None:
    inner = worktree.parent / "agentos-home" / "worktrees" / "a"
    inner.mkdir(parents=True)
    (inner.parent.parent / "tools").mkdir()
    (inner.parent.parent / "tools" / "tool").write_text("tool")
    (inner.parent.parent / "credentials.toml").write_text("key")
    sandbox = Sandbox(inner, isolation, readable=(inner.parent.parent / "tools",))
    code = "import os; open('made', 'w').close(); print(sorted(os.listdir('../..')), open('../../tools/tool').read())"
    result = run_python(sandbox, code)
    assert result.output == "['tools', 'worktrees'] tool\n"
    assert (inner / "made").exists()


@pytest.mark.parametrize("isolation", [NAMESPACES, LANDLOCK])
@pytest.mark.parametrize(
    ("limits", "code", "ended_by"),
    [
        (Limits(memory_mb=200), "kept = []\nwhile True: kept.append(b'x' * 10**7)", EndedBy.MEMORY),
        (Limits(processes=30), "import os, time\nwhile True: os.fork() or time.sleep(600)", EndedBy.PROCESSES),
        (
            Limits(disk_mb=20),
            "import time\nfor n in range(60): open(f'file-{n}', 'wb').write(bytes(10**6))\ntime.sleep(600)",
            EndedBy.DISK,
        ),
        (
            Limits(file_mb=1),
            "import signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_DFL)\nopen('f', 'wb').write(bytes(10**7))",
            EndedBy.FILE_SIZE,
        ),
    ],
    ids=lambda value: value.name.lower() if isinstance(value, EndedBy) else "",
)
def test_a_limit_ends_the_command_and_is_named(
    isolation: Isolation, limits: Limits, code: str, ended_by: EndedBy, worktree: Path
) -> None:
    result = run_python(Sandbox(worktree, isolation, limits=limits), code, timeout_seconds=120)
    assert (result.exit_code, result.timed_out, result.ended_by) == (None, False, ended_by), result.output
    assert f"([implementation] {ended_by.value})" in result.output.splitlines()[-1]


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
@pytest.mark.needs_namespaces
def test_without_a_working_bubblewrap_namespaces_are_the_strongest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bwrap").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "bwrap").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))

    assert strongest_isolation() is Isolation.NAMESPACES


@pytest.mark.needs_landlock
def test_where_namespaces_are_forbidden_as_in_many_containers_landlock_is_the_strongest(worktree: Path) -> None:
    code = f"""
        from pathlib import Path
        from agentos.sandbox import kernel
        from agentos.sandbox.sandbox import Sandbox, strongest_isolation
        from agentos.sandbox.system_calls import filter_program
        kernel.forbid_new_privileges()
        kernel.filter_system_calls(filter_program(kernel.MACHINE, has_namespaces=True, allow_network=False))
        print(strongest_isolation().value)
        argv = ["/bin/sh", "-c", "echo inside; cat /etc/shadow"]
        print(Sandbox(Path({str(worktree)!r})).run(argv, timeout_seconds=30))
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("landlock\n")
    assert "inside" in done.stdout
    assert "Permission denied" in done.stdout


def test_every_isolation_says_what_it_is() -> None:
    assert all(isolation.words().startswith(isolation.value) for isolation in Isolation)

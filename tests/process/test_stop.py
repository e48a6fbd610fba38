"""Stopping a run: asked politely or not, whatever its nodes do, all of it ends in time and goes on where it was."""

from __future__ import annotations

import json
import os
import shlex
import signal
from pathlib import Path

import pytest
from harness import (
    STOP_DEADLINE_SECONDS,
    Finished,
    Sandbox,
    Started,
    children_of,
    eventually,
    no_process_left,
    of_type,
    resume_line,
)
from terminal import Terminal

SHUTTING_DOWN = "[COORDINATOR] Shutting down... waiting for workers to checkpoint"
STUBBORN = (
    "sleeps",
    "holds-interpreter",
    "reads-fifo",
    "ignores-signals",
    "blocks-signals",
    "swallows-interrupts",
    "leaves-child",
    "leaves-daemon",
    "works-in-threads",
)


def start_mischief(sandbox: Sandbox, *deeds: str, waiting: int = 2, arguments: tuple[str, ...] = ()) -> Started:
    """One item a deed, all at once, and a few behind them. Returns when all are at it."""
    started = launch_mischief(sandbox, *deeds, waiting=waiting, arguments=arguments)
    wait_until_at_it(sandbox, deeds)
    return started


def launch_mischief(
    sandbox: Sandbox, *deeds: str, waiting: int = 2, arguments: tuple[str, ...] = (), **popen: object
) -> Started:
    write_mischief(sandbox, *deeds, waiting=waiting)
    command = sandbox.arguments("--parallel", str(len(deeds)), *arguments, graph="mischief")
    return sandbox.start_command(*command, **popen)


def write_mischief(sandbox: Sandbox, *deeds: str, waiting: int = 2) -> None:
    naughty = [{"id": deed, "input": {"does": deed}} for deed in deeds]
    sandbox.write_items(*naughty, *({"id": f"waits-{number}", "input": {}} for number in range(waiting)))


def wait_until_at_it(sandbox: Sandbox, deeds: tuple[str, ...]) -> None:
    for deed in deeds:
        eventually(lambda deed=deed: _pid_of(sandbox, deed), f"{deed} at work")  # type: ignore[misc]
    children = sum(deed in ("leaves-child", "leaves-daemon") for deed in deeds)
    eventually(lambda: len(children_started(sandbox)) >= children, "their children")


def _pid_of(sandbox: Sandbox, item: str) -> int:
    pids = [note.split()[2] for note in sandbox.notes() if note.startswith(f"{item} act ")]
    return int(pids[-1]) if pids else 0


def children_started(sandbox: Sandbox) -> list[int]:
    return [int(note.split()[1]) for note in sandbox.notes() if note.startswith("child ")]


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b") ")[2][:1]
    except OSError:
        return False
    return state not in b"ZX"


def is_suspended(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b") ")[2][:1] == b"T"


def nothing_left(sandbox: Sandbox, seconds: float = 60.0) -> None:
    """No process of the sandbox, nor one of those that shed its environment."""
    no_process_left(sandbox.home, seconds=seconds)
    for pid in children_started(sandbox):
        eventually(lambda pid=pid: not is_running(pid), f"child {pid} gone", seconds)  # type: ignore[misc]


def resume_command(text: str) -> list[str]:
    """What the summary tells the user to type."""
    line = next(line for line in text.splitlines() if "Resume with: " in line)
    name, *arguments = shlex.split(line.partition("Resume with: ")[2])
    assert name == "agentos"
    return arguments


def check_stopped(sandbox: Sandbox, stopped: Finished, deeds: tuple[str, ...], waiting: int = 2) -> None:
    """It said what it had to, started nothing new, and left everything for the next run."""
    assert stopped.code == 130, stopped.stdout + stopped.stderr
    assert stopped.stdout.count(SHUTTING_DOWN) == 1
    assert stopped.stderr == ""
    unstarted = [f"waits-{number}" for number in range(waiting)]
    assert not [note for note in sandbox.notes() if note.startswith("waits-")]
    assert sandbox.outcomes() == dict.fromkeys(deeds, "interrupted")
    [ended] = of_type(sandbox.records(), "run_ended")
    assert ended["left"] == [*deeds, *unstarted]
    assert ended["exit_code"] == 130
    assert f"{len(ended['left'])} items left: " in stopped.stdout
    # Children end with the item that is stopped: nothing leaked, and nobody is told so.
    assert of_type(sandbox.records(), "children_leaked") == []


def check_resumes(sandbox: Sandbox, arguments: list[str], deeds: tuple[str, ...], waiting: int = 2) -> None:
    """The same command, once the world is calm, completes every item without doing finished nodes again."""
    sandbox.release("calm")
    done = sandbox.command(*arguments)
    everything = [*deeds, *(f"waits-{number}" for number in range(waiting))]
    assert done.code == 0, done.stdout + done.stderr
    assert sandbox.outcomes() == dict.fromkeys(everything, "completed")
    for item in everything:
        assert sandbox.notes().count(f"{item} prepare") == 1, item
    for deed in deeds:
        assert f"[{deed}] resuming after prepare" in done.lines
    assert sandbox.databases() == []


@pytest.mark.every_backend
def test_first_ctrl_c_ends_everything_whatever_nodes_do(sandbox: Sandbox) -> None:
    started = start_mischief(sandbox, *STUBBORN)
    started.kill(signal.SIGINT)
    stopped = started.wait(STOP_DEADLINE_SECONDS)
    nothing_left(sandbox)
    check_stopped(sandbox, stopped, STUBBORN)
    check_resumes(sandbox, resume_command(stopped.stdout), STUBBORN)


def test_a_graph_module_that_is_slow_to_leave_does_not_make_a_stop_longer(sandbox: Sandbox) -> None:
    """Closing comes after the workers' grace, and has only what that leaves of the promise."""
    write_mischief(sandbox, "ignores-signals", waiting=0)
    started = sandbox.start(graph="slow_to_leave")
    wait_until_at_it(sandbox, ("ignores-signals",))
    started.kill(signal.SIGINT)
    assert started.wait(STOP_DEADLINE_SECONDS).code == 130
    nothing_left(sandbox)


def test_a_suspended_fork_server_dies_with_its_killed_coordinator_and_so_do_children_of_a_module_that_still_loads(
    sandbox: Sandbox,
) -> None:
    loading = sandbox.project / "graphs" / "starts_and_hangs.py"
    loading.write_text(
        "import subprocess, sys, time\n"
        "from journal import note\n"
        "code = 'import time; time.sleep(36_000)'\n"
        "note(f'child {subprocess.Popen([sys.executable, \"-c\", code], start_new_session=True).pid}')\n"
        "time.sleep(36_000)\n"
    )
    started = start_mischief(sandbox, "leaves-daemon", waiting=0)
    os.kill(started.fork_server(), signal.SIGSTOP)
    hanging = sandbox.start(graph="starts_and_hangs")
    eventually(lambda: len(children_started(sandbox)) >= 2, "a child of the module")
    for run in (started, hanging):
        run.kill()
        assert run.process.wait() == -signal.SIGKILL
    nothing_left(sandbox)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_sigterm_and_sighup_stop_like_ctrl_c(sandbox: Sandbox, number: signal.Signals) -> None:
    deeds = ("sleeps", "leaves-daemon")
    started = start_mischief(sandbox, *deeds)
    started.kill(number)
    stopped = started.wait()
    nothing_left(sandbox)
    check_stopped(sandbox, stopped, deeds)
    assert of_type(sandbox.records(), "stop_requested")[0]["reason"] == number.name
    check_resumes(sandbox, resume_command(stopped.stdout), deeds)


@pytest.mark.every_backend
def test_nodes_that_let_themselves_be_interrupted_stop_without_being_killed(sandbox: Sandbox) -> None:
    deeds = ("sleeps", "tidies-up")
    started = start_mischief(sandbox, *deeds)
    started.kill(signal.SIGINT)
    check_stopped(sandbox, started.wait(STOP_DEADLINE_SECONDS), deeds)
    assert "tidied up" in sandbox.notes()


@pytest.mark.slow
def test_spawned_workers_stop_and_resume_as_well(sandbox: Sandbox) -> None:
    deeds = ("sleeps", "leaves-daemon")
    started = start_mischief(sandbox, *deeds, arguments=("--start-method", "spawn"))
    started.kill(signal.SIGINT)
    stopped = started.wait()
    nothing_left(sandbox)
    check_stopped(sandbox, stopped, deeds)
    check_resumes(sandbox, resume_command(stopped.stdout), deeds)


@pytest.mark.every_backend
def test_second_ctrl_c_kills_at_once(sandbox: Sandbox) -> None:
    deeds = ("ignores-signals", "leaves-child")
    started = start_mischief(sandbox, *deeds)
    started.kill(signal.SIGINT)
    started.wait_for_line(SHUTTING_DOWN)
    started.kill(signal.SIGINT)
    stopped = started.wait()
    nothing_left(sandbox)
    assert "[COORDINATOR] Stopping at once" in stopped.lines
    check_stopped(sandbox, stopped, deeds)
    _first, second = of_type(sandbox.records(), "stop_requested")
    assert second["at_once"] is True
    check_resumes(sandbox, resume_command(stopped.stdout), deeds)


@pytest.mark.parametrize(
    ("start_method", "deeds"),
    [
        ("forkserver", STUBBORN),
        pytest.param("spawn", ("holds-interpreter", "leaves-daemon"), marks=pytest.mark.slow),
    ],
)
@pytest.mark.every_backend
def test_workers_and_their_children_end_by_themselves_when_the_coordinator_is_killed(
    sandbox: Sandbox, start_method: str, deeds: tuple[str, ...]
) -> None:
    started = start_mischief(sandbox, *deeds, arguments=("--start-method", start_method))
    started.kill(signal.SIGKILL)
    nothing_left(sandbox)
    assert started.wait().code == -signal.SIGKILL
    check_resumes(sandbox, sandbox.arguments("--parallel", str(len(deeds)), graph="mischief"), deeds)


def test_nothing_survives_a_kill_of_the_coordinators_whole_group(sandbox: Sandbox) -> None:
    deeds = ("ignores-signals", "leaves-daemon")
    started = launch_mischief(sandbox, *deeds, process_group=0)
    wait_until_at_it(sandbox, deeds)
    os.killpg(started.pid, signal.SIGKILL)
    nothing_left(sandbox)
    check_resumes(sandbox, sandbox.arguments("--parallel", "2", graph="mischief"), deeds)


def test_ctrl_c_typed_on_a_terminal_stops_the_run(sandbox: Sandbox) -> None:
    deeds = ("sleeps", "ignores-signals", "leaves-child")
    write_mischief(sandbox, *deeds)
    arguments = sandbox.arguments("--parallel", "3", graph="mischief")
    with Terminal(sandbox, *arguments, env={"NO_COLOR": "1"}) as terminal:
        wait_until_at_it(sandbox, deeds)
        terminal.type(b"\x03")
        assert terminal.wait() == 130
        screen = terminal.text()
    nothing_left(sandbox)
    assert SHUTTING_DOWN in screen
    assert sandbox.outcomes() == dict.fromkeys(deeds, "interrupted")
    check_resumes(sandbox, resume_command(screen), deeds)


def test_a_terminal_that_goes_away_stops_the_run(sandbox: Sandbox) -> None:
    deeds = ("sleeps", "leaves-daemon")
    write_mischief(sandbox, *deeds)
    with Terminal(sandbox, *sandbox.arguments("--parallel", "2", graph="mischief")) as terminal:
        wait_until_at_it(sandbox, deeds)
        terminal.hang_up()
        assert terminal.wait() == 130
    nothing_left(sandbox)
    assert sandbox.outcomes() == dict.fromkeys(deeds, "interrupted")


def test_nohup_is_respected(sandbox: Sandbox) -> None:
    started = launch_mischief(sandbox, "passes-time", preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    wait_until_at_it(sandbox, ("passes-time",))
    started.kill(signal.SIGHUP)
    sandbox.release("calm")
    assert started.wait().code == 0
    assert of_type(sandbox.records(), "stop_requested") == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.every_backend
def test_a_run_that_is_stopped_while_its_graph_loads_is_on_record(sandbox: Sandbox, number: signal.Signals) -> None:
    sandbox.write_items({"id": "a"}, {"id": "b"})
    started = sandbox.start("--parallel", "2", graph="endless_import")
    sandbox.wait_for_note("importing")
    started.kill(number)
    stopped = started.wait(STOP_DEADLINE_SECONDS)
    nothing_left(sandbox)
    (run,) = json.loads(sandbox.command("runs", "--json").stdout)

    assert (stopped.code, stopped.stderr) == (130, "")
    assert "[COORDINATOR] Shutting down... no item was under way" in stopped.lines
    assert "waiting for workers" not in stopped.stdout
    assert "[COORDINATOR] 2 items left: a, b" in stopped.lines
    assert resume_line(stopped).startswith("agentos run ")
    assert (run["state"], run["run"] in stopped.stdout) == ("interrupted", True)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_stop_before_the_first_item_leaves_nothing_or_a_whole_record(
    sandbox: Sandbox, number: signal.Signals
) -> None:
    sandbox.write_items({"id": "a1"})
    started = sandbox.start(graph="endless_import")
    eventually(sandbox.run_dirs, "a run's folder")
    started.kill(number)
    stopped = started.wait()
    nothing_left(sandbox)
    assert stopped.code == 130
    assert "Traceback" not in stopped.stderr
    runs = json.loads(sandbox.command("runs", "--json").stdout)
    assert [run["state"] for run in runs] in ([], ["interrupted"])
    assert len(sandbox.run_dirs()) == len(runs)


@pytest.mark.every_backend
def test_ctrl_z_suspends_workers_too_and_fg_goes_on(sandbox: Sandbox) -> None:
    # A group of its own in our session: the kernel suspends only jobs that somebody could bring back.
    started = launch_mischief(sandbox, "passes-time", waiting=1, process_group=0)
    wait_until_at_it(sandbox, ("passes-time",))
    worker = _pid_of(sandbox, "passes-time")
    started.kill(signal.SIGTSTP)
    eventually(lambda: is_suspended(started.pid) and is_suspended(worker), "both suspended")
    sandbox.release("calm")
    started.kill(signal.SIGCONT)
    done = started.wait()
    assert done.code == 0, done.stdout
    assert sandbox.outcomes() == {"passes-time": "completed", "waits-0": "completed"}


def test_the_coordinator_has_one_child_only_and_every_worker_a_session_of_its_own(sandbox: Sandbox) -> None:
    deeds = ("sleeps", "passes-time")
    started = start_mischief(sandbox, *deeds, waiting=0)
    server = started.fork_server()
    assert children_of(started.pid) == [server]
    workers = [_pid_of(sandbox, deed) for deed in deeds]
    assert sorted(children_of(server)) == sorted(workers)
    assert [os.getsid(pid) for pid in workers] == workers
    started.kill(signal.SIGINT)
    started.wait()

"""What a person or a pipe gets to read: whole, labelled, harmless lines, however they were written."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from harness import STOP_DEADLINE_SECONDS, Finished, Sandbox, Started, eventually, no_process_left
from terminal import Terminal

# As in graphs/chatter.py, which only workers import.
BURST_LINES = 20_000
HUGE_LINE_BYTES = 10_000_000
FLOOD_CHUNKS = 24
CHUNK_BYTES = 1_000_000

COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def write_chatter(sandbox: Sandbox, *ways: str) -> None:
    sandbox.write_items(*({"id": way, "input": {"says": way}} for way in ways))


def said_by(text: str, item: str) -> list[str]:
    """What an item's node `speak` wrote, without its label."""
    label = f"[{item}] "
    lines = [line.removeprefix(label) for line in text.split("\n") if line.startswith(label)]
    return lines[lines.index(">>> Executing: speak") + 1 : lines.index(">>> Executing: end")]


def log_of(sandbox: Sandbox, item: str) -> str:
    return (sandbox.run_dirs()[-1] / f"{item}.log").read_text()


WAYS = (
    "byte-by-byte",
    "progress-bar",
    "control-terminal",
    "fake-coordinator",
    "bytes",
    "huge-line",
    "no-newline",
    "native",
    "child",
)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[Sandbox, Finished]:
    """One run in which each item writes in a way of its own, all at the same time."""
    sandbox = Sandbox(tmp_path_factory.mktemp("output"))
    write_chatter(sandbox, *WAYS)
    try:
        # As on most machines: the C library keeps what native code prints until it is flushed.
        return sandbox, sandbox.run("--parallel", "9", graph="chatter", env={"PYTHONUNBUFFERED": ""})
    finally:
        sandbox.close()


class TestEveryWayOfWriting:
    def test_every_line_has_a_label(self, told: tuple[Sandbox, Finished]) -> None:
        _, done = told
        assert done.code == 0, done.stderr
        labels = tuple(f"[{way}] " for way in (*WAYS, "COORDINATOR"))
        assert [line[:200] for line in done.stdout.split("\n")[:-1] if not line.startswith(labels)] == []

    def test_bytes_written_one_by_one_make_whole_lines(self, told: tuple[Sandbox, Finished]) -> None:
        assert said_by(told[1].stdout, "byte-by-byte") == ["one bỳte at a time", "and a second line"]

    def test_a_progress_bar_leaves_its_last_state(self, told: tuple[Sandbox, Finished]) -> None:
        assert said_by(told[1].stdout, "progress-bar") == ["working 100%", "windows"]

    def test_control_sequences_are_taken_out(self, told: tuple[Sandbox, Finished]) -> None:
        _, done = told
        assert "\x1b" not in done.stdout
        assert said_by(done.stdout, "control-terminal") == [
            "titled",
            "cleared",
            "[COORDINATOR] 9 completed",
            "red",
            "clipboard",
            "sixel",
            "bell\\x07 back\\x08space",
        ]

    def test_no_line_of_the_coordinator_can_be_faked(self, told: tuple[Sandbox, Finished]) -> None:
        _, done = told
        # However a reader understands line ends, none of them starts with the coordinator's label.
        assert not [line for line in done.stdout.splitlines() if line.startswith("[COORDINATOR] All your items")]
        assert done.stdout.count("[COORDINATOR] All your items are done") == 10

    def test_what_is_not_text_becomes_visible(self, told: tuple[Sandbox, Finished]) -> None:
        expected = ["café latin caf\\xe9 cut \\xe2\\x82", "nul\\x00byte", "\\xff\\xfe"]
        assert said_by(told[1].stdout, "bytes") == expected

    def test_a_line_of_ten_megabytes_arrives_in_one_piece(self, told: tuple[Sandbox, Finished]) -> None:
        sandbox, done = told
        [line] = said_by(done.stdout, "huge-line")
        assert line == "h" * HUGE_LINE_BYTES
        assert "\n" + "h" * HUGE_LINE_BYTES + "\n" in log_of(sandbox, "huge-line")

    def test_a_missing_final_newline_is_added(self, told: tuple[Sandbox, Finished]) -> None:
        sandbox, done = told
        assert said_by(done.stdout, "no-newline") == ["said before the end"]
        assert "\nsaid before the end\n" in log_of(sandbox, "no-newline")

    def test_native_code_is_heard_even_when_it_never_flushes(self, told: tuple[Sandbox, Finished]) -> None:
        assert said_by(told[1].stdout, "native") == ["native write", "native puts"]

    def test_children_and_stderr_are_heard_in_order(self, told: tuple[Sandbox, Finished]) -> None:
        assert said_by(told[1].stdout, "child") == ["child stdout", "child stderr", "python stderr"]

    def test_logs_hold_the_same_lines(self, told: tuple[Sandbox, Finished]) -> None:
        sandbox, done = told
        for way in WAYS:
            log = log_of(sandbox, way)
            plain = COLOUR.sub("", log)
            assert "\x1b" not in plain
            for line in said_by(done.stdout, way):
                assert f"{line}\n" in plain

    def test_of_all_that_a_terminal_obeys_logs_keep_only_colour(self, told: tuple[Sandbox, Finished]) -> None:
        assert "\x1b[31mred\x1b[0m\n" in log_of(told[0], "control-terminal")


@pytest.mark.every_backend
def test_bursts_of_many_items_lose_and_tear_nothing(sandbox: Sandbox) -> None:
    sandbox.write_items(*({"id": f"b{number}", "input": {"says": "burst"}} for number in range(4)))
    done = sandbox.run("--parallel", "4", graph="chatter")
    assert done.code == 0
    expected = [f"line {number} {'b' * (number * 7 % 97)}" for number in range(BURST_LINES)]
    for number in range(4):
        assert said_by(done.stdout, f"b{number}") == expected


@pytest.mark.every_backend
def test_a_prompt_without_newline_is_shown_while_its_node_waits(sandbox: Sandbox) -> None:
    write_chatter(sandbox, "prompt")
    started = sandbox.start(graph="chatter")
    started.wait_for_line("[prompt] Continue? [y/N] ")
    sandbox.release("answered")
    done = started.wait()
    assert said_by(done.stdout, "prompt") == ["Continue? [y/N] ", "yes"]


def test_nothing_a_worker_writes_moves_a_terminals_cursor_or_sets_its_title(sandbox: Sandbox) -> None:
    write_chatter(sandbox, "control-terminal", "fake-coordinator")
    # A terminal without a title: none of what follows is ours either.
    arguments = sandbox.arguments("--parallel", "2", "--output-mode", "stream", graph="chatter")
    with Terminal(sandbox, *arguments, env={"TERM": "linux"}) as terminal:
        assert terminal.wait() == 0
        drawn = terminal.drawn()
    assert b"\x1b[31mred\x1b[0m" in drawn
    for sequence in (
        b"\x1b]",
        b"\x1bP",
        b"\x1b[2J",
        b"\x1b[1;1H",
        b"\x1b[3A",
        b"\x1b[2K",
        b"\x1bM",
        b"\x07",
        b"\x08",
    ):
        assert sequence not in drawn


def test_no_item_can_take_the_coordinators_name(sandbox: Sandbox) -> None:
    sandbox.write_items({"id": "COORDINATOR", "input": {"says": "nothing"}})
    done = sandbox.run(graph="chatter")
    assert (done.code, done.stdout) == (2, "")
    assert "'COORDINATOR' is the name the run's own lines begin with; choose another id" in done.stderr


def _start_reading(sandbox: Sandbox, *arguments: str) -> Started:
    return sandbox.start_command(*sandbox.arguments(*arguments, graph="chatter"), stdout=subprocess.PIPE)


def _resident_bytes(pid: int) -> int:
    """0 once it is over."""
    memory = Path(f"/proc/{pid}/status").read_text().partition("VmRSS:")[2].split()
    return int(memory[0]) * 1024 if memory else 0


def _read_slowly(started: Started, each_megabyte: list[int]) -> bytes:
    """Everything, a million bytes at a time; the coordinator's memory after each."""
    assert started.process.stdout is not None
    parts = []
    while part := started.process.stdout.read(CHUNK_BYTES):
        parts.append(part)
        each_megabyte.append(_resident_bytes(started.pid))
    return b"".join(parts)


@pytest.mark.every_backend
def test_a_slow_reader_slows_the_workers_down_and_memory_stays_flat(sandbox: Sandbox) -> None:
    sandbox.write_items(*({"id": f"f{number}", "input": {"says": "flood"}} for number in range(2)))
    started = _start_reading(sandbox, "--parallel", "2")
    eventually(lambda: _noted(sandbox, " flooded ") >= 2, "the first megabytes")
    # Nobody has read a byte: what is under way fits the pipes and the coordinator's small buffer, and no more comes.
    # A node of a cluster has a larger one.
    assert _settled(lambda: _noted(sandbox, " flooded ")) <= (
        20 if "AGENTOS_CLUSTER__BACKEND" in sandbox.environment else 10
    )
    before = _resident_bytes(started.pid)
    memory: list[int] = []
    text = _read_slowly(started, memory).decode()
    assert started.process.wait() == 0
    assert max(memory) - before < 16 * 2**20
    lines_a_chunk = CHUNK_BYTES // 100
    for number in range(2):
        numbers = [int(line.split()[0]) for line in said_by(text, f"f{number}")]
        assert numbers == list(range(FLOOD_CHUNKS * lines_a_chunk))


def _noted(sandbox: Sandbox, words: str) -> int:
    return sum(words in f"{note} " for note in sandbox.notes())


def _settled(count: Callable[[], int], seconds: float = 1.5) -> int:
    """A number that has not changed for a while."""
    number, since = count(), time.monotonic()
    while time.monotonic() < since + seconds:
        time.sleep(0.02)
        if count() != number:
            number, since = count(), time.monotonic()
    return number


@pytest.mark.every_backend
def test_a_reader_that_reads_nothing_holds_items_back_that_could_end_unread(sandbox: Sandbox) -> None:
    items = 24
    sandbox.write_items(*({"id": f"s{number}", "input": {"says": "spill"}} for number in range(items)))
    started = _start_reading(sandbox, "--parallel", "2")
    eventually(lambda: _noted(sandbox, " spilled ") >= 2, "two items that spilled")
    assert _settled(lambda: _noted(sandbox, " spilled ")) <= 8
    text = _read_slowly(started, []).decode()
    assert started.process.wait() == 0
    assert len(sandbox.outcomes()) == items
    for number in range(items):
        # Also when all had to wait: first what a node wrote, then the next one's announcement.
        assert said_by(text, f"s{number}") == ["s" * 99] * 9_000


@pytest.mark.every_backend
def test_a_slow_reader_sees_everything_though_another_worker_has_closed_its_output(sandbox: Sandbox) -> None:
    sandbox.write_items({"id": "h", "input": {"says": "hang-up"}}, {"id": "f", "input": {"says": "flood"}})
    started = _start_reading(sandbox, "--parallel", "2")
    sandbox.wait_for_note("h hung up")
    eventually(lambda: _noted(sandbox, " flooded ") >= 2, "the first megabytes")
    _settled(lambda: _noted(sandbox, " flooded "))
    sandbox.release("answered")
    text = _read_slowly(started, []).decode()
    assert started.process.wait() == 0
    assert len(said_by(text, "f")) == FLOOD_CHUNKS * (CHUNK_BYTES // 100)
    assert "[COORDINATOR] 2 completed" in text.split("\n")


@pytest.mark.slow
@pytest.mark.every_backend
def test_time_that_items_spend_unread_does_not_count(sandbox: Sandbox) -> None:
    limit = 10.0
    sandbox.write_items({"id": "f0", "input": {"says": "flood"}})
    started = _start_reading(sandbox, "--timeout-seconds", str(limit), "--stall-seconds", "4")
    began = time.monotonic()
    eventually(lambda: _noted(sandbox, " flooded ") >= 1, "the first megabyte")
    flooding = time.monotonic()
    eventually(lambda: time.monotonic() > flooding + limit + 0.5, "more than its time")
    text = _read_slowly(started, []).decode()
    assert started.process.wait() == 0, text[-500:]
    assert time.monotonic() - began > limit
    assert sandbox.outcomes() == {"f0": "completed"}


@pytest.mark.every_backend
def test_a_stop_is_in_time_though_nobody_reads(sandbox: Sandbox) -> None:
    sandbox.write_items(*({"id": f"f{number}", "input": {"says": "flood"}} for number in range(3)))
    started = _start_reading(sandbox, "--parallel", "2")
    eventually(lambda: _noted(sandbox, " flooded ") >= 2, "the first megabytes")
    _settled(lambda: _noted(sandbox, " flooded "))
    started.kill(signal.SIGINT)
    assert started.process.wait(STOP_DEADLINE_SECONDS) == 130
    no_process_left(sandbox.home)
    assert sandbox.outcomes() == {"f0": "interrupted", "f1": "interrupted"}
    again = sandbox.run("--parallel", "2", graph="chatter")
    assert again.code == 0


@pytest.mark.every_backend
def test_a_reader_that_leaves_stops_the_run_cleanly(sandbox: Sandbox) -> None:
    sandbox.write_items(*({"id": f"f{number}", "input": {"says": "flood"}} for number in range(4)))
    started = _start_reading(sandbox, "--parallel", "2")
    assert started.process.stdout is not None
    assert started.process.stdout.readline() == b"[COORDINATOR] 4 items, 2 at a time (graph graphs-chatter-graph)\n"
    started.process.stdout.close()
    assert started.process.wait(STOP_DEADLINE_SECONDS) == 130
    assert started.stderr() == ""
    no_process_left(sandbox.home)
    assert {record["reason"] for record in sandbox.records() if record["type"] == "stop_requested"} == {
        "output closed"
    }
    again = sandbox.run("--parallel", "2", graph="chatter")
    assert again.code == 0
    assert list(sandbox.outcomes().values()) == ["completed"] * 4


def test_head_in_a_shell_pipe_ends_the_run_without_a_traceback(sandbox: Sandbox) -> None:
    sandbox.write_items(*({"id": f"f{number}", "input": {"says": "flood"}} for number in range(3)))
    command = " ".join(["agentos", *sandbox.arguments(graph="chatter")])
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    shell = subprocess.run(
        ["sh", "-c", f"{{ {command}; echo $? >exit-code; }} | head -1"],
        cwd=sandbox.project,
        env={**sandbox.environment, "PATH": path},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    no_process_left(sandbox.home)
    assert (sandbox.project / "exit-code").read_text() == "130\n"
    assert shell.stderr == ""
    assert shell.stdout.count("\n") == 1


@pytest.mark.every_backend
def test_a_node_is_announced_before_it_speaks_and_after_the_one_before_has_spoken(sandbox: Sandbox) -> None:
    write_chatter(sandbox, "nothing")
    done = sandbox.run(graph="chatter")
    assert [line for line in done.lines if line.startswith("[nothing]")][:4] == [
        "[nothing] >>> Executing: speak",
        "[nothing] quiet",
        "[nothing] >>> Executing: end",
        "[nothing] last words",
    ]

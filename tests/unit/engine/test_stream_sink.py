"""Writing to terminals, pipes, sockets and files without ever blocking the loop."""

from __future__ import annotations

import fcntl
import os
import select
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pipe_ends import Pipe

from agentos.engine import stream_sink
from agentos.engine.loop import Loop
from agentos.engine.stream_sink import HIGH_WATER_BYTES, StreamSink


class Calls:
    """Counts what the sink tells."""

    def __init__(self) -> None:
        self.drained = 0
        self.closed = 0

    def on_drained(self) -> None:
        self.drained += 1

    def on_closed(self) -> None:
        self.closed += 1


@pytest.fixture
def loop() -> Iterator[Loop]:
    made = Loop()
    made.after(60, lambda: pytest.fail("the loop was never stopped"))
    yield made
    made.close()


@pytest.fixture
def calls() -> Calls:
    return Calls()


def make_sink(descriptor: int, loop: Loop, calls: Calls) -> StreamSink:
    return StreamSink(descriptor, loop, on_drained=calls.on_drained, on_closed=calls.on_closed)


def read_all(descriptor: int, into: bytearray) -> threading.Thread:
    def run() -> None:
        while data := os.read(descriptor, 1 << 16):
            into.extend(data)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def is_blocking(descriptor: int) -> bool:
    return not fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_NONBLOCK


def test_what_fits_is_written_at_once(loop: Loop, calls: Calls, pipe: Pipe) -> None:
    sink = make_sink(pipe.write, loop, calls)
    sink.write(b"hello ")
    sink.write(b"")
    sink.write(b"world\n")
    assert os.read(pipe.read, 100) == b"hello world\n"
    sink.close()


def test_the_users_descriptor_stays_blocking_and_open(loop: Loop, calls: Calls, pipe: Pipe) -> None:
    sink = make_sink(pipe.write, loop, calls)
    sink.write(b"x")
    assert is_blocking(pipe.write)
    sink.close()
    os.write(pipe.write, b"y")
    assert os.read(pipe.read, 2) == b"xy"


def test_a_slow_reader_blocks_nobody_and_loses_nothing(loop: Loop, calls: Calls, pipe: Pipe) -> None:
    sink = make_sink(pipe.write, loop, calls)
    sent = b"".join(b"line %d\n" % number for number in range(300_000))
    for start in range(0, len(sent), 50_000):
        sink.write(sent[start : start + 50_000])  # Nobody reads yet: a write that blocked would do so for ever.
    assert sink.is_full
    got = bytearray()
    thread = read_all(pipe.read, got)
    loop.after(0, lambda: None)

    def check() -> None:
        loop.stop() if len(got) == len(sent) else loop.after(0.01, check)

    check()
    loop.run()
    assert not sink.is_full
    assert calls.drained == 1
    sink.close()
    pipe.close(pipe.write)
    thread.join()
    assert bytes(got) == sent


def test_drained_is_told_only_after_it_was_full(loop: Loop, calls: Calls, pipe: Pipe) -> None:
    sink = make_sink(pipe.write, loop, calls)
    sink.write(b"x" * (HIGH_WATER_BYTES // 2))
    assert not sink.is_full
    thread = read_all(pipe.read, bytearray())
    assert sink.flush(30)
    assert calls.drained == 0
    sink.close()
    pipe.close(pipe.write)
    thread.join()


def test_a_reader_that_goes_away_closes_the_sink_once(loop: Loop, calls: Calls, pipe: Pipe) -> None:
    sink = make_sink(pipe.write, loop, calls)
    pipe.close(pipe.read)
    sink.write(b"x")
    assert sink.is_closed
    sink.write(b"y")
    assert calls.closed == 1
    assert calls.drained == 0
    sink.close()


def test_a_reader_that_goes_away_while_the_sink_is_full_frees_those_who_wait(
    loop: Loop, calls: Calls, pipe: Pipe
) -> None:
    sink = make_sink(pipe.write, loop, calls)
    sink.write(b"x" * (HIGH_WATER_BYTES + (1 << 17)))
    assert sink.is_full
    loop.post(lambda: pipe.close(pipe.read))
    loop.after(0.01, lambda: None)

    def check() -> None:
        loop.stop() if calls.closed else loop.after(0.01, check)

    check()
    loop.run()
    assert not sink.is_full
    assert (calls.closed, calls.drained) == (1, 1)
    sink.close()


def test_a_regular_file_gets_everything_in_order(loop: Loop, calls: Calls, tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb") as file:
        sink = make_sink(file.fileno(), loop, calls)
        sink.write(b"a" * 200_000)
        sink.write(b"b")
        assert sink.flush(None)
        sink.close()
    assert (tmp_path / "out").read_bytes() == b"a" * 200_000 + b"b"


def test_a_file_opened_for_appending_is_appended_to(loop: Loop, calls: Calls, tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"before\n")
    with path.open("ab") as file:
        sink = make_sink(file.fileno(), loop, calls)
        sink.write(b"after\n")
        sink.close()
    assert path.read_bytes() == b"before\nafter\n"


def test_a_full_disk_closes_the_sink(loop: Loop, calls: Calls) -> None:
    with Path("/dev/full").open("wb", buffering=0) as full:
        sink = make_sink(full.fileno(), loop, calls)
        sink.write(b"x")
        assert (sink.is_closed, calls.closed) == (True, 1)
        sink.close()


def test_a_socket_is_written_to_without_blocking(loop: Loop, calls: Calls) -> None:
    """A socket cannot be opened again: only as much as it is ready for goes out at a time."""
    ours, theirs = socket.socketpair()
    sink = make_sink(ours.fileno(), loop, calls)
    sent = os.urandom(2_000_000)
    sink.write(sent)
    assert ours.getblocking()
    assert sink.is_full
    got = bytearray()
    thread = read_all(theirs.fileno(), got)
    assert sink.flush(30)
    sink.close()
    ours.close()
    thread.join()
    theirs.close()
    assert bytes(got) == sent


def test_a_terminal_is_written_to_without_changing_its_mode(loop: Loop, calls: Calls) -> None:
    master, slave = os.openpty()
    sink = make_sink(slave, loop, calls)
    sink.write(b"hello\n")
    assert os.read(master, 100) == b"hello\r\n"
    assert is_blocking(slave)
    sink.close()
    os.close(slave)
    os.close(master)


def test_without_a_second_opening_the_descriptor_itself_is_used(
    loop: Loop, calls: Calls, pipe: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a system without /proc."""
    monkeypatch.setattr(stream_sink, "open_again", lambda descriptor: (descriptor, stream_sink.SAFE_PIPE_BYTES))
    sink = make_sink(pipe.write, loop, calls)
    sent = os.urandom(500_000)
    sink.write(sent)
    got = bytearray()
    thread = read_all(pipe.read, got)
    assert sink.flush(30)
    sink.close()
    pipe.close(pipe.write)
    thread.join()
    assert bytes(got) == sent


def test_flush_gives_up_when_the_time_is_up(loop: Loop, calls: Calls, pipe: Pipe) -> None:
    sink = make_sink(pipe.write, loop, calls)
    sink.write(b"x" * 1_000_000)
    began = time.monotonic()
    assert not sink.flush(0.05)
    assert time.monotonic() - began >= 0.05
    sink.close()
    sink.close()


def test_flush_ends_when_the_reader_goes_away(loop: Loop, calls: Calls, pipe: Pipe) -> None:
    sink = make_sink(pipe.write, loop, calls)
    sink.write(b"x" * 1_000_000)
    timer = threading.Timer(0.05, lambda: pipe.close(pipe.read))
    timer.start()
    sink.flush(None)
    timer.join()
    assert sink.is_closed
    assert calls.closed == 1
    sink.close()


def test_a_closed_sink_takes_nothing_and_holds_nobody_up(loop: Loop, calls: Calls, pipe: Pipe) -> None:
    sink = make_sink(pipe.write, loop, calls)
    sink.close()
    sink.write(b"late")
    assert not sink.is_full
    assert not select.select([pipe.read], [], [], 0)[0]
    assert calls.closed == 0

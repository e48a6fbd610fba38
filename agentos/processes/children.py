"""Child processes that end: a time limit, bounded output, and nothing of theirs left running."""

from __future__ import annotations

import contextlib
import functools
import os
import selectors
import shutil
import signal
import subprocess
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from agentos.processes import host

# Time between asking a group to end and ending it: git uses it to remove its lock files.
TERMINATE_GRACE_SECONDS: Final = 1.0
# A process that left the group may keep our pipe open for ever; what it writes after the end is not waited for.
DRAIN_SECONDS: Final = 0.25
_CHUNK_BYTES: Final = 65_536
# A program that starts new processes faster than this kills them is given up on.
_KILL_SECONDS: Final = 2.0
# Without pidfds an ended child is noticed at this interval.
_EXIT_POLL_SECONDS: Final = 0.05


@dataclass(frozen=True, slots=True)
class Captured:
    """What a stream said: whole, or its head and tail when it said more than was kept."""

    head: bytes
    tail: bytes
    dropped_bytes: int

    def text(self) -> str:
        """The words, with a line that says how much was left out."""
        if not self.dropped_bytes:
            return (self.head + self.tail).decode("utf-8", "replace")
        head, tail = (part.decode("utf-8", "replace") for part in (self.head, self.tail))
        return f"{head}\n... [{self.dropped_bytes} bytes left out] ...\n{tail}"


@dataclass(frozen=True, slots=True)
class ChildResult:
    """How a child ended. Exactly one of `exit_code` and `signal_number` is set."""

    exit_code: int | None
    signal_number: int | None
    timed_out: bool
    stdout: Captured
    stderr: Captured
    seconds: float


class HeadTail:
    """Keeps the first and the last half of `limit_bytes` of a stream and counts the rest."""

    def __init__(self, limit_bytes: int) -> None:
        self._head_room = limit_bytes // 2
        self._tail_room = limit_bytes - self._head_room
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self._dropped = 0

    def feed(self, data: bytes) -> None:
        room = self._head_room - len(self._head)
        self._head += data[:room]
        rest = data[room:]
        if not rest:
            return
        self._tail.append(rest)
        self._tail_size += len(rest)
        while self._tail_size > self._tail_room:
            excess = self._tail_size - self._tail_room
            oldest = self._tail.popleft()
            if len(oldest) > excess:
                self._tail.appendleft(oldest[excess:])
            cut = min(excess, len(oldest))
            self._tail_size -= cut
            self._dropped += cut

    def captured(self) -> Captured:
        return Captured(bytes(self._head), b"".join(self._tail), self._dropped)


def run_child(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    timeout_seconds: float,
    stdin: bytes = b"",
    limit_bytes: int = 1_000_000,
    merge_stderr: bool = False,
    cancel_descriptor: int | None = None,
    inherited: Sequence[int] = (),
) -> ChildResult:
    """Run `argv` in its own process group and return when it has ended, at the latest after the time limit.

    Whatever way this returns or raises, the group is gone. The child dies with this process too where the machine
    has `setpriv`. As soon as `cancel_descriptor` can be read, its time is up. It gets the `inherited` descriptors.
    A program that cannot be started is an OSError, or exit code 127 out of `setpriv`.
    """
    started = time.monotonic()
    process = subprocess.Popen(
        dying_with_parent(argv),
        cwd=cwd,
        env=dict(env),
        stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if merge_stderr else subprocess.PIPE,
        process_group=0,
        pass_fds=inherited,
        bufsize=0,
    )
    with _Conversation(process, stdin, limit_bytes, cancel_descriptor) as conversation:
        try:
            ended_by_itself = conversation.follow(started + timeout_seconds)
        finally:
            _end_group(process, conversation)
        return _result(process, conversation, not ended_by_itself, time.monotonic() - started)


def _result(process: subprocess.Popen[bytes], said: _Conversation, timed_out: bool, seconds: float) -> ChildResult:
    code = process.returncode
    return ChildResult(
        exit_code=code if code >= 0 else None,
        signal_number=-code if code < 0 else None,
        timed_out=timed_out,
        stdout=said.stdout.captured(),
        stderr=said.stderr.captured(),
        seconds=seconds,
    )


@functools.cache
def setpriv_path() -> str | None:
    return shutil.which("setpriv")


def dying_with_parent(argv: Sequence[str]) -> list[str]:
    """`argv`, started so that the kernel kills it when the thread that starts it ends.

    `preexec_fn` is not safe in a process with threads, so a small program sets the parent-death signal and execs.
    """
    setpriv = setpriv_path()
    return [setpriv, "--pdeathsig", "KILL", "--", *argv] if setpriv else list(argv)


class _Conversation:
    """Feeds a child its input and keeps what it says, until it ends or a deadline passes."""

    def __init__(
        self, process: subprocess.Popen[bytes], stdin: bytes, limit_bytes: int, cancel_descriptor: int | None
    ) -> None:
        self._cancel_descriptor = cancel_descriptor
        self._is_cancelled = False
        self.stdout = HeadTail(limit_bytes)
        self.stderr = HeadTail(limit_bytes)
        self._process = process
        self._unsent = memoryview(stdin)
        self._selector = selectors.DefaultSelector()
        self._pidfd = _open_pidfd(process.pid)

    def __enter__(self) -> _Conversation:
        for stream, events in (
            (self._process.stdin, selectors.EVENT_WRITE),
            (self._process.stdout, selectors.EVENT_READ),
            (self._process.stderr, selectors.EVENT_READ),
        ):
            if stream is not None:
                os.set_blocking(stream.fileno(), False)
                self._selector.register(stream, events)
        for descriptor in (self._pidfd, self._cancel_descriptor):
            if descriptor is not None:
                self._selector.register(descriptor, selectors.EVENT_READ)
        return self

    def __exit__(self, *_: object) -> None:
        self._selector.close()
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
        if self._pidfd is not None:
            os.close(self._pidfd)

    def follow(self, deadline: float) -> bool:
        """Talk until the child has ended (true) or the deadline has passed (false)."""
        while True:
            remaining = deadline - time.monotonic()
            if remaining <= 0 or self._has_been_cancelled():
                return False
            if self._talk(remaining):
                return True

    def _has_been_cancelled(self) -> bool:
        """True once: the child still gets its time to clean up."""
        is_cancelled, self._is_cancelled = self._is_cancelled, False
        return is_cancelled

    def drain(self, seconds: float) -> None:
        """Keep what is still in the pipes."""
        deadline = time.monotonic() + seconds
        while self._open_outputs() and (remaining := deadline - time.monotonic()) > 0:
            self._talk(remaining)

    def _open_outputs(self) -> bool:
        outputs = (self._process.stdout, self._process.stderr)
        return any(key.fileobj in outputs for key in self._selector.get_map().values())

    def _talk(self, seconds: float) -> bool:
        """Wait for something to happen, deal with it, and say whether the child has ended."""
        wait = seconds if self._pidfd is not None else min(seconds, _EXIT_POLL_SECONDS)
        has_ended = False
        for key, _ in self._selector.select(wait):
            if key.fileobj == self._pidfd:
                has_ended = True
                self._selector.unregister(key.fileobj)
            elif key.fileobj == self._cancel_descriptor:
                self._is_cancelled = True
                self._selector.unregister(key.fileobj)
            elif key.fileobj is self._process.stdin:
                self._send(self._process.stdin)
            else:
                self._receive(key.fileobj)  # type: ignore[arg-type]
        return has_ended or (self._pidfd is None and self._process.poll() is not None)

    def _send(self, stream: IO[bytes]) -> None:
        try:
            self._unsent = self._unsent[os.write(stream.fileno(), self._unsent[:_CHUNK_BYTES]) :]
        except BrokenPipeError:
            self._unsent = memoryview(b"")
        if not self._unsent:
            self._selector.unregister(stream)
            stream.close()

    def _receive(self, stream: IO[bytes]) -> None:
        data = os.read(stream.fileno(), _CHUNK_BYTES)
        if not data:
            self._selector.unregister(stream)
            return
        (self.stdout if stream is self._process.stdout else self.stderr).feed(data)


def _open_pidfd(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def _end_group(process: subprocess.Popen[bytes], conversation: _Conversation) -> None:
    """Leave no process of the child's group. The child itself is reaped last, so its group id is still its own."""
    if not _has_ended(process):
        _signal_group(process.pid, signal.SIGTERM)
        conversation.follow(time.monotonic() + TERMINATE_GRACE_SECONDS)
    _signal_group(process.pid, signal.SIGKILL)
    process.wait()
    conversation.drain(DRAIN_SECONDS)


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    if process.returncode is not None:
        return True
    if not hasattr(os, "waitid"):
        return process.poll() is not None
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _signal_group(group_id: int, signal_number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group_id, signal_number)


def kill_with_variable(name: str, value: str) -> None:
    """Kill every process marked by an environment variable, also those that left their group or session."""
    deadline = time.monotonic() + _KILL_SECONDS
    while pids := host.processes_with(name, value):
        for pid in pids:
            host.kill_quietly(pid)
        if time.monotonic() > deadline:
            return
        time.sleep(0.01)

"""Starts pytest in a child and tells on standard output how it went.

No code under test runs in this process. The child has neither its standard output nor, once this process is closed
to others, a way to reach it. What the child says stands in memory that both share and to which no descriptor of it
leads; how it ended comes from the kernel. Whoever finds another way to our output lacks the word that each line of
ours begins with: it was in the request, which is gone.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import io
import json
import mmap
import os
import resource
import select
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

MOST_RECORDS_BYTES = 64 * 1024 * 1024
COPIES_PART = 64
"""One part in so many, at the end of the memory, is for copies that the child makes of itself."""
MOST_OUTPUT_BYTES = 200_000
PR_SET_DUMPABLE = 4
PR_SET_CHILD_SUBREAPER = 36
KILL_SECONDS = 10.0
MODULES = ("pytest", "coverage")


def say(word: str, record: dict[str, Any]) -> None:
    # A line of its own, whatever was written there before.
    sys.stdout.write(f"\n{word} {json.dumps(record)}\n")
    sys.stdout.flush()


def close_to_others() -> None:
    """Keep processes of the same user from opening this one's descriptors or memory."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


def adopt_orphans() -> None:
    """Become the parent of whoever outlives its own parent."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_all(child: subprocess.Popen[bytes]) -> int:
    """End the child and all that it started, so that nobody changes what it left; how the child ended."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    code = child.wait()
    deadline = time.monotonic() + KILL_SECONDS
    while (pids := children()) and time.monotonic() < deadline:
        for pid in pids:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
    return code


def children() -> list[int]:
    try:
        return [int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]
    except OSError:
        return []


class Stream:
    """What a pipe said, the middle left out when it is too much."""

    def __init__(self, descriptor: int, most_bytes: int) -> None:
        os.set_blocking(descriptor, False)
        self.descriptor: int | None = descriptor
        self.most_bytes = most_bytes
        self.parts: list[bytes] = []
        self.size = 0

    def read(self) -> bool:
        """Take what is there; False when there is nothing now."""
        if self.descriptor is None:
            return False
        try:
            data = os.read(self.descriptor, 1 << 20)
        except BlockingIOError:
            return False
        if not data:
            os.close(self.descriptor)
            self.descriptor = None
            return False
        self.parts.append(data)
        self.size += len(data)
        while len(self.parts) > 2 and self.size - len(self.parts[1]) > self.most_bytes:
            self.size -= len(self.parts.pop(1))
        return True

    def text(self) -> str:
        return b"".join(self.parts).decode("utf-8", "replace")


def follow(child: subprocess.Popen[bytes], output: Stream, deadline: float) -> bool:
    """Read until the child has ended; False when its time is over first. Whoever outlives it is not waited for."""
    while True:
        is_over = child.poll() is not None
        if is_over:
            while output.read():
                pass
            return True
        left = deadline - time.monotonic()
        if left <= 0:
            return False
        if output.descriptor is not None:
            select.select([output.descriptor], [], [], min(left, 0.05))
            output.read()
        else:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(left)


def said(memory: mmap.mmap) -> str:
    """What the child said, and after that what copies of it did."""
    own, copies = memory[: memory.find(b"\0")], memory[-(len(memory) // COPIES_PART) :].replace(b"\0", b"\n")
    return (own + copies).decode("utf-8", "replace")


def records(text: str, token: str, voice: str) -> list[dict[str, Any]]:
    """What the child's reporter said, and what its interpreter did: only that may testify."""
    found = []
    for line in text.splitlines():
        mark, _, rest = line.partition(" ")
        if mark in (token, voice):
            with contextlib.suppress(ValueError):
                record = json.loads(rest)
                if mark == voice or "said" not in record:
                    found.append(record)
    return found


def measured(request: dict[str, Any]) -> dict[str, Any] | None:
    """What coverage saw, by file. The data was written by the child; it is read here, by a module nobody patched."""
    data_file = request["coverage_data"]
    if not data_file or not Path(data_file).exists():
        return {} if data_file else None
    import coverage  # noqa: PLC0415  The project's interpreter may have none.

    report = coverage.Coverage(data_file=data_file, config_file=False, branch=True)
    told = io.StringIO()
    try:
        report.load()
        with contextlib.redirect_stdout(told):
            report.json_report(outfile="-")
        return dict(json.loads(told.getvalue())["files"])
    except Exception:
        return {}


def start(request: dict[str, Any], token: str, voice: str) -> tuple[subprocess.Popen[bytes], mmap.mmap]:
    """The child with its request, and where it will report. Closes this process to it before it runs foreign code."""
    with tempfile.TemporaryFile() as file:
        most = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
        os.ftruncate(file.fileno(), MOST_RECORDS_BYTES if most < 0 else min(MOST_RECORDS_BYTES, most))
        memory = mmap.mmap(file.fileno(), 0)
        given = {"token": token, "voice": voice, "memory": file.fileno(), "copies_bytes": len(memory) // COPIES_PART}
        child = subprocess.Popen(
            [sys.executable, "-I", "-B", "-c", request["child"]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=(file.fileno(),),
            start_new_session=True,
        )
    close_to_others()
    adopt_orphans()
    asked = json.dumps({**request, **given}).encode()
    assert child.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        child.stdin.write(asked)
    with contextlib.suppress(BrokenPipeError):
        child.stdin.close()
    return child, memory


def main() -> None:
    path = Path(sys.argv[1])
    request = json.loads(path.read_text(encoding="utf-8"))
    # It would tell code under test which of its runs this is.
    path.unlink()
    word = request.pop("word")
    available = [name for name in MODULES if importlib.util.find_spec(name) is not None]
    say(word, {"available": available})
    if "pytest" not in available:
        return
    if "coverage" not in available:
        request["coverage_data"] = ""
    token, voice = os.urandom(16).hex(), os.urandom(16).hex()
    child, memory = start(request, token, voice)
    assert child.stdout is not None
    output = Stream(child.stdout.fileno(), MOST_OUTPUT_BYTES)
    in_time = follow(child, output, time.monotonic() + request["seconds"])
    code = end_all(child)
    say(
        word,
        {
            "exit_code": code if in_time and code >= 0 else None,
            "signal": -code if in_time and code < 0 else None,
            "timed_out": not in_time,
            "output": output.text(),
            "records": records(said(memory), token, voice),
            "coverage": measured(request),
        },
    )


if __name__ == "__main__":
    main()

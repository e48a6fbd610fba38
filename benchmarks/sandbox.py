"""What a sandbox costs: the start of a command, and a run of pytest as a ratio to plain."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from agentos.sandbox.isolation import Isolation
from agentos.sandbox.sandbox import Sandbox, is_available
from benchmarks.harness import scratch, timed, verdict

_MOST_START_SECONDS = 0.12
_MOST_RATIO = 1.6


def main() -> None:
    with scratch() as directory:
        worktree = directory / "worktree"
        worktree.mkdir()
        (worktree / "test_one.py").write_text("def test_one():\n    assert 1 + 1 == 2\n")
        pytest = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        plain = min(timed(pytest, worktree).wall_seconds for _ in range(5))
        shell = min(timed(["/bin/sh", "-c", ":"], worktree).wall_seconds for _ in range(5))
        for isolation in Isolation:
            if is_available(isolation):
                sandbox = Sandbox(worktree, isolation)
                started = _best(lambda sandbox=sandbox: _run(sandbox, ["/bin/sh", "-c", ":"]))
                verdict(f"{isolation.value}: start", started - shell, _MOST_START_SECONDS, " s")
                tested = _best(lambda sandbox=sandbox: _run(sandbox, pytest))
                verdict(f"{isolation.value}: pytest, times plain", tested / plain, _MOST_RATIO, "")


def _run(sandbox: Sandbox, argv: list[str]) -> None:
    result = sandbox.run(argv, timeout_seconds=60)
    assert result.exit_code == 0, result.output


def _best(deed: Callable[[], None]) -> float:
    """The best of five: what it needs, without what the machine did besides."""
    times = []
    for _ in range(5):
        began = time.monotonic()
        deed()
        times.append(time.monotonic() - began)
    return min(times)

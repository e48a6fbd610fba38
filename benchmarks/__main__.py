"""`python -m benchmarks [NAME …]`: all benchmarks, or the named ones; `before COMMIT` compares with that commit.

Exits with 1 when one misses its bar.
"""

from __future__ import annotations

import importlib
import os
import sys
import time

from benchmarks import before
from benchmarks.harness import missed

NAMES = (
    *("startup", "throughput", "pacing", "stopping", "output", "growth", "memory", "leases", "keys_vs_peers"),
    *("lld_speedup", "worktrees", "gateway", "sandbox", "gates", "scale", "page", "postgres", "cluster"),
)


def main(wanted: list[str]) -> int:
    # An installed package has its bytecode; compiling it in every process would be most of what is measured.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    if wanted[:1] == ["before"]:
        if len(wanted) != 2:
            print("Usage: python -m benchmarks before COMMIT", file=sys.stderr)
            return 2
        before.main(wanted[1])
        return _exit_code()
    unknown = set(wanted) - set(NAMES)
    if unknown:
        print(f"Unknown benchmark {sorted(unknown)[0]!r}. Known: {', '.join(NAMES)}.", file=sys.stderr)
        return 2
    for name in wanted or NAMES:
        print(f"== {name}", flush=True)
        began = time.monotonic()
        importlib.import_module(f"benchmarks.{name}").main()
        print(f"   ({time.monotonic() - began:.0f} s)\n", flush=True)
    return _exit_code()


def _exit_code() -> int:
    if missed:
        print(f"MISSED: {'; '.join(missed)}", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

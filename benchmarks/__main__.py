"""`python -m benchmarks [NAME …]`: all benchmarks, or the named ones. Exits with 1 when one misses its bar."""

from __future__ import annotations

import importlib
import sys
import time

from benchmarks.harness import missed

NAMES = (
    *("startup", "throughput", "pacing", "stopping", "output", "growth", "memory", "leases", "keys_vs_peers"),
    *("lld_speedup", "worktrees", "gateway", "sandbox", "gates", "scale", "page"),
)


def main(wanted: list[str]) -> int:
    unknown = set(wanted) - set(NAMES)
    if unknown:
        print(f"Unknown benchmark {sorted(unknown)[0]!r}. Known: {', '.join(NAMES)}.", file=sys.stderr)
        return 2
    for name in wanted or NAMES:
        print(f"== {name}", flush=True)
        began = time.monotonic()
        importlib.import_module(f"benchmarks.{name}").main()
        print(f"   ({time.monotonic() - began:.0f} s)\n", flush=True)
    if missed:
        print(f"MISSED: {'; '.join(missed)}", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

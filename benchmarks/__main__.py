"""`python -m benchmarks [NAME …]`: all benchmarks, or the named ones."""

from __future__ import annotations

import importlib
import sys
import time

NAMES = ("startup", "throughput", "pacing", "output", "memory", "leases", "keys_vs_peers", "lld_speedup", "worktrees")


def main(wanted: list[str]) -> int:
    unknown = set(wanted) - set(NAMES)
    if unknown:
        print(f"Unknown benchmark {sorted(unknown)[0]!r}. Known: {', '.join(NAMES)}.", file=sys.stderr)
        return 2
    for name in wanted or NAMES:
        print(f"== {name}", flush=True)
        began = time.monotonic()
        try:
            importlib.import_module(f"benchmarks.{name}").main()
        except ModuleNotFoundError as error:
            if error.name != f"benchmarks.{name}":
                raise
            print("not written yet")
        print(f"   ({time.monotonic() - began:.0f} s)\n", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

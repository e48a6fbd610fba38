"""Memory of workers and coordinator, and that neither time nor memory an item grows with their number."""

from __future__ import annotations

import re
import subprocess
import time
from pathlib import Path

from benchmarks.harness import AGENTOS, EMPTY_GRAPH, SLEEPING_GRAPH, scratch, timed, verdict, write_items


def main() -> None:
    with scratch() as directory:
        (directory / "sleeping.py").write_text(SLEEPING_GRAPH)
        (directory / "empty.py").write_text(EMPTY_GRAPH)
        _pss(directory)
        _growth(directory)


def _pss(directory: Path) -> None:
    write_items(directory / "ten.jsonl", 10, seconds=6.0)
    command = [AGENTOS, "run", "--graph", "sleeping.py:graph", "--items", "ten.jsonl", "--parallel", "10"]
    process = subprocess.Popen(command, cwd=directory, stdout=subprocess.DEVNULL)
    try:
        workers = _wait_for_workers(process.pid, 10)
        verdict(f"PSS a worker (of {len(workers)})", max(_pss_mb(pid) for pid in workers), 25, " MB")
        verdict("PSS of the coordinator", _pss_mb(process.pid), 60, " MB")
    finally:
        process.wait()


def _wait_for_workers(coordinator: int, count: int) -> list[int]:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        workers = [worker for server in _children(coordinator) for worker in _children(server)]
        if len(workers) == count:
            time.sleep(1.0)  # For the last one to reach its node.
            return workers
        time.sleep(0.1)
    raise RuntimeError(f"{count} workers did not start within 30 s")


def _growth(directory: Path) -> None:
    seconds: dict[int, float] = {}
    peaks: dict[int, float] = {}
    for count in (200, 2000):
        write_items(directory / f"{count}.jsonl", count)
        command = [AGENTOS, "run", "--graph", "empty.py:graph", "--items", f"{count}.jsonl", "--parallel", "3"]
        seconds[count], peaks[count] = _watched(command, directory)
    start_up = timed([*command[:-4], "--items", "200.jsonl", "i0"], directory).wall_seconds
    cost = {count: (wall - start_up) / count for count, wall in seconds.items()}
    print(f"   an item: {cost[200] * 1000:.1f} ms of 200, {cost[2000] * 1000:.1f} ms of 2000")
    verdict("cost an item, 2000 / 200", cost[2000] / cost[200], 1.10)
    verdict("coordinator's growth from 200 to 2000 items", peaks[2000] - peaks[200], 10, " MB")


def _watched(command: list[str], directory: Path) -> tuple[float, float]:
    began = time.monotonic()
    process = subprocess.Popen(command, cwd=directory, stdout=subprocess.DEVNULL)
    peak = 0.0
    while process.poll() is None:
        status = _read(f"/proc/{process.pid}/status")
        found = re.search(r"VmHWM:\s+(\d+)", status)
        peak = max(peak, int(found[1]) / 1024 if found else 0.0)
        time.sleep(0.2)
    return time.monotonic() - began, peak


def _children(parent: int) -> list[int]:
    pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return [pid for pid in pids if _read(f"/proc/{pid}/stat").rpartition(") ")[2].split()[1:2] == [str(parent)]]


def _pss_mb(pid: int) -> float:
    found = re.search(r"^Pss:\s+(\d+)", _read(f"/proc/{pid}/smaps_rollup"), re.MULTILINE)
    return int(found[1]) / 1024 if found else 0.0


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""

"""The dashboard: how soon an event is with a reader, how many a second, and what readers cost server and run."""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from agentos.clock import stamp, utc_now
from agentos.events import Event, ItemEnded, ItemStarted, NodeFinished, NodeStarted, RunStarted, Stamped
from agentos.outcomes import COMPLETED
from agentos.paths import runs_dir
from agentos.records.runs import hold_run_lock
from agentos.reporters.audit import AuditReporter
from benchmarks.harness import AGENTOS, EMPTY_GRAPH, scratch, verdict, write_items

READERS = 50
ITEMS = 2_000
PROBES = 40
RUN_ITEMS = 60
RUN_ID = "20261118-000000-000001"


def main() -> None:
    with scratch() as directory, _dashboard() as (address, link, pid):
        writer = _Writer()
        asyncio.run(_readers(address, link, pid, writer))
        writer.close()
        _cost_of_looking(directory, address, link)


class _Writer:
    """A live run of many items, whose record this process writes as a coordinator does."""

    def __init__(self) -> None:
        run_dir = runs_dir() / RUN_ID
        run_dir.mkdir(parents=True)
        self._lock = hold_run_lock(run_dir)
        self._audit = AuditReporter(run_dir)
        self._sequence = 0
        ids = tuple(f"item-{number}" for number in range(ITEMS))
        self.write(RunStarted(workflow="flow", project_dir="/nowhere", items=ids, parallel=10, pid=os.getpid()))
        for item_id in ids[: ITEMS // 2]:
            for event in _life(item_id):
                self.write(event)
        self.write(ItemStarted(item_id=ids[-1], attempt=1, pid=1))
        self.last = ids[-1]
        self.pending = ids[ITEMS // 2 : -1]

    def write(self, event: Event) -> int:
        self._sequence += 1
        self._audit.handle(Stamped(self._sequence, stamp(utc_now(), "milliseconds"), RUN_ID, event))
        return self._sequence

    def close(self) -> None:
        self._audit.close()
        os.close(self._lock)


def _life(item_id: str) -> Iterator[Event]:
    yield ItemStarted(item_id=item_id, attempt=1, pid=1)
    for node in ("load", "draft", "review"):
        yield NodeStarted(item_id=item_id, node=node)
        yield NodeFinished(item_id=item_id, node=node, seconds=1.0)
    yield ItemEnded(item_id=item_id, outcome=COMPLETED, seconds=3.0)


async def _readers(address: str, link: str, pid: int, writer: _Writer) -> None:
    limits = httpx.Limits(max_connections=READERS + 4)
    async with httpx.AsyncClient(base_url=address, limits=limits, timeout=60.0, follow_redirects=True) as client:
        await client.get(link)
        await _first_page(client)
        alone = _resident_mb(pid)
        seen: dict[int, dict[int, float]] = {number: {} for number in range(READERS)}
        tasks = [asyncio.create_task(_follow(client, seen[number])) for number in range(READERS)]
        while not all(seen.values()):
            await asyncio.sleep(0.05)
        await _latency(writer, seen)
        print(f"   server: {alone:.0f} MB alone, with {ITEMS:,} items in view")
        verdict(f"memory of the server with {READERS} readers", _resident_mb(pid), 250, " MB")
        for task in tasks[1:]:
            task.cancel()
        await asyncio.gather(*tasks[1:], return_exceptions=True)
        await _throughput(writer, seen[0])
        tasks[0].cancel()
        await asyncio.gather(tasks[0], return_exceptions=True)


async def _first_page(client: httpx.AsyncClient) -> None:
    """The second look: the first reads a record of 8,000 lines, once."""
    await client.get(f"/api/runs/{RUN_ID}")
    began = time.perf_counter()
    for path in ("/", "/api/home", f"/api/runs/{RUN_ID}"):
        answer = await client.get(path)
        answer.raise_for_status()
    verdict(f"shell, list and a run of {ITEMS:,} items", (time.perf_counter() - began) * 1000, 300, " ms")


async def _follow(client: httpx.AsyncClient, seen: dict[int, float]) -> None:
    """Notes when each record number was first reached."""
    async with client.stream("GET", f"/api/runs/{RUN_ID}/events") as answer:
        async for line in answer.aiter_lines():
            if line.startswith("id: "):
                seen.setdefault(int(line[4:].partition(".")[0]), time.perf_counter())


async def _latency(writer: _Writer, seen: dict[int, dict[int, float]]) -> None:
    delays = []
    for probe in range(PROBES):
        written = time.perf_counter()
        number = writer.write(NodeStarted(item_id=writer.last, node=f"probe-{probe % 3}"))
        while any(number not in each for each in seen.values()):
            await asyncio.sleep(0.005)
        delays += [each[number] - written for each in seen.values()]
    delays.sort()
    print(f"   {PROBES} events to {READERS} readers: p50 {statistics.median(delays) * 1000:.0f} ms")
    verdict("event to reader, p99", delays[int(len(delays) * 0.99)] * 1000, 250, " ms")


async def _throughput(writer: _Writer, seen: dict[int, float]) -> None:
    began = time.perf_counter()
    written = [writer.write(event) for item_id in writer.pending for event in _life(item_id)]
    last = written[-1]
    while last not in seen:
        await asyncio.sleep(0.01)
    rate = len(written) / (time.perf_counter() - began)
    verdict("events per second, record to reader", rate, 2_000, "", at_least=True)


def _cost_of_looking(directory: Path, address: str, link: str) -> None:
    """The CPU time of a coordinator and its workers, with and without readers of its run, in turn."""
    (directory / "empty.py").write_text(EMPTY_GRAPH)
    write_items(directory / "items.jsonl", RUN_ITEMS)
    times: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(2):
        for is_read in (False, True):
            times[is_read].append(_run_cpu(directory, address, link if is_read else ""))
    unread, read = min(times[False]), min(times[True])
    print(f"   {RUN_ITEMS} items: {unread:.2f} s of CPU unread, {read:.2f} s with {READERS} readers")
    verdict("CPU of a run that is read, against one that is not", read / unread, 1.15, "x")


def _run_cpu(directory: Path, address: str, link: str) -> float:
    command = [
        str(AGENTOS),
        "run",
        "--graph",
        "empty.py:graph",
        "--items",
        "items.jsonl",
        "--parallel",
        "2",
        "--fresh",
    ]
    known = set(runs_dir().iterdir())
    process = subprocess.Popen(command, cwd=directory, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if link:
        while not (new := set(runs_dir().iterdir()) - known):
            time.sleep(0.01)
        asyncio.run(_read_until_end(address, link, new.pop().name))
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"agentos run exited with {process.returncode}")
    return used.ru_utime + used.ru_stime


async def _read_until_end(address: str, link: str, run_id: str) -> None:
    limits = httpx.Limits(max_connections=READERS + 4)
    async with httpx.AsyncClient(base_url=address, limits=limits, timeout=60.0, follow_redirects=True) as client:
        await client.get(link)
        await asyncio.gather(*(_read_one(client, run_id) for _ in range(READERS)))


async def _read_one(client: httpx.AsyncClient, run_id: str) -> None:
    async with client.stream("GET", f"/api/runs/{run_id}/events") as answer:
        async for line in answer.aiter_lines():
            if line == "event: end":
                return


@contextmanager
def _dashboard() -> Iterator[tuple[str, str, int]]:
    command = [str(AGENTOS), "dashboard", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        yield told["address"], told["control"], process.pid
        process.terminate()


def _resident_mb(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

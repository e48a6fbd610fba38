"""The key pool against LiteLLM's Router and proxy and naive retry: the same keys, work and quotas, a server each.

Nothing is scaled: 60 requests in any minute a group. Some cells run at once: ours of each starts when the one before
waits for its quota, and all peers when all of ours do, so that ours has the machine to itself whenever it calls. Then
what a client adds to a call that nothing limits, and a table of ours against the best peer. All of it takes about
six minutes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import pairwise
from math import ceil
from pathlib import Path
from typing import Any

from benchmarks.harness import AGENTOS, scratch, verdict, write_items
from benchmarks.peers.work import Plan
from fakes.limiters import earliest_end

WORKFLOWS, CALLS, WORKERS = 24, 10, 6
GROUP_LIMIT = 60
SERVING_GROUPS = 3
UNLIMITED = 1_000_000
MINUTE_SECONDS = 60.0
MODEL = "gemini-2.5-flash"
SECONDS_AT_MOST = 80.0
"""For a peer, from its first call on: the whole is to end in under two minutes."""

BOUND_SECONDS = (ceil(WORKFLOWS * CALLS / (SERVING_GROUPS * GROUP_LIMIT)) - 1) * MINUTE_SECONDS
"""From first to last call, of a client that fills each minute at its very first instant: nobody can be faster."""

PEERS_DIR = Path(__file__).with_name("peers")
ROOT = Path(__file__).resolve().parents[1]
PEER_ENVIRONMENT = ROOT / ".bench-venv" / "litellm"

GRAPH = f"""
from typing_extensions import TypedDict
from langgraph.graph import END, START, StateGraph
from agentos.llm import generate

class State(TypedDict, total=False):
    subject: str

def call(state):
    generate("Say something.", model="google:{MODEL}")
    return {{}}

names = [f"call_{{number}}" for number in range({CALLS})]
graph = StateGraph(State)
for name in names:
    graph.add_node(name, call)
for before, after in zip([START, *names], [*names, END]):
    graph.add_edge(before, after)
"""


@dataclass(frozen=True)
class BenchKey:
    name: str
    group: str

    @property
    def secret(self) -> str:
        return f"bench-secret-of-{self.name}"


REJECTED = BenchKey("rejected", "project-3")
SPENT = (BenchKey("spent-a", "project-4"), BenchKey("spent-b", "project-4"))
"""A day is spent for the whole group, so both of its keys are refused."""
KEYS = (
    BenchKey("one-a", "project-1"),
    BenchKey("one-b", "project-1"),
    BenchKey("two-a", "project-2"),
    BenchKey("two-b", "project-2"),
    BenchKey("three-a", "project-3"),
    REJECTED,
    *SPENT,
)


@dataclass(frozen=True)
class Result:
    """How one contender did, by its server's books."""

    name: str
    failed: int
    reason: str
    total: int
    limit_hits: int
    rejected_hits: int
    spent_hits: tuple[int, ...]
    seconds: float
    """From the first call to the last."""
    bound_seconds: float
    """Of a client that never waits in vain."""
    cpu_seconds: float
    """Of all its processes, start-up included."""

    @property
    def limit_share(self) -> float:
        return self.limit_hits / max(self.total, 1)

    @property
    def span_over_bound(self) -> float:
        return self.seconds / self.bound_seconds

    @property
    def cpu_ms(self) -> float:
        """Per answer: refusals are nobody's work."""
        return 1000 * self.cpu_seconds / max((WORKFLOWS - self.failed) * CALLS, 1)


@dataclass(frozen=True, eq=False)
class Cell:
    """One way in which clients hear of the limits."""

    name: str
    most_refused: float
    """Of ours, per cent of all calls. Of a limit that nobody tells, the first minute is spent finding it."""
    is_told: bool = False
    """Whether ours and LiteLLM are told the limits beforehand."""
    server: Mapping[str, Any] = field(default_factory=dict)
    runs: int = 1
    """That share the work, the keys and, of ours, the home."""
    halved_after: float | None = None
    """Seconds after the first call, if the limit moves."""


CELLS = (
    Cell("told beforehand", 1, is_told=True),
    Cell("told by the body of a refusal", 5),
    Cell("Retry-After only", 5, server={"tells": "retry-after"}),
    Cell("not a word", 8, server={"tells": "nothing"}),
    Cell(
        "halved after half a minute, Retry-After only",
        8,
        server={"tells": "retry-after"},
        halved_after=30.0,
    ),
    Cell("told beforehand, two runs at once", 1, is_told=True, runs=2),
    Cell("told by the body of a refusal, two runs at once", 5, runs=2),
)
UNLIMITED_CALLS = 100
LATENCY_SECONDS = 0.02


CELLS_AT_ONCE = 3
MOST_OF_BOUND = 1.03


def main() -> None:
    python = _litellm_python()
    results: dict[str, list[Result]] = {}
    for first in range(0, len(CELLS), CELLS_AT_ONCE):
        results |= _run_cells(CELLS[first : first + CELLS_AT_ONCE], python)
    latencies = _run_unlimited(python)
    for cell in CELLS:
        _judge(results[cell.name][0], cell)
    _compare(results)
    _compare_latencies(latencies)


def _run_cells(cells: Sequence[Cell], python: str | None) -> dict[str, list[Result]]:
    with scratch() as directory, ExitStack() as stack:

        def start(name: str, command: Command, cell: Cell) -> Contender:
            folder = directory / str(CELLS.index(cell))
            folder.mkdir(exist_ok=True)
            return stack.enter_context(_contender(folder, name, command, cell))

        contenders: dict[Cell, list[Contender]] = {}
        for cell in cells:
            contenders[cell] = [start("agentos", partial(_our_command, cell=cell), cell)]
            _wait_for_first_minute(contenders[cell][0])
        for cell in cells:
            contenders[cell] += [start(name, peer, cell) for name, peer in _peers(cell, python).items()]
        results = {cell.name: [each.result(cell) for each in contenders[cell]] for cell in cells}
    for cell in cells:
        print(f"   -- limits {cell.name}")
        _show(results[cell.name])
    return results


def _peers(cell: Cell, python: str | None) -> dict[str, Command]:
    peers = {NAIVE: _peer("naive_retry.py", 1.0, cell)}
    if python is None:
        return peers
    router = "litellm_router.py"
    peers["LiteLLM Router, sleep 5"] = _peer(router, 5.0, cell, python)
    if cell.runs == 1:
        peers["LiteLLM proxy, sleep 5"] = _peer("litellm_proxy.py", 5.0, cell, python)
    if cell is CELLS[0]:
        # As it comes it loses a third of the work, however limits are told: seen once is enough.
        peers["LiteLLM Router"] = _peer(router, 0.0, cell, python)
    return peers


def _show(results: Sequence[Result]) -> None:
    print(f"   {WORKFLOWS} workflows of {CALLS} calls, {WORKERS} workers, {SERVING_GROUPS} groups that serve,")
    print(f"   {GROUP_LIMIT} requests a minute each. Wall is from first to last call; its bound is the quota's own.")
    print("   Of the bad keys, the hits are shown. CPU is that of all processes, start-up included, per answer.")
    print(
        f"   {'':24}{'failed':>7}{'calls':>7}{'429s':>9}{'rejected':>10}{'spent':>9}{'wall':>9}{'/ bound':>9}"
        f"{'CPU':>10}"
    )
    for row in results:
        spent = " + ".join(str(hits) for hits in row.spent_hits)
        # A contender that gave work up was not faster than the quota.
        ratio = "-" if row.failed else f"{row.span_over_bound:.3f}"
        print(
            f"   {row.name:24}{row.failed:>7}{row.total:>7}{row.limit_share:>9.1%}{row.rejected_hits:>10}{spent:>9}"
            f"{row.seconds:>7.1f} s{ratio:>9}{row.cpu_ms:>7.0f} ms"
        )
    for row in results:
        if row.reason:
            print(f"   {row.name} failed first with: {row.reason[:160]}")


def _judge(ours: Result, cell: Cell) -> None:
    verdict(f"{cell.name}: failed items", ours.failed, 0)
    verdict(f"{cell.name}: 429s, share of calls", 100 * ours.limit_share, cell.most_refused, " %")
    verdict(f"{cell.name}: hits on the rejected key", ours.rejected_hits, 1)
    verdict(f"{cell.name}: hits on a key of the spent group, at most", max(ours.spent_hits), 1)
    verdict(f"{cell.name}: first to last call / the quota's bound", ours.span_over_bound, MOST_OF_BOUND)


NAIVE = "naive retry"
MEASURES: Mapping[str, Callable[[Result], float]] = {
    "429s, share of calls": lambda row: row.limit_share,
    "hits on bad keys": lambda row: row.rejected_hits + sum(row.spent_hits),
    "first to last call": lambda row: row.span_over_bound,
    "CPU per answer": lambda row: row.cpu_ms,
}
NOT_OF_THE_NAIVE = "CPU per answer"
"""It runs no graph and keeps nothing: a loop of a hundred lines is always lighter."""


def _compare(results: Mapping[str, Sequence[Result]]) -> None:
    """Ours over the best of those that lost no item: below 1 is ahead."""
    print("   -- ours / the best peer that lost no item (CPU: of LiteLLM's)")
    for cell, (ours, *peers) in results.items():
        for name, measure in MEASURES.items():
            rivals = [peer for peer in peers if not peer.failed]
            if name == NOT_OF_THE_NAIVE:
                rivals = [peer for peer in rivals if peer.name != NAIVE]
            best = min(map(measure, rivals), default=None)
            if best is None:
                print(f"   ok   {cell}: {name}: every peer lost items")
            elif best == 0:
                verdict(f"{cell}: {name}", measure(ours), 0)
            else:
                verdict(f"{cell}: {name}, ours / best", measure(ours) / best, 1)


def _compare_latencies(added_ms: Mapping[str, float]) -> None:
    rivals = [ms for name, ms in added_ms.items() if name not in ("agentos", NAIVE)]
    if rivals:
        verdict("added to a call at p50, ours / the best of LiteLLM's", added_ms["agentos"] / min(rivals), 1)


@dataclass(frozen=True)
class Contender:
    name: str
    folder: Path
    base_url: str
    processes: Sequence[subprocess.Popen[bytes]]

    @property
    def is_over(self) -> bool:
        """Ends are looked at and left: what a process has consumed is told until it is waited for."""
        return all(os.waitid(os.P_PID, each.pid, _LOOK | os.WNOHANG) is not None for each in self.processes)

    def stats(self) -> dict[str, Any]:
        return dict(_get(f"{self.base_url}/_stats"))

    def result(self, cell: Cell) -> Result:
        """Wait for its end and read the server's books."""
        for each in self.processes:
            os.waitid(os.P_PID, each.pid, _LOOK)
        words = [_own_word(folder) for folder in sorted(self.folder.glob("part-*"))]
        stats, moments = self.stats(), self.moments()
        start = min(moments, default=0.0)
        return Result(
            name=self.name,
            failed=sum(failed for failed, _ in words),
            reason=next((reason for _, reason in words if reason), ""),
            total=stats["total"],
            limit_hits=stats["by_status"].get("429", 0),
            rejected_hits=stats["hits"].get(REJECTED.name, 0),
            spent_hits=tuple(stats["hits"].get(key.name, 0) for key in SPENT),
            seconds=max(moments, default=0.0) - start,
            bound_seconds=self._bound_seconds(cell, start),
            cpu_seconds=sum(_cpu_seconds(each.pid) for each in self.processes),
        )

    def moments(self) -> list[float]:
        """When each call came."""
        return [seen["at_seconds"] for seen in _get(f"{self.base_url}/_requests")]

    def _bound_seconds(self, cell: Cell, start: float) -> float:
        """Where the limit moves, it depends on how much was called before: the rest comes under the new one."""
        if cell.halved_after is None:
            return BOUND_SECONDS
        taken: dict[str, list[float]] = {key.group: [] for key in KEYS if key not in SPENT}
        group_of = {key.name: key.group for key in KEYS if key not in (REJECTED, *SPENT)}
        for seen in _get(f"{self.base_url}/_requests"):
            at, group = seen["at_seconds"] - start, group_of.get(seen["key_name"])
            if group and at < cell.halved_after and len(taken[group]) < GROUP_LIMIT:
                taken[group].append(at)
        calls_left = WORKFLOWS * CALLS - sum(map(len, taken.values()))
        return earliest_end(list(taken.values()), GROUP_LIMIT // 2, calls_left, cell.halved_after)


_LOOK = os.WEXITED | os.WNOWAIT


def _cpu_seconds(pid: int) -> float:
    """Of a process that is over and of those it has waited for."""
    ticks = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15]
    return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


Command = Callable[[Path, str], list[str]]
"""Prepares a folder for the server at a URL and gives the command to start in it."""


@contextmanager
def _contender(directory: Path, name: str, command: Command, cell: Cell) -> Iterator[Contender]:
    """A contender under way at a server of its own; whatever is left of both ends with the block."""
    folder = directory / name.replace(" ", "-")
    folder.mkdir()
    with ExitStack() as stack:
        base_url = stack.enter_context(_server(folder, cell))
        parts = [folder / f"part-{number}" for number in range(cell.runs)]
        processes = [stack.enter_context(_started(part, command, base_url)) for part in parts]
        yield Contender(name, folder, base_url, processes)


@contextmanager
def _started(part: Path, command: Command, base_url: str) -> Iterator[subprocess.Popen[bytes]]:
    """One of the processes that share the work."""
    part.mkdir()
    with (
        (part / "output").open("wb") as output,
        (part / "errors").open("wb") as errors,
        subprocess.Popen(
            command(part, base_url),
            cwd=part,
            env={**os.environ, "AGENTOS_HOME": str(part.parent), "AGENTOS_PROVIDERS__GOOGLE__BASE_URL": base_url},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
        ) as process,
    ):
        try:
            yield process
        finally:
            process.terminate()


@contextmanager
def _server(folder: Path, cell: Cell) -> Iterator[str]:
    """The provider as a process of its own; gives its URL."""
    spent = [{"kind": "daily_limit", "times": -1, "retry_after_seconds": 30.0}]
    config = {
        "keys": [{**asdict(key), "secret": key.secret, "is_valid": key is not REJECTED} for key in KEYS],
        "limits": [{"requests_per_minute": GROUP_LIMIT}],
        "minute_seconds": MINUTE_SECONDS,
        "latency_seconds": LATENCY_SECONDS,
        "script": {key.name: spent for key in SPENT},
        "moves": _moves(cell),
        **cell.server,
    }
    path = folder / "provider.json"
    path.write_text(json.dumps(config))
    command = [sys.executable, "-m", "agentos.testing", "--config", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.terminate()


def _moves(cell: Cell) -> list[dict[str, float]]:
    if cell.halved_after is None:
        return []
    return [{"at_seconds": cell.halved_after, "requests_per_minute": GROUP_LIMIT // 2}]


def _our_command(folder: Path, base_url: str, *, cell: Cell, graph: str = GRAPH) -> list[str]:
    """The installed command; its home is the folder above, with the keys in it."""
    (folder / "flow.py").write_text(graph)
    write_items(folder / "items.jsonl", WORKFLOWS // cell.runs)
    credentials = folder.parent / "credentials.toml"
    credentials.touch(mode=0o600)
    credentials.write_text("".join(_entry(key, is_told=cell.is_told) for key in KEYS))
    run = [AGENTOS, "run", "--graph", "flow.py:graph", "--items", "items.jsonl"]
    return [*run, "--parallel", str(WORKERS), "--json"]


def _entry(key: BenchKey, *, is_told: bool) -> str:
    limit = f"rpm = {GROUP_LIMIT}\n" if is_told else ""
    names = f'name = "{key.name}"\nprovider = "google"\ngroup = "{key.group}"\n'
    return f'[[key]]\n{names}secret = "{key.secret}"\n{limit}\n'


def _peer(script: str, retry_seconds: float, cell: Cell, python: str = sys.executable) -> Command:
    def command(folder: Path, base_url: str) -> list[str]:
        plan = Plan(
            base_url=base_url,
            model=MODEL,
            secrets=[key.secret for key in KEYS],
            requests_per_minute=GROUP_LIMIT // 2 if cell.is_told else UNLIMITED,
            workflows=WORKFLOWS // cell.runs,
            calls=CALLS,
            workers=WORKERS,
            seconds_at_most=SECONDS_AT_MOST,
            retry_seconds=retry_seconds,
        )
        path = folder / "plan.json"
        path.write_text(json.dumps(asdict(plan)))
        return [python, str(PEERS_DIR / script), str(path)]

    return command


def _wait_for_first_minute(ours: Contender) -> None:
    """Until ours has called what a minute allows, or is over."""
    while not ours.is_over:
        if ours.stats()["by_status"].get("200", 0) >= SERVING_GROUPS * GROUP_LIMIT:
            return
        time.sleep(0.25)


def _own_word(folder: Path) -> tuple[int, str]:
    """Failed workflows and the first reason, by the last line of a peer or by the events of our run."""
    lines = (folder / "output").read_text().splitlines()
    if not lines:
        raise RuntimeError(f"no result:\n{(folder / 'errors').read_text()[-2000:]}")
    told = json.loads(lines[-1])
    if "failed" in told:
        return told["failed"], told["reason"]
    ends = [event for event in map(json.loads, lines) if event["type"] == "item_ended"]
    failures = [event for event in ends if event["outcome"] != "completed"]
    planned = len((folder / "items.jsonl").read_text().splitlines())
    return planned - len(ends) + len(failures), json.dumps(failures[0]) if failures else ""


LOOP_GRAPH = f"""
from typing_extensions import TypedDict
from langgraph.graph import END, START, StateGraph
from agentos.llm import generate

class State(TypedDict, total=False):
    subject: str

def call(state):
    for _ in range({UNLIMITED_CALLS}):
        generate("Say something.", model="google:{MODEL}")
    return {{}}

graph = StateGraph(State).add_node("call", call).add_edge(START, "call").add_edge("call", END)
"""


def _run_unlimited(python: str | None) -> dict[str, float]:
    """One caller, one call after the other: the time between calls is the server's latency and what is added.

    Gives milliseconds at p50 by contender.
    """
    cell = Cell("none", 0, server={"limits": [], "script": {}})
    contenders: dict[str, Command] = {
        "agentos": _our_loop,
        NAIVE: partial(_loop_of_peer, "naive_retry.py", sys.executable),
    }
    if python is not None:
        contenders["LiteLLM Router"] = partial(_loop_of_peer, "litellm_router.py", python)
        contenders["LiteLLM proxy"] = partial(_loop_of_peer, "litellm_proxy.py", python)
    print(f"   -- no limits: {UNLIMITED_CALLS} calls by one caller, the server takes {1000 * LATENCY_SECONDS:g} ms")
    found: dict[str, float] = {}
    # In turn, twice: what else the machine does is nobody's latency.
    for _ in range(2):
        for name, command in contenders.items():
            with scratch() as directory, _contender(directory, name, command, cell) as contender:
                cpu_seconds, moments = contender.result(cell).cpu_seconds, contender.moments()
            gaps = sorted(after - before for before, after in pairwise(moments))
            added = 1000 * (gaps[len(gaps) // 2] - LATENCY_SECONDS)
            found[name] = min(added, found.get(name, added))
            print(f"   {name:24}{added:6.1f} ms added at p50, {cpu_seconds:5.1f} s of CPU with start-up")
    return found


def _our_loop(folder: Path, base_url: str) -> list[str]:
    command = _our_command(folder, base_url, cell=Cell("none", 0), graph=LOOP_GRAPH)
    write_items(folder / "items.jsonl", 1)
    (folder.parent / "credentials.toml").write_text(_entry(KEYS[0], is_told=False))
    return command


def _loop_of_peer(script: str, python: str, folder: Path, base_url: str) -> list[str]:
    command = _peer(script, 1.0, Cell("none", 0), python)(folder, base_url)
    plan = json.loads(Path(command[-1]).read_text())
    changed = {**plan, "workflows": 1, "calls": UNLIMITED_CALLS, "workers": 1, "secrets": [KEYS[0].secret]}
    Path(command[-1]).write_text(json.dumps(changed))
    return command


def _get(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=30) as response:
        return json.load(response)


def _litellm_python() -> str | None:
    """LiteLLM's own environment, made once: its pins conflict with ours. None if it cannot be had."""
    python = PEER_ENVIRONMENT / "bin" / "python"
    is_ready = PEER_ENVIRONMENT / "installed"
    if is_ready.exists():
        return str(python)
    print("   LiteLLM is installed into .bench-venv, once: this takes a while", flush=True)
    PEER_ENVIRONMENT.parent.mkdir(exist_ok=True)
    (PEER_ENVIRONMENT.parent / ".gitignore").write_text("*\n")
    steps = (
        [sys.executable, "-m", "venv", "--clear", str(PEER_ENVIRONMENT)],
        [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "litellm[proxy]"],
    )
    for step in steps:
        done = subprocess.run(step, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            last = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
            print(f"skipped: LiteLLM cannot be installed ({last})")
            return None
    is_ready.touch()
    return str(python)


if __name__ == "__main__":
    main()

"""The key pool against LiteLLM's Router and proxy and naive retry: the same keys, work and quotas, a server each.

Nothing is scaled: 60 requests in any minute a group. Peers start when ours waits for its quota, so that all of it
takes little more than a minute and ours has the machine to itself whenever it calls. At the end, what a client adds
to a call that nothing limits.
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
    cpu_seconds: float
    """Of all its processes, start-up included."""

    @property
    def limit_share(self) -> float:
        return self.limit_hits / max(self.total, 1)


@dataclass(frozen=True)
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


CELLS = (
    Cell("told beforehand", 1, is_told=True),
    Cell("told by the body of a refusal", 5),
    Cell("Retry-After only", 5, server={"tells": "retry-after"}),
    Cell("not a word", 8, server={"tells": "nothing"}),
    Cell(
        "halved after half a minute, Retry-After only",
        8,
        server={"tells": "retry-after", "moves": [{"at_seconds": 30.0, "requests_per_minute": GROUP_LIMIT // 2}]},
    ),
    Cell("told beforehand, two runs at once", 1, is_told=True, runs=2),
    Cell("told by the body of a refusal, two runs at once", 5, runs=2),
)
UNLIMITED_CALLS = 100
LATENCY_SECONDS = 0.02


def main() -> None:
    python = _litellm_python()
    for cell in CELLS:
        _run_cell(cell, python)
    _run_unlimited(python)


def _run_cell(cell: Cell, python: str | None) -> None:
    with scratch() as directory, ExitStack() as stack:

        def start(name: str, command: Command) -> Contender:
            return stack.enter_context(_contender(directory, name, command, cell))

        ours = start("agentos", partial(_our_command, cell=cell))
        _wait_for_first_minute(ours)
        peers = [start("naive retry", _peer("naive_retry.py", 1.0, cell))]
        if python is not None:
            router = "litellm_router.py"
            peers.append(start("LiteLLM Router", _peer(router, 0.0, cell, python)))
            peers.append(start("LiteLLM Router, sleep 5", _peer(router, 5.0, cell, python)))
            peers.append(start("LiteLLM proxy, sleep 5", _peer("litellm_proxy.py", 5.0, cell, python)))
        results = [contender.result() for contender in (ours, *peers)]
    print(f"   -- limits {cell.name}")
    _show(results)
    _judge(results[0], cell)


def _show(results: Sequence[Result]) -> None:
    print(f"   {WORKFLOWS} workflows of {CALLS} calls, {WORKERS} workers, {SERVING_GROUPS} groups that serve,")
    print(f"   {GROUP_LIMIT} requests a minute each; the quota's own bound:")
    print(
        f"   {BOUND_SECONDS:g} s from first to last call, as wall is measured. Of the bad keys, the hits are shown."
    )
    print(
        f"   {'':24}{'failed':>7}{'calls':>7}{'429s':>9}{'rejected':>10}{'spent':>9}{'wall':>9}{'/ bound':>9}"
        f"{'CPU/call':>10}"
    )
    for row in results:
        spent = " + ".join(str(hits) for hits in row.spent_hits)
        # A contender that gave work up was not faster than the quota.
        ratio = "-" if row.failed else f"{row.seconds / BOUND_SECONDS:.3f}"
        print(
            f"   {row.name:24}{row.failed:>7}{row.total:>7}{row.limit_share:>9.1%}{row.rejected_hits:>10}{spent:>9}"
            f"{row.seconds:>7.1f} s{ratio:>9}{1000 * row.cpu_seconds / max(row.total, 1):>7.0f} ms"
        )
    for row in results:
        if row.reason:
            print(f"   {row.name} failed first with: {row.reason[:160]}")


def _judge(ours: Result, cell: Cell) -> None:
    verdict(f"{cell.name}: failed items", ours.failed, 0)
    verdict(f"{cell.name}: 429s, share of calls", 100 * ours.limit_share, cell.most_refused, " %")
    verdict("hits on the rejected key", ours.rejected_hits, 1)
    verdict("hits on the spent group's keys", sum(ours.spent_hits), 1)
    verdict("first to last call / the quota's bound", ours.seconds / BOUND_SECONDS, 1.05)


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

    def result(self) -> Result:
        """Wait for its end and read the server's books."""
        for each in self.processes:
            os.waitid(os.P_PID, each.pid, _LOOK)
        words = [_own_word(folder) for folder in sorted(self.folder.glob("part-*"))]
        stats, moments = self.stats(), self.moments()
        return Result(
            name=self.name,
            failed=sum(failed for failed, _ in words),
            reason=next((reason for _, reason in words if reason), ""),
            total=stats["total"],
            limit_hits=stats["by_status"].get("429", 0),
            rejected_hits=stats["hits"].get(REJECTED.name, 0),
            spent_hits=tuple(stats["hits"].get(key.name, 0) for key in SPENT),
            seconds=max(moments, default=0.0) - min(moments, default=0.0),
            cpu_seconds=sum(_cpu_seconds(each.pid) for each in self.processes),
        )

    def moments(self) -> list[float]:
        """When each call came."""
        return [seen["at_seconds"] for seen in _get(f"{self.base_url}/_requests")]


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
        **cell.server,
    }
    path = folder / "provider.json"
    path.write_text(json.dumps(config))
    command = [sys.executable, "-m", "fakes.provider_server", "--config", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.terminate()


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


def _run_unlimited(python: str | None) -> None:
    """One caller, one call after the other: the time between calls is the server's latency and what is added."""
    cell = Cell("none", 0, server={"limits": [], "script": {}})
    contenders: dict[str, Command] = {
        "agentos": _our_loop,
        "naive retry": partial(_loop_of_peer, "naive_retry.py", sys.executable),
    }
    if python is not None:
        contenders["LiteLLM Router"] = partial(_loop_of_peer, "litellm_router.py", python)
        contenders["LiteLLM proxy"] = partial(_loop_of_peer, "litellm_proxy.py", python)
    print(f"   -- no limits: {UNLIMITED_CALLS} calls by one caller, the server takes {1000 * LATENCY_SECONDS:g} ms")
    with scratch() as directory:
        for name, command in contenders.items():
            with _contender(directory, name, command, cell) as contender:
                cpu_seconds, moments = contender.result().cpu_seconds, contender.moments()
            gaps = sorted(after - before for before, after in pairwise(moments))
            added = 1000 * (gaps[len(gaps) // 2] - LATENCY_SECONDS)
            print(f"   {name:24}{added:6.1f} ms added at p50, {cpu_seconds:5.1f} s of CPU with start-up")


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

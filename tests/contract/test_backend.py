"""What every backend keeps: kill, stop, resume, output and order, seen through the protocol alone.

A new backend is one more entry of `BACKENDS`.
"""

from __future__ import annotations

import atexit
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from agentos.engine.backends.forkserver.backend import RUN_ID_VARIABLE, ForkServerBackend
from agentos.engine.backends.protocol import Backend, BackendEvents, LoadFailure, WorkerExit, WorkerSetup
from agentos.engine.backends.ray.backend import ClusterPlan, RayBackend
from agentos.engine.checkpoints.protocol import ItemRef
from agentos.engine.checkpoints.sqlite import SqliteStore
from agentos.engine.claims import FileClaims
from agentos.engine.loop import Loop
from agentos.engine.messages import (
    DownMessage,
    Heartbeat,
    ItemDone,
    ItemFailed,
    ItemOpened,
    ItemStopped,
    NodeReady,
    Proceed,
    StartItem,
    StopItem,
    UpMessage,
)
from agentos.engine.stopping import GRACE
from agentos.keys.redaction import Redactor
from agentos.processes import host
from fakes.ray_cluster import RayCluster

DEADLINE_SECONDS = 300.0
LOOK_AGAIN_SECONDS = 0.01
SECRET = "sk-contract-0123456789abcdef"

FLOW = """
import os, pathlib, signal, subprocess, sys, time
from typing import TypedDict
from langgraph.graph import END, START, StateGraph

class State(TypedDict, total=False):
    first: str
    second: str

def node(name):
    def run(state):
        exec(state.get(name, ""), globals())
        return {}
    return run

def start_child():
    code = "import time; time.sleep(36_000)"
    return subprocess.Popen([sys.executable, "-c", code], start_new_session=True).pid

def wait_for(path):
    while not pathlib.Path(path).exists():
        time.sleep(0.01)

graph = StateGraph(State)
graph.add_node("one", node("first"))
graph.add_node("two", node("second"))
graph.add_edge(START, "one")
graph.add_edge("one", "two")
graph.add_edge("two", END)
"""
"""Two nodes; the item's input is the code that they execute."""


EXTENSION = """
import pathlib

class Noisy:
    def __init__(self, *, workflow, item_id):
        self.name = f"{workflow} {item_id}"
        self.nodes = []

    @staticmethod
    def preload(options, loaded):
        assert "flow" not in options and "langgraph" in loaded
        print("preloads for", options["of"])

    @staticmethod
    def notice(options, loaded):
        return ""

    def begin(self, leases, mask, notes):
        print("begins", self.name, "notes", notes)

    def node_starts(self, node):
        self.nodes.append(node)
        print("starts", node)

    def notes(self):
        return ",".join(self.nodes)

    def stop(self):
        pathlib.Path("stopped").touch()
"""


@dataclass(frozen=True)
class Kind:
    """One backend, and what only its tests know of it."""

    make: Callable[[Loop, BackendEvents, WorkerSetup, FileClaims], Backend]
    lose: Callable[[str], None]
    """Take away what the workers of this run are made with, as a crash would."""
    marks: tuple[pytest.MarkDecorator, ...] = ()
    keeps_claims: bool = False
    """Also its nodes hold claims, until it is closed."""


def _fork_server(*, fork: bool) -> Kind:
    def make(loop: Loop, events: BackendEvents, setup: WorkerSetup, claims: FileClaims) -> Backend:
        redactor = Redactor([SECRET])
        return ForkServerBackend(loop, events, setup, fork=fork, claims_fd=claims.fileno(), redactor=redactor)

    def lose(run_id: str) -> None:
        # By its mark: process numbers start again from the beginning, and other benches have servers too.
        marked = host.processes_with(RUN_ID_VARIABLE, run_id)
        [server] = [pid for pid in marked if host.parent_of(pid) == os.getpid()]
        os.kill(server, signal.SIGKILL)

    return Kind(make, lose)


@cache
def _cluster() -> RayCluster:
    """One for all benches of this process: it takes ten seconds to start."""
    cluster = RayCluster(cpus=16)
    atexit.register(cluster.close)
    os.environ.update(cluster.environment)
    return cluster


def _ray() -> Kind:
    def make(loop: Loop, events: BackendEvents, setup: WorkerSetup, claims: FileClaims) -> Backend:
        return RayBackend(
            loop,
            events,
            setup,
            ClusterPlan(address=_cluster().address, parallel=4),
            project_dir=setup.search_dir,
            fork=True,
            claims_fd=claims.fileno(),
            redactor=Redactor([SECRET]),
        )

    def lose(run_id: str) -> None:
        children = {pid for pid in host.children_of(os.getpid()) if b"ray.bridge" in command_line(pid)}
        for pid in children:
            os.kill(pid, signal.SIGKILL)

    return Kind(make, lose, (pytest.mark.needs_ray,), keeps_claims=True)


def command_line(pid: int) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


BACKENDS = {
    "fork server": _fork_server(fork=True),
    "fork server, spawning": _fork_server(fork=False),
    "ray": _ray(),
}


@dataclass(frozen=True)
class Wrote:
    """Output of a worker among what it said."""

    block: bytes


class Bench:
    """A coordinator's place at a backend: hears everything, and lets each node start unless told otherwise."""

    def __init__(self, kind: Kind, folder: Path, graph: str = "flow.py:graph", extension: str = "") -> None:
        self.kind = kind
        self.folder = folder
        self.loads: list[list[str] | None] = []
        self.failures: list[LoadFailure] = []
        self.losses: list[str] = []
        self.loading_output = b""
        self.notices: list[str] = []
        self.places: int | None = None
        self.heard: dict[str, list[UpMessage | Wrote]] = {}
        self.exits: dict[str, WorkerExit] = {}
        self.waits: set[str] = set()
        """Items whose nodes are not let start."""
        self._enough: Callable[[], object] = lambda: False
        (folder / "flow.py").write_text(FLOW)
        self.loop = Loop()
        self.claims = FileClaims(folder / "claims.lock")
        self.run_id = f"contract-{os.getpid()}-{folder.name}"
        setup = WorkerSetup(
            run_id=self.run_id,
            graph=graph,
            search_dir=folder,
            environment={**os.environ, "PYTHONPATH": str(folder)},
            extension=extension,
            extension_options={"of": "the run"},
        )
        self.backend = kind.make(self.loop, self, setup, self.claims)

    def close(self) -> None:
        self.backend.close(DEADLINE_SECONDS)
        self.claims.close()
        self.loop.close()

    def load(self) -> None:
        self.backend.load()
        count = len(self.loads)
        self.until(lambda: len(self.loads) > count, "the graph to load")

    def start(self, item_id: str, *, attempt: int = 1, **nodes: str) -> None:
        self.exits.pop(item_id, None)
        self.heard[item_id] = []
        self.backend.start(
            StartItem(
                item_id=item_id,
                workflow="contract",
                run_id="contract",
                attempt=attempt,
                input=dict(nodes),
                checkpoint_address=SqliteStore(self.folder).address(ItemRef("contract", item_id)),
                work_dir=str(self.folder),
                fresh=False,
                heartbeat_seconds=5.0,
                stop_grace_seconds=GRACE.worker,
                environment={},
            )
        )

    def finish(self, item_id: str, **nodes: str) -> WorkerExit:
        self.start(item_id, **nodes)
        return self.gone(item_id)

    def gone(self, item_id: str) -> WorkerExit:
        self.until(lambda: item_id in self.exits, f"the end of {item_id}")
        return self.exits[item_id]

    def send(self, item_id: str, message: DownMessage) -> None:
        self.backend.send(item_id, message)

    def said(self, item_id: str, kind: type[Any]) -> list[Any]:
        return [heard for heard in self.heard[item_id] if isinstance(heard, kind)]

    def written(self, item_id: str) -> bytes:
        return b"".join(heard.block for heard in self.heard[item_id] if isinstance(heard, Wrote))

    def until(self, condition: Callable[[], object], what: str) -> None:
        """Turn the loop until it is so."""
        self._enough = condition
        deadline = self.loop.now() + DEADLINE_SECONDS
        if not condition():
            self._look_again()
            too_late = self.loop.after(DEADLINE_SECONDS, self.loop.stop)
            self.loop.run()
            too_late.cancel()
        self._enough = lambda: False
        assert self.loop.now() < deadline, (
            f"waited in vain for {what}; {self.loading_output!r} {self.failures} {self.heard}"
        )

    def until_file(self, name: str) -> Path:
        path = self.folder / name
        self.until(path.exists, name)
        return path

    def _look_again(self) -> None:
        if self._enough():
            self.loop.stop()
        else:
            self.loop.after(LOOK_AGAIN_SECONDS, self._look_again)

    # What the backend tells.

    def loaded(self, input_keys: list[str] | None, notice: str = "", node: str = "") -> None:
        self.loads.append(input_keys)

    def load_failed(self, failure: LoadFailure) -> None:
        self.failures.append(failure)

    def lost(self, reason: str) -> None:
        self.losses.append(reason)

    def noticed(self, text: str) -> None:
        self.notices.append(text)

    def worker_reached(self, item_id: str, port: int) -> None:
        """Nothing serves workers here."""

    def places_changed(self, count: int) -> None:
        self.places = count

    def failing(self, reason: str) -> None:
        self.notices.append(reason)

    def loading(self, pid: int, node: str = "") -> None:
        pass

    def loading_wrote(self, block: bytes) -> None:
        self.loading_output += block

    def worker_said(self, item_id: str, message: UpMessage) -> None:
        assert item_id not in self.exits, "nothing comes after the end"
        if isinstance(message, Heartbeat):
            return
        self.heard[item_id].append(message)
        if isinstance(message, NodeReady) and item_id not in self.waits:
            self.send(item_id, Proceed())

    def worker_wrote(self, item_id: str, block: bytes) -> None:
        assert item_id not in self.exits, "nothing comes after the end"
        self.heard[item_id].append(Wrote(block))

    def worker_gone(self, item_id: str, end: WorkerExit) -> None:
        assert item_id not in self.exits, "an end comes once"
        self.exits[item_id] = end


@contextmanager
def benched(kind: Kind, folder: Path, graph: str = "flow.py:graph", extension: str = "") -> Iterator[Bench]:
    bench = Bench(kind, folder, graph, extension)
    try:
        yield bench
    finally:
        bench.close()


@pytest.fixture(
    scope="module", params=[pytest.param(name, marks=each.marks, id=name) for name, each in BACKENDS.items()]
)
def kind(request: pytest.FixtureRequest) -> Kind:
    return BACKENDS[request.param]


@pytest.fixture(scope="module")
def shared(kind: Kind, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """Loaded once, for tests that do nothing to the backend as a whole."""
    with benched(kind, tmp_path_factory.mktemp("shared")) as bench:
        bench.load()
        yield bench


@pytest.fixture
def own(kind: Kind, tmp_path: Path) -> Iterator[Bench]:
    with benched(kind, tmp_path) as bench:
        bench.load()
        yield bench


def is_alive(pid: int) -> bool:
    return host.parent_of(pid) is not None


def nodes_of(bench: Bench, item_id: str) -> list[str]:
    return [ready.node for ready in bench.said(item_id, NodeReady)]


# From start to end.


def test_an_item_goes_from_node_to_node_and_its_worker_leaves(shared: Bench) -> None:
    assert shared.finish("plain") == WorkerExit(code=0)
    opened, one, two, done = shared.heard["plain"]
    assert isinstance(opened, ItemOpened)
    assert opened.resumed_after is None
    assert isinstance(one, NodeReady)
    assert isinstance(two, NodeReady)
    assert [one.node, one.finished, two.node, [node for node, _ in two.finished]] == ["one", [], "two", ["one"]]
    assert isinstance(done, ItemDone)


def test_a_node_starts_when_it_may_and_not_before(shared: Bench, tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    shared.waits.add("patient")
    shared.start("patient", first=f"pathlib.Path({str(marker)!r}).touch()")
    shared.until(lambda: shared.said("patient", NodeReady), "the first node")
    assert not marker.exists()
    shared.waits.remove("patient")
    shared.send("patient", Proceed())
    assert shared.gone("patient").code == 0
    assert marker.exists()


def test_workers_run_side_by_side(shared: Bench, tmp_path: Path) -> None:
    """Each waits for the other."""
    for own_name, other in (("left", "right"), ("right", "left")):
        shared.start(
            own_name, first=f"pathlib.Path({str(tmp_path / own_name)!r}).touch()\nwait_for({str(tmp_path / other)!r})"
        )
    assert [shared.gone(item_id).code for item_id in ("left", "right")] == [0, 0]


def test_what_a_node_raises_is_said_by_name(shared: Bench) -> None:
    assert shared.finish("raises", second="raise LookupError('no such thing')").code == 0
    [failed] = shared.said("raises", ItemFailed)
    assert failed.error_type == "LookupError"
    assert "no such thing" in failed.traceback


@pytest.mark.parametrize(
    ("deed", "code"), [("os._exit(3)", 3), ("os.kill(os.getpid(), signal.SIGSEGV)", -signal.SIGSEGV)]
)
def test_a_worker_that_dies_takes_nobody_with_it_and_its_exit_says_how(shared: Bench, deed: str, code: int) -> None:
    shared.start(f"beside-{code}")
    assert shared.finish(f"dies-{code}", first=deed).code == code
    assert shared.gone(f"beside-{code}").code == 0
    assert not shared.said(f"dies-{code}", ItemDone)
    assert not shared.said(f"dies-{code}", ItemFailed)


# Output and order.


def test_output_comes_whole_and_in_its_place_among_the_nodes(shared: Bench) -> None:
    shared.finish(
        "speaks", first="print('from one')", second="print('from two'); print('to stderr', file=sys.stderr)"
    )
    kinds = [heard.block if isinstance(heard, Wrote) else type(heard) for heard in shared.heard["speaks"]]
    assert kinds[:4] == [ItemOpened, NodeReady, b"from one\n", NodeReady]
    assert b"".join(kind for kind in kinds[4:-1] if isinstance(kind, bytes)) == b"from two\nto stderr\n"
    assert kinds[-1] is ItemDone


def test_the_last_words_of_a_worker_that_dies_are_heard(shared: Bench) -> None:
    shared.finish("last", first="os.write(1, b'no newline'); os._exit(1)")
    assert shared.written("last").rstrip(b"\n") == b"no newline"


def test_a_line_without_its_end_is_shown_while_its_writer_waits(shared: Bench, tmp_path: Path) -> None:
    go = tmp_path / "go"
    shared.start("asks", first=f"os.write(1, b'name? '); wait_for({str(go)!r})")
    shared.until(lambda: b"name?" in shared.written("asks"), "the prompt")
    go.touch()
    assert shared.gone("asks").code == 0


def test_secrets_and_control_sequences_are_not_in_the_output(shared: Bench) -> None:
    shared.finish("leaky", first=f"print({SECRET!r}); print('\\x1b[2Jcleared')")
    assert SECRET.encode() not in shared.written("leaky")
    assert b"\x1b[2J" not in shared.written("leaky")
    assert b"cleared\n" in shared.written("leaky")


def test_a_secret_that_is_broken_over_lines_and_writes_is_not_in_the_output(shared: Bench) -> None:
    first, rest = f"{SECRET[:12]}\n".encode(), f"{SECRET[12:]}\n".encode()
    shared.finish("breaks", first=f"os.write(1, {first!r}); time.sleep(0.5); os.write(1, {rest!r})")
    written = shared.written("breaks")
    assert len(written.replace(b"\n", b"")) == len(SECRET)
    assert not any(part.strip() in written for part in (first, rest))


def test_while_output_is_paused_nothing_is_heard_and_then_all_of_it_in_order(shared: Bench) -> None:
    shared.waits.add("unread")
    shared.start("unread", first="print('before'); pathlib.Path('printed').touch()", second="print('after')")
    shared.until(lambda: nodes_of(shared, "unread"), "the first node")
    shared.backend.pause_output()
    shared.waits.remove("unread")
    shared.send("unread", Proceed())
    try:
        shared.until_file("printed")
        assert nodes_of(shared, "unread") == ["one"]
        assert shared.written("unread") == b""
    finally:
        shared.backend.resume_output()
    assert shared.gone("unread").code == 0
    kinds = [heard.block if isinstance(heard, Wrote) else type(heard) for heard in shared.heard["unread"]]
    assert kinds == [ItemOpened, NodeReady, b"before\n", NodeReady, b"after\n", ItemDone]


def test_a_stop_does_not_wait_for_a_slow_reader(own: Bench) -> None:
    own.waits.add("unread")
    own.start("unread", first="print('before')", second="time.sleep(36_000)")
    own.until(lambda: nodes_of(own, "unread"), "the first node")
    own.backend.pause_output()
    own.waits.remove("unread")
    own.send("unread", Proceed())
    own.backend.hold_nothing_back()
    own.until(lambda: nodes_of(own, "unread") == ["one", "two"], "the second node")
    assert own.written("unread") == b"before\n"
    own.backend.kill("unread")
    own.gone("unread")


# Stop, kill, resume.


def test_a_worker_that_is_told_to_stop_says_so_and_leaves(shared: Bench, tmp_path: Path) -> None:
    busy = tmp_path / "busy"
    shared.start("stopped", first=f"pathlib.Path({str(busy)!r}).touch(); time.sleep(36_000)")
    shared.until(busy.exists, "the node to run")
    shared.send("stopped", StopItem())
    assert shared.gone("stopped").code == 0
    assert isinstance(shared.heard["stopped"][-1], ItemStopped)


def test_a_kill_ends_the_worker_and_what_it_started_and_nobody_else(shared: Bench, tmp_path: Path) -> None:
    child_file, go = tmp_path / "child", tmp_path / "go"
    tell = f"pathlib.Path({str(child_file)!r}).write_text(str(start_child()))"
    shared.start("victim", first=f"{tell}\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\ntime.sleep(36_000)")
    shared.start("beside-a-kill", first=f"wait_for({str(go)!r})")
    shared.until(lambda: child_file.exists() and child_file.read_text(), "the child")
    shared.backend.kill("victim")
    assert shared.gone("victim").code not in (0, None)
    shared.until(lambda: not is_alive(int(child_file.read_text())), "the end of the child")
    go.touch()
    assert shared.gone("beside-a-kill").code == 0


def test_a_kill_right_after_the_start_is_not_lost(shared: Bench) -> None:
    shared.start("brief", first="time.sleep(36_000)")
    shared.backend.kill("brief")
    assert shared.gone("brief").code not in (0, None)


def test_what_a_worker_leaves_behind_is_ended_and_reported(shared: Bench, tmp_path: Path) -> None:
    child_file = tmp_path / "child"
    end = shared.finish("leaves", first=f"pathlib.Path({str(child_file)!r}).write_text(str(start_child()))")
    pid = int(child_file.read_text())
    assert end == WorkerExit(code=0, leaked=(pid,))
    shared.until(lambda: not is_alive(pid), "the end of the child")


def test_a_worker_uses_the_extension_it_is_told_of_and_keeps_its_notes(kind: Kind, tmp_path: Path) -> None:
    with benched(kind, tmp_path, extension="noisy:Noisy") as bench:
        (tmp_path / "noisy.py").write_text(EXTENSION)
        bench.load()
        # The interrupted node leaves once the extension has heard of the stop: the two come from different threads.
        nodes = {"second": "try:\n    wait_for('go')\nexcept KeyboardInterrupt:\n    wait_for('stopped')\n    raise"}
        bench.start("extended", **nodes)
        bench.until(lambda: b"starts two\n" in bench.written("extended"), "the second node")
        assert bench.written("extended") == b"begins contract extended notes \nstarts one\nstarts two\n"
        bench.send("extended", StopItem())
        bench.gone("extended")
        assert (tmp_path / "stopped").exists()
        (tmp_path / "go").touch()
        bench.start("extended", **nodes)
        bench.gone("extended")
        assert bench.written("extended") == b"begins contract extended notes one\nstarts two\n"


def test_an_item_that_was_killed_resumes_after_its_last_finished_node(shared: Bench, tmp_path: Path) -> None:
    busy, go = tmp_path / "busy", tmp_path / "go"
    nodes = {"first": "print('once')", "second": f"pathlib.Path({str(busy)!r}).touch(); wait_for({str(go)!r})"}
    shared.start("resumes", **nodes)
    shared.until(busy.exists, "the second node")
    shared.backend.kill("resumes")
    shared.gone("resumes")
    go.touch()
    shared.start("resumes", attempt=2, **nodes)
    assert shared.gone("resumes").code == 0
    assert shared.said("resumes", ItemOpened)[0].resumed_after == "one"
    assert nodes_of(shared, "resumes") == ["two"]
    assert shared.written("resumes") == b""


def test_words_to_an_item_without_a_worker_go_nowhere(shared: Bench) -> None:
    shared.send("nobody", Proceed())
    shared.backend.kill("nobody")
    assert not shared.backend.is_suspended("nobody")


def test_workers_can_be_suspended_and_continued(shared: Bench, tmp_path: Path) -> None:
    busy, go = tmp_path / "busy", tmp_path / "go"
    shared.start("sleeper", first=f"pathlib.Path({str(busy)!r}).touch(); wait_for({str(go)!r})")
    shared.until(busy.exists, "the node to run")
    shared.backend.suspend_all()
    shared.until(lambda: shared.backend.is_suspended("sleeper"), "suspension")
    go.touch()
    shared.backend.continue_all()
    assert shared.gone("sleeper").code == 0


def test_a_worker_holds_its_claim_as_long_as_it_lives(own: Bench) -> None:
    assert own.claims.take("contract/held")
    own.waits.add("held")
    own.start("held")
    own.until(lambda: own.said("held", ItemOpened), "the item to open")
    own.claims.close()
    own.claims = FileClaims(own.folder / "claims.lock")
    assert not own.claims.take("contract/held")
    own.backend.kill("held")
    own.gone("held")
    if own.kind.keeps_claims:
        own.backend.close(DEADLINE_SECONDS)
    assert own.claims.take("contract/held")


# The backend as a whole.


def test_loading_tells_the_keys_of_the_input_and_what_was_printed(kind: Kind, tmp_path: Path) -> None:
    with benched(kind, tmp_path, "talks.py:graph") as bench:
        # As long as it is not over, the last letter might be the beginning of the secret.
        (tmp_path / "talks.py").write_text(f"print('loading speaks')\n{FLOW}")
        bench.load()
        assert sorted(bench.loads[0] or []) == ["first", "second"]
        assert bench.loading_output == b"loading speaks\n"


def test_a_graph_that_does_not_load_is_told_once_with_its_place(kind: Kind, tmp_path: Path) -> None:
    with benched(kind, tmp_path, "broken.py:graph") as bench:
        (tmp_path / "broken.py").write_text("raise LookupError('not today')")
        bench.backend.load()
        bench.until(lambda: bench.failures, "the failure")
        bench.backend.close(DEADLINE_SECONDS)
        [failure] = bench.failures
    assert "not today" in failure.message
    assert failure.place.endswith("broken.py, line 1")
    assert not failure.is_usage
    assert bench.losses == bench.loads == []


def test_a_graph_that_takes_the_process_with_it_is_a_failure_to_load(kind: Kind, tmp_path: Path) -> None:
    with benched(kind, tmp_path, "deadly.py:graph") as bench:
        (tmp_path / "deadly.py").write_text("import os; os.abort()")
        bench.backend.load()
        bench.until(lambda: bench.failures, "the failure")
        assert "deadly.py:graph" in bench.failures[0].message


def test_a_lost_backend_tells_and_loads_again_and_items_resume(own: Bench) -> None:
    nodes = {"second": "wait_for('go')"}
    own.start("survivor", **nodes)
    own.until(lambda: nodes_of(own, "survivor") == ["one", "two"], "the second node")
    own.kind.lose(own.run_id)
    assert own.gone("survivor") == WorkerExit(code=None)
    assert len(own.losses) == 1
    own.load()
    (own.folder / "go").touch()
    own.start("survivor", **nodes)
    assert own.gone("survivor").code == 0
    assert own.said("survivor", ItemOpened)[0].resumed_after == "one"


def test_nothing_is_alive_after_close(own: Bench) -> None:
    tell = "pathlib.Path('pids').write_text(f'{os.getpid()} {start_child()}')"
    own.start("running", first=f"{tell}\ntime.sleep(36_000)")
    pids = own.until_file("pids")
    own.until(pids.read_text, "the numbers")
    own.backend.close(DEADLINE_SECONDS)
    assert [pid for pid in map(int, pids.read_text().split()) if is_alive(pid)] == []
    own.backend.close(DEADLINE_SECONDS)


def test_close_ends_a_graph_that_never_finishes_loading(kind: Kind, tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    with benched(kind, tmp_path, "endless.py:graph") as bench:
        tell = f"pathlib.Path({str(pid_file)!r}).write_text(str(os.getpid()))"
        (tmp_path / "endless.py").write_text(f"import os, pathlib, time\n{tell}\ntime.sleep(36_000)")
        bench.backend.load()
        bench.until(lambda: pid_file.exists() and pid_file.read_text(), "the module to load")
        bench.backend.close(DEADLINE_SECONDS)
        assert not is_alive(int(pid_file.read_text()))

"""A node's process: it holds a real fork server, and ends everything when it is left alone."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentos.engine.backends.ray.messages import (
    BEAT,
    Begin,
    End,
    FromNode,
    Gone,
    Hello,
    KillWorker,
    Load,
    Loaded,
    NotLoaded,
    Said,
    StartWorker,
    Tell,
    ToNode,
    Wrote,
    from_node,
    to_node,
)
from agentos.engine.backends.ray.same_machine import MeetingPlace, identity_of
from agentos.engine.checkpoints.protocol import ItemRef
from agentos.engine.checkpoints.sqlite import SqliteStore
from agentos.engine.loop import Loop
from agentos.engine.messages import ItemDone, NodeReady, Proceed, StartItem
from agentos.processes import host

FLOW = """
import os, pathlib, time
from typing import TypedDict
from langgraph.graph import END, START, StateGraph

class State(TypedDict, total=False):
    seconds: float

def one(state):
    print("at work")
    pathlib.Path("pid").write_text(str(os.getpid()))
    time.sleep(state.get("seconds", 0))
    return {}

graph = StateGraph(State)
graph.add_node("one", one)
graph.add_edge(START, "one")
graph.add_edge("one", END)
"""


class NodeBench:
    """The supervisor's and the coordinator's place at once."""

    def __init__(self, folder: Path, path: str, word: str) -> None:
        self.folder = folder
        self._path, self._word = path, word
        self._socket, theirs = socket.socketpair()
        command = [sys.executable, "-P", "-m", "agentos.engine.backends.ray.node", str(theirs.fileno())]
        self.process = subprocess.Popen(command, pass_fds=[theirs.fileno()], start_new_session=True)
        theirs.close()
        self._socket.settimeout(0.2)
        self._buffer = b""

    def say(self, message: ToNode) -> None:
        self._socket.sendall(to_node.encode(message))

    def begin(self, graph: str = "flow.py:graph") -> None:
        self.say(
            Begin(
                run_id=f"unit-{os.getpid()}",
                graph=graph,
                search_dir=str(self.folder),
                project_dir=str(self.folder),
                project_identity=identity_of(str(self.folder)),
                python="",
                extension="",
                extension_options={},
                fork=True,
                checkpoint_address="",
                service_port=0,
                meeting_path=self._path,
                meeting_word=self._word,
            )
        )

    def load(self) -> None:
        self.say(Load(environment=dict(os.environ)))

    def start(self, item_id: str, **inputs: float) -> None:
        address = SqliteStore(self.folder).address(ItemRef("unit", item_id))
        message = StartItem(
            item_id=item_id,
            workflow="unit",
            run_id="unit",
            attempt=1,
            input=inputs,
            checkpoint_address=address,
            work_dir=str(self.folder),
            fresh=False,
            heartbeat_seconds=5.0,
            stop_grace_seconds=2.0,
            environment={},
        )
        self.say(StartWorker(message=message))

    def until(self, kind: type[FromNode], *, beats: bool = True) -> FromNode:
        """The next message of this kind. Signs of life go down meanwhile."""
        for _ in range(300):
            while b"\n" in self._buffer:
                line, _, self._buffer = self._buffer.partition(b"\n")
                message = from_node.decode(line)
                if isinstance(message, kind):
                    return message
            if beats:
                self._socket.sendall(BEAT)
            try:
                data = self._socket.recv(1 << 16)
            except TimeoutError:
                continue
            assert data, f"the node ended before {kind.__name__}"
            self._buffer += data
        raise AssertionError(f"{kind.__name__} never came")

    def worker(self) -> int:
        for _ in range(300):
            path = self.folder / "pid"
            if path.exists() and path.read_text():
                return int(path.read_text())
            self._socket.sendall(BEAT)
            self.process.poll()
            try:
                self._buffer += self._socket.recv(1 << 16)
            except TimeoutError:
                continue
        raise AssertionError("no worker")

    def close(self) -> None:
        self._socket.close()
        self.process.wait(30)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[NodeBench]:
    (tmp_path / "flow.py").write_text(FLOW)
    made = NodeBench(tmp_path, str(tmp_path / "nobody"), "word")
    yield made
    made.close()


def test_an_item_runs_as_on_one_machine(bench: NodeBench) -> None:
    bench.begin()
    assert bench.until(Hello) == Hello(is_here=False, pid=bench.process.pid)
    bench.load()
    loaded = bench.until(Loaded)
    assert isinstance(loaded, Loaded)
    assert loaded.input_keys == ["seconds"]
    bench.start("a")
    while not (isinstance(said := bench.until(Said), Said) and isinstance(said.message, NodeReady)):
        pass
    bench.say(Tell(item_id="a", message=Proceed()))
    assert bench.until(Wrote) == Wrote(item_id="a", block="at work\n")
    while not (isinstance(said := bench.until(Said), Said) and isinstance(said.message, ItemDone)):
        pass
    assert bench.until(Gone) == Gone(item_id="a", is_lost=False, code=0, leaked=[], fault="")
    bench.say(End(within_seconds=5.0))
    assert bench.process.wait(30) == 0


def test_a_kill_is_heard_of(bench: NodeBench) -> None:
    bench.begin()
    bench.load()
    bench.until(Loaded)
    bench.start("a", seconds=36_000.0)
    bench.until(Said)
    bench.say(KillWorker(item_id="a"))
    gone = bench.until(Gone)
    assert isinstance(gone, Gone)
    assert gone.code == -9


def test_a_graph_that_does_not_load_is_told(bench: NodeBench) -> None:
    bench.begin("nowhere.py:graph")
    bench.load()
    failed = bench.until(NotLoaded)
    assert isinstance(failed, NotLoaded)
    assert "nowhere.py" in failed.message


@pytest.mark.parametrize("cut", ["silence", "end of the connection"])
def test_left_alone_it_ends_its_workers_and_itself(bench: NodeBench, cut: str) -> None:
    bench.begin()
    bench.load()
    bench.until(Loaded)
    bench.start("a", seconds=36_000.0)
    while not (isinstance(said := bench.until(Said), Said) and isinstance(said.message, NodeReady)):
        pass
    bench.say(Tell(item_id="a", message=Proceed()))
    worker = bench.worker()
    assert host.parent_of(worker) is not None
    if cut == "silence":
        assert bench.process.wait(60) == 0
    else:
        bench.close()
    assert host.parent_of(worker) is None


def test_who_finds_the_meeting_place_is_on_this_machine(tmp_path: Path) -> None:
    (tmp_path / "flow.py").write_text(FLOW)
    loop = Loop()
    with (tmp_path / "lock").open("w") as lock:
        place = MeetingPlace(loop, lock.fileno())
        bench = NodeBench(tmp_path, place.path, place.word)
        try:
            bench.begin()
            threading.Thread(target=loop.run).start()
            assert bench.until(Hello) == Hello(is_here=True, pid=bench.process.pid)
        finally:
            bench.close()
            loop.post(loop.stop)
            place.close()
    assert not Path(place.path).exists()

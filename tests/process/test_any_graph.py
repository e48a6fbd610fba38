"""A graph of whatever kind is run as its author runs it, and items never get each other's state."""

from __future__ import annotations

import socketserver
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness import Sandbox, of_type

CONNECTED = """
    import socket
    from tempfile import TemporaryDirectory
    from typing import TypedDict
    from langgraph.graph import START, StateGraph

    server = socket.create_connection(("127.0.0.1", {port}))  # As a vector store that is filled at import has one.

    desk = TemporaryDirectory()  # As the tools of LangGraph's teams share one.

    class State(TypedDict, total=False):
        question: str
        outcome: str

    def ask(state):
        open(f"{{desk.name}}/{{state['question']}}", "w").close()
        for _ in range(20):
            server.sendall(state["question"].encode() + b"\\n")
            answer = server.recv(100).decode().strip()
            if answer != "re: " + state["question"]:
                return {{"outcome": "wrong"}}
        return {{"outcome": "right"}}

    graph = StateGraph(State)
    graph.add_node("ask", ask)
    graph.add_edge(START, "ask")
"""

RANDOM = """
    import random, ssl, uuid
    from typing import TypedDict
    from langgraph.graph import START, StateGraph
    import numpy, torch

    random.seed(7)
    own = random.Random()
    numpy.random.seed(7)
    torch.manual_seed(7)

    class State(TypedDict, total=False):
        outcome: str

    graph = StateGraph(State)
    graph.add_node("draw", lambda _: {"outcome": " ".join(map(str, [
        random.random(), uuid.uuid4(), uuid.uuid1(), ssl.RAND_bytes(8).hex(), numpy.random.random(), torch.rand(),
        own.random(),
    ]))})
    graph.add_edge(START, "draw")
"""

STAND_INS = {
    "numpy.py": """
        import types
        from random import Random

        class ndarray: ...

        _generator = Random(0)
        random = types.SimpleNamespace(seed=_generator.seed, random=_generator.random)
    """,
    "torch.py": """
        from random import Random, SystemRandom

        _generator = Random(0)
        manual_seed, rand = _generator.seed, _generator.random

        def seed():
            manual_seed(SystemRandom().getrandbits(64))
    """,
}
"""Libraries that are too large to install for a test, as far as their generators go."""

CHAIN = """
    import os
    from typing import TypedDict
    from langgraph.graph import START, StateGraph

    class State(TypedDict, total=False):
        outcome: str

    def second(_):
        if "3" not in os.environ["AGENTOS_ITEM_ID"] and not os.path.exists(os.environ["JOURNAL"] + "-go"):
            raise ValueError("not yet")

    graph = StateGraph(State)
    graph.add_node("first", lambda _: {"outcome": "NAME"})
    graph.add_node("second", second)
    graph.add_edge(START, "first")
    graph.add_edge("first", "second")
"""


def write(sandbox: Sandbox, name: str, source: str) -> Path:
    path = sandbox.project / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(source))
    return path


class _Answers(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        for line in self.rfile:
            self.wfile.write(b"re: " + line)


@pytest.fixture
def answering_port() -> Iterator[int]:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Answers) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


def test_what_loading_leaves_open_is_no_items_to_share(sandbox: Sandbox, answering_port: int) -> None:
    write(sandbox, "connected.py", CONNECTED.format(port=answering_port))
    names = [f"i{number}" for number in range(6)]
    sandbox.write_items(*({"id": name, "input": {"question": name}} for name in names))

    done = sandbox.run("--parallel", "3", graph="connected.py:graph")

    assert done.code == 0, done
    assert set(sandbox.outcomes().values()) == {"right"}
    told = "loading the graph leaves open a connection, a temporary folder: each worker loads it by itself"
    assert [line for line in done.lines if told in line] == [f"[COORDINATOR] Warning: {told}"]


def test_no_two_items_draw_the_same_numbers(sandbox: Sandbox) -> None:
    write(sandbox, "draws.py", RANDOM)
    for name, source in STAND_INS.items():
        write(sandbox, name, source)
    sandbox.write_items(*({"id": f"i{number}"} for number in range(4)))

    assert sandbox.run("--parallel", "2", graph="draws.py:graph").code == 0

    drawn = [outcome.split() for outcome in sandbox.outcomes().values()]
    assert [len(set(each)) for each in zip(*drawn, strict=True)] == [4] * 7


def test_graphs_of_one_repository_do_not_share_their_items_state(sandbox: Sandbox) -> None:
    """The two that are easiest to take for one; tests/unit/engine/test_graph_spec.py names more."""
    (sandbox.project / ".git").mkdir()
    folders = ["a-b", "a_b"]
    for folder in folders:
        write(sandbox, f"{folder}/graph.py", CHAIN.replace("NAME", folder))
    sandbox.write_items({"id": "i"}, {"id": "j"})

    def run_each() -> list[str]:
        endings = []
        for folder in folders:
            sandbox.run(graph="graph.py:graph", cwd=sandbox.project / folder)
            endings.append(sandbox.outcomes()["i"])
        return endings

    assert run_each() == ["failed"] * 2
    (sandbox.root / "journal.txt-go").touch()
    # The first node's word is in the checkpoint that the item resumes from.
    assert run_each() == folders


def test_an_item_that_was_done_alone_is_not_done_again_with_the_rest(sandbox: Sandbox) -> None:
    write(sandbox, "chain.py", CHAIN)
    sandbox.write_items({"id": "i2"}, {"id": "i3"})
    assert sandbox.run(graph="chain.py:graph").code == 1
    (sandbox.root / "journal.txt-go").touch()
    assert sandbox.run("i2", graph="chain.py:graph").code == 0
    before = len(of_type(sandbox.records(), "item_started"))

    assert sandbox.run(graph="chain.py:graph").code == 0

    assert len(of_type(sandbox.records(), "item_started")) == before
    # The batch is through: the same command starts over.
    assert sandbox.run(graph="chain.py:graph").code == 0
    assert len(of_type(sandbox.records(), "item_started")) == before + 2

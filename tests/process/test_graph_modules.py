"""What a graph's module does while it loads, and how it is called, does not get in the way of the run."""

from __future__ import annotations

import json
import signal
import textwrap

import pytest
from harness import Sandbox
from test_any_graph import write

MODULE = """
from steps import graph
"""

HABITS = """
    import signal, sys, threading, time
    threading.Thread(target=time.sleep, args=(600,)).start()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD, signal.SIGINT})
    sys.stdout = None
"""
"""A thread that never ends, blocked signals, no stdout."""


def write_module(sandbox: Sandbox, name: str, source: str) -> str:
    (sandbox.project / "graphs" / name).write_text(textwrap.dedent(source) + MODULE)
    return f"graphs/{name}:graph"


def test_what_a_module_does_on_import_neither_holds_nor_breaks_the_run(sandbox: Sandbox) -> None:
    sandbox.write_items({"id": "a"}, {"id": "b"})

    done = sandbox.run(graph=write_module(sandbox, "habits.py", HABITS))

    assert done.code == 0, done
    assert sandbox.outcomes() == {"a": "completed", "b": "completed"}


def test_what_native_code_prints_on_import_is_said_once_and_not_by_every_item(sandbox: Sandbox) -> None:
    sandbox.write_items({"id": "a"}, {"id": "b"})
    source = """
        import ctypes
        ctypes.CDLL(None).puts(b"native greeting")
    """

    # Set in some shells, it would keep the C library from keeping anything.
    done = sandbox.run(graph=write_module(sandbox, "greets.py", source), env={"PYTHONUNBUFFERED": ""})

    assert done.code == 0, done
    assert [line for line in done.lines if "native greeting" in line] == [
        "[COORDINATOR] Warning: while loading the graph: native greeting"
    ]


def test_files_may_be_called_like_modules_that_the_engine_uses(sandbox: Sandbox) -> None:
    sandbox.write_items({"id": "a"})
    for name in ("select.py", "json.py"):
        write_module(sandbox, name, "")

    done = sandbox.run(graph=write_module(sandbox, "agentos.py", ""))

    assert done.code == 0, done


ERRORS = {
    "endless text": ("raise ValueError('long ' + 'x' * 3_000_000)", "ValueError: long xxx"),
    "no text": (
        """
        class Unprintable(Exception):
            def __str__(self):
                raise RuntimeError
        raise Unprintable
        """,
        "Unprintable: (its text cannot be shown)",
    ),
}


@pytest.mark.parametrize("case", ERRORS)
def test_whatever_error_a_module_raises_is_named(sandbox: Sandbox, case: str) -> None:
    source, words = ERRORS[case]
    sandbox.write_items({"id": "a"})

    done = sandbox.run(graph=write_module(sandbox, "fails.py", source))

    assert done.code == 2
    assert words in done.stderr
    assert len(done.stderr) < 20_000


def test_a_run_started_with_its_signals_blocked_stops_all_the_same(sandbox: Sandbox) -> None:
    sandbox.write_items({"id": "a", "input": {"tasks": {"n2": "wait never"}}})
    blocked = (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    # The mask is inherited: the parent's own is put back at once.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, blocked)
    try:
        run = sandbox.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    sandbox.wait_for_note("a n2 start")

    run.kill(signal.SIGTERM)

    assert run.wait().code == 130
    assert sandbox.outcomes() == {"a": "interrupted"}


READS_OPTIONS = """
    import argparse
    from typing import TypedDict
    from langgraph.graph import START, StateGraph

    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="small")
    options = parser.parse_args()

    class State(TypedDict, total=False):
        said: str

    graph = StateGraph(State)
    graph.add_node("say", lambda _: {"said": f"{parser.prog} {options.model}"})
    graph.add_edge(START, "say")
"""


def test_a_module_that_reads_options_while_it_loads_sees_its_own_name_and_none(sandbox: Sandbox) -> None:
    write(sandbox, "flow.py", READS_OPTIONS)
    sandbox.write_items({"id": "a"})

    done = sandbox.run("--output", "-", graph="flow.py:graph")

    assert done.code == 0, done
    assert json.loads(done.lines[0])["state"] == {"said": "flow.py small"}

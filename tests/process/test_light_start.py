"""A run loads what it needs: not what only other runs need, in the command or in what workers are made of."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from harness import Sandbox

LOADED_AT_THE_END = """
import json, sys
from agentos.cli.main import main
status = main(sys.argv[1:])
sys.stderr.write("\\n" + json.dumps({"status": status, "modules": sorted(sys.modules)}))
"""

FOR_OTHER_RUNS = {
    *("agentos.documents", "agentos.codebase", "agentos.sources", "agentos.git", "agentos.workflows.awaiting_review"),
    *("agentos.dashboard", "agentos.launch.notify", "agentos.reporters.notifications"),
    *(
        "agentos.gateway.routing",
        "agentos.keys.shared_pool",
        "agentos.keys.home_socket",
        "agentos.keys.home_messages",
    ),
    *("agentos.page", "agentos.sandbox", "agentos.workstreams", "agentos.workflows.drafting"),
    *("agentos.engine.backends.ray", "agentos.engine.checkpoints.postgres", "agentos.engine.graph"),
    *("langgraph", "langchain_core", "pydantic", "httpx", "httpx2", "asyncio", "ssl", "rich", "multiprocessing"),
    *("agentos.engine.backends.forkserver.server", "agentos.engine.backends.forkserver.leftovers"),
    *("statistics", "email", "difflib", "csv", "importlib.resources", "sqlite3", "tomllib"),
}
"""Documents and git, a live block, messages to a person, a pool of keys, a cluster, a database, another process."""

FOR_RUNS = {
    *("agentos.events", "agentos.reporters.wording", "agentos.records.runs", "agentos.launch"),
    *("agentos.engine.coordinator", "agentos.engine.interpreter", "agentos.engine.store_index", "agentos.keys.pool"),
    *("agentos.keys.day_budget", "agentos.llm", "random", "subprocess", "socket", "threading", "ctypes", "tempfile"),
}
"""What happens in a run, and what only some previews look at."""

GRAPH = """
    import sys
    from typing import TypedDict
    from langgraph.graph import START, StateGraph

    class State(TypedDict, total=False):
        outcome: str

    def look(state):
        if "langsmith.types" not in sys.modules:
            return {"outcome": "not there"}
        was_loaded = [name for name in ("langsmith.types.run", "langgraph_sdk.client") if name in sys.modules]
        from langgraph.pregel.remote import RemoteGraph
        from langsmith.types import Run
        remote = RemoteGraph("elsewhere", url="http://localhost:1", api_key="none")
        return {"outcome": f"loaded before: {was_loaded}; now {Run.__name__}, {remote.name}"}

    graph = StateGraph(State)
    graph.add_node("look", look)
    graph.add_edge(START, "look")
"""

PLAIN_GRAPH = """
    from typing import TypedDict
    from langgraph.graph import START, StateGraph

    class State(TypedDict, total=False):
        outcome: str

    graph = StateGraph(State)
    graph.add_node("only", lambda _: {"outcome": "fine"})
    graph.add_edge(START, "only")
"""


GRAPH_WITH_HTTPX = """
    import sys
    from typing import TypedDict
    import httpx
    from langgraph.graph import START, StateGraph

    class State(TypedDict, total=False):
        outcome: str

    def look(state):
        is_whole = callable(httpx.main) and httpx.Client().timeout.read == 5
        return {"outcome": f"whole: {is_whole}; its command line: {'httpx._main' in sys.modules}"}

    graph = StateGraph(State)
    graph.add_node("look", look)
    graph.add_edge(START, "look")
"""


FOR_TERMINALS = {"rich", "click", "pygments"}


def loaded_at_all(told: str) -> set[str]:
    """By what Python tells when it is asked how long each import takes."""
    return {line.rpartition("|")[2].strip() for line in told.splitlines()}


def loaded_by_run(folder: Path, *options: str) -> tuple[str, set[str]]:
    """What the command prints, and the modules it has loaded in the end."""
    (folder / "flow.py").write_text(textwrap.dedent(PLAIN_GRAPH))
    (folder / "items.jsonl").write_text('{"id": "a1"}\n{"id": "a2"}\n')
    environment = {"AGENTOS_HOME": str(folder / "home"), "PATH": os.environ["PATH"], "HOME": str(folder)}
    command = ["run", "--graph", "flow.py:graph", "--items", "items.jsonl", *options]
    done = subprocess.run(
        [sys.executable, "-P", "-c", LOADED_AT_THE_END, *command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )
    found = json.loads(done.stderr.splitlines()[-1])
    assert found["status"] == 0, done.stderr
    return done.stdout, set(found["modules"])


def test_a_run_without_keys_in_a_pipe_loads_nothing_that_is_for_other_runs(tmp_path: Path) -> None:
    printed, modules = loaded_by_run(tmp_path)
    assert "2 fine" in printed
    assert FOR_OTHER_RUNS & modules == set()


def test_a_dry_run_loads_nothing_that_is_for_runs(tmp_path: Path) -> None:
    printed, modules = loaded_by_run(tmp_path, "--dry-run")
    assert "Dry run mode: 2 items" in printed
    assert (FOR_OTHER_RUNS | FOR_RUNS) & modules == set()


@pytest.mark.parametrize("start_method", ["forkserver", "spawn"])
def test_what_is_put_off_is_loaded_by_who_looks_into_it(sandbox: Sandbox, start_method: str) -> None:
    (sandbox.project / "types_of.py").write_text(textwrap.dedent(GRAPH))
    sandbox.write_items({"id": "a1"})
    finished = sandbox.run("--start-method", start_method, graph="types_of.py:graph")
    assert finished.code == 0, finished.stderr
    if sandbox.outcomes() == {"a1": "not there"}:
        pytest.skip("this LangSmith has no such package")
    assert sandbox.outcomes() == {"a1": "loaded before: []; now Run, elsewhere"}


@pytest.mark.parametrize("start_method", ["forkserver", "spawn"])
def test_a_worker_with_httpx_loads_no_command_line_of_it(sandbox: Sandbox, start_method: str) -> None:
    (sandbox.project / "calling.py").write_text(textwrap.dedent(GRAPH_WITH_HTTPX))
    sandbox.write_items({"id": "a1"})
    finished = sandbox.run("--start-method", start_method, graph="calling.py:graph")
    assert finished.code == 0, finished.stderr
    assert sandbox.outcomes() == {"a1": "whole: True; its command line: False"}


def test_the_gateway_process_loads_nothing_that_is_for_terminals() -> None:
    ours, theirs = socket.socketpair()
    with socket.create_server(("127.0.0.1", 0)) as listener, ours, theirs:
        numbers = (listener.fileno(), theirs.fileno())
        command = [sys.executable, "-P", "-X", "importtime", "-m", "agentos.gateway.process", *map(str, numbers)]
        ours.shutdown(socket.SHUT_WR)  # Its coordinator is gone: it ends as soon as it is there.
        done = subprocess.run(command, pass_fds=numbers, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "httpx" in loaded_at_all(done.stderr)
    assert FOR_TERMINALS & loaded_at_all(done.stderr) == set()


def test_a_command_that_serves_the_pool_loads_nothing_that_is_for_terminals(sandbox: Sandbox) -> None:
    env = {"GEMINI_API_KEY": "AIzaSy-a-secret-of-nobody-0123456789", "PYTHONPROFILEIMPORTTIME": "1"}
    done = sandbox.command("gateway", "--", "true", env=env)
    assert done.code == 0, done.stderr[-2000:]
    assert "httpx" in loaded_at_all(done.stderr)
    assert FOR_TERMINALS & loaded_at_all(done.stderr) == set()


def test_help_in_a_pipe_is_written_without_what_colours_it(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-c", LOADED_AT_THE_END, "--help"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stdout.startswith("Usage: agentos ")
    assert "Options:" in done.stdout
    assert {"rich", "rich_argparse"} & set(json.loads(done.stderr.splitlines()[-1])["modules"]) == set()

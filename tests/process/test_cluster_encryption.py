"""What leaves for another machine, over a plain connection and over an encrypted one; keys never do."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from harness import Sandbox, no_process_left, of_type
from machines import HOST_ADDRESS, Forwarder, address_of, machines
from providers import PoolKey, provider

from fakes.postgres import PASSWORD, PostgresServer
from fakes.ray_cluster import certificates

pytestmark = [pytest.mark.needs_ray, pytest.mark.needs_postgres, pytest.mark.needs_machines, pytest.mark.timeout(900)]

FLOW = """
import os
from typing import TypedDict
from langgraph.graph import END, START, StateGraph
from agentos.llm import generate

class State(TypedDict, total=False):
    text: str

def ask(state):
    print("variable", os.environ.get("OWN_VARIABLE", "stays at home"))
    print("said", bool(generate("a question", model="google:gemini-2.5-flash").text))
    every = " ".join(f"{name}={value}" for name, value in os.environ.items())
    return {"text": every}

graph = StateGraph(State)
graph.add_node("ask", ask)
graph.add_edge(START, "ask")
graph.add_edge("ask", END)
"""


@dataclass
class Town:
    """One node, which is another machine, and a database."""

    is_encrypted: bool
    environment: Mapping[str, str]
    """For commands."""


@pytest.fixture(scope="module", params=["plain", "encrypted"])
def town(request: pytest.FixtureRequest) -> Iterator[Town]:
    is_encrypted = request.param == "encrypted"
    with ExitStack() as stack:
        # Machines do not see /tmp.
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir="/var/tmp")))
        tls = certificates(folder, [HOST_ADDRESS, address_of(2)]) if is_encrypted else {}
        server = stack.enter_context(PostgresServer())
        own_password = {} if is_encrypted else {"PGPASSWORD": PASSWORD}
        cluster, _ = stack.enter_context(machines(1, everywhere=tls, further=own_password))
        parts = urlsplit(server.url)
        forwarder = Forwarder(int(parts.port or 0))
        stack.callback(forwarder.close)
        place = f"{parts.netloc.rpartition('@')[0]}@{HOST_ADDRESS}:{forwarder.port}"
        yield Town(
            is_encrypted,
            {
                **cluster.environment,
                "AGENTOS_CHECKPOINTS__URL": parts._replace(netloc=place).geturl(),
                "AGENTOS_CHECKPOINTS__PROJECT": f"encryption{os.getpid()}",
                "AGENTOS_CLUSTER__BACKEND": "ray",
                "AGENTOS_CLUSTER__ADDRESS": cluster.address,
                "OWN_VARIABLE": "travels",
            },
        )


def test_models_are_called_from_another_machine_and_what_may_be_secret_goes_over_encryption_alone(
    town: Town, sandbox: Sandbox
) -> None:
    sandbox.environment.update(town.environment)
    (sandbox.project / "flow.py").write_text(FLOW)
    sandbox.write_items({"id": "i1", "input": {}})
    key = PoolKey(name="g")
    with provider(sandbox, key):
        done = sandbox.run(graph="flow.py:graph")
        result = sandbox.command("runs", "result")
        checked = sandbox.command("cluster", "check")
    assert done.code == 0, done.stdout
    assert [record["cluster_node"] for record in of_type(sandbox.records(), "item_started")] == ["node-2"]
    assert "[i1] said True" in done.lines
    assert f"[i1] variable {'travels' if town.is_encrypted else 'stays at home'}" in done.lines
    assert "PATH=" in result.stdout
    assert key.secret not in result.stdout
    assert checked.code == 0, checked.stdout
    said = (
        "ok       encryption: Ray's TLS is on" if town.is_encrypted else "warning  encryption: connections are plain"
    )
    assert said in checked.stdout
    no_process_left(sandbox.home)

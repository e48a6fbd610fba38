"""What `agentos cluster check` makes of what it found."""

from __future__ import annotations

import os
import socket
from dataclasses import replace

import pytest

from agentos.engine.backends.ray.environment_check import environment_facts
from agentos.engine.backends.ray.findings import ClusterFacts, NodeFacts, as_document, findings, why_not_joined
from agentos.engine.backends.ray.token_check import Door, door_of

OURS = {"python": "3.11.7", "agentos": "1", "langgraph": "1", "ray": "2.60", "packages": "ab", "time": "100.0"}
NODE = NodeFacts(name="node-2", facts=OURS, asked=100.0, answered=100.2, is_here=False)
GOOD = ClusterFacts(
    address="head:6379",
    is_reachable=True,
    door=Door.GUARDED,
    has_token=True,
    is_encrypted=True,
    ours=OURS,
    nodes=[NODE],
    database="db:5432/agentos",
)


def told(facts: ClusterFacts) -> list[str]:
    return [f"{each.level} {each.what}: {each.text}" for each in findings(facts) if each.level != "ok"]


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("Failed to connect to Ray cluster at head:6379", "is RAY_AUTH_TOKEN the cluster's?"),
        ("Token authentication is enabled but no authentication token was found.", "there is no token here"),
        ("Something else", "Something else"),
    ],
)
def test_who_cannot_join_hears_what_to_do(said: str, words: str) -> None:
    assert words in why_not_joined(said)


def test_nothing_is_wrong_with_a_good_cluster() -> None:
    assert told(GOOD) == []
    assert as_document(findings(GOOD))["is_usable"]


def node_with(**facts: str) -> ClusterFacts:
    return replace(GOOD, nodes=[replace(NODE, facts={**OURS, **facts})])


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        (replace(GOOD, is_reachable=False), "error address: nothing answers at head:6379"),
        (replace(GOOD, door=Door.OPEN), "error open port: the port head:6379 lets anybody in"),
        (replace(GOOD, door=Door.UNKNOWN), "error open port: head:6379 does not say whether it asks for a token"),
        (replace(GOOD, is_dashboard_open=True), "error open port: Ray's dashboard"),
        (replace(GOOD, has_token=False), "error token: there is none here"),
        (
            replace(GOOD, is_encrypted=False),
            "warning encryption: connections are plain: no password goes to node-2",
        ),
        (replace(GOOD, database=""), "error database: checkpoints are files of this machine"),
        (replace(GOOD, database_problem="db does not answer"), "error database: db does not answer"),
        (replace(GOOD, problem="no"), "error cluster: cannot be joined: no"),
        (node_with(python="3.12.1"), "error node-2: its Python differs: python 3.12.1 there, 3.11.7 here"),
        (node_with(packages="cd"), "error node-2: its Python differs: packages cd there, ab here"),
        (node_with(time="220.0"), "error node-2: its clock is off by +120 s"),
        (node_with(free_memory_mb="200"), "warning node-2: only 200 MB of memory are free"),
        (node_with(database="unreachable"), "error node-2: it does not reach the database"),
        (replace(GOOD, nodes=[replace(NODE, problem="it does not answer")]), "error node-2: it does not answer"),
    ],
)
def test_each_trouble_is_named(facts: ClusterFacts, words: str) -> None:
    [line] = told(facts)
    assert line.startswith(words)
    assert as_document(findings(facts))["is_usable"] is words.startswith("warning")


def test_plain_text_on_one_machine_is_nobody_s_business() -> None:
    assert told(replace(GOOD, is_encrypted=False, database="", nodes=[replace(NODE, is_here=True)])) == []


def test_a_process_knows_its_own_environment() -> None:
    facts = environment_facts()
    assert {"python", "agentos", "langgraph", "packages", "time"} <= facts.keys()
    assert environment_facts() | {"time": ""} == facts | {"time": ""}


@pytest.mark.needs_ray
@pytest.mark.slow
def test_no_answer_is_not_taken_for_a_refusal() -> None:
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        address = f"127.0.0.1:{nobody.getsockname()[1]}"
    assert door_of(address, os.environ) is Door.UNKNOWN

"""A provider is one file: with it in `agentos/providers`, every command knows the provider and no other file does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness import Sandbox

import agentos
from agentos.testing.provider_server import Key, ProviderServer, Step

SECRET = "nw-4f6bb2c1d09e47a5"

NORTHWIND = '''
"""Northwind: speaks OpenAI's protocol, with a word of its own for an empty account."""

from dataclasses import replace

from agentos.providers import openai
from agentos.providers.evidence import Evidence, QuotaSpent
from agentos.providers.replies import ErrorReply


def read_error(reply: ErrorReply) -> Evidence:
    if reply.token("code") == "wallet_empty":
        return QuotaSpent(never_resets=True, reason="wallet_empty")
    return openai.read_error(reply)


PROVIDER = replace(
    openai.PROVIDER,
    name="northwind",
    rank=100,
    key_variables=("NORTHWIND_API_KEY",),
    base_url="{base_url}",
    default_model="breeze-2",
    check_model="breeze-mini",
    quota_owner="Northwind team",
    read_error=read_error,
)
'''


@pytest.fixture
def server() -> Iterator[ProviderServer]:
    key = Key(name="team", secret=SECRET, group="team")
    with ProviderServer(keys=[key], accepts_unknown_keys=False) as running:
        yield running


@pytest.fixture
def northwind(sandbox: Sandbox, server: ProviderServer) -> Sandbox:
    """The installed command, with one more file in its package."""
    installed, package = Path(agentos.__file__).parent, sandbox.root / "site" / "agentos"
    (package / "providers").mkdir(parents=True)
    for path in installed.iterdir():
        if path.name not in ("providers", "__pycache__"):
            (package / path.name).symlink_to(path)
    for path in (installed / "providers").glob("*.py"):
        (package / "providers" / path.name).symlink_to(path)
    text = NORTHWIND.replace("{base_url}", server.base_url("openai"))
    (package / "providers" / "northwind.py").write_text(text.lstrip())
    sandbox.environment |= {"PYTHONPATH": str(package.parent), "NORTHWIND_API_KEY": SECRET}
    return sandbox


def test_its_key_comes_from_its_own_variable_and_more_can_be_added(northwind: Sandbox) -> None:
    source = northwind.root / "secret.txt"
    source.write_text("nw-another-secret-of-theirs\n")
    listed = northwind.command("keys")
    with source.open("rb") as stdin:
        added = northwind.start_command("keys", "add", "second", "--provider", "northwind", stdin=stdin).wait()
    help_text = northwind.command("keys", "add", "--help").stdout

    assert listed.lines[1].split()[:4] == ["env-northwind", "northwind", "env-northwind", "available"], listed
    assert added.code == 0, added.stderr
    assert "northwind" in help_text
    assert "one Northwind team" in " ".join(help_text.split())


def test_its_keys_are_checked_with_its_model_and_its_errors_are_read_in_its_own_words(
    northwind: Sandbox, server: ProviderServer
) -> None:
    wallet_empty = Step(kind="status", status=400, body={"error": {"message": "Top up.", "code": "wallet_empty"}})
    server.script("team", Step(), wallet_empty)
    good, spent = (json.loads(northwind.command("keys", "check", "--json").stdout)[0] for _ in range(2))
    (remembered,) = json.loads(northwind.command("keys", "--json").stdout)

    assert (good["result"], good["model"]) == ("valid", "northwind:breeze-mini")
    assert (spent["result"], spent["is_usable"]) == ("out_of_quota", False)
    assert spent["note"].startswith("wallet_empty")
    assert remembered["state"] == "out_of_quota"


FLOW = """
import os
from typing import TypedDict

from langgraph.graph import END, START, StateGraph

from agentos.llm import generate


class State(TypedDict, total=False):
    answer: str


def ask(state):
    answer = generate("Hello", model="northwind:breeze-2").text
    print(answer, "with", [name for name in os.environ if name.startswith("NORTHWIND")])
    return {"answer": answer}


graph = StateGraph(State).add_node("ask", ask).add_edge(START, "ask").add_edge("ask", END)
"""


def test_a_run_calls_it_waits_out_its_limit_and_shows_its_variable_to_no_worker(
    northwind: Sandbox, server: ProviderServer
) -> None:
    (northwind.project / "flow.py").write_text(FLOW)
    northwind.write_items({"id": "a"})
    server.script("team", Step(kind="rate_limit", retry_after_seconds=0.2))
    ran = northwind.run(graph="flow.py:graph")

    assert ran.code == 0, ran.stdout + ran.stderr
    assert "Hello with []" in ran.stdout
    assert "[COORDINATOR] Key env-northwind rate-limited" in ran.stdout
    assert server.stats()["by_status"] == {"200": 1, "429": 1}
    assert {seen.model for seen in server.desk.requests} == {"breeze-2"}


def test_its_default_model_writes_when_it_has_the_only_key(northwind: Sandbox, server: ProviderServer) -> None:
    _write_issue(northwind)
    set_up = northwind.command("init")
    drafted = northwind.command("lld", "--all", "--max-rounds", "1")

    assert "env-northwind (northwind)" in set_up.stdout
    assert "northwind:breeze-2" in (northwind.project / "agentos.toml").read_text()
    assert {seen.model for seen in server.desk.requests} == {"breeze-2"}, drafted.stdout + drafted.stderr


def test_an_unknown_provider_is_refused_with_the_names_of_all(northwind: Sandbox) -> None:
    _write_issue(northwind)
    refused = northwind.command("lld", "--all", "--drafter", "southwind:x")

    assert refused.code == 2
    assert "google, anthropic, openai, " in refused.stderr
    assert ", northwind, cli, offline, recorded" in refused.stderr


def _write_issue(sandbox: Sandbox) -> None:
    path = sandbox.project / "docs" / "issues" / "01-greeting.md"
    path.parent.mkdir(parents=True)
    path.write_text(
        "# Greet\n\n## Requirements\n\n- The program greets a person by name.\n- It greets all at once too.\n"
    )

"""Providers that a project declares in agentos.toml: with keys of their own, or without any on this machine."""

from __future__ import annotations

import json
import subprocess
import sys

import httpx
from harness import Sandbox
from providers import PoolKey, write_keys

from agentos.testing.provider_server import Key, ProviderServer, Step

FLOW = """
from typing import TypedDict

from langgraph.graph import END, START, StateGraph

from agentos.llm import generate


class State(TypedDict, total=False):
    model: str
    answer: str


def ask(state):
    return {"answer": generate("Hello", model=state["model"]).text}


graph = StateGraph(State).add_node("ask", ask).add_edge(START, "ask").add_edge("ask", END)
"""

ACME = PoolKey(name="team", provider="acme")


def _declare(sandbox: Sandbox, acme: ProviderServer, local: ProviderServer, more: str = "") -> None:
    (sandbox.project / "agentos.toml").write_text(
        f'[providers.acme]\nkind = "openai"\nbase_url = "{acme.base_url("openai")}"\nneeds_key = true\n'
        f'[providers.house]\nkind = "openai"\nbase_url = "{local.base_url("openai")}"\n{more}'
    )


def _script(sandbox: Sandbox, code: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code]
    return subprocess.run(
        command, cwd=sandbox.project, env=sandbox.environment, capture_output=True, text=True, check=False
    )


def test_a_run_calls_declared_providers_each_with_its_own_key_or_none(sandbox: Sandbox) -> None:
    acme_key = Key(name="team", secret=ACME.secret)
    with ProviderServer(keys=[acme_key], accepts_unknown_keys=False) as acme, ProviderServer() as local:
        _declare(sandbox, acme, local, '[prices]\nmodels = ["acme:large 2/12", "house:small 0/0"]\n')
        write_keys(sandbox, ACME)
        (sandbox.project / "flow.py").write_text(FLOW)
        sandbox.write_items(
            {"id": "a", "input": {"model": "acme:large"}},
            {"id": "b", "input": {"model": "house:small"}},
            {"id": "c", "input": {"model": "acme:large"}},
        )
        acme.script("team", Step(kind="rate_limit", retry_after_seconds=0.2))
        ran = sandbox.run("--parallel", "2", "--budget", "1", graph="flow.py:graph")

    assert ran.code == 0, ran.stdout + ran.stderr
    assert "[COORDINATOR] Key team rate-limited" in ran.stdout
    assert {seen.model for seen in acme.requests} == {"large"}
    (seen,) = local.requests
    assert seen.model == "small"
    assert "authorization" not in seen.headers
    assert ACME.secret not in ran.stdout + ran.stderr


def test_commands_know_declared_providers_and_refuse_what_nobody_declares(sandbox: Sandbox) -> None:
    with ProviderServer(keys=[Key(name="team", secret=ACME.secret)]) as acme, ProviderServer() as local:
        _declare(sandbox, acme, local)
        write_keys(sandbox, ACME, PoolKey(name="other", provider="elsewhere"))
        here = sandbox.project
        listed = {row["name"]: row["state"] for row in json.loads(sandbox.command("keys", "--json", cwd=here).stdout)}
        checked = json.loads(
            sandbox.command("keys", "check", "team", "--model", "acme:large", "--json", cwd=here).stdout
        )
        unsure = sandbox.command("keys", "check", "team", cwd=here)
        mistyped = sandbox.start_command("keys", "add", "x", "--provider", "acmee", cwd=here).wait()
        shown = sandbox.command("config", "providers.acme", cwd=here)
        (here / "docs" / "issues").mkdir(parents=True)
        (here / "docs" / "issues" / "1-greet.md").write_text("# Greet\n\n## Requirements\n\n- It greets.\n")
        refused = sandbox.command("lld", "--all", "--drafter", "hause:small", cwd=here)
        preview = sandbox.command("lld", "--all", "--dry-run", "--drafter", "house:small", cwd=here)
        keyless = sandbox.command("lld", "--all", "--dry-run", "--drafter", "bedrock:x", cwd=here)

    assert listed == {"team": "available", "other": "no_provider"}
    assert [(row["result"], row["model"]) for row in checked] == [("valid", "acme:large")]
    assert "no model to try it with: --model acme:MODEL" in unsure.stdout
    assert mistyped.code == 2
    assert "Did you mean acme?" in mistyped.stderr
    assert "providers.acme.kind" in shown.stdout
    assert refused.code == 2
    assert "Did you mean house" in refused.stderr
    assert preview.code == 0, preview.stdout + preview.stderr
    assert keyless.code == 4
    assert "No key for bedrock:x" in keyless.stdout + keyless.stderr


def test_a_script_outside_a_run_finds_what_its_project_declares(sandbox: Sandbox) -> None:
    script = "from agentos.llm import generate; print(generate('Hello', model='house:small').text)"
    with ProviderServer() as local:
        _declare(sandbox, local, local)
        answered = _script(sandbox, script)
        (sandbox.project / "agentos.toml").write_text(
            '[providers.house]\nkind = "openai"\nbase_url = "https://collector.invalid/v1"\n'
        )
        refused = _script(sandbox, script)

    assert answered.stdout == "Hello\n", answered.stderr
    assert "would send your house keys to https://collector.invalid/v1" in refused.stderr


def test_the_gateway_serves_declared_providers_by_their_name(sandbox: Sandbox) -> None:
    acme_key = Key(name="team", secret=ACME.secret)
    with ProviderServer(keys=[acme_key], accepts_unknown_keys=False) as acme, ProviderServer() as local:
        _declare(sandbox, acme, local)
        write_keys(sandbox, ACME)
        command = sandbox.start_command("gateway", "--json", cwd=sandbox.project)
        told = json.loads(command.wait_for_line("address"))
        reply = httpx.post(
            f"{told['address']}/acme/v1/chat/completions",
            json={"model": "large", "messages": [{"role": "user", "content": "Hello"}]},
            headers={"authorization": f"Bearer {told['clients'][0]['token']}"},
            timeout=60,
        )
        command.kill(15)
        assert command.wait().code == 130

    assert reply.status_code == 200, reply.text
    assert acme.hits("team") == 1

"""Graphs that know nothing of AgentOS call models through the gateway of their run: tokens for keys."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from harness import Sandbox, children_of, eventually
from providers import PoolKey, write_keys
from test_any_graph import write

from agentos.providers.provider import base_url_variable
from agentos.testing.provider_server import ProviderServer, Step

NAMES = ("anthropic", "openai", "google")
KEYS = [PoolKey(name=f"{name}-{number}", provider=name) for name in NAMES for number in (1, 2)]


def _environment(server: ProviderServer) -> dict[str, str]:
    """With keys of the user's, which no worker may see."""
    urls = {base_url_variable(name): server.base_url(name) for name in NAMES}
    return {**urls, "OPENAI_API_KEY": KEYS[2].secret, "GOOGLE_API_KEY": KEYS[4].secret}


@pytest.mark.parametrize("graph", ["graph", pytest.param("langchain", marks=pytest.mark.slow)])
def test_a_graph_with_sdks_of_its_own_runs_unchanged(sandbox: Sandbox, graph: str) -> None:
    if graph == "langchain":
        for module in ("langchain_openai", "langchain_anthropic", "langchain_google_genai"):
            pytest.importorskip(module)
    sandbox.write_items(*({"id": f"i{n}", "input": {"say": f"word{n}"}} for n in range(3)))
    write_keys(sandbox, *KEYS)
    with ProviderServer(keys=[key.to_server_key() for key in KEYS], accepts_unknown_keys=False) as server:
        for key in KEYS:
            server.script(key.name, Step(kind="rate_limit", retry_after_seconds=0.1))
        spec = f"graphs/clients.py:{graph}"
        done = sandbox.run("--parallel", "3", "--budget", "50", graph=spec, env=_environment(server))
    assert done.code == 0, done.stdout + done.stderr
    for number in range(3):
        assert f"i{number} {' '.join([f'word{number}'] * 3)}" in sandbox.notes()
    if graph == "graph":
        assert "i0 keys ['agentos-']" in sandbox.notes()
    used = {item: record["input_tokens"] for item, record in sandbox.endings().items()}
    assert set(used) == {"i0", "i1", "i2"}
    assert all(tokens > 0 for tokens in used.values()), used
    assert "does not see" not in done.stdout + done.stderr


EARLY = """
    import json, os, urllib.request
    from typing import TypedDict
    from langgraph.graph import START, StateGraph

    def ask(words):
        body = json.dumps({"model": "gpt-5-mini", "messages": [{"role": "user", "content": words}]}).encode()
        headers = {"authorization": "Bearer " + TOKEN, "content-type": "application/json"}
        call = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", body, headers)
        with urllib.request.urlopen(call) as reply:
            return json.load(reply)["choices"][0]["message"]["content"]

    class State(TypedDict, total=False):
        said: list

    TOKEN = os.environ["OPENAI_API_KEY"]
    KNOWN = ask("known before there are items")
    graph = StateGraph(State)
    graph.add_node("say", lambda _: {"said": [KNOWN, ask("and now")]})
    graph.add_edge(START, "say")
"""


def test_a_graph_may_call_models_while_it_is_loaded(sandbox: Sandbox) -> None:
    write(sandbox, "early.py", EARLY)
    sandbox.write_items({"id": "a"}, {"id": "b"})
    write_keys(sandbox, *KEYS)
    with ProviderServer(keys=[key.to_server_key() for key in KEYS], accepts_unknown_keys=False) as server:
        done = sandbox.run("--budget", "50", "--output", "-", graph="early.py:graph", env=_environment(server))
        asked = [seen.prompt for seen in server.requests]
    assert done.code == 0, done
    said = {line["id"]: line["state"]["said"] for line in map(json.loads, done.lines)}
    assert said["a"] == said["b"] == ["known before there are items", "and now"]
    assert asked.count("known before there are items") == 1
    assert "loading the graph called models: " in done.stderr


@pytest.mark.parametrize("graph", ["callers", "graphs/clients.py:graph"])
def test_a_server_on_this_machine_is_not_called_by_way_of_the_users_proxy(sandbox: Sandbox, graph: str) -> None:
    """By which nothing comes back: it knows the world outside."""
    sandbox.write_items({"id": "a", "input": {"say": "word"} if "clients" in graph else {}})
    write_keys(sandbox, *KEYS)
    with ProviderServer(keys=[key.to_server_key() for key in KEYS]) as server:
        nowhere = dict.fromkeys(("HTTP_PROXY", "http_proxy"), "http://127.0.0.1:9")
        done = sandbox.run(graph=graph, env={**_environment(server), **nowhere})
    assert done.code == 0, done.stdout + done.stderr


OVERRIDDEN = EARLY.replace('TOKEN = os.environ["OPENAI_API_KEY"]', 'TOKEN = "sk-from-the-env-file-of-the-project"')


def test_a_graph_that_puts_a_key_of_its_own_over_its_token_calls_through_the_pool(sandbox: Sandbox) -> None:
    write(sandbox, "overridden.py", OVERRIDDEN)
    sandbox.write_items({"id": "a"})
    write_keys(sandbox, *KEYS)
    with ProviderServer(keys=[key.to_server_key() for key in KEYS], accepts_unknown_keys=False) as server:
        done = sandbox.run("--output", "-", graph="overridden.py:graph", env=_environment(server))
        used = {seen.key_name for seen in server.requests}
    assert done.code == 0, done
    assert used <= {key.name for key in KEYS}
    assert sandbox.endings()["a"]["input_tokens"] > 0


def test_a_variable_that_is_passed_on_keeps_its_way(sandbox: Sandbox) -> None:
    nodes = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY")
    names = ("n1", "n2", "n3")
    tasks = {node: f"environment {name}" for node, name in zip(names, nodes, strict=True)}
    sandbox.write_items({"id": "a", "input": {"tasks": tasks}})
    write_keys(sandbox, *KEYS)
    done = sandbox.run("--pass-env", "OPENAI_API_KEY", env={"OPENAI_API_KEY": "sk-own"})
    assert done.code == 0, done.stdout + done.stderr
    told = dict(note.split("=", 1) for note in sandbox.notes() if "=" in note)
    assert (told["OPENAI_API_KEY"], told["OPENAI_BASE_URL"]) == ("sk-own", "None")
    assert told["ANTHROPIC_API_KEY"].startswith("agentos-")


def test_the_gateway_goes_with_a_run_that_is_killed(sandbox: Sandbox) -> None:
    sandbox.write_items({"id": "a", "input": {"say": "x"}})
    write_keys(sandbox, *KEYS)
    with ProviderServer(keys=[key.to_server_key() for key in KEYS], accepts_unknown_keys=False) as server:
        server.script("*", Step(kind="hang", times=-1))
        run = sandbox.start(graph="graphs/clients.py:graph", env=_environment(server))
        run.wait_for_line(">>> Executing: ask")
        eventually(lambda: server.stats()["total"], "a call")
        gateway = [pid for pid in children_of(run.pid) if b"agentos.gateway.process" in _command(pid)]
        assert len(gateway) == 1
        assert not any(key.secret.encode() in _command(gateway[0], "environ") for key in KEYS)
        run.kill()
        run.wait()
        eventually(lambda: not _command(gateway[0]), "the gateway's end")


def _command(pid: int, what: str = "cmdline") -> bytes:
    try:
        return Path(f"/proc/{pid}/{what}").read_bytes()
    except OSError:
        return b""

"""Whose fault a failed call is, in real runs: the request's, one key's, the account's money."""

from __future__ import annotations

import json

from harness import Sandbox
from providers import PoolKey, provider

from agentos.testing.provider_server import Step

NO_MODEL = {"error": {"message": "The model `gpt-4o-mini` does not exist", "type": "x", "code": "model_not_found"}}
FLAGGED = {"error": {"code": 403, "message": "Your input was flagged", "metadata": {"reasons": ["violence"]}}}
BROKEN = {"error": {"message": "The server had an error with your request.", "type": "server_error"}}
DEPLETED = "Your prepayment credits are depleted. Please go to AI Studio to manage your project and billing."


def test_a_request_that_fails_alone_costs_neither_keys_nor_other_items(sandbox: Sandbox) -> None:
    """One key's account lacks the model, one prompt is flagged, one always meets a 500; everything else is served."""
    keys = [PoolKey(name=name, provider="openai") for name in ("without", "with")]
    with provider(sandbox, *keys) as server:
        server.script("without", Step(kind="status", status=404, body=NO_MODEL, times=-1))
        server.script("prompt:broken asks", Step(kind="status", status=500, body=BROKEN, times=-1))
        server.script("prompt:flagged asks", Step(kind="status", status=403, body=FLAGGED, times=-1))
        model = {"model": "openai:gpt-4o-mini", "calls": 2}
        sandbox.write_items(*({"id": item, "input": model} for item in ("flagged", "broken", *"abcdef")))
        finished = sandbox.start("--parallel", "3", graph="callers").wait()
        listed = sandbox.command("keys", "--json")

    assert finished.code == 1, finished.stdout
    outcomes = sandbox.outcomes()
    assert {item for item, outcome in outcomes.items() if outcome == "failed"} == {"flagged", "broken"}
    assert [outcomes[item] for item in "abcdef"] == ["completed"] * 6
    assert "all keys limited" not in finished.stdout
    assert "Your input was flagged" in finished.stdout
    assert "could not answer: The server had an error with your request (" in finished.stdout
    # Calls that fail by themselves may reach that account too, and show nothing of it.
    assert server.stats()["by_key_and_status"]["without"]["404"] == 1, "the others wait for what its refusal means"
    states = {row["name"]: row["state"] for row in json.loads(listed.stdout)}
    assert states == {"without": "not_served", "with": "available"}


def test_an_account_without_money_is_no_reason_to_wait(sandbox: Sandbox) -> None:
    with provider(sandbox, PoolKey(name="alpha")) as server:
        body = {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": DEPLETED}}
        server.script("alpha", Step(kind="status", status=429, body=body, times=-1))
        sandbox.write_items(*({"id": item, "input": {}} for item in "ab"))
        finished = sandbox.start("--parallel", "2", graph="callers").wait()

    assert finished.code == 4, finished.stdout
    assert DEPLETED.rstrip(".") in finished.stdout
    assert server.hits("alpha") == 1


def test_a_wait_for_an_overloaded_provider_does_not_blame_the_keys(sandbox: Sandbox) -> None:
    with provider(sandbox, PoolKey(name="alpha", max_concurrent=2), PoolKey(name="beta", max_concurrent=2)) as server:
        server.script("*", Step(kind="fail", fail="overloaded", retry_after_seconds=6.0, times=3))
        sandbox.write_items(*({"id": item, "input": {}} for item in "ab"))
        finished = sandbox.start("--parallel", "2", graph="callers").wait()

    assert finished.code == 0, finished.stdout
    assert "the provider is overloaded, next try at " in finished.stdout
    assert "all keys limited" not in finished.stdout

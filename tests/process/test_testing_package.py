"""`agentos.testing` as its guide shows it: a graph of the user's against a provider that misbehaves."""

from __future__ import annotations

from harness import Sandbox

from agentos.testing import LimitRule, ProviderServer, Step


def test_a_graph_meets_limits_and_faults_and_no_item_fails(sandbox: Sandbox) -> None:
    sandbox.write_items({"id": "a", "input": {"calls": 2}})
    with ProviderServer(limits=[LimitRule(requests_per_minute=30)], reply="an answer") as server:
        server.script("*", Step(kind="rate_limit", retry_after_seconds=0.1), Step(kind="reset"), Step(kind="cut"))
        done = sandbox.run(graph="callers", env=server.environment())
        statuses = server.stats()["by_status"]

    assert done.code == 0, done.stdout + done.stderr
    assert statuses == {"200": 3, "429": 1, "reset": 1}  # One of the answers was cut off.

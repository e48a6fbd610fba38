"""Runs of one home, at the same time and one right after another: together they keep within a key's limit."""

from __future__ import annotations

import pytest
from harness import Sandbox, eventually
from providers import PoolKey, provider, write_keys

from agentos.testing.provider_server import Step


@pytest.mark.slow  # Its three runs have to fit into one minute, which a busy machine does not grant.
def test_what_one_run_has_sent_counts_for_the_others_also_after_a_kill(sandbox: Sandbox) -> None:
    key = PoolKey(name="alpha", max_concurrent=2)
    with provider(sandbox, key) as server:
        server.script("alpha", Step(kind="ok"), Step(kind="hang"))
        write_keys(sandbox, text=f"{key.to_toml()}rpm = 3\n")
        for name, items in (("first", "ab"), ("second", "abc"), ("third", "abc")):
            sandbox.write_items(*({"id": f"{name}-{n}", "input": {}} for n in items), name=f"{name}.jsonl")
        first = sandbox.start("--parallel", "2", graph="callers", items="first.jsonl")
        eventually(lambda: server.hits("alpha") == 2, "a call that shows that the key serves, and one that hangs")
        second = sandbox.start("--max-wait", "20s", graph="callers", items="second.jsonl").wait()
        first.kill()
        third = sandbox.start("--max-wait", "20s", graph="callers", items="third.jsonl").wait()

    assert (second.code, third.code) == (75, 75), second.stdout + third.stdout
    assert server.hits("alpha") == 3
    assert server.stats()["by_status"].get("429") is None

"""Runs of one home at the same time: one pool, whoever owns it, and another one when its owner is killed."""

from __future__ import annotations

import signal
from itertools import pairwise

from harness import Sandbox, eventually
from providers import PoolKey, provider

_CALL_SECONDS = 0.4


def test_two_runs_share_a_keys_cap_and_the_death_of_one_leaves_it_to_the_other(sandbox: Sandbox) -> None:
    with provider(sandbox, PoolKey(name="alpha"), latency_seconds=_CALL_SECONDS) as server:
        for name in ("first", "second"):
            items = ({"id": f"{name}-{n}", "input": {}} for n in range(6))
            sandbox.write_items(*items, name=f"{name}.jsonl")
        first = sandbox.start("--parallel", "3", graph="callers", items="first.jsonl")
        first.wait_for_line("Executing: ask")
        eventually(lambda: server.requests, "a call of the first run")
        second = sandbox.start("--parallel", "3", graph="callers", items="second.jsonl")
        second.wait_for_line("Executing: ask")
        eventually(lambda: any("second" in seen.prompt for seen in server.requests), "a call of the second run")
        first.kill()
        first.wait()
        last = len(server.requests)
        done = second.wait()

    assert done.code == 0, done.stdout + done.stderr
    assert sum("second" in seen.prompt for seen in server.requests) == 6
    # A call ends when it is answered: with one at a time, none begins before. The killed run's last is cut off.
    begun = [seen.at_seconds for seen in server.requests]
    gaps = [later - earlier for number, (earlier, later) in enumerate(pairwise(begun), start=1) if number != last]
    assert min(gaps) >= _CALL_SECONDS - 0.02, gaps
    assert server.stats()["by_status"].get("429") is None


def test_a_suspended_run_keeps_no_other_from_its_keys_and_continues_after_it(sandbox: Sandbox) -> None:
    with provider(sandbox, PoolKey(name="alpha"), latency_seconds=0.1) as server:
        for name in ("first", "second"):
            items = ({"id": f"{name}-{n}", "input": {}} for n in range(4))
            sandbox.write_items(*items, name=f"{name}.jsonl")
        first = sandbox.start("--parallel", "2", graph="callers", items="first.jsonl")
        eventually(lambda: server.requests, "a call of the first run")
        first.kill(signal.SIGSTOP)
        done = sandbox.run("--parallel", "2", graph="callers", items="second.jsonl")
        assert done.code == 0, done.stdout + done.stderr
        assert "second" in server.requests[-1].prompt
        first.kill(signal.SIGCONT)
        continued = first.wait()
    assert continued.code == 0, continued.stdout + continued.stderr

"""Keys in real runs: limits, exhaustion, rejection, hot reload and killed holders, over HTTP to a real server."""

from __future__ import annotations

import json
import os
import re
import signal

import pytest
from harness import Sandbox, Started, eventually, of_type
from providers import PoolKey, add_server_key, limit_hits, provider, write_keys

from agentos.testing.provider_server import ProviderServer, Step

EXHAUSTED = "[COORDINATOR] Credential pool exhausted. Pausing all workflows... that need a key:"
LIMITED = " all keys limited, next key"


def _items(sandbox: Sandbox, *ids: str, **input_: object) -> None:
    sandbox.write_items(*({"id": item_id, "input": input_} for item_id in ids))


def _run(sandbox: Sandbox, *more: str, graph: str = "callers", **choices: object) -> Started:
    return sandbox.start(*more, graph=graph, **choices)


def _asking_pid(sandbox: Sandbox, item: str) -> int:
    """The worker of an item that is in a call."""
    found = eventually(
        lambda: re.findall(rf"^{item} asks \d+ pid (\d+)$", "\n".join(sandbox.notes()), re.M), "a call"
    )
    return int(found[-1])


def _hits(server: ProviderServer, *names: str) -> int:
    return sum(server.hits(name) for name in names)


@pytest.mark.every_backend
def test_a_limited_key_hands_over_to_another_and_parallelism_follows_the_keys(sandbox: Sandbox) -> None:
    with provider(sandbox, PoolKey(name="alpha"), PoolKey(name="beta"), latency_seconds=0.05) as server:
        server.script("alpha", Step(), Step(kind="rate_limit", retry_after_seconds=1.5))
        _items(sandbox, *"abcdefgh", calls=4)
        finished = _run(sandbox, "--parallel", "3").wait()

    assert finished.code == 0, finished.stdout
    assert limit_hits(server) == 1
    assert server.stats()["by_status"] == {"200": 32, "429": 1}
    assert "[COORDINATOR] Key alpha rate-limited, back in 2s" in finished.stdout
    # A project's file decided where the keys went: the user is told.
    assert f"your google keys with them, to {server.base_url('google')}" in finished.stdout
    changes = [(change["before"], change["now"]) for change in of_type(sandbox.records(), "parallelism_changed")]
    assert changes[:2] == [(3, 1), (1, 2)], finished.stdout
    assert "[COORDINATOR] Running 1 at a time instead of 3: 1 usable key slot left" in finished.lines
    assert "[COORDINATOR] Running 2 at a time instead of 1: 2 usable key slots" in finished.lines


@pytest.mark.every_backend
def test_waiting_is_said_once_fails_nobody_and_counts_against_no_time_limit(sandbox: Sandbox) -> None:
    with provider(sandbox, PoolKey(name="alpha")) as server:
        server.script("alpha", Step(kind="rate_limit", retry_after_seconds=13.0))
        sandbox.write_items(
            {"id": "a", "input": {}},
            {"id": "b", "input": {}},
            {"id": "local", "input": {"calls": 0, "tasks": {"prepare": "wait go-on"}}},
        )
        run = _run(sandbox, "--parallel", "3", "--timeout-seconds", "10")
        line = run.wait_for_line(EXHAUSTED + LIMITED)
        sandbox.release("go-on")
        ended = run.wait_for_record("item_ended", item="local")
        finished = run.wait()

    assert finished.code == 0, finished.stdout
    assert finished.stdout.count(EXHAUSTED + LIMITED) == 1
    assert re.fullmatch(re.escape(EXHAUSTED + LIMITED) + r" at \d\d:\d\d:\d\d \(in \d+ s\)", line), line
    resumed = of_type(sandbox.records(), "pool_resumed")
    assert len(resumed) == 1
    assert resumed[0]["waited_seconds"] > 10
    assert ended["seq"] < resumed[0]["seq"]  # Local nodes went on meanwhile.
    assert server.stats()["by_status"] == {"429": 1, "200": 2}


def test_spent_and_rejected_keys_are_hit_once_and_never_in_the_next_run(sandbox: Sandbox) -> None:
    keys = (
        PoolKey(name="spent-1", group="spent"),
        PoolKey(name="spent-2", group="spent"),
        PoolKey(name="bad", is_valid=False),
        PoolKey(name="good"),
    )
    with provider(sandbox, *keys) as server:
        for name in ("spent-1", "spent-2"):
            server.script(name, Step(kind="daily_limit", times=-1))
        _items(sandbox, "a", "b", calls=4)
        first = _run(sandbox).wait()
        hits = (_hits(server, "spent-1", "spent-2"), _hits(server, "bad"), _hits(server, "good"))
        _items(sandbox, "c", "d", calls=4)
        second = _run(sandbox).wait()
        listed = {key["name"]: key for key in json.loads(sandbox.command("keys", "--json").stdout)}

    assert (first.code, second.code) == (0, 0), first.stdout + second.stdout
    assert hits == (1, 1, 8)
    assert (_hits(server, "spent-1", "spent-2"), _hits(server, "bad"), _hits(server, "good")) == (1, 1, 16)
    assert "rejected" in first.stdout
    assert "out of quota" in first.stdout
    assert {name: key["state"] for name, key in listed.items()} == {
        "spent-1": "out_of_quota",
        "spent-2": "out_of_quota",
        "bad": "rejected",
        "good": "available",
    }
    assert listed["spent-1"]["until"] is not None
    assert listed["bad"]["until"] is None
    assert listed["good"]["calls"] == 16
    assert listed["good"]["last_used"] is not None


def test_no_valid_key_is_exit_4_at_once_with_names_until_a_secret_changes(sandbox: Sandbox) -> None:
    alpha, beta = PoolKey(name="alpha", is_valid=False), PoolKey(name="beta", is_valid=False)
    renewed = PoolKey(name="alpha", edition=2)
    with provider(sandbox, alpha, beta, latency_seconds=0.5) as server:
        add_server_key(server, renewed)
        _items(sandbox, "a", "b", "c")
        first = _run(sandbox, "--parallel", "3").wait()
        second = _run(sandbox).wait()
        hits_before = _hits(server, "alpha", "beta")
        write_keys(sandbox, renewed, beta)
        third = _run(sandbox).wait()

    assert (first.code, second.code, third.code) == (4, 4, 0), first.stdout + second.stdout + third.stdout
    assert (
        first.stdout.count("[COORDINATOR] No usable key is left (alpha, beta: rejected or without quota): calls fail")
        == 1
    )
    assert "available again" not in first.stdout  # Not even when every item fails for them.
    assert "FAILED: No usable key for google:gemini-2.5-flash: alpha, beta" in first.stdout
    assert hits_before == 2
    assert _hits(server, "beta") == 1
    assert sandbox.notes().count("a prepare start") == 1  # The item went on from its checkpoint.


def test_a_model_without_any_key_is_exit_4_with_the_command_that_helps(sandbox: Sandbox) -> None:
    _items(sandbox, "a", model="anthropic:claude-sonnet-4-6")
    finished = _run(sandbox).wait()

    assert finished.code == 4
    assert "`agentos keys add anthropic --provider anthropic`" in finished.stdout
    assert "[COORDINATOR] There is no key for a model that is needed: its calls fail" in finished.lines
    assert "Pausing all workflows" not in finished.stdout
    assert "a has its SDK: False" in sandbox.notes()  # Nobody pays for a provider without a key.


@pytest.mark.every_backend
def test_max_wait_stops_with_exit_75_and_the_same_command_resumes_later(sandbox: Sandbox) -> None:
    with provider(sandbox, PoolKey(name="alpha")) as server:
        server.script("alpha", Step(kind="daily_limit"))
        _items(sandbox, "a", "b")
        first = _run(sandbox, "--parallel", "2", "--max-wait", "20s").wait()
        sleeping = _run(sandbox, "--max-wait", "20s").wait()
        assert sandbox.command("keys", "reset", "alpha").code == 0
        resumed = _run(sandbox, "--max-wait", "20s").wait()

    assert (first.code, sleeping.code, resumed.code) == (75, 75, 0), first.stdout + sleeping.stdout + resumed.stdout
    assert "longer than --max-wait 20s" in first.stdout
    assert re.search(r" --max-wait 20s?\b", first.stdout.partition("Resume with:")[2]), first.stdout
    assert "failed" not in sandbox.outcomes().values()
    assert server.stats()["by_status"] == {"429": 1, "200": 2}
    assert sandbox.notes().count("a prepare start") == 1


@pytest.mark.every_backend
def test_new_keys_wake_waiters_and_a_broken_file_keeps_the_old_ones(sandbox: Sandbox) -> None:
    alpha, beta = PoolKey(name="alpha"), PoolKey(name="beta")
    with provider(sandbox, alpha) as server:
        add_server_key(server, beta)
        server.script("alpha", Step(kind="rate_limit", retry_after_seconds=45.0))
        _items(sandbox, "a")
        run = _run(sandbox)
        run.wait_for_line(EXHAUSTED)
        write_keys(sandbox, text='[[key]\nname = "alpha"\n')
        warning = run.wait_for_line("the changed keys are not used")
        write_keys(sandbox, alpha, beta)
        run.wait_for_line("credentials.toml changed: 2 keys now")
        finished = run.wait()

    assert finished.code == 0, finished.stdout
    assert "line 1" in warning
    assert (server.hits("alpha"), server.hits("beta")) == (1, 1)


@pytest.mark.every_backend
def test_a_killed_holders_key_serves_the_next_waiter_at_once(sandbox: Sandbox) -> None:
    with provider(sandbox, PoolKey(name="alpha")) as server:
        server.script("alpha", Step(kind="hang"))
        _items(sandbox, "a", "b")
        run = _run(sandbox, "--parallel", "2")
        eventually(lambda: server.hits("alpha") == 1, "a call under way")
        holder = server.requests[0].prompt.split()[0]
        waiter = {"a": "b", "b": "a"}[holder]
        victim = _asking_pid(sandbox, holder)
        _asking_pid(sandbox, waiter)
        os.kill(victim, signal.SIGKILL)
        # Within the deadline: a key that came back only with the item's time limit would take half an hour.
        eventually(lambda: server.hits("alpha") == 2, "the next call")
        finished = run.wait()

    assert finished.code == 1
    assert sandbox.outcomes() == {holder: "failed", waiter: "completed"}


@pytest.mark.every_backend
def test_a_suspended_holder_keeps_its_key_and_goes_on_where_it_was(sandbox: Sandbox) -> None:
    with provider(sandbox, PoolKey(name="alpha"), latency_seconds=3.0) as server:
        _items(sandbox, "a", "b")
        run = _run(sandbox, "--parallel", "2", "--stall-seconds", "8")
        eventually(lambda: server.hits("alpha") == 1, "a call under way")
        holder = server.requests[0].prompt.split()[0]
        pid = _asking_pid(sandbox, holder)
        os.kill(pid, signal.SIGSTOP)
        run.wait_for_line(f"[{holder}] suspended")
        assert server.hits("alpha") == 1
        os.kill(pid, signal.SIGCONT)
        finished = run.wait()

    assert finished.code == 0, finished.stdout
    assert server.stats()["by_status"] == {"200": 2}


@pytest.mark.slow
def test_what_a_run_learned_is_known_to_the_next_though_its_coordinator_was_killed(sandbox: Sandbox) -> None:
    with provider(sandbox, PoolKey(name="alpha"), PoolKey(name="beta")) as server:
        for name in ("alpha", "beta"):
            server.script(name, Step(kind="daily_limit"))
        server.script("beta", Step(kind="hang", times=-1))
        server.script("alpha", Step(kind="hang", times=-1))
        _items(sandbox, "a")
        run = _run(sandbox)
        run.wait_for_line("out of quota")
        run.wait_for_line(EXHAUSTED)
        run.kill()
        run.process.wait()
        hits = server.stats()["hits"]
        second = _run(sandbox, "--max-wait", "1m").wait()

    assert hits == {"alpha": 1, "beta": 1}
    assert second.code == 75, second.stdout
    assert server.stats()["hits"] == hits


@pytest.mark.slow
def test_two_runs_at_once_share_what_is_known_of_the_keys(sandbox: Sandbox) -> None:
    with provider(sandbox, PoolKey(name="alpha"), PoolKey(name="beta")) as server:
        server.script("alpha", Step(kind="daily_limit", times=-1))
        _items(sandbox, "a", calls=2, tasks={"finish": "wait go-on"})
        first = _run(sandbox)
        sandbox.wait_for_note("a finish start")
        sandbox.write_items({"id": "b", "input": {"calls": 4}}, name="others.jsonl")
        second = _run(sandbox, items="others.jsonl").wait()
        sandbox.release("go-on")
        assert first.wait().code == 0

    assert second.code == 0, second.stdout
    assert (server.hits("alpha"), server.hits("beta")) == (1, 6)


def test_the_pool_can_be_limited_and_a_429_simulated_by_hand(sandbox: Sandbox) -> None:
    by_hand = {"AGENTOS_CREDENTIAL_LIMIT": "1", "AGENTOS_SIMULATE_429": "true"}
    with provider(sandbox, PoolKey(name="alpha"), PoolKey(name="beta")) as server:
        _items(sandbox, "a")
        finished = _run(sandbox, env=by_hand).wait()

    assert finished.code == 0, finished.stdout
    assert "Key alpha rate-limited" in finished.stdout
    assert "a has its SDK: True" in sandbox.notes()  # Loaded once, before the worker was made.
    assert server.stats()["by_key_and_status"] == {"alpha": {"200": 1}}


@pytest.mark.every_backend
def test_stopping_gives_up_calls_in_every_thread_and_the_item_resumes(sandbox: Sandbox) -> None:
    with provider(sandbox, PoolKey(name="alpha")) as server:
        server.script("alpha", Step(kind="hang"))
        _items(sandbox, "a")
        spec = "graphs/callers.py:side_by_side"
        run = _run(sandbox, graph=spec)
        said = run.wait_for_line(EXHAUSTED)  # One branch has the key, the other waits for it.
        eventually(lambda: server.hits("alpha") == 1, "a call under way")
        run.kill(signal.SIGINT)
        stopped = run.wait()
        resumed = _run(sandbox, graph=spec).wait()

    assert (stopped.code, resumed.code) == (130, 0), stopped.stdout + resumed.stdout
    assert (
        said == f"{EXHAUSTED} all keys are busy (1 call at a time). To go faster, add a key or raise max_concurrent"
    )
    assert "available again" not in stopped.stdout
    assert sandbox.notes().count("a gave up: CallCancelledError") == 2
    assert server.stats()["by_status"] == {"hang": 1, "200": 2}


def test_async_nodes_lease_keys_too(sandbox: Sandbox) -> None:
    with provider(sandbox, PoolKey(name="alpha")) as server:
        _items(sandbox, "a")
        finished = _run(sandbox, graph="graphs/callers.py:asynchronous").wait()

    assert finished.code == 0, finished.stdout
    assert server.stats()["by_status"] == {"200": 1}


def test_recordings_of_a_resumed_item_go_on_where_they_were(sandbox: Sandbox) -> None:
    saved = sandbox.root / "recordings"
    _items(sandbox, "a", model="offline", rounds=3, tasks={"look": "kill_once worker first-look"})
    spec = "graphs/callers.py:loop"
    first = _run(sandbox, graph=spec, env={"AGENTOS_RECORD_DIR": str(saved)}).wait()
    second = _run(sandbox, graph=spec, env={"AGENTOS_RECORD_DIR": str(saved)}).wait()

    assert (first.code, second.code) == (1, 0), first.stdout + second.stdout
    assert sorted(path.name for path in saved.rglob("*.json")) == ["ask.1.json", "ask.2.json", "ask.3.json"]


def test_a_projects_file_does_not_decide_where_keys_go_outside_this_machine(sandbox: Sandbox) -> None:
    write_keys(sandbox, PoolKey(name="alpha"))
    (sandbox.project / "agentos.toml").write_text('[providers.google]\nbase_url = "https://collector.invalid/v1"\n')
    _items(sandbox, "a", calls=1)
    for finished in (_run(sandbox).wait(), sandbox.command("keys", "check", cwd=sandbox.project)):
        assert finished.code == 2, finished.stdout
        assert "would send your google keys to https://collector.invalid/v1" in finished.stderr
        assert "export AGENTOS_PROVIDERS__GOOGLE__BASE_URL=https://collector.invalid/v1" in finished.stderr
    assert sandbox.run_dirs() == []

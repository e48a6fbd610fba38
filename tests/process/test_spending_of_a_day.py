"""The cap of a home per day, over runs, a gateway and a notebook, and over kills."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from harness import Finished, Sandbox, Started, eventually, gateways_of, of_type, resume_line
from providers import PoolKey, provider

from agentos.testing.provider_server import Step

OUTPUT_TOKENS = 4000
LONG_ANSWER = "word" * OUTPUT_TOKENS
"""What one such answer costs is a cent; its question costs next to nothing."""
KEYS = [PoolKey(name=name, max_concurrent=2) for name in ("alpha", "beta")]


def _cap(sandbox: Sandbox, usd: float) -> None:
    sandbox.home.mkdir(mode=0o700, exist_ok=True)
    path = sandbox.home / "agentos.toml"
    path.write_text(f"[budget]\nusd_per_day = {usd}\n")
    path.chmod(0o600)


def _items(sandbox: Sandbox, name: str, calls: int, items: int) -> str:
    asked = {"calls": calls, "max_output_tokens": OUTPUT_TOKENS}
    sandbox.write_items(*({"id": f"{name}-{n}", "input": asked} for n in range(items)), name=f"{name}.jsonl")
    return f"{name}.jsonl"


def _start(sandbox: Sandbox, name: str, calls: int, items: int = 2) -> Started:
    return sandbox.start("--parallel", "2", graph="callers", items=_items(sandbox, name, calls, items))


def _through_gateway(sandbox: Sandbox) -> httpx.Response:
    gateway = sandbox.start_command("gateway", "--json")
    said = json.loads(gateway.wait_for_line("address"))
    try:
        return httpx.post(
            f"{said['address']}/v1beta/models/gemini-2.5-flash:generateContent",
            headers={"x-goog-api-key": said["clients"][0]["token"]},
            json={
                "contents": [{"role": "user", "parts": [{"text": "hello"}]}],
                "generationConfig": {"maxOutputTokens": OUTPUT_TOKENS},
            },
            timeout=60,
        )
    finally:
        gateway.kill(signal.SIGTERM)
        gateway.wait()


def _in_a_notebook(sandbox: Sandbox) -> str:
    call = f"generate('hi', model='google:gemini-2.5-flash', max_output_tokens={OUTPUT_TOKENS})"
    command = [sys.executable, "-c", f"from agentos.llm import generate; {call}"]
    done = subprocess.run(
        command, env=sandbox.environment, cwd=sandbox.project, capture_output=True, text=True, check=False
    )
    return done.stderr


def _spent_usd(sandbox: Sandbox) -> float:
    return sum(record["cost_usd"] for record in of_type(sandbox.records(), "item_ended"))


@pytest.mark.slow
def test_runs_a_gateway_and_a_notebook_spend_from_one_cap_and_more_money_resumes(sandbox: Sandbox) -> None:
    _cap(sandbox, 0.105)
    with provider(sandbox, *KEYS, reply=LONG_ANSWER, latency_seconds=0.1) as server:
        runs = [_start(sandbox, name, calls=6) for name in ("first", "second")]
        done = [run.wait() for run in runs]
        spent, hits = _spent_usd(sandbox), server.stats()["total"]
        refused, stderr = _through_gateway(sandbox), _in_a_notebook(sandbox)
        doctor = sandbox.command("doctor", "--no-calls", "--no-suite")
        assert server.stats()["total"] == hits == 10
        _cap(sandbox, 5)
        resumed = [sandbox.paste(each) for each in done]

    assert spent <= 0.105
    for each in done:
        _ends_at_the_days_budget(each, "$0.105", "$0.10")
    assert (refused.status_code, "The day's budget of $0.105" in refused.text) == (402, True), refused.text
    assert "BudgetReachedError: The day's budget of $0.105" in stderr
    assert "budget: $0.10 of $0.105 spent or reserved today" in doctor.stdout
    assert [each.code for each in resumed] == [0, 0], resumed[0].stdout
    assert set(sandbox.outcomes().values()) == {"completed"}


def _ends_at_the_days_budget(run: Finished, cap: str, spent: str) -> None:
    assert run.code == 5, run.stdout
    assert f"The day's budget of {cap} for everything with this home is reached: {spent} spent" in run.stdout
    assert "Resume after 00:00 UTC, here 20" in run.stdout
    assert "--budget" not in resume_line(run)


def test_what_a_killed_run_had_reserved_stays_spent_and_nobody_waits_for_it(sandbox: Sandbox) -> None:
    _cap(sandbox, 0.025)
    with provider(sandbox, *KEYS, reply=LONG_ANSWER, latency_seconds=600) as server:
        killed = _start(sandbox, "first", calls=1)
        eventually(lambda: len(server.requests) == 2, "both calls")
        waiting = _start(sandbox, "second", calls=1)
        eventually(lambda: "budget" in _causes(sandbox), "a call that waits for money")
        killed.kill()
        ended = waiting.wait()
        assert len(server.requests) == 2
    _ends_at_the_days_budget(ended, "$0.025", "$0.02")


def test_a_call_in_flight_counts_whose_gateway_is_killed(sandbox: Sandbox) -> None:
    """The provider answers it, though nobody sees that: what is left is not spent twice."""
    _cap(sandbox, 0.025)
    with provider(sandbox, *KEYS, reply=LONG_ANSWER) as server:
        server.script("*", Step(kind="ok", delay_seconds=600))
        run = _start(sandbox, "first", calls=2, items=1)
        eventually(lambda: server.requests, "a call")
        (gateway,) = gateways_of(run.pid)
        os.kill(gateway, signal.SIGKILL)
        ended = run.wait()
        assert len(server.requests) == 2
    _ends_at_the_days_budget(ended, "$0.025", "$0.02")


def _causes(sandbox: Sandbox) -> set[str]:
    return {record["cause"] for record in of_type(sandbox.records(), "item_waiting")}


def test_a_project_cannot_raise_it_and_a_run_says_what_is_left(sandbox: Sandbox) -> None:
    _cap(sandbox, 0.05)
    with provider(sandbox, *KEYS, reply=LONG_ANSWER) as server:
        first = _start(sandbox, "first", calls=1).wait()
        second = _start(sandbox, "second", calls=1).wait()
        settings: Path = sandbox.project / "agentos.toml"
        settings.write_text(f"{settings.read_text()}[budget]\nusd_per_day = 100\n")
        refused = _start(sandbox, "third", calls=1).wait()
    assert (first.code, second.code, refused.code, server.stats()["total"]) == (0, 0, 2, 4)
    assert "so no project can set it" in refused.stderr
    assert "The day's budget for everything with this home: $0.00 of $0.05 spent or reserved." in first.stdout
    assert "The day's budget for everything with this home: $0.02 of $0.05 spent or reserved." in second.stdout
    assert "The day's budget: $0.04 of $0.05 spent or reserved (80%)" in second.stdout

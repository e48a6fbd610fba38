"""Money in real runs: reserved before each call, said at 80 %, stopped at the cap, resumed with more."""

from __future__ import annotations

import re

import pytest
from backlog import OFFLINE, Backlog
from harness import Finished, Sandbox, of_type, resume_line
from providers import PoolKey, provider

MODEL = "google:gemini-2.5-flash"
OUTPUT_TOKENS = 4000
LONG_ANSWER = "word" * OUTPUT_TOKENS  # Four characters a token, as the server counts.
CALL_USD = 0.01
"""What one such answer costs: 2.5 dollars a million tokens. Its question costs next to nothing."""


def _run(sandbox: Sandbox, *more: str) -> Finished:
    return sandbox.start(*more, graph="callers").wait()


def _spent_usd(sandbox: Sandbox) -> float:
    return sum(record["cost_usd"] for record in of_type(sandbox.records(), "item_ended"))


@pytest.mark.every_backend
def test_a_budget_is_never_passed_and_more_money_resumes_the_rest(sandbox: Sandbox) -> None:
    keys = [PoolKey(name=name) for name in ("alpha", "beta", "gamma")]
    with provider(sandbox, *keys, reply=LONG_ANSWER, latency_seconds=0.05) as server:
        sandbox.write_items(
            *({"id": item, "input": {"calls": 4, "max_output_tokens": OUTPUT_TOKENS}} for item in "abc")
        )
        stopped = _run(sandbox, "--parallel", "3", "--budget", "0.055")
        spent, hits = _spent_usd(sandbox), server.stats()["total"]
        assert "--budget 0.11" in resume_line(stopped)
        resumed = _run(sandbox, "--parallel", "3", "--budget", "5")

    assert stopped.code == 5, stopped.stdout
    assert hits == 5
    assert 0.8 * 0.055 <= spent <= 0.055
    assert len(re.findall(r"^\[COORDINATOR\] Budget: \$0\.05 of \$0\.055 spent", stopped.stdout, re.M)) == 1
    assert stopped.stdout.count("Resume with a higher --budget") == 1
    assert "failed" not in sandbox.outcomes().values()
    assert resumed.code == 0, resumed.stdout
    assert set(sandbox.outcomes().values()) == {"completed"}
    assert all(sandbox.notes().count(f"{item} prepare start") == 1 for item in "abc")


def test_a_call_that_could_pass_the_budget_is_not_made(sandbox: Sandbox) -> None:
    with provider(sandbox, PoolKey(name="alpha")) as server:
        sandbox.write_items({"id": "a", "input": {"max_output_tokens": OUTPUT_TOKENS}})
        finished = _run(sandbox, "--budget", "0.001")

    assert finished.code == 5, finished.stdout
    assert (
        "The budget of $0.001 is reached: $0.00 spent, and the next call is estimated at $0.01. " in finished.stdout
    )
    assert "--budget 0.011" in resume_line(finished)
    assert server.stats()["total"] == 0


def test_what_is_reserved_is_what_the_provider_may_answer(sandbox: Sandbox) -> None:
    with provider(sandbox, PoolKey(name="alpha")) as server:
        sandbox.write_items({"id": "a", "input": {"calls": 1}})
        assert _run(sandbox, "--budget", "1").code == 0
        assert _run(sandbox).code == 0
        bounded, free = server.requests

    assert (bounded.max_output_tokens, free.max_output_tokens) == (8192, None)


def test_a_budget_counts_what_the_runs_before_it_have_spent(sandbox: Sandbox) -> None:
    with provider(sandbox, PoolKey(name="alpha"), reply=LONG_ANSWER) as server:
        sandbox.write_items({"id": "a", "input": {"rounds": 4, "max_output_tokens": OUTPUT_TOKENS}})
        first = sandbox.start("--budget", "0.0255", graph="graphs/callers.py:loop").wait()
        second = sandbox.start("--budget", "0.0255", graph="graphs/callers.py:loop").wait()
        hits = server.stats()["total"]
        enough = sandbox.start("--budget", "0.0455", graph="graphs/callers.py:loop").wait()
        again = sandbox.start("--budget", "0.0455", graph="graphs/callers.py:loop").wait()

    assert (first.code, second.code, hits) == (5, 5, 2), second.stdout
    assert enough.code == 0, enough.stdout
    assert server.stats()["total"] == 8
    assert again.code == 0, "a batch that is done has nothing left to count"


def test_the_line_that_resumes_has_a_higher_budget(sandbox: Sandbox) -> None:
    with provider(sandbox, PoolKey(name="alpha")) as server:
        sandbox.write_items({"id": "a", "input": {"max_output_tokens": OUTPUT_TOKENS}})
        stopped = _run(sandbox, "--budget", "0.0075")
        assert (stopped.code, server.stats()["total"]) == (5, 0)
        assert "--budget 0.015" in resume_line(stopped)
        assert sandbox.paste(stopped).code == 0


def test_a_model_without_a_price_does_not_go_with_a_budget_until_it_is_given_one(sandbox: Sandbox) -> None:
    with provider(sandbox, PoolKey(name="alpha"), reply=LONG_ANSWER) as server:
        sandbox.write_items(
            {"id": "a", "input": {"model": "google:my-own-model", "max_output_tokens": OUTPUT_TOKENS}}
        )
        refused = _run(sandbox, "--budget", "0.5")
        assert (refused.code, server.stats()["total"]) == (1, 0)
        assert "google:my-own-model has no price, so a budget cannot be kept" in refused.stdout
        free = _run(sandbox, "--fresh")
        assert (free.code, _spent_usd(sandbox)) == (0, 0)

        too_dear = _run(sandbox, "--fresh", "--budget", "0.5", "--unpriced", "0/1000")
        assert (too_dear.code, server.stats()["total"]) == (5, 1)
        assert resume_line(too_dear).endswith("--budget 4 --unpriced 0/1000")
        settings = sandbox.project / "agentos.toml"
        settings.write_text(settings.read_text() + '[prices]\nmodels = ["google:my-own-model 0/100"]\n')
        assert _run(sandbox, "--fresh", "--budget", "0.5").code == 0
    assert _spent_usd(sandbox) == OUTPUT_TOKENS * 100 / 1_000_000


def test_the_models_of_a_workflow_are_checked_before_anything_starts(backlog: Backlog) -> None:
    backlog.add_issues(1)
    key = {"GEMINI_API_KEY": "AIzaSy-a-secret-of-nobody-0123456789"}
    refused = backlog.lld("1", "--drafter", "google:my-own-model", "--budget", "3", env=key)
    assert (refused.code, refused.stdout, backlog.run_dirs()) == (2, "", [])
    assert "google:my-own-model has no price" in refused.stderr
    preview = backlog.lld("1", "--drafter", "google:my-own-model", "--budget", "3", "--dry-run", env=key)
    assert (preview.code, preview.stdout, preview.stderr) == (2, "", refused.stderr)
    wrong = backlog.lld("1", *OFFLINE, "--budget", "3", "--unpriced", "dear")
    assert (wrong.code, backlog.run_dirs()) == (2, [])
    assert "--unpriced must be dollars per million tokens in and out, like 2/12, got 'dear'" in wrong.stderr
    assert backlog.lld("1", *OFFLINE, "--budget", "3").code == 0

"""When a failed attempt is tried again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from agentos.llm.retries import Failures, GiveUp, RetryPolicy, TryAgain, after_failure, backoff_seconds
from agentos.llm.types import Attempted
from agentos.providers.evidence import (
    Abandoned,
    Evidence,
    Overloaded,
    QuotaSpent,
    RateLimited,
    Rejected,
    RequestFailed,
    TransportFailed,
)

POLICY = RetryPolicy()


@pytest.mark.parametrize("evidence", [RateLimited(retry_after_seconds=60), QuotaSpent(), Rejected()])
def test_what_belongs_to_keys_is_asked_of_the_pool_again_at_once(evidence: Evidence) -> None:
    failures = Failures(overloads=3)

    assert after_failure(Attempted(evidence=evidence), failures, POLICY, 0.5) == TryAgain(0.0, failures)


def test_overload_waits_as_long_as_the_provider_asked() -> None:
    step = after_failure(Attempted(evidence=Overloaded(retry_after_seconds=17)), Failures(), POLICY, 1.0)

    assert step == TryAgain(17, Failures(overloads=1))


@pytest.mark.parametrize("evidence", [RequestFailed(status=400), Abandoned()])
def test_a_wrong_request_is_never_tried_again(evidence: Evidence) -> None:
    assert after_failure(Attempted(evidence=evidence), Failures(), POLICY, 0.5) == GiveUp(1)


@given(
    failures=st.lists(st.sampled_from(["overload", "reset", "timeout"]), min_size=20, max_size=20),
    jitter=st.floats(0, 1),
)
@hypothesis_settings(deadline=None, max_examples=50)
def test_failures_of_the_provider_end_after_a_bounded_number(failures: list[str], jitter: float) -> None:
    so_far, tried = Failures(), 0
    for failure in failures:
        tried += 1
        evidence = Overloaded() if failure == "overload" else TransportFailed()
        step = after_failure(Attempted(evidence=evidence, timed_out=failure == "timeout"), so_far, POLICY, jitter)
        if isinstance(step, GiveUp):
            break
        assert 0 < step.delay_seconds <= POLICY.cap_seconds
        so_far = step.failures
    assert tried <= POLICY.overload_attempts + POLICY.transport_attempts - 1


def test_backoff_doubles_up_to_the_cap_with_half_of_it_random() -> None:
    assert [backoff_seconds(n, POLICY, 1.0) for n in (1, 2, 3, 100)] == [0.5, 1.0, 2.0, 30.0]
    assert backoff_seconds(3, POLICY, 0.0) == 1.0

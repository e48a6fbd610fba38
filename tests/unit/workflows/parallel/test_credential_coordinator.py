"""The pool's face for threads: both vocabularies, order, waiting without polling, and what is told."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from unittest.mock import patch

import pytest

from agentos.events import Event, KeyCoolingDown, PoolExhausted, PoolResumed
from agentos.workflows.parallel.credential_coordinator import CredentialCoordinator

GENEROUS_SECONDS = 20.0


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + GENEROUS_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "the condition never came true"
        time.sleep(0.002)


def quiet(event: Event) -> None:
    """A listener that says nothing."""


def coordinator_of(*keys: str) -> tuple[CredentialCoordinator, list[Event]]:
    events: list[Event] = []
    return CredentialCoordinator(list(keys), on_event=events.append), events


def in_thread(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work)
    thread.start()
    return thread


def test_a_key_is_held_by_one_caller_until_released() -> None:
    coordinator, _ = coordinator_of("a", "b")
    held = {coordinator.acquire(), coordinator.acquire()}
    assert held == {"a", "b"}
    assert coordinator.acquire(timeout=0.02) is None
    coordinator.release("a")
    assert coordinator.acquire(timeout=GENEROUS_SECONDS) == "a"


def test_the_key_used_longest_ago_comes_first() -> None:
    coordinator, _ = coordinator_of("a", "b", "c")
    order = []
    for _ in range(6):
        key = coordinator.acquire()
        assert key is not None
        coordinator.release(key)
        order.append(key)
    assert order == ["a", "b", "c", "a", "b", "c"]


def test_an_empty_pool_answers_at_once() -> None:
    coordinator, events = coordinator_of()
    assert coordinator.acquire() is None
    assert coordinator.reserve("w") is None
    assert coordinator.get_available_count() == 0
    assert not coordinator.is_pool_exhausted()
    assert not coordinator.wait_for_availability(timeout_seconds=0.01)
    assert events == []


def test_the_same_key_twice_is_one_key() -> None:
    coordinator, _ = coordinator_of("a", "a")
    assert coordinator.get_available_count() == 1


def test_reserve_never_waits_and_exhaustion_means_all_reserved() -> None:
    coordinator, events = coordinator_of("a", "b")
    assert coordinator.reserve("worker-1") == "a"
    assert not coordinator.is_pool_exhausted()
    assert coordinator.reserve("worker-2") == "b"
    assert coordinator.is_pool_exhausted()
    assert coordinator.reserve("worker-3") is None
    assert coordinator.get_available_count() == 0
    coordinator.release("b")
    assert not coordinator.is_pool_exhausted()
    assert coordinator.get_available_count() == 1
    assert events == []


def test_rate_limited_keys_are_not_reserved_ones() -> None:
    coordinator, _ = coordinator_of("a")
    key = coordinator.reserve("w")
    assert key == "a"
    coordinator.report_rate_limit(key, 120)
    coordinator.release(key)
    assert not coordinator.is_pool_exhausted()
    assert coordinator.get_available_count() == 0
    assert coordinator.reserve("w") is None


def test_a_report_before_or_after_the_release_limits_the_key_alike() -> None:
    coordinator, events = coordinator_of("a", "b")
    first, second = coordinator.reserve("w1"), coordinator.reserve("w2")
    assert first is not None
    assert second is not None
    coordinator.report_rate_limit(first, 120)
    coordinator.release(first)
    coordinator.release(second)
    coordinator.report_rate_limit(second, 120)
    assert coordinator.get_available_count() == 0
    assert [e.key_number for e in events if isinstance(e, KeyCoolingDown)] == [1, 2]


def test_a_late_plain_release_does_not_shorten_a_reported_limit() -> None:
    coordinator, _ = coordinator_of("a")
    for _ in range(2):
        key = coordinator.acquire(timeout=GENEROUS_SECONDS)
        assert key == "a"
        coordinator.report_rate_limit(key, 0.01)
        coordinator.release(key)
    # The second call was the probe; it was throttled, so its release must not open the key.
    assert coordinator.get_available_count() == 0


def held_twice() -> tuple[CredentialCoordinator, str, str]:
    """The only key, as its first holder got it, who reported it throttled, and as the second one did."""
    coordinator, _ = coordinator_of("a")
    first = coordinator.acquire()
    assert first is not None
    coordinator.report_rate_limit(first, 0.01)
    second = coordinator.acquire(timeout=GENEROUS_SECONDS)
    assert second == first == "a"
    return coordinator, first, second


@pytest.mark.parametrize("rate_limited", [False, True])
def test_a_late_release_does_not_free_the_next_holders_key(rate_limited: bool) -> None:
    coordinator, first, second = held_twice()
    coordinator.release(first, rate_limited=rate_limited)
    assert coordinator.is_pool_exhausted()
    assert coordinator.acquire(timeout=0) is None
    coordinator.release(second)
    assert coordinator.get_available_count() == 1


def test_a_late_report_limits_the_key_and_leaves_it_to_its_holder() -> None:
    coordinator, first, second = held_twice()
    coordinator.report_rate_limit(first, 120)
    assert coordinator.is_pool_exhausted()
    coordinator.release(second)
    assert not coordinator.is_pool_exhausted()


def test_a_key_written_out_means_whoever_holds_it() -> None:
    coordinator, _, _ = held_twice()
    coordinator.release("a")
    assert coordinator.acquire(timeout=0) == "a"


def test_unknown_keys_are_no_error() -> None:
    coordinator, events = coordinator_of("a")
    coordinator.release("never-seen")
    coordinator.release("a", rate_limited=True)
    coordinator.report_rate_limit("never-seen", 5)
    assert coordinator.get_available_count() == 1
    assert events == []


def test_a_rate_limited_key_comes_back_by_itself() -> None:
    coordinator, events = coordinator_of("a")
    key = coordinator.acquire()
    assert key == "a"
    coordinator.release(key, rate_limited=True, backoff_seconds=0.05)
    assert coordinator.acquire(timeout=GENEROUS_SECONDS) == "a"
    kinds = [type(event) for event in events]
    assert kinds == [KeyCoolingDown, PoolExhausted, PoolResumed]
    exhausted = events[1]
    assert isinstance(exhausted, PoolExhausted)
    assert exhausted.kind == "limited"
    assert exhausted.until is not None
    assert exhausted.until.endswith("Z")


def test_exhaustion_is_told_once_for_all_waiters_and_its_end_once() -> None:
    coordinator, events = coordinator_of("a", "b")
    held = [coordinator.acquire(), coordinator.acquire()]
    served: list[str | None] = []
    threads = [in_thread(lambda: served.append(coordinator.acquire(GENEROUS_SECONDS))) for _ in range(5)]
    wait_until(lambda: coordinator.get_waiting_count() == 5)
    wait_until(lambda: len(events) == 1)
    for key in held:
        assert key is not None
        coordinator.release(key)
    for count in range(2, 5):
        wait_until(lambda count=count: len(served) >= count)  # type: ignore[misc]
        key = served[count - 2]
        assert key is not None
        coordinator.release(key)
    for thread in threads:
        thread.join(GENEROUS_SECONDS)
    assert len(served) == 5
    assert [type(event) for event in events] == [PoolExhausted, PoolResumed]
    assert events[0] == PoolExhausted(kind="in_use")


def test_waiting_threads_are_served_in_the_order_they_came() -> None:
    coordinator, _ = coordinator_of("a")
    assert coordinator.acquire() == "a"
    served: list[int] = []

    def wait(number: int) -> None:
        key = coordinator.acquire(GENEROUS_SECONDS)
        assert key is not None
        served.append(number)
        coordinator.release(key)

    threads = []
    for number in range(8):
        threads.append(in_thread(lambda number=number: wait(number)))  # type: ignore[misc]
        wait_until(lambda number=number: coordinator.get_waiting_count() == number + 1)  # type: ignore[misc]
    coordinator.release("a")
    for thread in threads:
        thread.join(GENEROUS_SECONDS)
    assert served == list(range(8))


def test_no_wake_up_is_lost_among_many_threads() -> None:
    coordinator, _ = coordinator_of("a", "b", "c")
    holders: set[str] = set()
    guard = threading.Lock()
    rounds: list[str] = []

    def work() -> None:
        for _ in range(40):
            key = coordinator.acquire(GENEROUS_SECONDS)
            assert key is not None
            with guard:
                assert key not in holders
                holders.add(key)
            with guard:
                holders.discard(key)
                rounds.append(key)
            coordinator.release(key)

    threads = [in_thread(work) for _ in range(12)]
    for thread in threads:
        thread.join(GENEROUS_SECONDS)
    assert len(rounds) == 480
    assert coordinator.get_available_count() == 3


def test_a_waiter_that_times_out_leaves_its_turn_to_the_next() -> None:
    coordinator, _ = coordinator_of("a")
    assert coordinator.acquire() == "a"
    assert coordinator.acquire(timeout=0.01) is None
    served: list[str | None] = []
    thread = in_thread(lambda: served.append(coordinator.acquire(GENEROUS_SECONDS)))
    wait_until(lambda: coordinator.get_waiting_count() == 1)
    coordinator.release("a")
    thread.join(GENEROUS_SECONDS)
    assert served == ["a"]


def test_wait_for_availability_takes_nothing() -> None:
    coordinator, events = coordinator_of("a")
    assert coordinator.wait_for_availability(0.01)
    assert coordinator.reserve("w") == "a"
    assert not coordinator.wait_for_availability(timeout_seconds=0.01)
    answers: list[bool] = []
    thread = in_thread(lambda: answers.append(coordinator.wait_for_availability(GENEROUS_SECONDS)))
    wait_until(lambda: bool(events))
    coordinator.release("a")
    thread.join(GENEROUS_SECONDS)
    assert answers == [True]
    assert coordinator.get_available_count() == 1


def test_wait_for_availability_wakes_when_a_limit_ends() -> None:
    coordinator, _ = coordinator_of("a")
    coordinator.report_rate_limit("a", 0.05)
    assert coordinator.wait_for_availability(GENEROUS_SECONDS)


def test_wait_for_availability_wakes_when_a_limit_ends_beside_a_held_key() -> None:
    coordinator, _ = coordinator_of("a", "b")
    held, other = coordinator.acquire(), coordinator.acquire()
    assert held is not None
    assert other is not None
    coordinator.release(other, rate_limited=True, backoff_seconds=0.05)
    answers: list[bool] = []
    thread = threading.Thread(target=lambda: answers.append(coordinator.wait_for_availability(600)), daemon=True)
    thread.start()
    thread.join(GENEROUS_SECONDS)
    assert answers == [True]


def test_limited_keys_are_told_apart_from_busy_ones() -> None:
    coordinator, events = coordinator_of("a", "b")
    assert coordinator.acquire() == "a"
    coordinator.report_rate_limit("b", 60)
    assert coordinator.acquire(timeout=0.01) is None
    assert events[-1] == PoolExhausted(kind="in_use", limited=("key 2",))


def test_no_event_shows_a_key() -> None:
    coordinator, events = coordinator_of("SENTINEL-1", "SENTINEL-2")
    for _ in range(2):
        key = coordinator.acquire()
        assert key is not None
        coordinator.release(key, rate_limited=True)
    assert coordinator.acquire(timeout=0.01) is None
    assert len(events) == 3
    assert "SENTINEL" not in repr(events)


def test_in_use_that_turns_into_limited_is_told() -> None:
    coordinator, events = coordinator_of("a")
    assert coordinator.acquire() == "a"
    thread = in_thread(lambda: coordinator.acquire(GENEROUS_SECONDS))
    wait_until(lambda: len(events) == 1)
    coordinator.release("a", rate_limited=True, backoff_seconds=0.05)
    thread.join(GENEROUS_SECONDS)
    assert [e.kind for e in events if isinstance(e, PoolExhausted)] == ["in_use", "limited"]
    assert sum(isinstance(e, PoolResumed) for e in events) == 1


def test_a_listener_may_call_back() -> None:
    seen: list[int] = []
    coordinator = CredentialCoordinator(["a"], on_event=lambda event: seen.append(coordinator.get_available_count()))
    assert coordinator.acquire() == "a"
    coordinator.release("a", rate_limited=True, backoff_seconds=0.05)
    assert seen == [0]


def test_a_listener_that_fails_is_dropped_and_nobody_loses_a_key(caplog: pytest.LogCaptureFixture) -> None:
    def fail(event: Event) -> None:
        raise OSError("no console")

    coordinator = CredentialCoordinator(["a"], on_event=fail)
    assert coordinator.acquire() == "a"
    with caplog.at_level(logging.WARNING):
        coordinator.release("a", rate_limited=True, backoff_seconds=0.02)
    assert "dropped" in caplog.text
    assert coordinator.acquire(timeout=GENEROUS_SECONDS) == "a"


def test_without_a_listener_it_prints_and_never_a_key() -> None:
    with patch("builtins.print") as printed:
        coordinator = CredentialCoordinator(["SENTINEL-1", "SENTINEL-2"])
        keys = [coordinator.acquire(), coordinator.acquire()]
        assert coordinator.acquire(timeout=0.02) is None
        for key in keys:
            assert key is not None
            coordinator.release(key, rate_limited=True, backoff_seconds=30.0)
    text = "\n".join(str(call) for call in printed.call_args_list)
    assert "[COORDINATOR] Credential pool exhausted" in text
    assert "rate-limited" in text
    assert "30" in text
    assert "SENTINEL" not in text


def test_the_pool_does_not_poll_while_it_waits() -> None:
    reads = 0

    def clock() -> float:
        nonlocal reads
        reads += 1
        return time.time()

    coordinator = CredentialCoordinator(["a"], on_event=quiet, clock=clock)
    assert coordinator.acquire() == "a"
    before = reads
    assert coordinator.acquire(timeout=0.3) is None
    assert reads - before < 15


def test_a_reported_key_is_no_longer_held_and_comes_back_by_itself() -> None:
    coordinator, _ = coordinator_of("a", "b")
    held, limited = coordinator.reserve("w1"), coordinator.reserve("w2")
    assert limited is not None
    coordinator.report_rate_limit(limited, 0.05)
    assert not coordinator.is_pool_exhausted()
    assert coordinator.wait_for_availability(GENEROUS_SECONDS)
    assert coordinator.acquire(GENEROUS_SECONDS) == limited != held

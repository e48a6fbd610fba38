"""The schedule: what starts, waits, is skipped or left, decided without a clock."""

from __future__ import annotations

import pytest

from agentos.engine.schedule import Action, Ending, Finish, Kill, Retry, Schedule, Skip, Start, Stop


def started(actions: list[Action]) -> list[str]:
    return [action.item_id for action in actions if isinstance(action, Start)]


def test_as_many_start_as_the_limit_allows_in_order() -> None:
    assert Schedule("abcde", limit=3).begin() == [Start("a", 1), Start("b", 1), Start("c", 1)]


def test_the_next_item_starts_the_moment_one_ends() -> None:
    schedule = Schedule("abc", limit=2)
    schedule.begin()
    assert schedule.ended("b", Ending.DONE) == [Start("c", 1)]


def test_the_last_end_finishes_the_run_once() -> None:
    schedule = Schedule("ab", limit=2)
    schedule.begin()
    assert schedule.ended("a", Ending.DONE) == []
    assert schedule.ended("b", Ending.NOT_DONE) == [Finish()]
    assert schedule.limit_changed(5) == []
    assert schedule.stop() == []
    assert schedule.left == ()


def test_a_run_without_items_is_over_at_once() -> None:
    assert Schedule([], limit=3).begin() == [Finish()]


def test_dependents_wait_for_all_their_dependencies() -> None:
    schedule = Schedule("abc", {"c": ["a", "b"]}, limit=3)
    assert started(schedule.begin()) == ["a", "b"]
    assert schedule.ended("a", Ending.DONE) == []
    assert schedule.ended("b", Ending.DONE) == [Start("c", 1)]


def test_a_free_place_goes_to_the_next_item_that_could_start() -> None:
    schedule = Schedule("abc", {"b": ["a"]}, limit=2)
    assert started(schedule.begin()) == ["a", "c"]


def test_a_released_dependent_goes_before_items_behind_it_in_the_order() -> None:
    schedule = Schedule("abcd", {"b": ["a"]}, limit=1)
    schedule.begin()
    assert started(schedule.ended("a", Ending.DONE)) == ["b"]


@pytest.mark.parametrize("ending", [Ending.NOT_DONE, Ending.CRASHED])
def test_dependents_of_an_item_that_ended_badly_are_skipped_with_their_nearest_cause(ending: Ending) -> None:
    schedule = Schedule("abcd", {"b": ["a"], "c": ["b"], "d": ["a", "c"]}, limit=2)
    schedule.begin()
    assert schedule.ended("a", ending) == [Skip("b", "a"), Skip("d", "a"), Skip("c", "b"), Finish()]


def test_an_item_with_a_good_and_a_bad_dependency_is_skipped_once() -> None:
    schedule = Schedule("abc", {"c": ["a", "b"]}, limit=2)
    schedule.begin()
    assert schedule.ended("a", Ending.NOT_DONE) == [Skip("c", "a")]
    assert schedule.ended("b", Ending.DONE) == [Finish()]


def test_dependencies_outside_the_order_do_not_matter() -> None:
    assert started(Schedule("a", {"a": ["elsewhere"]}, limit=1).begin()) == ["a"]


def test_a_crashed_item_is_tried_again_in_its_place_until_its_attempts_are_used() -> None:
    schedule = Schedule("abc", {"c": ["a"]}, limit=1, retries=2)
    schedule.begin()
    assert schedule.ended("a", Ending.CRASHED) == [Retry("a", 1), Start("a", 2)]
    assert schedule.ended("a", Ending.CRASHED) == [Retry("a", 2), Start("a", 3)]
    assert schedule.ended("a", Ending.CRASHED) == [Skip("c", "a"), Start("b", 1)]


def test_an_item_that_only_ended_badly_is_not_tried_again() -> None:
    schedule = Schedule("a", limit=1, retries=5)
    schedule.begin()
    assert schedule.ended("a", Ending.NOT_DONE) == [Finish()]


def test_a_lost_attempt_does_not_count() -> None:
    schedule = Schedule("a", limit=1)
    schedule.begin()
    assert schedule.ended("a", Ending.LOST) == [Retry("a", 0), Start("a", 1)]
    assert schedule.ended("a", Ending.CRASHED) == [Finish()]


def test_stop_asks_running_items_in_order_and_starts_nothing() -> None:
    schedule = Schedule("abcd", limit=2)
    schedule.begin()
    assert schedule.stop() == [Stop("a"), Stop("b")]
    assert schedule.is_stopping
    assert schedule.ended("b", Ending.INTERRUPTED) == []
    assert schedule.limit_changed(10) == []
    assert schedule.ended("a", Ending.DONE) == [Finish()]
    assert schedule.left == ("b", "c", "d")


def test_a_second_stop_kills_what_still_runs() -> None:
    schedule = Schedule("abc", limit=2)
    schedule.begin()
    schedule.stop()
    schedule.ended("a", Ending.INTERRUPTED)
    assert schedule.stop(at_once=True) == [Kill("b")]


def test_a_stop_before_anything_runs_finishes_the_run() -> None:
    schedule = Schedule("ab", limit=2)
    assert schedule.stop() == [Finish()]
    assert schedule.begin() == []
    assert schedule.left == ("a", "b")


@pytest.mark.parametrize("ending", [Ending.LOST, Ending.INTERRUPTED])
def test_items_cut_short_by_a_stop_are_left_for_the_next_run(ending: Ending) -> None:
    schedule = Schedule("ab", {"b": ["a"]}, limit=1, retries=3)
    schedule.begin()
    schedule.stop()
    assert schedule.ended("a", ending) == [Finish()]
    assert schedule.left == ("a", "b")


def test_an_item_that_crashes_while_stopping_is_not_tried_again() -> None:
    schedule = Schedule("ab", {"b": ["a"]}, limit=1, retries=3)
    schedule.begin()
    schedule.stop()
    assert schedule.ended("a", Ending.CRASHED) == [Skip("b", "a"), Finish()]


def test_a_higher_limit_starts_more_at_once() -> None:
    schedule = Schedule("abcd", limit=1)
    schedule.begin()
    assert started(schedule.limit_changed(3)) == ["b", "c"]
    assert schedule.limit == 3


def test_a_lower_limit_stops_nobody_but_holds_places_back() -> None:
    schedule = Schedule("abcd", limit=3)
    schedule.begin()
    assert schedule.limit_changed(1) == []
    assert schedule.ended("a", Ending.DONE) == []
    assert schedule.ended("b", Ending.DONE) == []
    assert schedule.ended("c", Ending.DONE) == [Start("d", 1)]


def test_a_limit_of_none_pauses_the_run_without_ending_it() -> None:
    schedule = Schedule("ab", limit=1)
    schedule.begin()
    schedule.limit_changed(0)
    assert schedule.ended("a", Ending.DONE) == []
    assert schedule.left == ("b",)
    assert schedule.limit_changed(1) == [Start("b", 1)]


def test_absent_items_never_start_and_their_dependents_are_skipped() -> None:
    schedule = Schedule("abcd", {"b": ["a"], "c": ["b"]}, limit=4, absent=["a"])
    assert schedule.begin() == [Skip("b", "a"), Skip("c", "b"), Start("d", 1)]
    assert schedule.left == ("d",)


def test_absent_items_that_depend_on_each_other_are_nobodys_skips() -> None:
    schedule = Schedule("abc", {"b": ["a"], "c": ["b"]}, limit=4, absent=["a", "b"])
    assert schedule.begin() == [Skip("c", "b"), Finish()]


def test_a_run_whose_items_are_all_absent_is_over_at_once() -> None:
    assert Schedule("ab", limit=1, absent="ab").begin() == [Finish()]


def test_rivals_never_run_beside_each_other_and_others_take_the_place() -> None:
    schedule = Schedule("abc", limit=2, exclusive={"a": ["b"]})
    assert started(schedule.begin()) == ["a", "c"]
    assert schedule.ended("c", Ending.DONE) == []
    assert schedule.ended("a", Ending.NOT_DONE) == [Start("b", 1)]


def test_a_rivalry_counts_both_ways_and_for_retries_too() -> None:
    schedule = Schedule("ab", limit=2, retries=1, exclusive={"b": ["a"]})
    assert started(schedule.begin()) == ["a"]
    assert schedule.ended("a", Ending.CRASHED) == [Retry("a", 1), Start("a", 2)]
    assert started(schedule.ended("a", Ending.DONE)) == ["b"]


def test_rivals_that_are_not_in_the_run_do_not_matter() -> None:
    assert started(Schedule("ab", limit=2, exclusive={"a": ["elsewhere", "a"]}).begin()) == ["a", "b"]


def test_ending_an_item_that_does_not_run_is_a_bug_that_shows() -> None:
    schedule = Schedule("ab", limit=1)
    schedule.begin()
    with pytest.raises(KeyError):
        schedule.ended("b", Ending.DONE)
    schedule.ended("a", Ending.DONE)
    with pytest.raises(KeyError):
        schedule.ended("a", Ending.DONE)


def test_running_tells_who_runs() -> None:
    schedule = Schedule("abc", limit=2)
    schedule.begin()
    schedule.ended("a", Ending.DONE)
    assert schedule.running == {"b", "c"}


def test_done_items_do_not_start_and_their_dependents_need_not_wait() -> None:
    schedule = Schedule(["a", "b", "c"], {"b": ["a"], "c": ["b"]}, limit=3, done=["a"])
    assert schedule.begin() == [Start("b", 1)]
    assert schedule.left == ("b", "c")
    assert schedule.ended("b", Ending.DONE) == [Start("c", 1)]
    assert schedule.ended("c", Ending.DONE) == [Finish()]


def test_a_batch_that_is_done_already_finishes_at_once() -> None:
    assert Schedule(["a", "b"], limit=1, done=["a", "b"]).begin() == [Finish()]


def test_a_withdrawn_item_is_left_and_the_others_end() -> None:
    schedule = Schedule(["a", "b", "c"], {"c": ["b"]}, limit=1)
    schedule.begin()
    schedule.withdraw("b")
    assert schedule.ended("a", Ending.DONE) == [Finish()]
    assert schedule.left == ("b", "c")


def test_a_skipped_item_takes_its_dependents_with_it() -> None:
    schedule = Schedule(["a", "b", "c"], {"c": ["b"]}, limit=1)
    schedule.begin()
    assert schedule.skip("b") == [Skip("c", "b")]
    assert schedule.ended("a", Ending.DONE) == [Finish()]
    assert schedule.left == ()


def test_a_reopened_item_starts_again_in_its_place_and_so_does_what_was_skipped_for_it() -> None:
    schedule = Schedule(["a", "b", "c", "d"], {"c": ["a"], "d": ["c"]}, limit=1)
    schedule.begin()
    schedule.ended("a", Ending.NOT_DONE)
    assert schedule.skipped_for("a") == ["c", "d"]
    assert schedule.unmet("c") == ("a",)
    schedule.reopen("a")
    assert schedule.left == ("a", "b", "c", "d")
    assert started(schedule.ended("b", Ending.DONE)) == ["a"]
    assert started(schedule.ended("a", Ending.DONE)) == ["c"]


def test_what_waits_for_another_item_that_failed_too_stays_skipped_until_that_one_is_reopened() -> None:
    schedule = Schedule(["a", "b", "c", "d"], {"c": ["a", "b"], "d": ["c"]}, limit=2)
    schedule.begin()
    schedule.ended("a", Ending.NOT_DONE)
    assert schedule.ended("b", Ending.NOT_DONE) == [Finish()]
    assert schedule.skipped_for("a") == []
    schedule.reopen("a")
    assert schedule.left == ("a",)
    assert schedule.skipped_for("b") == ["c", "d"]


def test_a_reopened_item_has_all_its_attempts_again_and_counts_on() -> None:
    schedule = Schedule(["a", "b"], limit=1, retries=1)
    schedule.begin()
    schedule.ended("a", Ending.CRASHED)
    assert not schedule.has_retries("a")
    schedule.ended("a", Ending.CRASHED)
    assert schedule.running == {"b"}
    schedule.reopen("a")
    assert schedule.ended("b", Ending.DONE) == [Start("a", 3)]
    assert schedule.has_retries("a")
    assert schedule.ended("a", Ending.CRASHED) == [Retry("a", 3), Start("a", 4)]
    assert schedule.ended("a", Ending.CRASHED) == [Finish()]


def test_an_attempt_that_a_person_stopped_is_not_counted_when_the_item_is_wanted_again() -> None:
    schedule = Schedule(["a", "b"], limit=2)
    schedule.begin()
    schedule.withdraw("a")
    schedule.ended("a", Ending.INTERRUPTED)
    assert schedule.reopen("a") == [Start("a", 1)]

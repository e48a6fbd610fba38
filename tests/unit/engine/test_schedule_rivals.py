"""Items that must not run beside each other: passed over while a rival runs, never skipped for its failure."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from agentos.engine.schedule import Action, Ending, Finish, Schedule, Skip, Start


def starts(actions: list[Action]) -> list[str]:
    return [action.item_id for action in actions if isinstance(action, Start)]


def test_an_item_waits_for_its_rival_while_others_start() -> None:
    schedule = Schedule("abc", limit=2, exclusive={"a": ["b"]})

    assert starts(schedule.begin()) == ["a", "c"]
    assert starts(schedule.ended("c", Ending.DONE)) == []
    assert starts(schedule.ended("a", Ending.DONE)) == ["b"]


def test_one_entry_of_a_pair_is_enough_in_either_direction() -> None:
    for exclusive in ({"a": ["b"]}, {"b": ["a"]}):
        assert starts(Schedule("ab", limit=5, exclusive=exclusive).begin()) == ["a"]


def test_a_rival_that_fails_skips_nobody() -> None:
    schedule = Schedule("ab", limit=2, exclusive={"a": ["b"]})
    schedule.begin()

    actions = schedule.ended("a", Ending.NOT_DONE)

    assert starts(actions) == ["b"]
    assert not any(isinstance(action, Skip) for action in actions)


def test_items_passed_over_are_left_when_the_run_stops() -> None:
    schedule = Schedule("ab", limit=2, exclusive={"a": ["b"]})
    schedule.begin()
    schedule.stop()

    assert any(isinstance(action, Finish) for action in schedule.ended("a", Ending.INTERRUPTED))
    assert schedule.left == ("a", "b")


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_rivals_never_run_together_and_everything_ends(data: st.DataObject) -> None:
    order = [str(number) for number in range(data.draw(st.integers(1, 12)))]
    pair = st.tuples(st.sampled_from(order), st.sampled_from(order)).filter(lambda two: two[0] != two[1])
    pairs = data.draw(st.lists(pair, max_size=15)) if len(order) > 1 else []
    exclusive: dict[str, list[str]] = {}
    for one, other in pairs:
        exclusive.setdefault(one, []).append(other)
    schedule = Schedule(order, limit=data.draw(st.integers(1, 4)), exclusive=exclusive)
    started = starts(schedule.begin())
    while schedule.running:
        assert not any({one, other} <= schedule.running for one, other in pairs)
        item_id = data.draw(st.sampled_from(sorted(schedule.running)))
        ending = data.draw(st.sampled_from([Ending.DONE, Ending.NOT_DONE]))
        started += starts(schedule.ended(item_id, ending))
    assert sorted(started, key=int) == order

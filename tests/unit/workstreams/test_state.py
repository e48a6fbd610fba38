"""States change only as they may, and git is the truth."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentos.errors import InvalidIdentifier, UsageError
from agentos.git.worktrees import Worktree
from agentos.workstreams.state import (
    Active,
    Adopted,
    Complete,
    Completed,
    Fail,
    Failed,
    Gone,
    InvalidTransitionError,
    Moved,
    Owner,
    OwnerDead,
    Pause,
    Paused,
    ReachPause,
    Release,
    Request,
    Resume,
    Running,
    State,
    TakeUp,
    Workstream,
    WorktreeMissing,
    healed,
    next_state,
    reconcile,
    select_slugs,
    status_word,
)

NOW = datetime(2026, 1, 2, tzinfo=UTC)
ME = Owner(1, "10")
RUNNING = Running("run1", ME)


@pytest.mark.parametrize(
    ("state", "request_", "expected"),
    [
        (Active(), TakeUp("run1", ME), RUNNING),
        (Failed("x"), TakeUp("run1", ME), RUNNING),
        (RUNNING, Pause(), Running("run1", ME, pause_requested=True)),
        (Running("run1", ME, pause_requested=True), Resume(), RUNNING),
        (RUNNING, ReachPause("run1", "N3_verify_red"), Paused("N3_verify_red")),
        (RUNNING, Release("run1"), Active()),
        (Running("run1", ME, pause_requested=True), Release("run1"), Paused()),
        (RUNNING, Fail("run1", "no tests"), Failed("no tests")),
        (RUNNING, Complete("run1"), Completed()),
        (Active(), Pause(), Paused()),
        (Paused("N4"), Pause(), Paused("N4")),
        (Paused("N4"), Resume(), Active()),
        (Failed("x"), Resume(), Active()),
        (Paused(), Complete(), Completed()),
    ],
)
def test_allowed_transitions(state: State, request_: Request, expected: State) -> None:
    assert next_state("a", state, request_) == expected


@pytest.mark.parametrize(
    ("state", "request_", "words"),
    [
        (RUNNING, TakeUp("run2", ME), "a cannot run: run run1 works on it"),
        (RUNNING, Complete(), "a cannot complete: run run1 works on it"),
        (RUNNING, Fail("run2", "late"), "a cannot fail"),
        (Paused(), TakeUp("run1", ME), "resume it first"),
        (Completed(), TakeUp("run1", ME), "make a new workstream"),
        (Active(), Release("run1"), "a cannot be let go: no run works on it"),
    ],
)
def test_refused_transitions_say_what_to_do(state: State, request_: Request, words: str) -> None:
    with pytest.raises(InvalidTransitionError, match=words):
        next_state("a", state, request_)


REQUESTS: st.SearchStrategy[Request] = st.one_of(
    st.builds(TakeUp, st.sampled_from(["run1", "run2"]), st.just(ME)),
    st.just(Pause()),
    st.just(Resume()),
    st.builds(ReachPause, st.sampled_from(["run1", "run2"]), st.just("N1")),
    st.builds(Release, st.sampled_from(["run1", "run2"])),
    st.builds(Complete, st.sampled_from([None, "run1", "run2"])),
    st.builds(Fail, st.sampled_from(["run1", "run2"]), st.just("x")),
)


@settings(deadline=None, max_examples=100)
@given(st.lists(REQUESTS, max_size=12))
def test_one_run_at_a_time_and_completed_is_final_whatever_is_asked(requests: list[Request]) -> None:
    state: State = Active()
    for request in requests:
        before = state
        try:
            state = next_state("a", state, request)
        except InvalidTransitionError:
            continue
        assert not isinstance(before, Completed)
        if isinstance(before, Running) and isinstance(state, Running):
            assert before.run_id == state.run_id
        assert status_word(state) in {"active", "running", "paused", "completed", "failed"}


def workstream(slug: str, path: Path | None, state: State | None = None) -> Workstream:
    return Workstream(
        slug=slug,
        text="",
        branch=f"agentos/{slug}",
        path=path,
        base="main",
        state=state or Active(),
        created_at=NOW,
        changed_at=NOW,
    )


def test_reconcile_learns_moves_deletions_hand_made_worktrees_and_dead_owners(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    known = {
        "kept": workstream("kept", here),
        "moved": workstream("moved", tmp_path / "old"),
        "missing": workstream("missing", tmp_path / "missing"),
        "gone": workstream("gone", tmp_path / "gone"),
        "stuck": workstream("stuck", here, RUNNING),
    }
    trees = [
        Worktree(here, "c", "agentos/kept", tmp_path),
        Worktree(here, "c", "agentos/stuck", tmp_path),
        Worktree(there, "c", "agentos/moved", tmp_path),
        Worktree(there, "c", "agentos/by-hand", tmp_path),
        Worktree(there, "c", "agentos/not a/slug", tmp_path),
        Worktree(there, "c", "agentos/half", tmp_path, lock_reason="initializing"),
        Worktree(there, "c", None, tmp_path),
    ]
    findings = reconcile(known, trees, {"agentos/missing"}, {ME})
    assert set(findings) == {
        Moved("moved", there),
        WorktreeMissing("missing"),
        Gone("gone"),
        Adopted("by-hand", there),
        OwnerDead("stuck", "run1"),
    }
    after = healed(known, findings, NOW)
    assert after.keys() == {"kept", "moved", "missing", "stuck", "by-hand"}
    assert after["moved"].path == there
    assert after["missing"].path is None
    assert after["stuck"].state == Active()
    assert after["by-hand"].branch == "agentos/by-hand"
    assert reconcile(after, trees, {"agentos/missing"}, {ME}) == ()


def test_wish_to_pause_outlives_a_dead_owner(tmp_path: Path) -> None:
    known = {"a": workstream("a", tmp_path, replace(RUNNING, pause_requested=True))}
    tree = Worktree(tmp_path, "c", "agentos/a", tmp_path)
    assert healed(known, reconcile(known, [tree], (), {ME}), NOW)["a"].state == Paused()


def test_slugs_and_globs_are_merged_in_the_order_named() -> None:
    known = ["feature-b", "feature-a", "issue-1"]
    assert select_slugs(["issue-1", "feature-*", "feature-a", "issue-1"], known) == (
        "issue-1",
        "feature-a",
        "feature-b",
    )


def test_unknown_slugs_are_one_error_with_suggestions() -> None:
    with pytest.raises(UsageError) as caught:
        select_slugs(["isue-1", "zzz", "x-*", "issue-1"], ["issue-1", "issue-2"])
    assert str(caught.value) == (
        "no workstream 'isue-1': did you mean issue-1 or issue-2?; "
        "no workstream 'zzz': see `agentos ws list`; no workstream 'x-*': see `agentos ws list`"
    )
    with pytest.raises(InvalidIdentifier):
        select_slugs(["../x"], ["issue-1"])

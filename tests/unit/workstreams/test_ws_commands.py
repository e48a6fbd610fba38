"""What the `ws` commands do, on a real repository."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from agentos.engine.checkpoints import store_for
from agentos.engine.checkpoints.protocol import ItemRef
from agentos.errors import UsageError
from agentos.git.worktrees import WouldLoseWorkError
from agentos.paths import reservations_path
from agentos.settings import Settings, Workstreams, load_settings
from agentos.workstreams.commands import LONGEST_TEXT, ProjectWorkstreams, choose_able
from agentos.workstreams.registry import this_process
from agentos.workstreams.reservations import Reservations
from agentos.workstreams.state import Active, Complete, InvalidTransitionError, Pause, Running, TakeUp, select_slugs

GitCommand = Callable[..., str]


@pytest.fixture
def streams(project: Path) -> ProjectWorkstreams:
    return ProjectWorkstreams.open(project, load_settings)


def commit(git: GitCommand, path: Path, name: str = "new.txt") -> None:
    (path / name).write_text("x\n")
    git(path, "add", "--all")
    git(path, "commit", "--quiet", "--message", name)


def path_of(streams: ProjectWorkstreams, slug: str) -> Path:
    path = streams.refreshed()[slug].path
    assert path is not None
    return path


def test_settings_say_where_worktrees_go_and_which_files_they_get(project: Path) -> None:
    (project / "some.local").write_text("linked\n")
    (project / "agentos.toml").write_text('[workstreams]\ndir = "../trees"\ncopy = [".env"]\nlink = ["some.local"]\n')
    made = ProjectWorkstreams.open(project, load_settings).new("a", "do it")
    path = made.workstream.path
    assert path == project.parent / "trees" / "a"
    assert (path / ".env").read_text() == "COLOUR=blue\n"
    assert (path / "some.local").is_symlink()
    assert [provided.problem for provided in made.provided] == [None, None]


def test_a_text_is_needed_and_bounded(streams: ProjectWorkstreams) -> None:
    for text in ("", " \n", "x" * (LONGEST_TEXT + 1)):
        with pytest.raises(UsageError):
            streams.new("a", text)
    assert streams.refreshed() == {}


def test_a_worktree_made_by_hand_gets_its_text(streams: ProjectWorkstreams, project: Path, git: GitCommand) -> None:
    git(project, "worktree", "add", "--quiet", "-b", "agentos/found", str(project.parent / "byhand"))
    assert streams.refreshed()["found"].text == ""
    made = streams.new("found", "now it has a text")
    assert (made.was_there, made.workstream.path) == (True, project.parent / "byhand")
    with pytest.raises(UsageError, match="exists and is active"):
        streams.new("found", "again")


def test_from_a_worktree_the_project_is_the_main_checkout(streams: ProjectWorkstreams, project: Path) -> None:
    streams.new("a", "x")
    (project / "sub").mkdir()
    inside = ProjectWorkstreams.open(path_of(streams, "a"), load_settings)
    assert inside.project_dir == project
    assert set(inside.refreshed()) == {"a"}
    assert ProjectWorkstreams.open(project / "sub", load_settings).project_dir == project / "sub"


def test_all_are_changed_or_none(streams: ProjectWorkstreams) -> None:
    streams.new("a", "x")
    streams.new("b", "x")
    streams.apply(["b"], Complete())
    with pytest.raises(InvalidTransitionError, match="b cannot pause"):
        streams.apply(["a", "b"], Pause())
    assert streams.refreshed()["a"].state == Active()


def test_removing_gives_back_leases_and_checkpoints(streams: ProjectWorkstreams, project: Path) -> None:
    streams.new("a", "x")
    leases = Reservations(project)
    leases.name("a", "TEST_DB")
    store, kept = store_for(streams.project_dir), ItemRef("lld", "x_workflow_a")
    for ref in (kept, ItemRef("lld", "a"), ItemRef("flows-mine", "a")):
        store.open(ref).close()
    streams.remove("a")
    assert leases.held("a") == ()
    assert store.items() == [kept]


def test_overview_survives_what_git_cannot_answer(
    streams: ProjectWorkstreams, project: Path, git: GitCommand
) -> None:
    streams.new("a", "x")
    path = path_of(streams, "a")
    git(path, "checkout", "--quiet", "--orphan", "agentos/other")
    git(path, "branch", "-D", "agentos/a")
    (overview,) = streams.overview(["a", "unknown"])
    assert (overview.workstream.slug, overview.unsaved) == ("a", None)


def test_merged_commits_of_a_branch_without_worktree_can_go(
    streams: ProjectWorkstreams, project: Path, git: GitCommand
) -> None:
    streams.new("a", "x")
    path = path_of(streams, "a")
    commit(git, path)
    git(project, "worktree", "remove", str(path))
    streams.refreshed()
    with pytest.raises(WouldLoseWorkError):
        streams.remove("a")
    assert [each.is_safe for each in streams.proposals()] == [False]
    git(project, "merge", "--quiet", "agentos/a")
    assert [each.is_safe for each in streams.proposals()] == [True]
    assert streams.remove("a").lost is None
    assert git(project, "branch", "--list", "agentos/*") == ""


def test_cleanup_keeps_what_runs_and_what_is_not_finished(
    streams: ProjectWorkstreams, project: Path, git: GitCommand
) -> None:
    for slug in ("running", "unfinished", "orphan"):
        streams.new(slug, "x")
        commit(git, path_of(streams, slug), f"{slug}.txt")
        git(project, "merge", "--quiet", f"agentos/{slug}")
    streams.apply(["running"], TakeUp("run1", this_process()))
    store_for(streams.project_dir).open(ItemRef("lld", "unfinished")).close()
    git(project, "checkout", "--quiet", "--detach")
    reasons = {each.slug: (each.is_safe, each.reason) for each in streams.proposals()}
    assert reasons["running"] == (False, "run run1 works on it")
    assert reasons["unfinished"] == (False, "its run is not finished")
    assert reasons["orphan"][0] is True
    with pytest.raises(InvalidTransitionError, match="works on it"):
        streams.remove("running", force=True)


def test_a_glob_leaves_out_what_cannot_run_and_a_name_does_not(streams: ProjectWorkstreams) -> None:
    for slug in ("wa", "wb"):
        streams.new(slug, "x")
    streams.apply(["wb"], Pause())
    known = streams.refreshed()
    start = TakeUp("run2", this_process())
    assert choose_able(known, ["w*"], start) == (["wa"], ["wb cannot run: it is paused; resume it first"])
    with pytest.raises(InvalidTransitionError):
        choose_able(known, ["w*", "wb"], start)
    busy = {"wa": replace(known["wa"], state=Running("run1", this_process()))}
    assert choose_able(busy, ["*"], start)[0] == []
    assert select_slugs(["wa"], known) == ("wa",)


def test_a_base_that_is_gone_is_replaced_by_the_commit_it_was(
    streams: ProjectWorkstreams, project: Path, git: GitCommand
) -> None:
    git(project, "branch", "short-lived")
    streams.new("a", "x", base="short-lived")
    assert streams.with_living_base(streams.refreshed()["a"]).base == "short-lived"
    git(project, "branch", "-D", "short-lived")
    commit(git, project)
    workstream = streams.refreshed()["a"]
    assert streams.with_living_base(workstream).base == git(project, "rev-parse", "HEAD^")
    git(project, "worktree", "remove", str(workstream.path))
    missing = streams.refreshed()["a"]
    assert streams.with_living_base(missing) == missing
    streams.restore_worktree(missing)
    assert path_of(streams, "a") == workstream.path


def test_a_removal_is_whole_even_when_leases_cannot_be_read(streams: ProjectWorkstreams, project: Path) -> None:
    streams.new("a", "x")
    streams.reserve("a", ports=["PORT"])
    reservations_path().write_text("{")
    store_for(streams.project_dir).open(ItemRef("lld", "a")).close()
    streams.remove("a")
    assert (store_for(streams.project_dir).items(), dict(streams.refreshed())) == ([], {})


def test_cleanup_keeps_what_is_locked_by_hand(streams: ProjectWorkstreams, project: Path, git: GitCommand) -> None:
    streams.new("a", "x")
    streams.apply(["a"], Complete())
    git(project, "worktree", "lock", "--reason", "on a disk", str(path_of(streams, "a")))
    (proposal,) = streams.proposals()
    assert (proposal.is_safe, proposal.reason) == (False, "locked by `git worktree lock` (on a disk)")


def test_settings_default_to_nothing_special() -> None:
    assert Settings().workstreams == Workstreams()

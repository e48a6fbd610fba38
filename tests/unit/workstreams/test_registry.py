"""The registry keeps whole files, one writer, and every transition, whatever dies."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest

from agentos.errors import UsageError
from agentos.git.worktrees import Repository
from agentos.workstreams.registry import Registry, is_alive, this_process
from agentos.workstreams.state import (
    Active,
    Adopted,
    Complete,
    Completed,
    Fail,
    Failed,
    Gone,
    InvalidTransitionError,
    Owner,
    OwnerDead,
    Pause,
    Paused,
    ReachPause,
    Running,
    TakeUp,
    WorktreeMissing,
)

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
GitCommand = Callable[..., str]


@pytest.fixture
def registry(project: Path) -> Registry:
    return Registry(project, now=lambda: NOW)


def add(registry: Registry, *slugs: str) -> None:
    with registry.change() as changes:
        for slug in slugs:
            changes.add(slug, f"do {slug}", path=Path("/somewhere") / slug, base="main")


def test_every_state_survives_a_restart(registry: Registry, project: Path) -> None:
    add(registry, "a", "b", "c", "d", "e")
    with registry.change() as changes:
        for slug in "bcde":
            changes.apply(slug, TakeUp("run1", this_process()))
        changes.apply("b", Pause())
        changes.apply("c", ReachPause("run1", "N4_implement"))
        changes.apply("d", Fail("run1", "it broke"))
        changes.apply("e", Complete("run1"))
        expected = dict(changes.workstreams)
    loaded = Registry(project).workstreams()
    assert loaded == expected
    assert [loaded[slug].state for slug in "abcde"] == [
        Active(),
        Running("run1", this_process(), pause_requested=True),
        Paused("N4_implement"),
        Failed("it broke"),
        Completed(),
    ]


def test_history_has_every_transition_in_order(registry: Registry) -> None:
    add(registry, "a")
    with registry.change() as changes:
        changes.apply("a", TakeUp("run1", this_process()))
        changes.apply("a", Fail("run1", "it broke"))
    with registry.change() as changes:
        changes.drop("a")
        changes.drop("never-there")
    lines = [(e["number"], e["slug"], e["event"], e["from"], e["to"], e["detail"]) for e in registry.history()]
    assert lines == [
        (1, "a", "created", None, "active", "do a"),
        (2, "a", "start", "active", "running", "run1"),
        (3, "a", "fail", "running", "failed", "it broke"),
        (4, "a", "removed", "failed", None, ""),
    ]
    assert registry.workstreams() == {}


def test_times_are_written_as_everywhere_and_those_with_an_offset_are_read_too(
    registry: Registry, project: Path
) -> None:
    add(registry, "a")
    assert registry.history()[0]["time"] == "2026-01-02T03:04:05.000000Z"
    path = registry.directory / "registry.json"
    written = path.read_text()
    assert written.count("03:04:05.000000Z") >= 2
    path.write_text(written.replace("05.000000Z", "05+00:00"))
    assert Registry(project).workstreams()["a"].created_at == NOW


def test_failed_change_leaves_the_disk_as_it_was(registry: Registry) -> None:
    add(registry, "a")

    def complete_and_pause() -> None:
        with registry.change() as changes:
            changes.apply("a", Complete())
            changes.apply("a", Pause())

    with pytest.raises(InvalidTransitionError):
        complete_and_pause()
    assert registry.workstreams()["a"].state == Active()
    assert len(registry.history()) == 1


def test_same_slug_twice_and_unknown_slug_are_usage_errors(registry: Registry) -> None:
    add(registry, "issue-1")
    with pytest.raises(UsageError, match="exists and is active"):
        add(registry, "issue-1")
    with pytest.raises(UsageError, match="did you mean issue-1"), registry.change() as changes:
        changes.apply("issue-2", Pause())


def test_crash_between_registry_and_history_is_made_good(registry: Registry) -> None:
    add(registry, "a", "b")
    whole = registry.history_path.read_bytes()
    first, second = whole.splitlines(keepends=True)
    registry.history_path.write_bytes(first + second[:10])
    assert len(registry.history()) == 1
    add(registry, "c")
    assert [(entry["number"], entry["slug"]) for entry in registry.history()] == [(1, "a"), (2, "b"), (3, "c")]


def test_unreadable_registry_names_the_file_and_the_remedy(registry: Registry) -> None:
    add(registry, "a")
    path = registry.directory / "registry.json"
    good = json.loads(path.read_text())
    for content in ("{", json.dumps({**good, "version": 9}), json.dumps({**good, "workstreams": [{}]})):
        path.write_text(content)
        with pytest.raises(UsageError, match=r"registry\.json"):
            registry.workstreams()
    path.unlink()
    add(registry, "b")
    assert [entry["number"] for entry in registry.history()] == [1, 2]


def test_many_writers_lose_nothing(project: Path) -> None:
    with ThreadPoolExecutor(8) as executor:
        list(executor.map(lambda number: add(Registry(project), f"item-{number}"), range(24)))
    registry = Registry(project)
    assert len(registry.workstreams()) == 24
    assert sorted(entry["number"] for entry in registry.history()) == list(range(1, 25))


def test_killed_writer_leaves_lock_and_file_usable(registry: Registry, project: Path) -> None:
    add(registry, "a")
    code = f"""
        import os, signal
        from pathlib import Path
        from agentos.workstreams.registry import Registry
        with Registry(Path({str(project)!r})).change() as changes:
            changes.add("b", "", path=Path("/x"), base="main")
            os.kill(os.getpid(), signal.SIGKILL)
    """
    killed = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=False, timeout=60)
    assert killed.returncode == -9
    add(registry, "c")
    assert set(registry.workstreams()) == {"a", "c"}


def test_reconcile_agrees_with_a_real_repository(
    registry: Registry, repository: Repository, project: Path, git: GitCommand, tmp_path: Path
) -> None:
    for slug in ("missing", "gone", "stuck"):
        path = repository.create(slug).worktree.path
        with registry.change() as changes:
            changes.add(slug, "", path=path, base="main")
    with subprocess.Popen(["true"]) as ended:
        ended.wait()
    with registry.change() as changes:
        changes.apply("stuck", TakeUp("run1", Owner(ended.pid, "1")))
    shutil.rmtree(repository.path_for("missing"))
    repository.remove("gone", delete_branch=True)
    git(project, "worktree", "add", "--quiet", "-b", "agentos/by-hand", str(tmp_path / "by-hand"))
    findings = registry.reconcile(repository)
    assert set(findings) == {
        WorktreeMissing("missing"),
        Gone("gone"),
        Adopted("by-hand", tmp_path / "by-hand"),
        OwnerDead("stuck", "run1"),
    }
    assert set(registry.workstreams()) == {"missing", "stuck", "by-hand"}
    assert {entry["event"] for entry in registry.history()} >= {"worktree_missing", "gone", "adopted", "owner_dead"}
    assert registry.reconcile(repository) == ()


def test_owner_is_this_very_process_and_not_one_with_the_same_number() -> None:
    assert is_alive(this_process())
    assert not is_alive(Owner(os.getpid(), "1"))

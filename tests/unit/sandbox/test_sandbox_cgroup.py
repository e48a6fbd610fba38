"""Control groups: what is written into one and read from it. `tests/process/test_cgroup.py` has real ones."""

from __future__ import annotations

import os
import time
from pathlib import Path

from agentos.sandbox import cgroup
from agentos.sandbox.limits import EndedBy, Limits

LIMITS = Limits(memory_mb=100, processes=30)


def handed_over(folder: Path, controllers: str = "cpu memory pids") -> Path:
    folder.mkdir(parents=True)
    (folder / "cgroup.subtree_control").write_text(f"{controllers}\n")
    (folder / "cgroup.procs").touch()
    return folder


def test_the_nearest_group_that_counts_memory_and_processes_gets_a_new_one_with_the_limits(tmp_path: Path) -> None:
    above = handed_over(tmp_path / "user")
    own = handed_over(above / "app", "")

    group = cgroup.make(LIMITS, [own, above])

    assert group is not None
    assert group.path.parent == above
    assert (group.path / "memory.max").read_text() == str(100 * 1024 * 1024)
    assert (group.path / "pids.max").read_text() == "60"
    group.enter()
    assert (group.path / "cgroup.procs").read_text() == "0"


def test_there_is_none_where_none_was_handed_over(tmp_path: Path) -> None:
    assert cgroup.make(LIMITS, [handed_over(tmp_path / "a", "memory"), tmp_path / "missing"]) is None


def test_what_the_kernel_ended_is_said(tmp_path: Path) -> None:
    group = cgroup.Cgroup(tmp_path)
    assert group.ended_by() is None
    (tmp_path / "memory.events").write_text("low 0\noom_kill 0\n")
    assert group.ended_by() is None
    (tmp_path / "memory.events").write_text("low 0\noom_kill 1\n")
    assert group.ended_by() is EndedBy.MEMORY


def test_a_group_is_removed_and_so_are_old_ones_of_others(tmp_path: Path) -> None:
    parent = handed_over(tmp_path / "user")
    old, new = parent / "agentos-1-1", parent / "agentos-2-2"
    for path in (old, new):
        path.mkdir()
    os.utime(old, (time.time() - 120,) * 2)

    made = cgroup.make(LIMITS, [parent])

    assert made is not None
    assert not old.exists()
    assert new.exists()
    empty = cgroup.Cgroup(new)
    empty.remove()
    empty.remove()
    assert not new.exists()

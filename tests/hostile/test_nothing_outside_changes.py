"""Property: no answer, however it is made, changes a byte outside of the worktree and the scratch folder."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from world import World

from agentos.sandbox.isolation import Isolation
from agentos.sandbox.sandbox import Sandbox, is_available
from agentos.workflows.implementation.apply import apply_operations
from agentos.workflows.implementation.file_operations import FileOperationsError, Policy, parse_operations

STRENGTHS = [isolation for isolation in Isolation if isolation is not Isolation.NONE and is_available(isolation)]
_PIECES = st.sampled_from(
    [
        *(
            "..",
            ".",
            "",
            "~",
            "/",
            "\\",
            "a",
            "b.py",
            "link",
            ".git",
            ".GIT",
            "git~1",
            "config",
            "hooks",
            "@outside@",
        ),
        *("@home@", "@project@", "victim.txt", "\x00", "\n", "\u202e", "\ufeff", " ", "con", "％2e％2e", "‥"),
    ]
)
PATHS = st.lists(_PIECES, min_size=1, max_size=6).map("/".join) | st.text(max_size=30)
BLOCKS = st.tuples(
    st.sampled_from(["create", "replace", "edit", "delete", "rename"]), PATHS, PATHS, st.text(max_size=40)
)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(tmp_path_factory.mktemp("property"))
    try:
        yield made
    finally:
        made.close()


def worktree_of(world: World) -> Path:
    """A worktree with the links that code could have left there."""
    worktree = world.root / "worktree"
    worktree.mkdir(exist_ok=True)
    for name, target in (("link", world.outside), ("a", world.user_home)):
        if not (worktree / name).is_symlink():
            (worktree / name).symlink_to(target)
    return worktree


@given(st.lists(BLOCKS, min_size=1, max_size=5))
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_no_answer_changes_anything_outside(world: World, blocks: list[tuple[str, str, str, str]]) -> None:
    worktree = worktree_of(world)
    answer = "".join(
        world.filled(f'<{kind} path="{path}" to="{target}">\n{text}\n</{kind}>\n')
        for kind, path, target, text in blocks
    )
    with contextlib.suppress(FileOperationsError):
        apply_operations(worktree, parse_operations(answer, Policy()), Policy())
    world.assert_untouched()


_DEEDS = st.sampled_from(
    [
        *("open(path, 'w').write('x')", "open(path, 'a').write('x')", "os.truncate(path, 0)", "os.unlink(path)"),
        *("os.mkdir(path)", "os.rename(path, 'got')", "os.rename('mine', path)", "os.link('mine', path)"),
        *("os.symlink('mine', path)", "os.rmdir(path)", "os.mkfifo(path)"),
    ]
)


def aimed(world: World, path: str) -> str:
    """A path in the attacked world, whatever was made: where the sandbox fails, nobody's own files are lost."""
    whole = os.path.normpath(world.filled(path if path.startswith("@") else f"@outside@/{path}"))
    return whole if Path(whole).is_relative_to(world.root) else str(world.outside / "victim.txt")


@pytest.mark.parametrize("isolation", STRENGTHS, ids=lambda isolation: isolation.value)
@given(deeds=st.lists(st.tuples(_DEEDS, PATHS), min_size=30, max_size=60))
@settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))
def test_no_code_changes_anything_outside(world: World, isolation: Isolation, deeds: list[tuple[str, str]]) -> None:
    """Many deeds a run: starting a sandbox takes longer than all of them."""
    worktree = worktree_of(world)
    lines = ["import os, signal", "signal.alarm(30)"]
    for deed, path in deeds:
        lines += [
            "try:",
            f"    open('mine', 'w').close(); path = {aimed(world, path)!r}; {deed}",
            "except Exception: pass",
        ]
    Sandbox(worktree, isolation).run([sys.executable, "-c", "\n".join(lines)], timeout_seconds=60)
    world.assert_untouched()

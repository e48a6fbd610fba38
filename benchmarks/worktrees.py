"""Twenty worktrees made and removed, ten at a time, against plain `git worktree add` in a loop."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from agentos.git.worktrees import Repository
from benchmarks.harness import scratch, verdict

COUNT = 20
AT_ONCE = 10
FILES = 400
ROUNDS = 3


def main() -> None:
    with scratch() as directory:
        project_dir = _make_project(directory / "project")
        repository = Repository.open(project_dir, directory / "worktrees")
        errors: list[str] = []
        rounds = [
            (_in_parallel(repository, errors), _plainly(project_dir, directory / "plain")) for _ in range(ROUNDS)
        ]
        # The best of each: what it needs, without what the machine did besides.
        ours, plain = (min(each, key=sum) for each in zip(*rounds, strict=True))
        _show("made", ours[0], plain[0])
        _show("removed", ours[1], plain[1])
        _show("together", sum(ours), sum(plain))
        locks = [error for error in errors if "lock" in error.lower()]
        verdict(f"errors, of them {len(locks)} lock errors", len(errors), 0)
        for error in errors[:3]:
            print(f"        {error}")


def _make_project(project_dir: Path) -> Path:
    for number in range(FILES):
        path = project_dir / f"package{number % 20}" / f"module{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"def function{number}():\n    return {number}\n" * 20)
    for arguments in (
        ["init", "--quiet", "--initial-branch=main"],
        ["add", "--all"],
        ["-c", "user.name=B", "-c", "user.email=b@localhost", "commit", "--quiet", "--message", "Start"],
    ):
        _git(project_dir, *arguments)
    return project_dir


def _git(cwd: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=cwd, check=True, capture_output=True, stdin=subprocess.DEVNULL)


def _in_parallel(repository: Repository, errors: list[str]) -> tuple[float, float]:
    """Seconds to make and to remove them, with branch, origin record, checks for lost work and crash safety."""

    def attempt(action: Callable[[str], object]) -> Callable[[str], None]:
        def safely(slug: str) -> None:
            try:
                action(slug)
            except Exception as error:
                errors.append(f"{slug}: {error}")

        return safely

    slugs = [f"stream-{number}" for number in range(COUNT)]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        made = _timed(lambda: pool.map(attempt(lambda slug: repository.create(slug)), slugs))
        removed = _timed(lambda: pool.map(attempt(lambda slug: repository.remove(slug, delete_branch=True)), slugs))
    left = [path.name for path in repository.worktrees_dir.iterdir()]
    errors += [f"left behind: {name}" for name in left]
    return made, removed


def _plainly(project_dir: Path, worktrees_dir: Path) -> tuple[float, float]:
    """The same by hand, one after the other: nothing checked, nothing recorded."""
    names = [f"plain-{number}" for number in range(COUNT)]

    def make() -> Iterable[None]:
        for name in names:
            _git(project_dir, "worktree", "add", "-b", name, str(worktrees_dir / name))
        return []

    def remove() -> Iterable[None]:
        for name in names:
            _git(project_dir, "worktree", "remove", str(worktrees_dir / name))
            _git(project_dir, "branch", "-D", name)
        return []

    return _timed(make), _timed(remove)


def _timed(work: Callable[[], Iterable[object]]) -> float:
    began = time.monotonic()
    list(work())
    return time.monotonic() - began


def _show(what: str, ours: float, plain: float) -> None:
    ratio = ours / plain if plain else float("inf")
    print(
        f"   {COUNT} {what}: {ours:.2f} s at {AT_ONCE} in parallel, {plain:.2f} s with plain git in a loop "
        f"(ratio {ratio:.2f})",
        flush=True,
    )

"""A commit in a folder of its own that is thrown away: where tests run, so that nothing uncommitted counts."""

from __future__ import annotations

import contextlib
import re
import shutil
import uuid
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Final

from agentos.files import remove_tree
from agentos.git.command import Git
from agentos.git.provisioning import provide_files
from agentos.git.worktrees import Worktree
from agentos.sandbox.scratch import scratch_folder
from agentos.text.toml import NotToml, parse_toml
from agentos.workflows.context import Context
from agentos.workflows.implementation.branch import folder_of, open_repository, seen_from_top
from agentos.workflows.implementation.project_tests import ProjectTests
from agentos.workflows.implementation.project_worktree import ProjectWorktree
from agentos.workflows.implementation.suite_environment import UnusableEnvironment

_CONFIGURATION: Final = frozenset(
    {"conftest.py", "pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "tox.ini", "setup.cfg", ".coveragerc"}
)
_LOGIN: Final = re.compile(r"//[^/@]*@")
"""A name and a password in an address: not for what runs in the checkout."""
_TEST_TABLES: Final = ("pytest", "coverage")


@dataclass(frozen=True, slots=True)
class CleanCheckout:
    """A commit on disk, to be copied for one run after the other: no run sees what another one left."""

    scratch_dir: Path
    worktree: ProjectWorktree
    """What runs get a copy of. No code that nobody has read runs in it."""

    @contextlib.contextmanager
    def fresh(self) -> Iterator[ProjectWorktree]:
        """A copy for one run, always at the same place: what was prepared may know its own path."""
        target = self.scratch_dir / "checkout"
        shutil.copytree(self.worktree.worktree.path, target, symlinks=True)
        copied = replace(self.worktree.worktree, path=target)
        try:
            yield ProjectWorktree(copied, self.worktree.folder)
        finally:
            # Tests may have left what cannot be deleted yet: out of the way it goes all the same.
            spent = target.rename(self.scratch_dir / f"spent-{uuid.uuid4().hex}")
            remove_tree(spent)


@contextlib.contextmanager
def clean_checkout(context: Context, commit: str) -> Iterator[CleanCheckout]:
    """The project as a commit has it, with the ignored files that worktrees are given; gone afterwards.

    The user's repository is read and not written to: objects are shared, and refs of the copy are its own.
    """
    settings = context.settings
    repository = open_repository(context.project_dir, settings)
    folder = folder_of(context.project_dir, repository)
    with scratch_folder("agentos-suite-") as scratch:
        made = scratch / "checkout"
        repository.git.run("clone", "--quiet", "--shared", "--no-checkout", ".", str(made))
        git = Git(made)
        git.run("checkout", "--quiet", "--detach", commit)
        # Addresses of submodules may be relative to where the user's repository comes from.
        if origin := repository.git.run("remote", "get-url", "origin", ok=(0, 2, 128)).stdout.strip():
            git.run("remote", "set-url", "origin", _LOGIN.sub("//", origin))
        for names, link in ((settings.workstreams.copy, False), (settings.workstreams.link, True)):
            provide_files(repository.project_dir, made, git, seen_from_top(names, folder), link=link)
        # Ours is out of reach of what runs in the checkout: where `.git` can be written, our git goes by none of it.
        git_dir = scratch / "git"
        shutil.copytree(made / ".git", git_dir)
        place = ProjectWorktree(Worktree(path=made, head=commit, branch=None, git_dir=git_dir), folder)
        place.clear()
        if settings.workstreams.setup:
            _prepare(context, place)
        template = made.rename(scratch / "template")
        kept = replace(place.worktree, path=template)
        yield CleanCheckout(scratch, ProjectWorktree(kept, folder))


def _prepare(context: Context, place: ProjectWorktree) -> None:
    """Run the user's setup command. Raises UnusableEnvironment when it fails."""
    result = ProjectTests(context, place).prepare()
    if result.exit_code != 0:
        how = "did not end in time" if result.timed_out else f"failed (exit code {result.exit_code})"
        said = " | ".join(line.strip() for line in result.output.splitlines() if line.strip())[-500:]
        raise UnusableEnvironment(f"[workstreams] setup {how} on a clean checkout: {said}")


def put_back(place: ProjectWorktree, commit: str, paths: Sequence[str]) -> None:
    """Make files of the checkout what they were at `commit`; those that were not there go."""
    git = place.worktree.git()
    for path in paths:
        inside = str(PurePosixPath(place.folder, path))
        if git.run("cat-file", "-e", f"{commit}:{inside}", ok=(0, 1, 128)).exit_code == 0:
            git.run("checkout", "--quiet", commit, "--", f":(top,literal){inside}")
        else:
            (place.path / path).unlink(missing_ok=True)


def changed_configuration(
    place: ProjectWorktree, base: str, changed: Collection[str], listed: Collection[str]
) -> tuple[str, ...]:
    """Changed files that say how tests are run, unless the design lists them."""
    return tuple(path for path in changed if path not in listed and _is_configuration(place, base, path))


def _is_configuration(place: ProjectWorktree, base: str, path: str) -> bool:
    if PurePosixPath(path).name != "pyproject.toml":
        return PurePosixPath(path).name in _CONFIGURATION
    before, after = place.text_at(base, path), place.text(path)
    return _test_tables(before) != _test_tables(after)


def _test_tables(text: str) -> object:
    """What a pyproject.toml says about tests; the text itself when it cannot be read."""
    try:
        tools = parse_toml(text).get("tool", {})
    except NotToml:
        return text
    return {name: tools.get(name) for name in _TEST_TABLES} if isinstance(tools, dict) else text

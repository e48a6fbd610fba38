"""Where an item's work happens: the project's folder in the item's worktree, and nothing beside it."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from agentos.errors import UsageError
from agentos.git.commits import changed_files, submodule_paths
from agentos.git.worktrees import Repository, Worktree
from agentos.workflows.implementation.apply import apply_operations
from agentos.workflows.implementation.file_operations import CreateFile, DeleteFile, FileOperation, ReplaceFile


@dataclass(frozen=True, slots=True)
class Workplace:
    """A project in an item's worktree. Paths that go in and come out are relative to the project."""

    worktree: Worktree
    folder: str
    """The project's folder in its repository; empty when the project is the whole repository."""

    @property
    def path(self) -> Path:
        return self.worktree.path / self.folder

    def clear(self) -> None:
        """Make the folder one to work in, whatever code that ran there did to it. Tracked files are git's business.

        Raises UsageError when it is reached through a link: nothing is ever written where that may lead.
        """
        if not self.folder:
            return
        if self.path.resolve() != self.worktree.path.resolve() / self.folder:
            raise UsageError(f"{self.folder} is reached through a link on {self.worktree.branch}: make it a folder.")
        # The base may not have the project yet, and git keeps no empty folder.
        self.path.mkdir(parents=True, exist_ok=True)
        # A repository that tests made here would hide the project from ours, and lead the user's next git into it.
        stray = self.path / ".git"
        if stray.is_dir() and not stray.is_symlink():
            shutil.rmtree(stray)
        else:
            stray.unlink(missing_ok=True)

    def changed_files(self, since: str) -> tuple[str, ...]:
        """Files of the project that the branch changed since `since`, deleted ones included."""
        return self._inside(changed_files(self.worktree, since))

    def submodules(self) -> tuple[str, ...]:
        return self._inside(submodule_paths(self.worktree))

    def python_files(self) -> tuple[str, ...]:
        """The project's Python files that git knows."""
        return self._inside(self.worktree.git().run("ls-files", "-z", "--", "*.py").stdout.split("\0"))

    def put_files(self, files: dict[str, str | None]) -> None:
        """Write documents of ours into the project, None deletes: no link that code left there is followed."""
        operations: list[FileOperation] = []
        for path, text in files.items():
            exists = (self.path / path).exists()
            if text is not None:
                operations.append(ReplaceFile(path, text) if exists else CreateFile(path, text))
            elif exists:
                operations.append(DeleteFile(path))
        apply_operations(self.path, operations)

    def _inside(self, paths: Iterable[str]) -> tuple[str, ...]:
        prefix = f"{self.folder}/" if self.folder else ""
        return tuple(path.removeprefix(prefix) for path in paths if path and path.startswith(prefix))


def folder_of(project_dir: Path, repository: Repository) -> str:
    """The project's folder in its repository, empty when they are the same."""
    folder = project_dir.resolve().relative_to(repository.project_dir.resolve()).as_posix()
    return "" if folder == "." else folder


def seen_from_top(names: Iterable[str], folder: str) -> tuple[str, ...]:
    """Names of files in the project as its repository sees them. Names that lead elsewhere stay as they are."""
    return tuple(f"{folder}/{name}" if folder and not name.startswith("/") else name for name in names)

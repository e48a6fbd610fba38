"""Where an item's work happens: the project's folder in the item's worktree, and nothing beside it."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentos.errors import UsageError
from agentos.git.commits import changed_files, commit_all, submodule_paths
from agentos.git.worktrees import Worktree
from agentos.workflows.context import Context
from agentos.workflows.implementation.apply import apply_operations, read_confined
from agentos.workflows.implementation.branch import AUTHOR, folder_of, hold_branch, open_repository, rewind
from agentos.workflows.implementation.file_operations import CreateFile, DeleteFile, FileOperation, ReplaceFile
from agentos.workflows.implementation.state import ImplementationState
from agentos.workflows.prompts import as_data

_MOST_SHOWN_CHARACTERS = 60_000
"""What a prompt shows of a file, and of all of them together."""


@dataclass(frozen=True, slots=True)
class ProjectWorktree:
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

    def commit(self, message: str) -> str:
        """Commit everything; the branch's commit afterwards."""
        commit_all(self.worktree, message, AUTHOR)
        return self.worktree.git().text("rev-parse", "HEAD")

    def shown_files(self, paths: Sequence[str], what: str) -> str:
        """Files for a prompt, those that exist, within bounds."""
        room = _MOST_SHOWN_CHARACTERS
        parts = []
        for path in paths:
            # Designs name these paths, and a design is untrusted text: it must not make a prompt show other files.
            if (data := read_confined(self.path, path)) is not None:
                text = data.decode("utf-8", "replace")
                parts.append(as_data(text[:room], f"{what} {path}"))
                room -= min(room, len(text))
        return "\n\n".join(parts) or f"({what}: none yet)"


def slug_of(state: ImplementationState) -> str:
    """What the item's branch and worktree go by."""
    return f"{state['branch_prefix']}{state['item_id']}"


def open_worktree(state: ImplementationState, context: Context) -> ProjectWorktree:
    """The project in the item's worktree, as the last finished node left it."""
    repository = open_repository(context.project_dir, context.settings)
    hold_branch(repository, slug_of(state))
    worktree = repository.create(slug_of(state), base=state["baseline"].commit).worktree
    rewind(worktree, state["head"])
    opened = ProjectWorktree(worktree, folder_of(context.project_dir, repository))
    opened.clear()
    return opened

"""Where an item's work happens: the project's folder in the item's worktree, and nothing beside it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentos.errors import UsageError
from agentos.files import remove_tree
from agentos.git.commits import NO_PROGRAMS, changed_files, commit_all, submodule_paths
from agentos.git.worktrees import Worktree
from agentos.workflows.context import Context
from agentos.workflows.implementation.apply import apply_operations, read_confined
from agentos.workflows.implementation.branch import AUTHOR, folder_of, hold_branch, open_repository, rewind
from agentos.workflows.implementation.file_operations import (
    CreateFile,
    DeleteFile,
    FileOperation,
    Policy,
    ReplaceFile,
)
from agentos.workflows.implementation.state import ImplementationState
from agentos.workflows.prompts import as_data

_HUNK = re.compile(r"^@@ -\S+ \+(?P<start>\d+)(?:,(?P<count>\d+))? @@", re.MULTILINE)
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

        Raises UsageError when it is reached through a link, where nothing is ever written, or holds what cannot go.
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
            remove_tree(stray)
            if stray.exists():
                raise UsageError(
                    f"{stray} is a repository that tests made, and cannot be removed: remove it by hand."
                )
        else:
            stray.unlink(missing_ok=True)

    def changed_files(self, since: str) -> tuple[str, ...]:
        """Files of the project that the branch changed since `since`, deleted ones included."""
        return self._inside(changed_files(self.worktree, since))

    def submodules(self) -> tuple[str, ...]:
        return self._inside(submodule_paths(self.worktree))

    def files(self) -> tuple[str, ...]:
        """The project's files that git knows."""
        return self._inside(self.worktree.git().run("ls-files", "-z").stdout.split("\0"))

    def python_files(self) -> tuple[str, ...]:
        """The project's Python files that git knows."""
        return self._inside(self.worktree.git().run("ls-files", "-z", "--", "*.py").stdout.split("\0"))

    def text(self, path: str) -> str:
        """A file's text; empty when there is none to read."""
        return (read_confined(self.path, path) or b"").decode("utf-8", "replace")

    def text_at(self, commit: str, path: str) -> str:
        """The same as a commit has it."""
        inside = f"{self.folder}/{path}" if self.folder else path
        return self.worktree.git().run("show", f"{commit}:{inside}", ok=(0, 128)).stdout

    def ignored(self, paths: Iterable[str]) -> dict[str, str]:
        """Those of the paths that git would not commit, each with the pattern that says so and where it stands."""
        prefix = f"{self.folder}/" if self.folder else ""
        asked = "\0".join(f"{prefix}{path}" for path in paths)
        told = self.worktree.git().run("check-ignore", "--verbose", "-z", "--stdin", stdin=asked, ok=(0, 1)).stdout
        fields = told.split("\0")
        rows = zip(*(fields[start::4] for start in range(4)), strict=False)
        return {
            path.removeprefix(prefix): f"{pattern} in {source}, line {line}"
            for source, line, pattern, path in rows
            if not pattern.startswith("!")
        }

    def changed_lines(self, since: str, path: str) -> frozenset[int]:
        """Lines of a file that the branch added or changed since `since`, by number."""
        inside = f":(top,literal){self.folder}/{path}" if self.folder else f":(top,literal){path}"
        shown = self.worktree.git().run(
            "diff", *NO_PROGRAMS, "--unified=0", "--no-renames", "--no-color", f"{since}...HEAD", "--", inside
        )
        hunks = _HUNK.finditer(shown.stdout)
        return frozenset(
            line for hunk in hunks for line in range(int(hunk["start"]), int(hunk["start"]) + int(hunk["count"] or 1))
        )

    def put_files(self, files: Mapping[str, str | None], policy: Policy | None = None) -> None:
        """Write documents of ours into the project, None deletes: no link that code left there is followed."""
        operations: list[FileOperation] = []
        for path, text in files.items():
            exists = (self.path / path).exists()
            if text is not None:
                operations.append(ReplaceFile(path, text) if exists else CreateFile(path, text))
            elif exists:
                operations.append(DeleteFile(path))
        apply_operations(self.path, operations, policy)

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

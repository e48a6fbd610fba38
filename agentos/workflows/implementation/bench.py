"""What a node works at: the item's worktree at a known commit, the models, the item's lineage."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from agentos.codebase.context import build_context
from agentos.documents.lld import Lld, parse_lld
from agentos.git.commits import commit_all
from agentos.git.worktrees import Repository
from agentos.llm import set_call_context
from agentos.workflows.context import Context
from agentos.workflows.implementation.apply import apply_operations, read_confined
from agentos.workflows.implementation.branch import AUTHOR, hold_branch, open_repository, rewind
from agentos.workflows.implementation.file_operations import (
    Deviation,
    FileOperation,
    FileOperationsError,
    Policy,
    Problem,
    deviations,
    parse_operations,
    stated_decisions,
)
from agentos.workflows.implementation.project_tests import ProjectTests
from agentos.workflows.implementation.project_worktree import Workplace, folder_of
from agentos.workflows.implementation.state import ImplementationState
from agentos.workflows.prompts import as_data

WORKFLOW = "implementation"
_MOST_SHOWN_CHARACTERS = 60_000
"""What a prompt shows of a file, and of all of them together."""

Check = Callable[[FileOperation], str | None]
"""Why a step refuses an operation, or None."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of asking a model for files."""

    operations: tuple[FileOperation, ...]
    """Carried out; empty when both answers were refused."""
    deviations: tuple[Deviation, ...]
    refusals: tuple[FileOperationsError, ...]
    decisions: tuple[str, ...] = ()
    """Choices the model says it made."""


class Bench:
    """One node's view of the item. `books()` is what every node that calls a model adds to the state."""

    def __init__(self, state: ImplementationState, context: Context, node: str) -> None:
        self.state = state
        self.context = context
        self.project_dir = context.project_dir
        self.settings = context.settings
        self._node = node
        self._calls = dict(state.get("calls", {}))
        self._usage = dict(state.get("usage", {}))
        self._history = context.history(f"IMPL-{state['item_id']}", state.get("trail_number", 0))
        # The same names whichever workflow the node is part of, and the same count after a resume.
        set_call_context(workflow=WORKFLOW, item=state["item_id"], node=node, calls_before=self._calls.get(node, 0))

    @cached_property
    def repository(self) -> Repository:
        return open_repository(self.project_dir, self.settings)

    @cached_property
    def folder(self) -> str:
        """The project's place in its repository."""
        return folder_of(self.project_dir, self.repository)

    @property
    def slug(self) -> str:
        """What the item's branch and worktree go by."""
        return f"{self.state.get('branch_prefix', '')}{self.state['item_id']}"

    @cached_property
    def place(self) -> Workplace:
        """The project in the item's worktree, as the last finished node left it."""
        hold_branch(self.repository, self.slug)
        worktree = self.repository.create(self.slug, base=self.state["base_commit"]).worktree
        rewind(worktree, self.state["head"])
        place = Workplace(worktree, self.folder)
        place.clear()
        return place

    @cached_property
    def lld(self) -> Lld:
        return parse_lld(self.state["lld_text"])

    @property
    def coder(self) -> str:
        return self.settings.models.coder or self.settings.models.drafter

    @property
    def listed_files(self) -> tuple[str, ...]:
        """Every path the design's table names."""
        paths = [path for change in self.lld.files for path in (change.path, change.target) if path]
        return tuple(dict.fromkeys(path.removeprefix("./") for path in paths))

    def tests(self) -> ProjectTests:
        return ProjectTests(self.context, self.place)

    def policy(self, *, frozen: Sequence[str] = ()) -> Policy:
        return Policy(listed=self.listed_files, frozen=tuple(frozen), submodules=self.place.submodules())

    def commit(self, message: str) -> str:
        """Commit everything; the branch's commit afterwards."""
        commit_all(self.place.worktree, message, AUTHOR)
        return self.place.worktree.git().text("rev-parse", "HEAD")

    def record(self, kind: str, content: str) -> None:
        self._history.record(kind, content)

    def books(self) -> ImplementationState:
        return ImplementationState(calls=self._calls, usage=self._usage, trail_number=self._history.number)

    def prompt(self, name: str, **values: str) -> str:
        """A prompt of this workflow. What every one of them may use is filled in."""
        known = {
            "item_id": self.state["item_id"],
            "title": " ".join(self.state["title"].split()),
            "lld": as_data(self.state["lld_text"], "the design"),
            "format": self.context.prompt(WORKFLOW, "format"),
        }
        text = self.context.prompt(WORKFLOW, name, **(known | values))
        self.record(f"prompt-{name.replace('_', '-')}", text)
        return text

    def ask(self, prompt: Any, task: str, *, model: str, output_type: Any = None, **data: Any) -> Any:
        """A model's reply, counted."""
        self._calls[self._node] = self._calls.get(self._node, 0) + 1
        plain = {"cwd": str(self.project_dir), **self.state, **data}
        reply = self.context.generate(
            prompt, model=model, output_type=output_type, task=f"{WORKFLOW}.{task}", data=plain
        )
        for name in ("input_tokens", "output_tokens", "cost_usd"):
            self._usage[name] = self._usage.get(name, 0) + (getattr(reply.usage, name) or 0)
        return reply

    def ask_for_files(self, prompt: str, task: str, policy: Policy, check: Check, **data: Any) -> Answer:
        """Ask the coder for file operations and carry them out. A refused answer is sent back once, then left."""
        messages = [{"role": "user", "content": prompt}]
        refusals: list[FileOperationsError] = []
        for _ in range(2):
            reply = self.ask(messages, task, model=self.coder, **data)
            self.record(f"answer-{task}", reply.text)
            try:
                operations = parse_operations(reply.text, policy)
                _refuse(operations, check)
                apply_operations(self.place.path, operations, policy)
                decisions = stated_decisions(reply.text)
                return Answer(operations, deviations(operations, policy), tuple(refusals), decisions)
            except FileOperationsError as error:
                refusals.append(error)
                messages += [
                    {"role": "assistant", "content": reply.text},
                    {"role": "user", "content": error.for_model()},
                ]
        return Answer((), (), tuple(refusals))

    def digest(self) -> str:
        """A digest of the code as it stands in the worktree."""
        budget = self.settings.limits.context_tokens
        return build_context(self.place.path, self.state["lld_text"], token_budget=budget).text

    def shown_files(self, paths: Sequence[str], what: str) -> str:
        """Files of the worktree for a prompt, those that exist, within bounds."""
        room = _MOST_SHOWN_CHARACTERS
        parts = []
        for path, text in self._texts(paths):
            parts.append(as_data(text[:room], f"{what} {path}"))
            room -= min(room, len(text))
        return "\n\n".join(parts) or f"({what}: none yet)"

    def _texts(self, paths: Sequence[str]) -> Iterator[tuple[str, str]]:
        for path in paths:
            # Designs name these paths, and a design is untrusted text: it must not make a prompt show other files.
            if (data := read_confined(self.place.path, path)) is not None:
                yield path, data.decode("utf-8", "replace")


def _refuse(operations: Sequence[FileOperation], check: Check) -> None:
    problems = [Problem(operation.path, why) for operation in operations if (why := check(operation))]
    if problems:
        raise FileOperationsError(problems)

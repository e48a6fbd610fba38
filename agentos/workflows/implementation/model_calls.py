"""What one node asks models, with its prompts and answers in the item's history and the tokens counted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from agentos.workflows.context import Context
from agentos.workflows.implementation.apply import apply_operations
from agentos.workflows.implementation.file_operations import (
    Deviation,
    FileOperation,
    FileOperationsError,
    Mistake,
    Policy,
    deviations,
    differs_in_case,
    parse_operations,
    stated_decisions,
)
from agentos.workflows.implementation.project_worktree import ProjectWorktree
from agentos.workflows.implementation.state import ImplementationState, ImplementationUpdate
from agentos.workflows.prompts import as_data

WORKFLOW: Final = "implementation"

Check = Callable[[FileOperation], str | None]
"""Why a step refuses an operation, or None."""


@dataclass(frozen=True, slots=True)
class Written:
    """What came of asking a model for files. Nothing was written when both answers were refused."""

    deviations: tuple[Deviation, ...] = ()
    refusals: tuple[str, ...] = ()
    decisions: tuple[str, ...] = ()
    """Choices the model says it made."""

    def update(self) -> ImplementationUpdate:
        return ImplementationUpdate(
            refusals=list(self.refusals), deviations=list(self.deviations), decisions=list(self.decisions)
        )


class NodeCalls:
    """One node's calls. `update()` is what every node that makes any adds to the state."""

    def __init__(self, state: ImplementationState, context: Context) -> None:
        self._state = state
        self._context = context
        self._history = context.history(f"IMPL-{state['item_id']}", state["history"])
        self._usage: dict[str, float] = {}

    @property
    def coder(self) -> str:
        return self._context.settings.models.who_codes

    def record(self, kind: str, content: str) -> None:
        self._history.record(kind, content)

    def update(self) -> ImplementationUpdate:
        return ImplementationUpdate(usage=self._usage, history=self._history.number)

    def prompt(self, name: str, **values: str) -> str:
        """A prompt of this workflow. What every one of them may use is filled in."""
        known = {
            "item_id": self._state["item_id"],
            "title": " ".join(self._state["title"].split()),
            "lld": as_data(self._state["lld_text"], "the design"),
            "format": self._context.prompt(WORKFLOW, "format"),
        }
        text = self._context.prompt(WORKFLOW, name, **(known | values))
        self.record(f"prompt-{name.replace('_', '-')}", text)
        return text

    def ask(self, prompt: Any, task: str, *, model: str, output_type: Any = None, **data: Any) -> Any:
        """A model's reply. `data` is what the offline model answers from."""
        known = {"item_id": self._state["item_id"], "lld_text": self._state["lld_text"], **data}
        reply = self._context.generate(
            prompt, model=model, output_type=output_type, task=f"{WORKFLOW}.{task}", data=known
        )
        for name in ("input_tokens", "output_tokens", "cost_usd"):
            self._usage[name] = self._usage.get(name, 0) + (getattr(reply.usage, name) or 0)
        return reply

    def ask_for_files(
        self, worktree: ProjectWorktree, prompt: str, task: str, policy: Policy, check: Check, **data: Any
    ) -> Written:
        """Ask the coder for file operations and carry them out. A refused answer is sent back once, then left."""
        messages = [{"role": "user", "content": prompt}]
        refusals: list[str] = []
        for _ in range(2):
            reply = self.ask(messages, task, model=self.coder, **data)
            self.record(f"answer-{task}", reply.text)
            try:
                operations = parse_operations(reply.text, policy)
                _refuse(operations, check, worktree)
                apply_operations(worktree.path, operations, policy)
                return Written(deviations(operations, policy), tuple(refusals), stated_decisions(reply.text))
            except FileOperationsError as error:
                refusals += [mistake.words() for mistake in error.mistakes]
                messages += [
                    {"role": "assistant", "content": reply.text},
                    {"role": "user", "content": error.for_model()},
                ]
        return Written(refusals=tuple(refusals))


def _refuse(operations: Sequence[FileOperation], check: Check, worktree: ProjectWorktree) -> None:
    mistakes = [Mistake(operation.path, why) for operation in operations if (why := check(operation))]
    ignored = worktree.ignored(operation.path for operation in operations)
    mistakes += [
        Mistake(path, f"git ignores it ({pattern}), so it would not be on the branch: choose another place")
        for path, pattern in ignored.items()
    ]
    known = worktree.files()
    mistakes += [
        Mistake(operation.path, f"differs from {clash} in upper and lower case alone: choose another name")
        for operation in operations
        if (clash := differs_in_case(operation.path, known))
    ]
    if mistakes:
        raise FileOperationsError(mistakes)

"""What commands on a project's documents share: their options, and the way from the backlog to the work."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from agentos.cli import main, run_command
from agentos.cli.options import (
    SHUTDOWN_HELP,
    add_choice_options,
    add_engine_options,
    add_model_options,
    add_parallel_options,
    add_review_options,
    project_from,
    setting_flags,
)
from agentos.cli.output import confirmed
from agentos.cli.resume import command_line
from agentos.cli.run_command import Work
from agentos.engine.checkpoints import store_for
from agentos.engine.checkpoints.protocol import ItemRef
from agentos.engine.limits import DEFAULT_PARALLELISM, MAX_PARALLELISM
from agentos.engine.plan import input_hash
from agentos.errors import UsageError
from agentos.events import Listener
from agentos.settings import Settings, load_settings
from agentos.workflows.awaiting_review import claimed
from agentos.workflows.pending import Pending, ReasonKind, Wanted
from agentos.workflows.registry import WORKFLOWS

if TYPE_CHECKING:
    from agentos.launch.request import RunRequest

Find = Callable[[Path, Settings, Wanted], Pending]
_UNDECIDED = "This is everything pending. To run it, give --all and leave --dry-run out."


def _add_nothing(_: argparse.ArgumentParser) -> None:
    """For commands without options of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentCommand:
    """What differs between these commands."""

    workflow: str
    noun: str
    description: str
    prepare: Callable[[argparse.Namespace], Work]
    """Read flags, settings and the backlog. Raises UsageError when they do not make sense."""
    add_own_options: Callable[[argparse.ArgumentParser], None] = _add_nothing

    def main(self, program: str, argv: Sequence[str]) -> int:
        """As a console script of its own."""
        return main.run_command(program, self.add_options, argv)

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Everything the command takes."""
        add_parallel_options(parser, default=None)
        self.add_document_options(parser)

    def add_document_options(self, parser: argparse.ArgumentParser) -> None:
        """All but the parallel options, which the tools add by themselves."""
        models = WORKFLOWS[self.workflow].models
        parser.description = f"{self.description}\n\n{SHUTDOWN_HELP}"
        add_choice_options(parser, self.noun)
        add_model_options(parser, has_coder="coder" in models)
        if "drafter" in models:
            add_review_options(parser)
        self.add_own_options(parser)
        add_engine_options(parser)
        parser.set_defaults(handler=lambda arguments: run_command.run(self.prepare(arguments)))

    def find(self, arguments: argparse.Namespace, find: Find) -> Work:
        """The work on the documents that the flags choose."""
        if arguments.ids and arguments.all:
            raise UsageError(f"--all and named {self.noun}s cannot be combined.")
        project_dir = project_from(arguments.project, Path.cwd())
        settings = load_settings(project_dir, flags=setting_flags(arguments))
        wanted = _wanted(arguments)
        look = partial(find, project_dir, settings)
        if not arguments.ids and not arguments.all:
            self._ask_which(arguments, lambda item_id: look(replace(wanted, patterns=[item_id])))
        pending = look(replace(wanted, patterns=arguments.ids))
        workflow = WORKFLOWS[self.workflow]
        plan, left = run_command.planned(arguments, pending.items)
        return Work(
            arguments=arguments,
            workflow=workflow,
            project_dir=project_dir,
            settings=settings,
            plan=plan,
            noun=self.noun,
            reasons=pending.reasons,
            skipped=(*pending.skipped, *left),
            warnings=(*pending.warnings, *_changes(pending, workflow.label_prefix)),
            notes=[] if arguments.ids or arguments.all or not pending.items else [_UNDECIDED],
            start=_start_from_documents if _begins_with_documents(pending) else run_command.start_run,
        )

    def _ask_which(self, arguments: argparse.Namespace, look: Callable[[str], Pending]) -> None:
        """Who types `--parallel 101` and names nothing may mean item 101. Raises UsageError unless they say so.

        A dry run of nothing in particular is one of everything: it costs nothing.
        """
        number: int | None = arguments.parallel
        if not self._may_be_item(number, arguments, look):
            if arguments.dry_run:
                return
            raise UsageError(f"Nothing chosen: name {self.noun}s, or give --all for every pending one.")
        if not confirmed(f"--parallel {number} says how many at once. Do you mean {self.noun} {number}?"):
            raise UsageError(
                f"Nothing chosen: --parallel {number} says how many at once. "
                f"For {self.noun} {number}: `{command_line(arguments, [str(number)], parallel=None)}`; "
                f"for every pending one: `{command_line(arguments, all=True, parallel=DEFAULT_PARALLELISM)}`."
            )
        arguments.ids, arguments.parallel = [str(number)], None

    def _may_be_item(self, number: int | None, arguments: argparse.Namespace, look: Callable[[str], Pending]) -> bool:
        # Where nothing is at stake, only a number that cannot be meant as it stands is a question.
        if number is None or number == DEFAULT_PARALLELISM or (arguments.dry_run and number <= MAX_PARALLELISM):
            return False
        try:
            look(str(number))
        except UsageError:
            return False
        return True


def _wanted(arguments: argparse.Namespace) -> Wanted:
    wishes: str | None = getattr(arguments, "revise", None)
    if wishes is not None and not wishes.strip():
        raise UsageError('--revise needs to say what to change: --revise "split the store".')
    wanted = Wanted(
        patterns=arguments.ids,
        is_fresh=arguments.fresh,
        is_filing=getattr(arguments, "file", False),
        is_review_again=getattr(arguments, "review_again", False),
        wishes=(wishes or "").strip(),
    )
    if wanted.begins_with_document and not arguments.ids:
        raise UsageError("--review-again and --revise need named items; --all does not work with them.")
    if wanted.begins_with_document and arguments.fresh:
        raise UsageError("--fresh writes a new document; --review-again and --revise start from the existing one.")
    return wanted


def _begins_with_documents(pending: Pending) -> bool:
    return any("standing" in item.input for item in pending.items)


def _start_from_documents(request: RunRequest, listener: Listener | None) -> int:
    """What an earlier run left of such an item began with something else: it is not continued."""
    store = store_for(request.project_dir)
    for item in request.plan.items:
        ref = ItemRef(request.workflow, item.id)
        left = store.peek(ref)
        if "standing" in item.input and left is not None and left.input_hash != input_hash(item.input):
            with claimed(request.project_dir, request.workflow, item.id):
                store.remove(ref)
    return run_command.start_run(request, listener)


def _changes(pending: Pending, label_prefix: str) -> list[str]:
    """What is done again although it was done: people want to know why."""
    return [
        f"{label_prefix}{item_id}: {why}"
        for item_id, why in pending.reasons.items()
        if why.kind
        in (
            ReasonKind.SOURCE_CHANGED,
            ReasonKind.SOURCE_ANSWERED,
            ReasonKind.REVIEW_FAILED,
            ReasonKind.REPLACES_PERSONS,
        )
    ]

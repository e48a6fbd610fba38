"""`agentos review` of a document in its place: a person approves it, or has it reviewed or revised as it stands."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from agentos.cli import closing, issue, lld
from agentos.cli.documents import DocumentCommand
from agentos.cli.main import parse
from agentos.cli.named_workstreams import named_workstreams
from agentos.cli.output import say, say_document, say_json
from agentos.cli.parsing import CommandParser
from agentos.documents.approval import Intact, verify_approval
from agentos.documents.findings import errors
from agentos.documents.unapproved import Obstacle, bare, for_readers, is_a_persons, read_unapproved
from agentos.errors import ExitCode, UsageError
from agentos.hints import Hint
from agentos.settings import Settings
from agentos.sources import natural_key
from agentos.sources.item import workstream_origin
from agentos.text.output_prefixer import prefix_of
from agentos.text.words import one_line
from agentos.workflows import model_options
from agentos.workflows.awaiting_review import approve_document
from agentos.workflows.document_checks import check_document
from agentos.workflows.drafting.approving import CheckText, StandingDocument, find_standing
from agentos.workflows.drafting.due import InPlace
from agentos.workflows.registry import WORKFLOWS, Workflow

_COMMANDS: dict[str, DocumentCommand] = {"lld": lld.command(), "issue": issue.command()}


def find(project_dir: Path, settings: Settings, workflow: Workflow, item_id: str) -> StandingDocument | None:
    """The document of an item."""
    if workflow.name == "pipeline":
        workflow = WORKFLOWS["lld"]  # What a pipeline writes first.
    if workflow.name not in _COMMANDS:
        return None
    also = named_workstreams(project_dir, [item_id]) if workflow.name == "lld" else ()
    return find_standing(project_dir, settings, workflow, item_id, also)


def run(arguments: argparse.Namespace, project_dir: Path, settings: Settings, document: StandingDocument) -> int:
    """Raises UsageError where nothing is to be decided: the document is approved as it stands."""
    if arguments.review_again or arguments.revise is not None:
        if document.source is None:
            raise UsageError(f"{_without_source(document)} Only `{Hint.APPROVE.line(label=document.label)}` is left.")
        return _start(arguments, document)
    approval = verify_approval(document.text)
    if document.is_approved and isinstance(approval, Intact):
        by, at = one_line(approval.approval.reviewer, 80), one_line(approval.approval.approved_at, 40)
        shown = document.path.relative_to(project_dir)
        raise UsageError(f"{document.label} is approved already, by {by} at {at}: {shown}")
    if arguments.approve:
        return _approve(arguments, project_dir, settings, document)
    return _show(arguments, project_dir, document)


def _approve(arguments: argparse.Namespace, project_dir: Path, settings: Settings, document: StandingDocument) -> int:
    given = approve_document(project_dir, settings, document)
    shown = str(document.path.relative_to(project_dir))
    if arguments.json:
        say_json(
            {"item": document.label, "path": str(document.path), "approved_by": given.by, "over": list(given.over)}
        )
    else:
        prefix = prefix_of(document.label)
        say(f"{prefix} {shown} is approved as it stands, by {one_line(given.by, 80)}")
        say(*(f"{prefix} over the blocking finding of its review: {one_line(each)}" for each in given.over))
        step = next_step(project_dir, settings, document)
        say(*([f"{prefix} Next, {step}"] if step else []))
    return ExitCode.OK


def next_step(project_dir: Path, settings: Settings, document: StandingDocument) -> str:
    """What is made of an approved document, and how; empty where nothing can be."""
    workflow, item = document.workflow.name, document.item_id
    models = model_options.of_maker(project_dir, workflow, item)
    if document.source is not None and document.source.origin == workstream_origin(item):
        return f"from its design to code: {Hint.RUN_WORKSTREAM.line(slug=item, options=models)}"
    return closing.next_step(workflow, project_dir, settings, models)


def _start(arguments: argparse.Namespace, document: StandingDocument) -> int:
    """The command of the document's workflow, with what was asked for here."""
    command = _COMMANDS[document.workflow.name]
    parser = CommandParser(prog=f"agentos {document.workflow.name}")
    command.add_options(parser)
    parsed = parse(parser, [document.item_id, *_words(arguments)])
    return int(parsed.handler(parsed))


def _words(arguments: argparse.Namespace) -> list[str]:
    words = ["--review-again"] if arguments.review_again else [f"--revise={arguments.revise}"]
    passed_on = ("models.drafter", "models.reviewer", "limits.max_rounds", "record", "budget", "project")
    for name in passed_on:
        value = getattr(arguments, name)
        if value is not None:
            words.append(f"--{name.rpartition('.')[2].replace('_', '-')}={value}")
    return [*words, *(["--json"] if arguments.json else [])]


def _show(arguments: argparse.Namespace, project_dir: Path, document: StandingDocument) -> int:
    found = _check(project_dir, document)(bare(document.text))
    if arguments.json:
        say_json(as_json(document, project_dir) | {"findings": [finding.words() for finding in found]})
        return ExitCode.OK
    say_document(for_readers(document.text))
    say("")
    prefix = prefix_of(document.label)
    for finding in found:
        say(f"{prefix} line {finding.line}: {one_line(finding.words())}")
    say(f"{prefix} {_state_words(document, project_dir)}")
    models = model_options.of_maker(project_dir, document.workflow.name, document.item_id)
    for line in _answer_lines(document, models, can_be_approved=not errors(found)):
        say(f"{prefix} {line}")
    return ExitCode.OK


def _answer_lines(document: StandingDocument, models: str, *, can_be_approved: bool) -> Iterator[str]:
    """What a person can do now. Nobody can approve what fails the check, nor does a review change a person's text."""
    workflow, item = document.workflow.name, document.item_id
    mark = read_unapproved(document.text)
    can_be_answered = document.source is not None and document.source.origin != workstream_origin(item)
    if mark is not None and mark.obstacle is Obstacle.QUESTIONS and can_be_answered:
        yield f"With the answers there, run: {Hint.CONTINUE.line(workflow=workflow, item=item, options=models)}"
    if can_be_approved:
        yield f"Answer with: {Hint.APPROVE.line(label=document.label)}"
    else:
        yield "It cannot be approved before it passes the check."
    if document.source is None:
        yield _without_source(document)
        return
    if can_be_approved or not is_a_persons(document.text):
        yield f"Answer with: {Hint.REVIEW_AGAIN.line(label=document.label, options=models)}"
    yield f"Answer with: {Hint.REVISE.line(label=document.label, options=models)}"
    yield f"Or have it rewritten: {Hint.WRITE_AGAIN.line(workflow=workflow, item=item, options=models)}"


def _without_source(document: StandingDocument) -> str:
    return f"There is no {_source_noun(document)} {document.item_id}, so no model can review or rewrite its document."


def _source_noun(document: StandingDocument) -> str:
    return "brief" if document.workflow.name == "issue" else "issue"


def _check(project_dir: Path, document: StandingDocument) -> CheckText:
    return lambda text: check_document(document.workflow.name, text, document.item_id, project_dir)


def as_json(document: StandingDocument, project_dir: Path) -> dict[str, str]:
    return {
        "item": document.label,
        "id": document.item_id,
        "workflow": document.workflow.name,
        "path": str(document.path),
        "state": _state_words(document, project_dir),
    }


def _state_words(document: StandingDocument, project_dir: Path) -> str:
    in_place = InPlace(str(document.path.relative_to(project_dir)), document.text)
    approval = in_place.approval
    if approval is None:
        return _in_words(in_place)
    if approval.issue_hash == document.issue_hash:
        return f"only the offline model has reviewed {in_place.shown}"
    return f"the {_source_noun(document)} changed since {in_place.shown} was approved"


def _in_words(in_place: InPlace) -> str:
    """Of one that is not approved."""
    if in_place.what_changed:
        return f"{in_place.shown} changed since it was approved: {one_line(in_place.what_changed)}"
    if in_place.mark:
        return f"{in_place.shown} needs revision: {one_line(in_place.mark.reason)}"
    return f"{in_place.shown} was never approved"


def unapproved(project_dir: Path, settings: Settings) -> list[tuple[str, str]]:
    """Designs in their folder that are not approved as they are: label, and how they stand."""
    found = []
    folder = settings.documents.lld_dir
    for path in (project_dir / folder).glob("LLD-*.md"):
        in_place = InPlace(f"{folder}/{path.name}", path.read_text(encoding="utf-8", errors="replace"))
        if in_place.approval is None:
            found.append((path.stem, _in_words(in_place)))
    return sorted(found, key=lambda entry: natural_key(entry[0]))

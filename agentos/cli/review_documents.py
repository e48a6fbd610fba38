"""`agentos review` of a document in its place: a person approves it, or has it reviewed or revised as it stands."""

from __future__ import annotations

import argparse
from pathlib import Path

from agentos.cli import issue, lld
from agentos.cli.documents import DocumentCommand
from agentos.cli.main import parse
from agentos.cli.parsing import CommandParser
from agentos.cli.texts import say, say_document, say_json
from agentos.clock import utc_now
from agentos.documents.unapproved import bare
from agentos.errors import ExitCode
from agentos.hints import Hint
from agentos.settings import Settings
from agentos.sources import natural_key
from agentos.text.output_prefixer import prefix_of
from agentos.text.words import one_line
from agentos.workflows import model_options
from agentos.workflows.awaiting_review import claimed
from agentos.workflows.document_checks import check_document
from agentos.workflows.drafting.approving import CheckText, Standing, approve, find_standing
from agentos.workflows.drafting.due import InPlace
from agentos.workflows.registry import WORKFLOWS, parse_label

_COMMANDS: dict[str, DocumentCommand] = {"lld": lld.command(), "issue": issue.command()}


def find(project_dir: Path, settings: Settings, name: str) -> Standing | None:
    """The document that a label or a bare id means, unless it is approved as it stands."""
    workflow, item_id = parse_label(name)
    if workflow.name == "pipeline":
        workflow = WORKFLOWS["lld"]  # What a pipeline writes first.
    if workflow.name not in _COMMANDS:
        return None
    found = find_standing(project_dir, settings, workflow, item_id)
    return None if found is None or found.is_approved else found


def run(arguments: argparse.Namespace, project_dir: Path, settings: Settings, document: Standing) -> int:
    if arguments.approve:
        return _approve(arguments, project_dir, settings, document)
    if arguments.review_again or arguments.revise is not None:
        return _start(arguments, document)
    return _show(arguments, project_dir, document)


def _approve(arguments: argparse.Namespace, project_dir: Path, settings: Settings, document: Standing) -> int:
    with claimed(project_dir, document.workflow.name, document.item_id):
        by = approve(project_dir, settings, document, _check(project_dir, document), utc_now())
    shown = str(document.path.relative_to(project_dir))
    if arguments.json:
        say_json({"item": document.label, "path": str(document.path), "approved_by": by})
    else:
        say(f"{prefix_of(document.label)} {shown} is approved as it stands, by {one_line(by, 80)}")
    return ExitCode.OK


def _start(arguments: argparse.Namespace, document: Standing) -> int:
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


def _show(arguments: argparse.Namespace, project_dir: Path, document: Standing) -> int:
    found = _check(project_dir, document)(bare(document.text))
    if arguments.json:
        say_json(as_json(document, project_dir) | {"findings": [finding.words() for finding in found]})
        return ExitCode.OK
    say_document(document.text)
    say("")
    prefix = prefix_of(document.label)
    for finding in found:
        say(f"{prefix} line {finding.line}: {one_line(finding.words())}")
    say(f"{prefix} {_state_words(document, project_dir)}")
    models = model_options.of_maker(project_dir, document.workflow.name, document.item_id)
    say(f"{prefix} Answer with: {Hint.APPROVE.line(label=document.label)}")
    for answer in (Hint.REVIEW_AGAIN, Hint.REVISE):
        say(f"{prefix} Answer with: {answer.line(label=document.label, options=models)}")
    anew = Hint.WRITE_AGAIN.line(workflow=document.workflow.name, item=document.item_id, options=models)
    say(f"{prefix} Or have it written anew: {anew}")
    return ExitCode.OK


def _check(project_dir: Path, document: Standing) -> CheckText:
    return lambda text: check_document(document.workflow.name, text, document.item_id, project_dir)


def as_json(document: Standing, project_dir: Path) -> dict[str, str]:
    return {
        "item": document.label,
        "id": document.item_id,
        "workflow": document.workflow.name,
        "path": str(document.path),
        "state": _state_words(document, project_dir),
    }


def _state_words(document: Standing, project_dir: Path) -> str:
    return _in_words(InPlace(str(document.path.relative_to(project_dir)), document.text))


def _in_words(in_place: InPlace) -> str:
    if in_place.what_changed:
        return f"{in_place.shown} changed since it was approved: {one_line(in_place.what_changed)}"
    if in_place.approval:
        return f"the issue changed since {in_place.shown} was approved"
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

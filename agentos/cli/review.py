"""`agentos review`: what waits for a person, with its findings, and the person's answer."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from agentos.cli import review_documents
from agentos.cli.options import add_model_options, dollars, project_from
from agentos.cli.texts import say, say_document, say_json
from agentos.errors import UsageError
from agentos.hints import Hint, from_here
from agentos.reporters.last_run import last_run
from agentos.settings import load_settings
from agentos.text.output_prefixer import prefix_of
from agentos.text.words import listed, one_line
from agentos.workflows.awaiting_review import Waiting, give_answer, waiting_items
from agentos.workflows.registry import COMMANDS

_ANSWERED = {"approve": "approved", "revise": "to be revised"}


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "review",
        help="see what waits for a person, and answer it",
        description="Items started with --review park at their checkpoint and wait for a person; an answer is stored "
        "and the next run continues. A document that is not approved as it stands, because it needs revision or a "
        "person wrote or edited it, waits too: --approve takes it after the mechanical check, with its hash and "
        "your name; --review-again and --revise start a run from it. Without an answer, shows the document, its "
        "findings and what is asked.",
    )
    parser.add_argument(
        "item", nargs="?", metavar="ITEM", help="an item, like LLD-42 (default: list everything that waits)"
    )
    parser.add_argument("--all", action="store_true", help="list all items that wait")
    answer = parser.add_mutually_exclusive_group()
    answer.add_argument("--approve", action="store_true", help="let the item continue as it is; or take the document")
    answer.add_argument("--revise", metavar="TEXT", help="send the draft or the document back, with what to change")
    answer.add_argument("--review-again", action="store_true", help="have the model review the document as it stands")
    answer.add_argument("--answer", metavar="JSON", help="any other answer, for graphs of your own, like '\"yes\"'")
    parser.add_argument(
        "--question", metavar="ID", help="which of several questions the answer is for: its id or number"
    )
    parser.add_argument(
        "--edit",
        metavar="JSON",
        help="change these keys of the item's state before it continues, for your own graphs",
    )
    add_model_options(parser)
    parser.add_argument("--budget", type=dollars, metavar="USD", help="stop before model calls cost more than this")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--project", metavar="DIR", help="the project the items belong to (default: found from here)")
    parser.set_defaults(handler=run)


def run(arguments: argparse.Namespace) -> int:
    project_dir = project_from(arguments.project, Path.cwd())
    waiting = waiting_items(project_dir)
    answer = _answer(arguments)
    if arguments.item is None or arguments.all:
        if answer is not None or arguments.review_again or arguments.edit is not None:
            raise UsageError("An answer is for one item: name it, as in ITEM --approve.")
        return _list(waiting, project_dir, as_json=arguments.json)
    matches = _matches(waiting, arguments.item)
    if not matches and arguments.answer is None and arguments.edit is None:
        settings = load_settings(project_dir)
        document = review_documents.find(project_dir, settings, arguments.item)
        if document is not None:
            return review_documents.run(arguments, project_dir, settings, document)
    item = _only(matches, waiting, arguments.item)
    if arguments.review_again:
        raise UsageError(f"{item.label} waits at a gate: answer with --approve or --revise.")
    edit = _edit(arguments.edit, item)
    if answer is None and edit is None:
        return _show(item, as_json=arguments.json)
    if (arguments.approve and not item.takes_approval) or (arguments.revise is not None and not item.is_gate):
        raise UsageError(f"{item.label} asks something else. Answer with: {' or '.join(answer_lines(item))}")
    answer = with_answer(item, answer, arguments.question)
    give_answer(project_dir, item, answer, edit)
    if arguments.json:
        say_json({"item": item.label, "answer": answer, **({"edit": edit} if edit else {})})
    else:
        given = _given_words(item, answer, edit)
        say(f"{prefix_of(item.label)} {given}; to continue, run{_command(project_dir, item)}")
    return 0


def _edit(text: str | None, item: Waiting) -> dict[str, Any] | None:
    if text is None:
        return None
    if len(item.questions) > 1:
        raise UsageError(f"{item.label} asks {len(item.questions)} questions: answer them before you edit its state.")
    try:
        value = json.loads(text)
    except ValueError as error:
        raise UsageError(f"--edit is not valid JSON: {error}.") from None
    if not isinstance(value, dict):
        raise UsageError('--edit takes an object with keys of the state, like \'{"draft": "..."}\'.')
    return value


def with_answer(item: Waiting, answer: Any | None, question: str | None) -> Any | None:
    """What is stored: the answer itself or, of an item with several questions, all answers by question."""
    if answer is None or len(item.questions) < 2:
        if question not in (None, "1", *item.interrupt_ids):
            raise UsageError(f"{item.label} has no question {question!r}; it asks one, and needs no --question.")
        return answer
    numbers = {str(number): each for number, each in enumerate(item.interrupt_ids, start=1)}
    if question is None:
        raise UsageError(
            f"{item.label} asks {len(item.questions)} questions: say which the answer is for, --question 1 to "
            f"{len(item.questions)}."
        )
    chosen = numbers.get(question, question)
    if chosen not in item.interrupt_ids:
        raise UsageError(f"{item.label} has no question {question!r}. It has {', '.join(item.interrupt_ids)}.")
    return {**(item.answer or {}), chosen: answer}


def _given_words(item: Waiting, answer: Any | None, edit: dict[str, Any] | None) -> str:
    words = [_answer_words(answer, item)] if answer is not None else []
    return "; ".join([*words, *([f"edited {', '.join(edit)}"] if edit else [])])


def _answer(arguments: argparse.Namespace) -> Any | None:
    if arguments.approve:
        return {"action": "approve"}
    if arguments.revise is not None:
        if not arguments.revise.strip():
            raise UsageError('--revise needs to say what to change: --revise "split the store".')
        return {"action": "revise", "text": arguments.revise.strip()}
    if arguments.answer is None:
        return None
    try:
        value = json.loads(arguments.answer)
    except ValueError as error:
        raise UsageError(f"--answer is not valid JSON: {error}.") from None
    if value is None:
        raise UsageError("--answer null is no answer.")
    return value


def _matches(waiting: list[Waiting], name: str) -> list[Waiting]:
    matches = [item for item in waiting if name.casefold() in map(str.casefold, _names(item))]
    return [item for item in matches if item.label.casefold() == name.casefold()] or matches


def _only(exact: list[Waiting], waiting: list[Waiting], name: str) -> Waiting:
    if len(exact) == 1:
        return exact[0]
    if exact:
        names = [_names(item)[-1] if len({each.label for each in exact}) == 1 else item.label for item in exact]
        raise UsageError(f"{name} may be {listed(names)}: give the whole name.")
    others = listed([item.label for item in waiting])
    hint = f"These do: {others}." if others else "Nothing does; run with --review draft, verdict or all for gates."
    raise UsageError(f"{one_line(name, 60)} does not wait for a review. {hint}")


def _names(item: Waiting) -> tuple[str, ...]:
    """Any of these: items of two graphs may have one id."""
    return item.label, item.item_id, f"{item.workflow}/{item.item_id}"


def _list(waiting: list[Waiting], project_dir: Path, *, as_json: bool) -> int:
    parked = {item.label for item in waiting}
    documents = review_documents.unapproved(project_dir, load_settings(project_dir))
    documents = [(label, state) for label, state in documents if label not in parked]
    if as_json:
        say_json(
            [_document(item) for item in waiting] + [{"item": label, "state": state} for label, state in documents]
        )
    elif not waiting and not documents:
        say("Nothing waits for a review.")
    for item in () if as_json else waiting:
        question = item.question
        gate = f"{one_line(str(question['gate']), 20)} gate" if item.is_gate else "asks"
        state = _answer_words(item.answer, item) if item.answer is not None else "waits"
        say(f"{item.label}  {gate}, round {question.get('round', 1)}: {state}")
    for label, state in () if as_json else documents:
        say(f"{label}  {one_line(state)}")
    return 0


def _show(item: Waiting, *, as_json: bool) -> int:
    if as_json:
        say_json(_document(item))
        return 0
    question = item.question
    document = question.get("document")
    if isinstance(document, str):
        say_document(document)
        say("")
    else:
        _show_questions(item)
    for finding in question.get("findings", ()):
        say(f"{prefix_of(item.label)} {one_line(str(finding))}")
    if question.get("verdict"):
        say(f"{prefix_of(item.label)} The reviewer's verdict: {one_line(str(question['verdict']), 40)}")
    if item.answer is not None:
        known = _answer_words(item.answer, item)
        say(f"{prefix_of(item.label)} Answered already ({known}); a new answer replaces it.")
    say(f"{prefix_of(item.label)} Answer with: {' or '.join(answer_lines(item))}")
    return 0


def _show_questions(item: Waiting) -> None:
    for number, question in enumerate(item.questions, start=1):
        place = f"{number}. " if len(item.questions) > 1 else ""
        say(place + one_line(question if isinstance(question, str) else json.dumps(question, default=str), 2000))


def answer_lines(item: Waiting) -> list[str]:
    """What answers it: a gate of ours takes two answers, the question of a user's graph any."""
    if item.is_gate:
        return [hint.line(label=item.label) for hint in (Hint.APPROVE, Hint.REVISE)]
    if item.takes_approval:
        return [Hint.APPROVE.line(label=item.label)]
    which = " --question 1" if len(item.questions) > 1 else ""
    return [Hint.ANSWER.line(label=item.label) + which]


def _document(item: Waiting) -> dict[str, Any]:
    return {
        "item": item.label,
        "id": item.item_id,
        "workflow": item.workflow,
        "questions": list(item.questions),
        "interrupt_ids": list(item.interrupt_ids),
        "answer": item.answer,
        "edit": item.edit,
    }


def _answer_words(answer: Any, item: Waiting) -> str:
    if len(item.questions) > 1:
        return f"answered {len(answer)} of {len(item.questions)} questions"
    action = answer.get("action") if isinstance(answer, dict) else None
    if action not in _ANSWERED:
        return f"answered {one_line(json.dumps(answer), 80)}"
    text = one_line(str(answer.get("text", "")), 80)
    return f"{_ANSWERED[action]}: {text}" if text else _ANSWERED[action]


def _command(project_dir: Path, item: Waiting) -> str:
    """What resumes the run that parked the item, as that run said it; else the plainest command for it."""
    parked_in = last_run(project_dir, (item.workflow,), item.item_id)
    if parked_in is not None and parked_in.summary.resume_command:
        return f": {from_here(parked_in.summary.resume_command, parked_in.summary.folder)}"
    if item.workflow not in COMMANDS:
        return " the same command again"
    return f": {Hint.CONTINUE.line(workflow=COMMANDS[item.workflow], item=item.item_id)}"

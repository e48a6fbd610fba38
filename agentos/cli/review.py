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
from agentos.hints import Hint
from agentos.reporters.last_run import last_run
from agentos.settings import load_settings
from agentos.text.output_prefixer import prefix_of
from agentos.text.words import listed, one_line
from agentos.workflows.awaiting_review import Waiting, give_answer, waiting_items

_COMMANDS = {"lld": "lld", "issue": "issue", "implementation": "implement", "pipeline": "pipeline"}
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
    answer.add_argument("--answer", metavar="JSON", help="any other answer, for graphs of your own")
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
        if answer is not None or arguments.review_again:
            raise UsageError("An answer is for one item: name it, as in ITEM --approve.")
        return _list(waiting, project_dir, as_json=arguments.json)
    matches = _matches(waiting, arguments.item)
    if not matches and arguments.answer is None:
        settings = load_settings(project_dir)
        document = review_documents.find(project_dir, settings, arguments.item)
        if document is not None:
            return review_documents.run(arguments, project_dir, settings, document)
    item = _only(matches, waiting, arguments.item)
    if arguments.review_again:
        raise UsageError(f"{item.label} waits at a gate: answer with --approve or --revise.")
    if answer is None:
        return _show(item, as_json=arguments.json)
    give_answer(project_dir, item, answer)
    if arguments.json:
        say_json({"item": item.label, "answer": answer})
    else:
        say(f"{prefix_of(item.label)} {_answer_words(answer)}; to continue, run{_command(project_dir, item)}")
    return 0


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
    matches = [item for item in waiting if name.casefold() in (item.label.casefold(), item.item_id.casefold())]
    return [item for item in matches if item.label.casefold() == name.casefold()] or matches


def _only(exact: list[Waiting], waiting: list[Waiting], name: str) -> Waiting:
    if len(exact) == 1:
        return exact[0]
    if exact:
        raise UsageError(f"{name} may be {listed([item.label for item in exact])}: give the whole name.")
    others = listed([item.label for item in waiting])
    hint = f"These do: {others}." if others else "Nothing does; run with --review draft, verdict or all for gates."
    raise UsageError(f"{one_line(name, 60)} does not wait for a review. {hint}")


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
        gate = f"{one_line(str(question['gate']), 20)} gate" if "gate" in question else "asks"
        state = _answer_words(item.answer) if item.answer is not None else "waits"
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
        say(one_line(json.dumps(list(item.questions), default=str), 2000))
    for finding in question.get("findings", ()):
        say(f"{prefix_of(item.label)} {one_line(str(finding))}")
    if question.get("verdict"):
        say(f"{prefix_of(item.label)} The reviewer's verdict: {one_line(str(question['verdict']), 40)}")
    if item.answer is not None:
        say(f"{prefix_of(item.label)} Answered already ({_answer_words(item.answer)}); a new answer replaces it.")
    say(f"{prefix_of(item.label)} Answer with: {' or '.join(answer_lines(item))}")
    return 0


def answer_lines(item: Waiting) -> list[str]:
    """What answers it: a gate of ours takes two answers, the question of a user's graph any."""
    fitting = (Hint.APPROVE, Hint.REVISE) if "gate" in item.question else (Hint.ANSWER,)
    return [hint.line(label=item.label) for hint in fitting]


def _document(item: Waiting) -> dict[str, Any]:
    return {
        "item": item.label,
        "id": item.item_id,
        "workflow": item.workflow,
        "questions": list(item.questions),
        "answer": item.answer,
    }


def _answer_words(answer: Any) -> str:
    action = answer.get("action") if isinstance(answer, dict) else None
    if action not in _ANSWERED:
        return f"answered {one_line(json.dumps(answer), 80)}"
    text = one_line(str(answer.get("text", "")), 80)
    return f"{_ANSWERED[action]}: {text}" if text else _ANSWERED[action]


def _command(project_dir: Path, item: Waiting) -> str:
    """What resumes the run that parked the item, as that run said it; else the plainest command for it."""
    parked_in = last_run(project_dir, (item.workflow,), item.item_id)
    if parked_in is not None and parked_in.summary.resume_command:
        return f": {parked_in.summary.resume_command}"
    if item.workflow not in _COMMANDS:
        return " the same command again"
    return f": {Hint.CONTINUE.line(workflow=_COMMANDS[item.workflow], item=item.item_id)}"

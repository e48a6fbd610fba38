"""`agentos review`: what waits for a person, with its findings, and the person's answer."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from agentos.cli import review_documents
from agentos.cli.graph_items import GraphItem, find_graph_item, is_graph_and_id
from agentos.cli.options import add_model_options, dollars, project_from
from agentos.cli.output import say, say_document, say_json
from agentos.cli.parsing import add_json_option, add_project_option
from agentos.errors import UsageError
from agentos.hints import Hint, from_here
from agentos.reporters.last_run import last_run
from agentos.settings import load_settings
from agentos.text.output_prefixer import prefix_of
from agentos.text.words import listed, one_line
from agentos.workflows.awaiting_review import Waiting, give_answer, waiting_items
from agentos.workflows.item_names import find_item
from agentos.workflows.registry import COMMANDS, label_of

_ANSWERED = {"approve": "approved", "revise": "to be revised"}


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Items started with --review park at their checkpoint and wait for a person; an answer is stored "
        "and the next run continues. A document that is not approved as it stands, because it needs revision or a "
        "person wrote or edited it, waits too: --approve takes it after the mechanical check, with its hash and "
        "your name; --review-again and --revise start a run from it. Without an answer, shows the document, its "
        "findings and what is asked."
    )
    parser.add_argument(
        "item", nargs="?", metavar="ITEM", help="an item, like LLD-42 (default: list everything that waits)"
    )
    parser.add_argument("--all", action="store_true", help="list all items that wait")
    answer = parser.add_mutually_exclusive_group()
    answer.add_argument(
        "--approve", action="store_true", help="let the item continue as it is, or approve the document as it stands"
    )
    answer.add_argument("--revise", metavar="TEXT", help="send the draft or the document back, with what to change")
    answer.add_argument("--review-again", action="store_true", help="have the model review the document as it stands")
    answer.add_argument("--answer", metavar="JSON", help="any other answer, for your own graphs, like '\"yes\"'")
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
    add_json_option(parser)
    add_project_option(parser, "the project the items belong to")
    parser.set_defaults(handler=run)


def run(arguments: argparse.Namespace) -> int:
    project_dir = project_from(arguments.project, Path.cwd())
    waiting = waiting_items(project_dir)
    answer = _answer(arguments)
    if arguments.item is None or arguments.all:
        if answer is not None or arguments.review_again or arguments.edit is not None:
            raise UsageError("An answer is for one item: name it, as in ITEM --approve.")
        return _list(waiting, project_dir, as_json=arguments.json)
    matches = _matches(waiting, arguments.item.removeprefix("#"))
    if not matches and not is_graph_and_id(arguments.item):
        settings = load_settings(project_dir)
        workflow, item_id = find_item(arguments.item, project_dir, settings)
        if Path(arguments.item).suffix:
            # An issue's file is that of its design, and of its pipeline.
            matches = _matches(waiting, item_id if workflow.name == "lld" else label_of(workflow.name, item_id))
        takes_document = not matches and arguments.answer is None and arguments.edit is None
        document = review_documents.find(project_dir, settings, workflow, item_id) if takes_document else None
        if document is not None:
            return review_documents.run(arguments, project_dir, settings, document)
    if len(matches) > 1 and answer is None and arguments.edit is None and not arguments.json:
        return _show_each(matches)
    if not matches and (of_graph := find_graph_item(project_dir, arguments.item)):
        raise UsageError(_asks_nothing(of_graph))
    item = _only(matches, waiting, arguments.item)
    if arguments.review_again:
        raise UsageError(f"{item.label} waits at a gate: answer with --approve or --revise.")
    edit = _edit(arguments.edit, item)
    if answer is None and edit is None:
        return _show(project_dir, item, _name_among(item, waiting), as_json=arguments.json)
    if (arguments.approve and not item.takes_approval) or (arguments.revise is not None and not item.is_gate):
        raise UsageError(
            f"{item.label} asks a different question. "
            f"Answer with: {' or '.join(answer_lines(item, _name_among(item, waiting)))}"
        )
    answer = with_answer(item, answer, arguments.question)
    give_answer(project_dir, item, answer, edit)
    if arguments.json:
        say_json({"item": item.label, "answer": answer, **({"edit": edit} if edit else {})})
    else:
        given = _given_words(item, answer, edit)
        say(f"{prefix_of(item.label)} {given}; to continue, run{_command(project_dir, item)}")
    return 0


def _asks_nothing(item: GraphItem) -> str:
    show = Hint.SHOW_DOCUMENT.line(label=item.item_id)
    return (
        f"{item.item_id} is an item of the graph {item.workflow} and asks nothing now: "
        f"such an item waits where its graph calls interrupt(). See: {show}"
    )


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
        hint = """Text has quotes of its own, as in --answer '"yes"'."""
        raise UsageError(f"--answer is not valid JSON: {error}. {hint}") from None
    if value is None:
        raise UsageError("--answer null is not an answer.")
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
        say(f"{_name_among(item, waiting)}  {_state_words(item)}")
    for label, state in () if as_json else documents:
        say(f"{label}  {one_line(state)}")
    if not as_json:
        continuing = dict.fromkeys(_command(project_dir, item) for item in waiting if item.is_answered)
        say(*(f"To continue what is answered, run{command}" for command in continuing))
    return 0


def _state_words(item: Waiting) -> str:
    answered = _answer_words(item.answer, item) if item.answer is not None else ""
    if not item.is_gate:
        return f"{item.words} ({answered})" if answered else item.words
    gate = f"{one_line(str(item.question['gate']), 20)} gate, round {item.question.get('round', 1)}"
    return f"{gate}: {answered or 'waits'}"


def _show_each(items: list[Waiting]) -> int:
    """Items of one id, each with the whole name that an answer needs."""
    for item in items:
        say(f"{_name_among(item, items)}  {_state_words(item)}")
        say(f"{prefix_of(item.label)} Answer with: {' or '.join(answer_lines(item, _name_among(item, items)))}")
    return 0


def _name_among(item: Waiting, others: list[Waiting]) -> str:
    is_only = sum(other.label == item.label for other in others) == 1
    return item.label if is_only else _names(item)[-1]


def _show(project_dir: Path, item: Waiting, name: str, *, as_json: bool) -> int:
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
    if item.is_answered:
        say(f"{prefix_of(item.label)} To continue, run{_command(project_dir, item)}")
    say(f"{prefix_of(item.label)} Answer with: {' or '.join(answer_lines(item, name))}")
    return 0


def _show_questions(item: Waiting) -> None:
    for number, question in enumerate(item.questions, start=1):
        place = f"{number}. " if len(item.questions) > 1 else ""
        say(place + one_line(question if isinstance(question, str) else json.dumps(question, default=str), 2000))


def answer_lines(item: Waiting, name: str | None = None) -> list[str]:
    """What answers it, by its label or another name: a gate of ours takes two answers, a graph's question any."""
    label = name or item.label
    if item.is_gate:
        return [hint.line(label=label) for hint in (Hint.APPROVE, Hint.REVISE)]
    if item.takes_approval:
        return [Hint.APPROVE.line(label=label)]
    which = f" --question {item.open_question}" if len(item.questions) > 1 else ""
    return [Hint.ANSWER.line(label=label) + which]


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

"""Open questions, and whether they have been answered."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from agentos.documents.blocks import list_items
from agentos.documents.inline import plain, words
from agentos.documents.markdown import Document, Section


@dataclass(frozen=True, slots=True)
class OpenQuestion:
    """A question of the document. It is resolved when it is ticked, struck out, or has an answer."""

    text: str
    resolved: bool
    answer: str | None
    line: int


_ANSWER = re.compile(
    r"(?:\bAnswer(?:ed)?|\bResolved|\bResolution|\bDecision|\bDecided)\s*:\s*|\s(?:→|⟶|->|=>)\s", re.IGNORECASE
)
_STRUCK = re.compile(r"~~(.*)~~\s*(.*)", re.DOTALL)
_NOTHING = frozenset(
    {"none", "n a", "n/a", "na", "nothing", "no open questions", "none at this time", "no questions"}
)
_NO_ANSWER = frozenset({"", "tbd", "todo", "pending", "unknown", "?", "none yet", "open"})


def open_questions(document: Document, sections: Sequence[Section]) -> tuple[OpenQuestion, ...]:
    """The questions listed in the given sections; an item nested below a question may hold its answer."""
    found: list[OpenQuestion] = []
    for section in sections:
        outermost: int | None = None
        for item in list_items(document.tree_lines(section)):
            outermost = item.indent if outermost is None else min(outermost, item.indent)
            if item.indent >= outermost + 2 and found:
                found[-1] = _with_detail(found[-1], item.text)
            elif not _says_nothing(item.text):
                found.append(_read(item.text, item.checked, item.line))
    return tuple(found)


def _says_nothing(text: str) -> bool:
    return not text or plain(text).strip(" .-–—").casefold() in _NOTHING or " ".join(words(text)) in _NOTHING


def _read(text: str, checked: bool | None, line: int) -> OpenQuestion:
    struck = _STRUCK.fullmatch(text)
    text = f"{struck[1]} {struck[2]}" if struck else text
    text = plain(text)
    match = _ANSWER.search(text)
    answer = _meaningful(text[match.end() :]) if match else None
    question = text[: match.start()].strip() if match else text
    return OpenQuestion(question, bool(checked) or struck is not None or answer is not None, answer, line)


def _with_detail(question: OpenQuestion, text: str) -> OpenQuestion:
    text = plain(text)
    match = _ANSWER.match(text)
    answer = _meaningful(text[match.end() :]) if match else None
    if question.answer is not None or answer is None:
        return question
    return OpenQuestion(question.text, True, answer, question.line)


def _meaningful(answer: str) -> str | None:
    answer = answer.strip()
    return None if answer.strip(" .").casefold() in _NO_ANSWER else answer

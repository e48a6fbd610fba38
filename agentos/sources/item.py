"""What a source hands out: one issue or brief, with what the planner needs to order it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol

from agentos.documents.approval import document_hash
from agentos.documents.issue import dependencies
from agentos.documents.markdown import parse

PRIORITY_WORDS = {"critical": 20, "urgent": 20, "high": 10, "medium": 0, "normal": 0, "low": -10}


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceItem:
    """One issue or brief, read once. Everything but the id is untrusted text."""

    id: str
    """Safe as a part of a file name."""
    title: str
    text: str
    """The whole document as Markdown, front matter included."""
    origin: str
    """Where a person finds it: a path, or a web address."""
    priority: int = 0
    """Higher goes first."""
    depends_on: tuple[str, ...] = ()
    """Ids of other items, in the order the text names them."""
    labels: tuple[str, ...] = ()
    state: str = "open"
    """`open` or `closed`."""
    problem: str = ""
    """Why it cannot be worked on, with the fix: it is one item's failure and stops no other. Its text is empty."""

    @property
    def text_hash(self) -> str:
        """What an approval names as its `issue_hash`; the newline style and a status line do not count."""
        return document_hash(self.text)


def workstream_origin(slug: str) -> str:
    """The origin of a workstream's text, which is in no file that a person could edit."""
    return f"workstream {slug}"


class Source(Protocol):
    """A place pending items come from."""

    def items(self) -> tuple[SourceItem, ...]:
        """Every item, in natural order of ids. Raises an AgentosError when the source cannot be read."""
        ...


def natural_key(identifier: str) -> tuple[tuple[int, int, str], ...]:
    """A sort key that puts `2` before `10` and `a2` before `a10`; equal for equal ids only."""
    parts = re.findall(r"[0-9]+|[^0-9]+", identifier)
    return tuple((0, int(part), part) if part[0] in "0123456789" else (1, 0, part) for part in parts)


def without_padding(identifier: str) -> str:
    """`0042` is issue 42."""
    return identifier.lstrip("0") or "0" if identifier.isdecimal() and identifier.isascii() else identifier


def dependency_ids(text: str) -> tuple[str, ...]:
    """The ids a document says it depends on, once each; a document that names itself is for the planner to refuse."""
    return tuple(dict.fromkeys(without_padding(name) for name in dependencies(text)))


def priority_in(text: str) -> int:
    """The priority that a document's front matter gives it; 0 without one."""
    return priority_of(parse(text).front_matter.get("priority", "")) or 0


def priority_of(value: object) -> int | None:
    """The priority a front matter value or a label's tail stands for; None when it is not one."""
    word = str(value).strip().lower()
    if word in PRIORITY_WORDS:
        return PRIORITY_WORDS[word]
    return int(word) if re.fullmatch(r"[+-]?[0-9]{1,6}", word) else None

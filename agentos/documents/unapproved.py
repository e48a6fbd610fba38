"""A document that its review did not pass: its open findings, and a mark that tells it from a person's text."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum

from agentos.documents.approval import (
    Absent,
    Changed,
    Intact,
    document_hash,
    former_approval,
    normalised,
    verify_approval,
    without_approval,
)

PERSON = "a person"

_EDITED = ", then edited"
_FINDINGS_HEADING = "## Appendix: Open Findings"
_MARK = re.compile(r"\n<!-- agentos:unapproved (?P<data>\{[^\n]*\}) -->\s*\Z")
_FINDINGS = re.compile(rf"\n{re.escape(_FINDINGS_HEADING)}\n(?:[ \t]*\n|- [^\n]*\n)*\Z")


class Obstacle(StrEnum):
    """What stood between a document and its approval. What a later run does follows from it."""

    FINDINGS = "findings"
    """Its own: it is not paid for again until it, or its issue, changes."""
    QUESTIONS = "questions"
    """What its issue leaves open: the same."""
    REVIEWER = "reviewer"
    """The reviewer's answer was no review: nothing is known against the document, and the next run asks again."""


@dataclass(frozen=True, slots=True)
class Unapproved:
    """What a workflow says of a document it could not approve. `document_hash` is filled in when it is stamped."""

    issue_hash: str
    """Of the issue's text that the document was reviewed against."""
    obstacle: Obstacle
    reason: str
    drafter: str = ""
    is_persons: bool = False
    """The text was a person's before it was reviewed, and still is."""
    document_hash: str = ""


def stamp_unapproved(text: str, mark: Unapproved, findings: Sequence[str]) -> str:
    """The document with its findings as an appendix, and the mark; earlier ones are replaced."""
    body = bare(text).rstrip()
    if findings:
        body += f"\n\n{_FINDINGS_HEADING}\n\n" + "\n".join(f"- {' '.join(each.split())}" for each in findings)
    complete = asdict(replace(mark, document_hash=document_hash(body)))
    data = json.dumps(complete, sort_keys=True).replace("<", "\\u003c").replace(">", "\\u003e")
    return f"{body}\n\n<!-- agentos:unapproved {data} -->\n"


def open_findings(text: str) -> list[str]:
    """What the appendix of a document that was not approved lists."""
    found = _FINDINGS.search(_MARK.sub("\n", normalised(text)).rstrip() + "\n")
    return [line.removeprefix("- ") for line in found[0].splitlines() if line.startswith("- ")] if found else []


def read_unapproved(text: str) -> Unapproved | None:
    """The mark of a document that is as a workflow left it. None without one, and when the text changed since."""
    normal = normalised(text)
    match, found = _MARK.search(normal), _mark(normal)
    if match is None or found is None or found.document_hash != document_hash(normal[: match.start()]):
        return None
    return found


def _mark(text: str) -> Unapproved | None:
    match = _MARK.search(text)
    try:
        data = json.loads(match["data"]) if match else {}
        return Unapproved(**{**data, "obstacle": Obstacle(data["obstacle"])})
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def bare(text: str) -> str:
    """The document alone: without approval, mark, and a workflow's list of findings that nobody wrote into."""
    body = _MARK.sub("\n", normalised(text)).rstrip() + "\n"
    return without_approval(_FINDINGS.sub("\n", body))


def for_readers(text: str) -> str:
    """The document with a workflow's findings, without what is there for programs."""
    return without_approval(_MARK.sub("\n", normalised(text)))


def is_a_persons(text: str) -> bool:
    """Whether somebody wrote, edited or took over the document: such a text is never replaced unasked."""
    match verify_approval(text):
        case Intact(approval=approval):
            return bool(approval.person)
        case Changed():
            return True
        case Absent():
            mark = read_unapproved(text)
            return bool(text.strip()) and (mark is None or mark.is_persons)


def author_of(text: str) -> str:
    """Who wrote the document, as far as it tells."""
    approval, mark = former_approval(text), _mark(normalised(text))
    drafter = approval.drafter if approval else mark.drafter if mark else ""
    if not drafter:
        return PERSON
    is_untouched = isinstance(verify_approval(text), Intact) or read_unapproved(text) is not None
    return drafter if is_untouched or drafter.endswith(_EDITED) or drafter == PERSON else drafter + _EDITED

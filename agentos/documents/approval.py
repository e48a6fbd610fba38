"""An approval, bound to the text it approved and written into the document itself."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

from agentos.documents.inline import shown
from agentos.documents.lld import parse_lld
from agentos.documents.markdown import parse
from agentos.errors import AgentosError
from agentos.text.words import listed

_BEGIN = "<!-- agentos:approval "
_END = "<!-- agentos:approval:end -->"
_APPROVED = "Approved"
_REHEARSED = "Rehearsed"
REHEARSER = "offline"
"""The model that plays every part and reads nothing: what it alone approved is not approved."""
_EDITED_BLOCK = "the approval block was edited"
_ADDED_AFTER = "text was added after the approval block"
_STATUS_FIELD = re.compile(r"[^:]{0,40}\bstatus[ \t*_]*:[*_]*[ \t]*(?P<value>.*?)[ \t]*(?:<!--.*)?", re.IGNORECASE)
_STATUS_CELL = re.compile(r"[ \t]*\|[^|]{0,40}\bstatus\b[^|]*\|[ \t]*(?P<value>[^|]*?)[ \t]*\|[ \t]*", re.IGNORECASE)


class ApprovalError(AgentosError):
    """The document is not the one that was approved."""


@dataclass(frozen=True, slots=True)
class ReviewLogEntry:
    """One round of review, as the log shows it."""

    round: int
    verdict: str
    reviewer: str
    summary: str


@dataclass(frozen=True, slots=True)
class ApprovalInfo:
    """Who approved what. `document_hash` and `sections` are filled in when the approval is stamped."""

    approved_at: str
    """ISO 8601, UTC."""
    drafter: str
    reviewer: str
    issue_hash: str = ""
    """The hash of the issue's text that the document answers."""
    log: tuple[ReviewLogEntry, ...] = ()
    document_hash: str = ""
    sections: tuple[tuple[str, str], ...] = ()
    """Each heading with a digest of its own text, to say what changed since."""
    person: str = ""
    """Whose text it is: who wrote it by hand, edited it or took it over. Empty for a workflow's own."""

    @property
    def is_rehearsal(self) -> bool:
        """Whether nobody but the offline model has looked at the document."""
        return self.reviewer == REHEARSER

    @property
    def word(self) -> str:
        return _REHEARSED if self.is_rehearsal else _APPROVED


@dataclass(frozen=True, slots=True)
class Intact:
    """The document is what was approved."""

    approval: ApprovalInfo


@dataclass(frozen=True, slots=True)
class Changed:
    """The document was approved, and is another one now."""

    what: str


@dataclass(frozen=True, slots=True)
class Absent:
    """The document carries no approval."""


def document_hash(text: str) -> str:
    """The hash of what a document says: the same for any newline style, status, and with or without its approval."""
    return "sha256:" + hashlib.sha256(_essence(text).encode("utf-8", "surrogatepass")).hexdigest()


def stamp_approval(text: str, approval: ApprovalInfo) -> str:
    """The document with its status and a review log that carries the hash; an earlier approval is replaced.

    Raises ApprovalError when `approval.document_hash` is given and is not this document's.
    """
    actual = document_hash(text)
    if approval.document_hash not in {"", actual}:
        raise ApprovalError("the document is not the one that was reviewed: have it reviewed again")
    complete = replace(approval, document_hash=actual, sections=_section_digests(text))
    newline = "\r\n" if "\r\n" in text else "\n"
    body = with_status(_split(normalised(text))[0], complete.word).rstrip("\n")
    return f"{body}\n\n{_block(complete)}\n".replace("\n", newline)


def without_approval(text: str) -> str:
    """The document without its approval, also one that somebody added text after."""
    body, _ = _split(normalised(text))
    span = _inner_block(body)
    if span is not None:
        body = f"{body[: span[0]].rstrip()}\n\n{body[span[1] :].lstrip()}"
    return body.rstrip() + "\n"


def former_approval(text: str) -> ApprovalInfo | None:
    """The approval a document carries, whether or not it still counts. None when it has none that can be read."""
    body, block = _split(normalised(text))
    span = _inner_block(body)
    return _read_block(block or (body[span[0] : span[1]] if span else ""))


def verify_approval(text: str) -> Intact | Changed | Absent:
    """Whether a document is exactly what was approved. Status and approval block count too: neither can hide text."""
    body, block = _split(normalised(text))
    if not block:
        return Changed(_ADDED_AFTER) if _inner_block(body) else Absent()
    approval = _read_block(block)
    if approval is None or _block(approval) != block:
        return Changed(_EDITED_BLOCK)
    if approval.document_hash != document_hash(text):
        return Changed(_difference(dict(approval.sections), dict(_section_digests(text))))
    if approval.sections != _section_digests(text):
        return Changed(_EDITED_BLOCK)
    status = parse_lld(body).status
    if status is not None and status != approval.word:
        return Changed(f"the status says {shown(status)[:40]!r}")
    return Intact(approval)


def with_status(text: str, status: str) -> str:
    """The document with another status, where it has one; all else stays as it is."""
    found = _status_span(text)
    return text if found is None else text[: found[0]] + status + text[found[1] :]


def normalised(text: str) -> str:
    """What an approval is of: the same text, whatever an editor or a checkout did to its line ends."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def _essence(text: str) -> str:
    return with_status(_split(normalised(text))[0], "").rstrip() + "\n"


def _split(text: str) -> tuple[str, str]:
    """A normalised text as body and approval block. Only a block that ends the text is one."""
    stripped = text.rstrip()
    start = stripped.rfind(f"\n{_BEGIN}{{")
    if start < 0 or not stripped.endswith(f"\n{_END}"):
        return text, ""
    return text[:start], stripped[start + 1 :]


def _inner_block(text: str) -> tuple[int, int] | None:
    """Where an approval is that ended the text once: people add to a document at its end."""
    end = text.rfind(f"\n{_END}\n")
    start = text.rfind(f"\n{_BEGIN}{{", 0, max(end, 0))
    if start < 0 or _read_block(text[start + 1 : end]) is None:
        return None
    return start + 1, end + len(_END) + 1


def _block(approval: ApprovalInfo) -> str:
    fields = {name: value for name, value in asdict(approval).items() if name != "person" or value}
    data = json.dumps(fields, sort_keys=True).replace("<", "\\u003c").replace(">", "\\u003e")
    rows = [
        f"| {entry.round} | {_cell(entry.verdict)} | {_cell(entry.reviewer)} | {_cell(entry.summary)} |"
        for entry in approval.log
    ]
    return "\n".join(
        [
            f"{_BEGIN}{data} -->",
            "## Approval and Review Log",
            "",
            f"**Final Status:** {approval.word}",
            f"**{approval.word}:** {_cell(approval.approved_at)}",
            f"**Drafted by:** {_cell(approval.drafter)}",
            f"**Reviewed by:** {_cell(approval.reviewer)}",
            f"**Issue hash:** {_cell(approval.issue_hash) or 'none'}",
            f"**Document hash:** {_cell(approval.document_hash)}",
            "",
            "| Round | Verdict | Reviewer | Summary |",
            "|-------|---------|----------|---------|",
            *rows,
            "",
            _END,
        ]
    )


def _cell(text: str) -> str:
    """Text for one table cell or line: it cannot end the row, the line or the block."""
    return (
        shown(text).replace("\\", "/").replace("|", "/").replace("<", "‹").replace(">", "›").replace("`", "'").strip()
    )


def _read_block(block: str) -> ApprovalInfo | None:
    first_line = block.partition("\n")[0]
    try:
        data = json.loads(first_line.removeprefix(_BEGIN).removesuffix(" -->"))
        log = tuple(_log_entry(entry) for entry in data.pop("log"))
        sections = tuple((str(heading), str(digest)) for heading, digest in data.pop("sections"))
        if not all(isinstance(value, str) for value in data.values()):
            return None
        return ApprovalInfo(**data, log=log, sections=sections)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def _log_entry(entry: dict[str, Any]) -> ReviewLogEntry:
    fields = {name: str(entry[name]) for name in ("verdict", "reviewer", "summary")}
    return ReviewLogEntry(round=int(entry["round"]), **fields)


def _section_digests(text: str) -> tuple[tuple[str, str], ...]:
    document = parse(_essence(text))
    seen: Counter[str] = Counter()
    found: list[tuple[str, str]] = []
    for section in document.sections:
        heading = shown(section.heading)
        seen[heading] += 1
        name = heading if seen[heading] == 1 else f"{heading} ({seen[heading]})"
        source = document.own_source(section).strip().encode("utf-8", "surrogatepass")
        found.append((name, hashlib.sha256(source).hexdigest()[:12]))
    return tuple(found)


def _difference(before: dict[str, str], after: dict[str, str]) -> str:
    return "; ".join(_differences(before, after)) or "the text before the first heading"


def _differences(before: dict[str, str], after: dict[str, str]) -> Iterator[str]:
    for word, names in (
        ("changed", [name for name in before if name in after and before[name] != after[name]]),
        ("removed", [name for name in before if name not in after]),
        ("added", [name for name in after if name not in before]),
    ):
        if names:
            yield f"{word} {listed(list(map(repr, names)), 5)}"


def _status_span(text: str) -> tuple[int, int] | None:
    lld = parse_lld(text)
    if lld.status is None:
        return None
    line = lld.document.lines[lld.status_line - 1]
    match = _STATUS_CELL.fullmatch(line.text) or _STATUS_FIELD.fullmatch(line.text)
    return (line.start + match.start("value"), line.start + match.end("value")) if match else None

"""An issue document as typed data, its mechanical check, and what it depends on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from agentos.documents.blocks import list_items
from agentos.documents.check import (
    check_blocks,
    check_lost_sections,
    check_path_safety,
    check_placeholders,
    check_questions,
    check_section,
    check_vague_criteria,
    section_is_empty,
)
from agentos.documents.files import FileChange, file_changes
from agentos.documents.findings import Finding, Severity, in_order
from agentos.documents.headings import Outline, Part
from agentos.documents.inline import mask_code, plain
from agentos.documents.markdown import Document, Section, parse
from agentos.documents.questions import OpenQuestion, open_questions
from agentos.documents.requirements import Requirement, requirements

_LINK_LABEL = re.compile(r"\[([^\[\]]*)\]\([^()\s]*\)")
_PHRASE = re.compile(
    r"(?P<not>\b(?:not|never|longer)\s+)?\b(?:depends?|dependent|depending)\s+(?:up)?on\b|\bblocked\s+by\b",
    re.IGNORECASE,
)
_ID = r"#([a-z0-9](?:[a-z0-9_-]{0,126}[a-z0-9])?)(?![a-z0-9])"
_REFERENCES = re.compile(rf"[\s:*_]*(?:issues?\s+)?{_ID}(?:\s*\([^()]*\))?(?=(\s*(?:,|and|&|\+|;))?)", re.IGNORECASE)
_JOINT = re.compile(r"[*_]*\s*(?:,\s*and|,|and|&|\+|;)\s*", re.IGNORECASE)
_BARE_ITEM = re.compile(rf"(?:issues?\s+)?{_ID}", re.IGNORECASE)
_NUMBER_IN_TITLE = re.compile(
    r"(?:issue\s*)?#(\d{1,9})\b|^issue[- ](\d{1,9})\b|^(\d{1,9})(?=\s*[-–—:.])", re.IGNORECASE
)
_STORY = (
    ("who", r"\bas an?\b"),
    ("what", r"\bi want\b|\bi need\b|\bi can\b|\bi would like\b"),
    ("why", r"\bso that\b|\bso i\b|\bto\b"),
)
_TEMPLATE = (
    Part.USER_STORY,
    Part.OBJECTIVE,
    Part.UX_FLOW,
    Part.REQUIREMENTS,
    Part.ACCEPTANCE_CRITERIA,
    Part.DEFINITION_OF_DONE,
    Part.OUT_OF_SCOPE,
    Part.TESTING_NOTES,
)


@dataclass(frozen=True, slots=True)
class Criterion:
    text: str
    is_met: bool
    line: int


@dataclass(frozen=True, slots=True)
class IssueDocument:
    path: str | None
    title: str
    issue: int | None
    status: str | None
    user_story: str
    requirements: tuple[Requirement, ...]
    acceptance_criteria: tuple[Criterion, ...]
    files: tuple[FileChange, ...]
    open_questions: tuple[OpenQuestion, ...]
    depends_on: tuple[str, ...]
    document: Document
    outline: Outline


def parse_issue(text: str, path: str | None = None) -> IssueDocument:
    """Read an issue of any shape. Never raises: what cannot be found is empty or None."""
    document = parse(text)
    outline = Outline(document)
    front_matter = document.front_matter
    title = plain(outline.title_section.heading) if outline.title_section else str(front_matter.get("title", ""))
    status = front_matter.get("status")
    return IssueDocument(
        path=path,
        title=title,
        issue=_number(document, title, path),
        status=status if isinstance(status, str) else None,
        user_story=_prose(document, outline.topmost(Part.USER_STORY)),
        requirements=requirements(document, outline.topmost(Part.REQUIREMENTS)),
        acceptance_criteria=tuple(_criteria(document, outline.topmost(Part.ACCEPTANCE_CRITERIA))),
        files=file_changes(document, outline.topmost(Part.FILES)),
        open_questions=open_questions(document, outline.topmost(Part.OPEN_QUESTIONS)),
        depends_on=_dependencies(document),
        document=document,
        outline=outline,
    )


def check_issue(
    issue: IssueDocument, *, previous: Document | None = None, is_draft: bool = True
) -> tuple[Finding, ...]:
    """Everything wrong with an issue, by line. `previous` is the draft it revises.

    A draft of the issue workflow has every section of the template. What people write needs to say what is wanted.
    """
    criteria = [(f"requirement {one.id}", one.text, one.line) for one in issue.requirements]
    criteria += [("acceptance criterion", one.text, one.line) for one in issue.acceptance_criteria]
    findings = [
        *check_blocks(issue.document),
        *_check_title(issue),
        *(_check_template(issue) if is_draft else _check_essentials(issue)),
        *_check_story(issue),
        *_check_lists(issue),
        *check_vague_criteria("ISS006", criteria),
        *check_placeholders(issue.outline, "ISS007"),
        *check_path_safety(issue.files, "ISS008"),
        *check_questions(issue.open_questions, "ISS010", Severity.WARNING),
    ]
    if previous is not None:
        findings += check_lost_sections(previous, issue.document, "ISS009")
    return in_order(findings)


def dependencies(text: str) -> tuple[str, ...]:
    """The ids a text says it depends on, in order, once each: `Depends on #106`, `Blocked by: #1, #login-page`, a
    section `Dependencies` with `- #5`, front matter `depends_on`. Code and comments do not count."""
    return _dependencies(parse(text))


def _dependencies(document: Document) -> tuple[str, ...]:
    found: list[str] = []
    for key in ("depends_on", "depends-on", "depends on", "blocked_by", "blocked-by", "dependencies"):
        value = document.front_matter.get(key, ())
        names = value if isinstance(value, tuple) else tuple(value.split(","))
        found += [name.strip().removeprefix("#") for name in names]
    for line in document.lines:
        if line.is_prose:
            found += _in_sentence(mask_code(line.visible))
    for section in document.sections:
        if section.title.casefold() in {"dependencies", "depends on", "blocked by"}:
            items = list_items(document.own_lines(section))
            found += [match.group(1) for item in items if (match := _BARE_ITEM.match(plain(mask_code(item.text))))]
    return tuple(dict.fromkeys(name for name in found if name and name.casefold() not in {"none", "n/a", "[]"}))


def _in_sentence(text: str) -> Iterator[str]:
    text = _LINK_LABEL.sub(r"\1", text)
    for phrase in _PHRASE.finditer(text):
        if phrase["not"]:
            continue
        position = phrase.end()
        while (match := _REFERENCES.match(text, position)) is not None:
            yield match.group(1)
            joint = _JOINT.match(text, match.end())
            if joint is None:
                break
            position = joint.end()


def _number(document: Document, title: str, path: str | None) -> int | None:
    for key in ("issue", "id", "number"):
        value = document.front_matter.get(key)
        if isinstance(value, str) and value.strip().lstrip("#").isdecimal():
            return int(value.strip().lstrip("#")[:9])
    match = _NUMBER_IN_TITLE.search(title)
    if match is not None:
        return int(next(filter(None, match.groups())))
    in_name = re.match(r"(\d{1,9})[-_.]", re.split(r"[/\\]", path)[-1]) if path else None
    return int(in_name.group(1)) if in_name else None


def _prose(document: Document, sections: list[Section]) -> str:
    lines = [line for section in sections for line in document.tree_lines(section) if line.is_prose]
    return plain(" ".join(line.visible for line in lines))


def _criteria(document: Document, sections: list[Section]) -> Iterator[Criterion]:
    for section in sections:
        for item in list_items(document.tree_lines(section)):
            if item.text:
                yield Criterion(plain(item.text), bool(item.checked), item.line)


def _check_title(issue: IssueDocument) -> Iterator[Finding]:
    if not issue.title:
        yield Finding("ISS001", Severity.ERROR, 1, "there is no title", "start with `# …`")


def _check_template(issue: IssueDocument) -> Iterator[Finding]:
    for part in _TEMPLATE:
        yield from check_section(issue.outline, part, "ISS002", Severity.ERROR)


def _check_essentials(issue: IssueDocument) -> Iterator[Finding]:
    """A design can be written for an issue that says what is wanted; the rest of the template is good to have."""
    missing = [part for part in _TEMPLATE if not issue.outline.topmost(part)]
    if {Part.REQUIREMENTS, Part.ACCEPTANCE_CRITERIA} <= set(missing):
        message = "it has neither requirements nor acceptance criteria"
        yield Finding("ISS002", Severity.ERROR, 1, message, "add a section `## Requirements`, one point per line")
    elif missing:
        names = ", ".join(part.value for part in missing)
        yield Finding("ISS002", Severity.WARNING, 1, f"without {names}", "add what helps to design it")
    for part in _TEMPLATE:
        if part not in missing:
            yield from check_section(issue.outline, part, "ISS002", Severity.WARNING)


def _check_story(issue: IssueDocument) -> Iterator[Finding]:
    sections = issue.outline.topmost(Part.USER_STORY)
    missing = [what for what, pattern in _STORY if not re.search(pattern, issue.user_story, re.IGNORECASE)]
    if sections and issue.user_story and missing:
        message = f"the user story does not say {', '.join(missing)}"
        yield Finding("ISS003", Severity.WARNING, sections[0].line, message, "As a …, I want …, so that …")


def _check_lists(issue: IssueDocument) -> Iterator[Finding]:
    for rule, part, listed in (
        ("ISS004", Part.REQUIREMENTS, issue.requirements),
        ("ISS005", Part.ACCEPTANCE_CRITERIA, issue.acceptance_criteria),
    ):
        sections = issue.outline.topmost(part)
        if sections and not listed and not section_is_empty(issue.document, sections[0]):
            message = f"section {part.value!r} lists nothing"
            fix = "write one point per line, numbered or ticked"
            yield Finding(rule, Severity.ERROR, sections[0].line, message, fix)

"""A low-level design as typed data. Reading is generous; what is wrong with it is for `check` to say."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import PurePath

from agentos.documents.blocks import Field, fields, tables
from agentos.documents.files import FileChange, file_changes, is_file_table
from agentos.documents.headings import Outline, Part
from agentos.documents.inline import plain
from agentos.documents.lines import Line
from agentos.documents.markdown import Document, Section, parse
from agentos.documents.questions import OpenQuestion, open_questions
from agentos.documents.requirements import Requirement, requirements
from agentos.documents.scenarios import Scenario, is_scenario_table, names_requirements, scenarios

_ISSUE_LABELS = frozenset({"issue", "github issue", "issue number", "issue id", "issue no", "ticket", "issue link"})
_ISSUE_IN_URL = re.compile(r"/issues/(\d{1,9})\b")
_ISSUE_VALUE = re.compile(r"(?:issue\s*)?#?\s*(\d{1,9})\b", re.IGNORECASE)
_ISSUE_IN_TITLE = re.compile(
    r"(?:LLD|Issue|Design)\s*[-_ #:]*\s*(\d{1,9})\b|#(\d{1,9})\b|^(\d{1,9})(?=\s*[-–—:.]|\s*$)", re.IGNORECASE
)
_NAME_IN_PATH = re.compile(r"lld[-_ ]\w", re.IGNORECASE)
_ISSUE_IN_PATH = re.compile(r"(?:^|[^a-z])(?:lld|issue)[-_ ]?0*(\d{1,9})(?!\d)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Lld:
    """What a design says. `document` has its sections and exact source; `outline` knows which section is which."""

    path: str | None
    title: str
    issue: int | None
    issue_line: int
    title_issue: int | None
    status: str | None
    status_line: int
    final_status: str | None
    """What a review log says at its end, when there is one."""
    open_questions: tuple[OpenQuestion, ...]
    files: tuple[FileChange, ...]
    requirements: tuple[Requirement, ...]
    scenarios: tuple[Scenario, ...]
    has_requirement_column: bool
    """Whether a scenario table has a column for the requirement it covers."""
    document: Document
    outline: Outline

    @property
    def listed_files(self) -> tuple[str, ...]:
        """Every path the table of changes names, old and new names of renamed files too."""
        return _paths(self.files)

    @property
    def added_to(self) -> tuple[str, ...]:
        """Those of the listed files that keep all they have."""
        otherwise = _paths([change for change in self.files if not change.only_adds])
        return tuple(path for path in self.listed_files if path not in otherwise)


def _paths(changes: Iterable[FileChange]) -> tuple[str, ...]:
    paths = [path for change in changes for path in (change.path, change.target) if path]
    return tuple(dict.fromkeys(path.removeprefix("./") for path in paths))


def parse_lld(text: str, path: str | None = None) -> Lld:
    """Read a design of any shape. Never raises: what cannot be found is empty or None."""
    document = parse(text)
    outline = Outline(document)
    labels = fields(_header_lines(document, outline))
    title_section = outline.title_section
    title = plain(title_section.heading) if title_section else str(document.front_matter.get("title", ""))
    issue, issue_line = _issue(document, labels, title, path)
    status, status_line = _status(document, labels)
    scenario_sections = _scenario_sections(document, outline)
    return Lld(
        path=path,
        title=title,
        issue=issue,
        issue_line=issue_line or (title_section.line if title_section else 1),
        title_issue=_number_in_title(title),
        status=status,
        status_line=status_line,
        final_status=_final_status(document),
        open_questions=open_questions(document, outline.topmost(Part.OPEN_QUESTIONS)),
        files=file_changes(document, _file_sections(document, outline)),
        requirements=requirements(document, outline.topmost(Part.REQUIREMENTS)),
        scenarios=scenarios(document, scenario_sections),
        has_requirement_column=any(
            is_scenario_table(table) and names_requirements(table)
            for section in scenario_sections
            for table in tables(document.tree_lines(section))
        ),
        document=document,
        outline=outline,
    )


def names_no_number(path: str | None) -> bool:
    """Whether a design is named after something else than a number: `LLD-login-page.md`."""
    return bool(path and _NAME_IN_PATH.match(PurePath(path).name)) and issue_of_path(path) is None


def issue_of_path(path: str | None) -> int | None:
    """The issue number in a file name such as `LLD-137.md`."""
    match = _ISSUE_IN_PATH.search(PurePath(path).name) if path else None
    return int(match.group(1)) if match else None


def _header_lines(document: Document, outline: Outline) -> Iterator[Line]:
    """The head of a document: below the title, and the sections that set the scene."""
    title = outline.title_section
    if title is None or title.index == 0:
        yield from document.preamble_lines()
    for section in outline.own:
        is_head = section is title or outline.part(section) in {Part.CONTEXT, Part.OBJECTIVE}
        if is_head or section.heading.casefold().startswith(("metadata", "document info", "summary")):
            yield from document.own_lines(section)


def _issue(document: Document, labels: Iterable[Field], title: str, path: str | None) -> tuple[int | None, int]:
    for key in ("issue", "github_issue", "issue_number"):
        value = document.front_matter.get(key)
        match = _ISSUE_VALUE.match(value) if isinstance(value, str) else None
        if match is not None:
            return int(match.group(1)), 1
    for label in labels:
        if label.label in _ISSUE_LABELS:
            match = _ISSUE_IN_URL.search(label.value) or _ISSUE_VALUE.match(label.value)
            if match is not None:
                return int(match.group(1)), label.line
    in_title = _number_in_title(title)
    return (in_title, 0) if in_title is not None else (issue_of_path(path), 0)


def _number_in_title(title: str) -> int | None:
    match = _ISSUE_IN_TITLE.search(title)
    return int(next(filter(None, match.groups()))) if match else None


def _status(document: Document, labels: Iterable[Field]) -> tuple[str | None, int]:
    """The status a document gives itself, and the line; front matter counts first."""
    value = document.front_matter.get("status")
    if isinstance(value, str) and value:
        return value, next(line.number for line in document.lines if line.text.casefold().startswith("status"))
    return next(((label.value, label.line) for label in labels if label.label == "status" and label.value), (None, 0))


def _final_status(document: Document) -> str | None:
    lines = [line for line in document.lines if line.is_prose and "inal" in line.visible]
    found = [label.value for label in fields(lines) if label.label == "final status"]
    return found[-1] if found else None


def _file_sections(document: Document, outline: Outline) -> list[Section]:
    """Sections named after files; without one that lists any, whichever section has a table of files."""
    named = outline.topmost(Part.FILES)
    if file_changes(document, named):
        return named
    candidates = [section for section in outline.own if any(map(is_file_table, tables(document.own_lines(section))))]
    return candidates[:1] or named


def _scenario_sections(document: Document, outline: Outline) -> list[Section]:
    """Sections named after scenarios; without one that lists any, those on testing."""
    named = outline.topmost(Part.SCENARIOS)
    if scenarios(document, named):
        return named
    testing = outline.topmost(Part.TESTING)
    with_table = [
        section
        for outer in testing
        for section in document.tree(outer)
        if any(map(is_scenario_table, tables(document.own_lines(section))))
    ]
    return with_table[:1] or named

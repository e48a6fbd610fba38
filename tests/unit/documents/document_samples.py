"""Documents for tests: a good design that can be written in many shapes, and a good issue."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from agentos.documents.known_paths import FolderPaths
from agentos.documents.markdown import Document

TITLE = "Limit how often reports are exported"
ISSUE = 57
FILES = (
    ("shop/exports/limiter.py", "Add", "Token bucket for each account"),
    ("shop/exports/__init__.py", "Modify", "Offer the limiter | nothing else"),
    ("shop/legacy_export.py", "Delete", "Replaced by the new route"),
)
REQUIREMENTS = (
    "An account may start `5` exports an hour",
    "The sixth export is refused with status `429 | Retry-After`",
    "Limits survive a restart of the service",
)
SCENARIOS = (
    ("010", "Five exports in an hour", "Auto", "5 requests", "5 files written", "Status 200 five times", "1"),
    ("020", "Sixth export refused", "Auto", "6 requests", "Status 429", "Header Retry-After is present", "2"),
    ("030", "Restart keeps the count", "Auto", "restart after 5", "Status 429", "Count read from disk is 5", "3"),
)
REPOSITORY = ("shop/__init__.py", "shop/exports/__init__.py", "shop/legacy_export.py", "README.md")


class PathSet(FolderPaths):
    """A repository given as a list of files; their folders exist as well."""

    def __init__(self, files: Iterable[str]) -> None:
        super().__init__(Path())
        names = set(files)
        self._known = names | {str(parent) for name in names for parent in PurePosixPath(name).parents}

    def exists(self, path: str) -> bool:
        return str(PurePosixPath(path)) in self._known

    @property
    def paths(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(sorted(self._known - {"."}))


def rendered(document: Document) -> str:
    """The text that was parsed, put together from its sections."""
    first = document.sections[0].start if document.sections else len(document.text)
    return document.text[:first] + "".join(map(document.own_source, document.sections))


@dataclass(frozen=True)
class Style:
    """How the same design is written down."""

    numbering: str = "1."
    heading: str = "atx"
    table: str = "outer"
    newline: str = "\n"
    requirement: str = "1."
    issue: str = "* **Issue:** #57"
    status: str = "* **Status:** Draft"
    files: str = "table"
    files_heading: str = "Files Changed"
    indent: str = ""


def lld(style: Style | None = None) -> str:
    """The sample design in a given style."""
    style = style or Style()
    scenario_header = ("ID", "Scenario", "Type", "Input", "Expected Output", "Pass Criteria", "Requirement")
    parts = [
        _heading(style, 1, "", f"57 - Feature: {TITLE}"),
        "<!-- Template: ## 9. Files Changed, TODO, Issue: #999 -->",
        _heading(style, 2, "1", "Context & Goal"),
        f"{style.issue}\n* **Objective:** Keep one account from starving the others\n{style.status}",
        _heading(style, 3, "", "Open Questions"),
        "- [x] Per account or per user? **Answer: per account**",
        _heading(style, 2, "2", "Proposed Changes"),
        _heading(style, 3, "2.1", style.files_heading),
        _files(style),
        _heading(style, 3, "2.2", "Signatures"),
        "```python\n# ## 3. Requirements\n# 1. TODO: not a requirement\ndef allow(account: str) -> bool: ...\n```",
        _heading(style, 2, "3", "Requirements"),
        _requirements(style),
        _heading(style, 2, "4", "Alternatives Considered"),
        "A queue was refused: people wait without being told.",
        _heading(style, 2, "7", "Security & Safety Considerations"),
        "Limits are kept for accounts, never for addresses.",
        _heading(style, 2, "10", "Verification & Testing"),
        _heading(style, 3, "10.1", "Test Scenarios"),
        _table(style, scenario_header, [tuple(map(_escaped, row)) for row in SCENARIOS]),
        _heading(style, 2, "11", "Risks & Mitigations"),
        "Clocks that jump: monotonic time is used.",
        _heading(style, 2, "12", "Definition of Done"),
        "- [ ] All scenarios pass",
    ]
    return "\n\n".join(parts).replace("\n", style.newline) + style.newline


def _heading(style: Style, level: int, number: str, title: str) -> str:
    prefix = {
        "1.": f"{number}. ",
        "1": f"{number} ",
        "(none)": "",
        "Section": f"Section {number}: ",
        "1)": f"{number}) ",
    }
    text = (prefix[style.numbering] if number else "") + title
    if style.heading == "setext" and level < 3:
        return f"{text}\n{'=' if level == 1 else '-'}{'=' * 3 if level == 1 else '-' * 3}"
    closing = f" {'#' * level}" if style.heading == "closed" else ""
    bold = f"**{text}**" if style.heading == "bold" else text
    return f"{'#' * level} {bold}{closing}"


def _files(style: Style) -> str:
    if style.files == "table":
        rows = [(f"`{path}`", change, _escaped(text)) for path, change, text in FILES]
        return _table(style, ("File", "Change Type", "Description"), rows)
    if style.files == "loud table":
        words = {"Add": "NEW", "Modify": "Updated", "Delete": "**Remove**"}
        rows = [(_escaped(text), words[change], path) for path, change, text in FILES]
        return _table(style, ("Purpose", "Action", "Path"), rows)
    if style.files == "labelled bullets":
        return "\n".join(f"- **{change}:** `{path}` - {text}" for path, change, text in FILES)
    return "\n".join(f"{style.indent}- `{path}` ({change.lower()}) — {text}" for path, change, text in FILES)


def _requirements(style: Style) -> str:
    if style.requirement == "table":
        rows = [(f"REQ-{number}", _escaped(text)) for number, text in enumerate(REQUIREMENTS, start=1)]
        return _table(style, ("ID", "Requirement"), rows)
    if style.requirement == "headings":
        return "\n\n".join(f"#### R{number}: {text}" for number, text in enumerate(REQUIREMENTS, start=1))
    mark = {
        "1.": "{0}. ",
        "1)": "{0}) ",
        "counts itself": "1. ",
        "-": "- ",
        "box": "- [ ] ",
        "R1:": "- R{0}: ",
        "bold": "* **REQ-{0}:** ",
        "padded": "- REQ-00{0} — ",
        "bare": "R{0}: ",
    }[style.requirement]
    separator = "\n\n" if style.requirement == "bare" else "\n"
    indent = "" if style.requirement == "bare" else style.indent
    return separator.join(indent + mark.format(number) + text for number, text in enumerate(REQUIREMENTS, start=1))


def _table(style: Style, header: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    rulers = {"aligned": ":---:", "padded": "-" * 12}
    ruler = (rulers.get(style.table, "---"),) * len(header)
    return "\n".join(style.indent + _row(style, cells) for cells in (header, ruler, *rows))


def _row(style: Style, cells: tuple[str, ...]) -> str:
    match style.table:
        case "bare":
            return " | ".join(cells)
        case "tight":
            return f"|{'|'.join(cells)}|"
        case "padded":
            return f"|{'|'.join(f'   {cell:<24}' for cell in cells)}|   "
        case "tabs":
            return "|\t" + "\t|\t".join(cells) + "\t|"
        case _:
            return f"| {' | '.join(cells)} |"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


ISSUE_TEXT = """\
---
id: 12
status: ready
depends_on: [7, 9]
---
# Search by tag

## User Story
As a reader, I want to search by tag, so that I find related notes.

## Objective
Notes are found by their tags.

## UX Flow
### Scenario 1: one tag
1. The reader types `#cooking`
2. Ten notes appear

## Requirements
### Search
1. A tag of up to 40 characters is found
2. Results come within 200 ms for 10,000 notes
### Index
1. The index is rebuilt when a note is saved

## Acceptance Criteria
- [ ] Searching `#cooking` lists the ten notes that have it
- [x] An unknown tag lists none

## Definition of Done
- [ ] Tests pass

## Out of Scope
- Searching in attachments

## Testing Notes
Use the notes in the sample folder. Depends on #3 and #4.
"""

"""Which section is which, however its heading is numbered, padded or worded."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

from agentos.documents.markdown import Document, Section, title_key


class Part(Enum):
    """What a section of an LLD or an issue is for. The value is how people call it."""

    CONTEXT = "Context & Goal"
    OPEN_QUESTIONS = "Open Questions"
    CHANGES = "Proposed Changes"
    FILES = "Files Changed"
    REQUIREMENTS = "Requirements"
    ALTERNATIVES = "Alternatives Considered"
    SECURITY = "Security & Safety Considerations"
    TESTING = "Verification & Testing"
    SCENARIOS = "Test Scenarios"
    RISKS = "Risks & Mitigations"
    DEFINITION_OF_DONE = "Definition of Done"
    REVIEW_LOG = "Review Log"
    ORIGINAL_ISSUE = "Original Issue"
    USER_STORY = "User Story"
    OBJECTIVE = "Objective"
    UX_FLOW = "UX Flow"
    ACCEPTANCE_CRITERIA = "Acceptance Criteria"
    OUT_OF_SCOPE = "Out of Scope"
    TESTING_NOTES = "Testing Notes"


# Each part with the word groups that name it: a heading belongs to the first part one of whose groups it holds whole.
_NAMES: tuple[tuple[Part, str], ...] = (
    (Part.REVIEW_LOG, "review log|review history|review summary|approval"),
    (Part.ORIGINAL_ISSUE, "original issue|original github issue|source issue"),
    (Part.OPEN_QUESTIONS, "open questions|open question|questions|unresolved questions"),
    (Part.OUT_OF_SCOPE, "out of scope|non goals|non-goals|not in scope"),
    (Part.ACCEPTANCE_CRITERIA, "acceptance criteria|acceptance criterion"),
    (Part.DEFINITION_OF_DONE, "definition of done|done when"),
    (Part.TESTING_NOTES, "testing notes|test notes|manual testing"),
    (Part.USER_STORY, "user story|user stories"),
    (Part.UX_FLOW, "ux flow|user flow|ux scenarios|user experience|ux"),
    (
        Part.FILES,
        "files changed|files to|file changes|affected files|changed files|files affected|files modified|files",
    ),
    (Part.SCENARIOS, "test scenarios|test scenario|scenarios|test cases|test matrix"),
    (Part.REQUIREMENTS, "requirements|requirement"),
    (Part.ALTERNATIVES, "alternatives|options considered"),
    (Part.SECURITY, "security|safety"),
    (Part.RISKS, "risks|risk"),
    (Part.TESTING, "testing|verification|test plan|test strategy|tests"),
    (Part.OBJECTIVE, "objective|objectives"),
    (Part.CONTEXT, "context|goal|goals|background|overview|introduction"),
    (Part.CHANGES, "proposed changes|proposed change|proposed design|proposed solution|design|changes"),
)
_NEVER_REQUIREMENTS = frozenset({"traceability", "coverage", "matrix", "mapping", "dependencies"})


def part_of(heading: str) -> Part | None:
    key = title_key(heading)
    padded = f" {key} "
    for part, names in _NAMES:
        if any(f" {name} " in padded for name in names.split("|")):
            return None if part is Part.REQUIREMENTS and _NEVER_REQUIREMENTS & set(key.split()) else part
    return None


class Outline:
    """A document's sections by part. What follows a quoted original issue is not part of the document proper."""

    def __init__(self, document: Document) -> None:
        self.document = document
        parts = [part_of(section.heading) for section in document.sections]
        quoted_from = parts.index(Part.ORIGINAL_ISSUE) if Part.ORIGINAL_ISSUE in parts else len(parts)
        self.title_section = _title_section(document, parts[:quoted_from])
        self._parts = parts
        first = self.title_section.index if self.title_section else 0
        self.own = [
            section
            for section in document.sections[first:quoted_from]
            if not self.is_inside(section, Part.REVIEW_LOG)
        ]
        self._own_indexes = {section.index for section in self.own}

    def part(self, section: Section) -> Part | None:
        return self._parts[section.index]

    def topmost(self, part: Part) -> list[Section]:
        """The sections of a part that are not inside another section of the same part."""
        return [
            section
            for section in self.own
            if section is not self.title_section
            and self.part(section) is part
            and not any(self.part(outer) is part for outer in self._ancestors_below_title(section))
        ]

    def is_own(self, section: Section) -> bool:
        """Whether a section is the author's: neither a review log nor a quoted issue."""
        return section.index in self._own_indexes

    def is_inside(self, section: Section, part: Part) -> bool:
        """Whether a section is of the part, or below one that is."""
        return self.part(section) is part or any(
            self.part(outer) is part for outer in self.document.ancestors(section)
        )

    def _ancestors_below_title(self, section: Section) -> Iterator[Section]:
        return (outer for outer in self.document.ancestors(section) if outer is not self.title_section)


def _title_section(document: Document, parts: list[Part | None]) -> Section | None:
    """The heading that is the title: the first top heading with known parts below it, else the first heading."""
    sections = document.sections[: len(parts)]
    if not sections:
        return None
    top_level = min(section.level for section in sections)
    tops = [section for section in sections if section.level == top_level]
    for section in tops:
        below = parts[section.index + 1 : section.last_index + 1]
        if sum(part is not None for part in below) >= 2:
            return section
    return None if part_of(tops[0].heading) is not None and len(tops) > 1 else tops[0]

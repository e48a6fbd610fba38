"""Revise by patch: replace the sections that are named, and lose nothing else."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from agentos.documents.headings import Part, part_of
from agentos.documents.inline import plain
from agentos.documents.lines import LineKind, has_content
from agentos.documents.markdown import Document, Section, parse, section_number, slug, title_key
from agentos.errors import AgentosError

_SAME_TITLE = 0.8


class RevisionError(AgentosError):
    """A patch that cannot be applied as it is. The message is fit to be shown to whoever wrote the patch."""


class UnknownSection(RevisionError):
    """The patch names a section that the document does not have."""


class AmbiguousSection(RevisionError):
    """The patch names a section in a way that fits several."""


class SectionLost(RevisionError):
    """With the patch applied, a section would be gone."""


@dataclass(frozen=True, slots=True)
class Revision:
    """A patched document. `changed` names the sections whose text differs now; none when nothing really changed."""

    text: str
    changed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Edit:
    section: Section
    start: int
    end: int
    text: str


def apply_patch(text: str, patch: Mapping[str, str]) -> Revision:
    """The document with each named section replaced by its new text; all other bytes stay as they are.

    A section is named by its heading, number, or slug (`2.1 Files Changed`, `2.1`, `files-changed`), or by a path
    (`Security > Safety`). New text may repeat the heading. Subsections stay unless the new text brings its own.
    Raises RevisionError, and changes nothing, when a name is unknown or a section would be lost.
    """
    document = parse(text)
    edits = [_edit(document, find_section(document, name), new) for name, new in patch.items()]
    edits.sort(key=lambda edit: edit.start)
    for earlier, later in pairwise(edits):
        if later.start < earlier.end:
            names = f"{earlier.section.heading!r} and {later.section.heading!r}"
            raise RevisionError(f"the patch replaces {names}, which overlap: give the outer one alone")
    revised = _replace(text, edits)
    lost = lost_sections(document, parse(revised))
    if lost:
        raise SectionLost(f"the patch would lose {_listed(lost)}: keep every section, and close every code fence")
    changed = [edit.section.heading for edit in edits if not is_same_text(edit.text, text[edit.start : edit.end])]
    return Revision(revised, tuple(changed))


def find_section(document: Document, name: str) -> Section:
    """The one section a name means. Raises UnknownSection, with the nearest headings, or AmbiguousSection."""
    for candidates in _candidates(document, name):
        if len(candidates) == 1:
            return candidates[0]
        if candidates:
            headings = _listed([_path(document, section) for section in candidates])
            raise AmbiguousSection(f"{name!r} may be {headings}: name it by its number or by that path")
    headings_by_key = {title_key(section.heading): section.heading for section in document.sections}
    near = difflib.get_close_matches(title_key(name), list(headings_by_key), n=3, cutoff=0.5)
    known = [headings_by_key[key] for key in near] or [section.heading for section in document.sections[:12]]
    hint = f": did you mean {_listed(known)}?" if known else ": it has no sections"
    raise UnknownSection(f"the document has no section {name!r}{hint}")


def lost_sections(previous: Document, current: Document) -> tuple[str, ...]:
    """Headings of `previous` that `current` has no more, or has emptied. Renumbered and reworded ones are not lost.

    Open questions may go once they are answered, and so may headings that are blanks of a template.
    """
    available = Counter(title_key(section.heading) for section in current.sections)
    unmatched: list[Section] = []
    emptied: list[Section] = []
    for section in previous.sections:
        key = title_key(section.heading)
        if available[key] <= 0:
            unmatched.append(section)
            continue
        available[key] -= 1
        if has_content(previous.own_lines(section)) and not _has_content_under(current, key):
            emptied.append(section)
    gone = [section for section in unmatched if not _is_expendable(section) and not _reappears(section, available)]
    return tuple(section.heading for section in sorted((*gone, *emptied), key=lambda section: section.index))


def is_same_text(before: str, after: str) -> bool:
    """Whether two texts say the same: they differ in white space at most."""
    return before.split() == after.split()


def _candidates(document: Document, name: str) -> Iterator[list[Section]]:
    """Ever more generous readings of a name; the first that finds anything counts."""
    outer, separator, inner = name.rpartition(" > ")
    if separator:
        around = {section.index for section in document.sections if title_key(section.heading) == _last_key(outer)}
        yield [
            section
            for section in document.sections
            if title_key(section.heading) == title_key(inner)
            and any(outer.index in around for outer in document.ancestors(section))
        ]
    wanted = plain(name).lstrip("#").strip()
    yield [section for section in document.sections if plain(section.heading) == wanted]
    number, key = section_number(wanted), title_key(wanted)
    if number is not None:
        numbered = [section for section in document.sections if section.number == number]
        yield [section for section in numbered if title_key(section.heading) == key or key == _only_number(wanted)]
    yield [section for section in document.sections if title_key(section.heading) == key]
    yield [section for section in document.sections if slug(section.heading) == wanted.casefold()]


def _only_number(name: str) -> str:
    """The key of a name that is nothing but a number, such as `Section 2.1`."""
    number = section_number(name)
    return (
        title_key(name) if number and name.casefold().strip(" .:§").removeprefix("section").strip() == number else ""
    )


def _last_key(path: str) -> str:
    return title_key(path.rpartition(" > ")[2])


def _path(document: Document, section: Section) -> str:
    parent = next(iter(document.ancestors(section)), None)
    return f"{parent.title} > {section.heading}" if parent is not None else section.heading


def _edit(document: Document, section: Section, new: str) -> _Edit:
    newline = "\r\n" if "\r\n" in document.own_source(section) else "\n"
    body = _body(section, new)
    if not body.strip():
        raise SectionLost(f"the new text of {section.heading!r} is empty: send what it should say")
    inner = parse(body).sections
    too_high = [one.heading for one in inner if one.level <= section.level]
    if too_high:
        marks = "#" * min(section.level + 1, 6)
        raise RevisionError(
            f"the new text of {section.heading!r} has the heading {too_high[0]!r} outside it: start it with {marks}"
        )
    end = section.tree_end if inner else section.end
    old = document.text[section.start : end]
    heading = _heading_source(document, section)
    old_body = old[len(heading) :]
    leading = old_body[: len(old_body) - len(old_body.lstrip())] if old_body.strip() else newline
    trailing = old[len(old.rstrip()) :]
    text = newline.join(body.strip("\r\n").rstrip().splitlines())
    separator = "" if heading.endswith(("\n", "\r")) else newline
    return _Edit(section, section.start, end, f"{heading}{separator}{leading}{text}{trailing}")


def _body(section: Section, new: str) -> str:
    """The new text without the section's own heading, should it start with that."""
    parsed = parse(new)
    first = next(iter(parsed.sections), None)
    if first is None or new[: first.start].strip() or title_key(first.heading) != title_key(section.heading):
        return new
    return new[first.start + len(_heading_source(parsed, first)) :]


def _heading_source(document: Document, section: Section) -> str:
    lines = document.lines[section.line - 1 : section.line + 1]
    count = 2 if len(lines) == 2 and lines[1].kind is LineKind.UNDERLINE else 1
    return document.text[section.start : lines[count - 1].end]


def _replace(text: str, edits: list[_Edit]) -> str:
    pieces: list[str] = []
    position = 0
    for edit in edits:
        pieces += (text[position : edit.start], edit.text)
        position = edit.end
    return "".join(pieces) + text[position:]


def _is_expendable(section: Section) -> bool:
    return "{" in section.heading or part_of(section.heading) is Part.OPEN_QUESTIONS


def _reappears(section: Section, available: Counter[str]) -> bool:
    """Whether an unmatched heading of the current draft is this one in other words; it is then used up."""
    free = [key for key, count in available.items() if count > 0]
    part = part_of(section.heading)
    key = title_key(section.heading)
    renamed = [other for other in free if part is not None and part_of(other) is part]
    renamed = renamed or difflib.get_close_matches(key, free, n=1, cutoff=_SAME_TITLE)
    if not renamed and section.index == 0 and section.level == 1:
        renamed = [other for other in free if part_of(other) is None][:1]
    if renamed:
        available[renamed[0]] -= 1
    return bool(renamed)


def _has_content_under(document: Document, key: str) -> bool:
    return any(has_content(document.tree_lines(one)) for one in document.sections if title_key(one.heading) == key)


def _listed(names: list[str] | tuple[str, ...]) -> str:
    return ", ".join(repr(name) for name in names)

"""A Markdown document as a tree of sections over its exact source."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from agentos.documents.inline import plain, words
from agentos.documents.lines import Line, LineKind, heading_text, scan

FrontMatter = Mapping[str, str | tuple[str, ...]]
_NUMBER = re.compile(
    r"(?:section\s+|§\s*)?(\d+(?:\.\d+)*)(?:[.):]+|\s*[-–—:])?(?=\s|$)\s*(?:[-–—:]\s+)?", re.IGNORECASE
)
_KEY = re.compile(r"([A-Za-z_][\w .-]*?)\s*:(?:\s+(.*))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and the text up to the next heading. `tree_end` and `last_index` reach past its subsections."""

    index: int
    level: int
    heading: str
    """As written, without the heading marks: `2.1 Files Changed`."""
    line: int
    start: int
    end: int
    tree_end: int
    """Offsets into the document's text, in characters."""
    last_index: int
    """The index of its last subsection, its own when it has none."""
    parent: int | None

    @property
    def number(self) -> str | None:
        return section_number(self.heading)

    @property
    def title(self) -> str:
        """The heading in plain words, without its number."""
        text = plain(self.heading)
        match = _NUMBER.match(text)
        return text[match.end() :] if match and match.end() < len(text) else text


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed text. Nothing is lost: what is before the first heading and the sections' sources make up the text."""

    text: str
    lines: tuple[Line, ...]
    front_matter: FrontMatter
    sections: tuple[Section, ...]
    """All sections in order, nested ones too."""
    unclosed_fence_line: int | None
    unclosed_comment_line: int | None

    def own_source(self, section: Section) -> str:
        """A section's exact source without its subsections."""
        return self.text[section.start : section.end]

    def own_lines(self, section: Section) -> Sequence[Line]:
        """The lines below a section's heading, up to the next heading."""
        following = self.sections[section.index + 1].line if section.index + 1 < len(self.sections) else None
        end = len(self.lines) if following is None else following - 1
        return self.lines[section.line : end]

    def preamble_lines(self) -> Sequence[Line]:
        """The lines before the first heading, front matter excluded."""
        end = self.sections[0].line - 1 if self.sections else len(self.lines)
        return [line for line in self.lines[:end] if line.kind is not LineKind.FRONT_MATTER]

    def tree(self, section: Section) -> Sequence[Section]:
        """A section and all its subsections, in order."""
        return self.sections[section.index : section.last_index + 1]

    def tree_lines(self, section: Section) -> Sequence[Line]:
        """The lines below a section's heading, with those of its subsections."""
        after = section.last_index + 1
        end = self.sections[after].line - 1 if after < len(self.sections) else len(self.lines)
        return self.lines[section.line : end]

    def ancestors(self, section: Section) -> Iterator[Section]:
        """The sections around a section, innermost first."""
        while section.parent is not None:
            section = self.sections[section.parent]
            yield section


def parse(text: str) -> Document:
    """Read any text as Markdown, in time linear to its length. Never raises."""
    scanned = scan(text)
    sections = _sections(scanned.lines, len(text))
    return Document(
        text=text,
        lines=scanned.lines,
        front_matter=_front_matter(scanned.lines),
        sections=sections,
        unclosed_fence_line=scanned.unclosed_fence_line,
        unclosed_comment_line=scanned.unclosed_comment_line,
    )


def section_number(heading: str) -> str | None:
    """`2.1` of `2.1 Files Changed`."""
    match = _NUMBER.match(heading)
    return match.group(1) if match else None


def title_key(title: str) -> str:
    """What makes two headings the same: their words, without number, case, markup and punctuation."""
    text = plain(title)
    match = _NUMBER.match(text)
    rest = text[match.end() :] if match else text
    return " ".join(words(rest)) or " ".join(words(text)) or text.casefold()


def slug(title: str) -> str:
    """A heading as an identifier: `2.1 Files Changed` is `files-changed`."""
    return title_key(title).replace(" ", "-")


def _sections(lines: Sequence[Line], text_length: int) -> tuple[Section, ...]:
    headings = [line for line in lines if line.kind is LineKind.HEADING]
    parents: list[int | None] = []
    last_index = [len(headings) - 1] * len(headings)
    open_indexes: list[int] = []
    for index, line in enumerate(headings):
        while open_indexes and headings[open_indexes[-1]].level >= line.level:
            last_index[open_indexes.pop()] = index - 1
        parents.append(open_indexes[-1] if open_indexes else None)
        open_indexes.append(index)
    starts = [line.start for line in headings] + [text_length]
    return tuple(
        Section(
            index=index,
            level=line.level,
            heading=heading_text(line),
            line=line.number,
            start=line.start,
            end=starts[index + 1],
            tree_end=starts[last_index[index] + 1],
            last_index=last_index[index],
            parent=parents[index],
        )
        for index, line in enumerate(headings)
    )


def _front_matter(lines: Sequence[Line]) -> FrontMatter:
    """Keys in lower case; `key: value`, `key: [a, b]`, and `key:` with a list of `- item` lines below."""
    found: dict[str, str | tuple[str, ...]] = {}
    key = ""
    for line in lines[1:]:
        if line.kind is not LineKind.FRONT_MATTER:
            break
        text = line.text.strip()
        if text.startswith("-") and key and text not in {"---"}:
            earlier = found[key]
            found[key] = (*(earlier if isinstance(earlier, tuple) else ()), _unquote(text[1:]))
        elif (match := _KEY.fullmatch(line.text)) is not None:
            key = match.group(1).casefold()
            found[key] = _front_matter_value(match.group(2) or "")
    return found


def _front_matter_value(text: str) -> str | tuple[str, ...]:
    text = text.strip()
    if text.startswith("[") and text.endswith("]"):
        return tuple(_unquote(part) for part in text[1:-1].split(",") if part.strip())
    return _unquote(text)


def _unquote(text: str) -> str:
    text = text.strip()
    if len(text) >= 2 and text[0] in "'\"" and text[-1] == text[0]:
        return text[1:-1]
    return re.split(r"\s#(?:\s|$)", text, maxsplit=1)[0].strip()

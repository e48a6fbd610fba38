"""The lines of a Markdown text, each with what it is: prose, heading, code, comment, front matter."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum, auto

from agentos.documents.inline import mask_code

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_FENCE_OPENING = re.compile(r"[ \t]*((?:(?:(?:[-*+]|\d{1,9}[.)])[ \t]+|>[ \t]*))*)(`{3,}|~{3,})(.*)", re.DOTALL)
_ATX_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*))?", re.DOTALL)
_SETEXT_UNDERLINE = re.compile(r" {0,3}(=+|-+)[ \t]*")
_BLOCK_START = re.compile(r"[ \t]*(?:[-*+>|]|<)|(?: {4}|\t)")
_NUMBERED = re.compile(r"[ \t]*\d{1,9}[.)][ \t]")
_FRONT_MATTER_KEY = re.compile(r"[A-Za-z_][\w .-]*:(?:\s|$)")
_FRONT_MATTER_ROW = re.compile(rf"\s*$|\s|- |-$|#(?!#)|{_FRONT_MATTER_KEY.pattern}")
_COMMENT_OPENING, _COMMENT_CLOSING = "<!--", "-->"


class LineKind(Enum):
    """What a line is to a reader of the rendered page."""

    BLANK = auto()
    TEXT = auto()
    HEADING = auto()
    """An ATX heading, or the title line of a setext one."""
    UNDERLINE = auto()
    """The `===` or `---` below a setext title."""
    CODE = auto()
    """Inside a fence, or the fence itself."""
    COMMENT = auto()
    """Wholly inside an HTML comment."""
    FRONT_MATTER = auto()


@dataclass(frozen=True, slots=True)
class Line:
    """One line. `text` and `ending` are the source; `visible` is what is left when comments are blanked out."""

    number: int
    start: int
    text: str
    ending: str
    kind: LineKind
    visible: str
    level: int = 0

    @property
    def end(self) -> int:
        return self.start + len(self.text) + len(self.ending)

    @property
    def is_prose(self) -> bool:
        return self.kind is LineKind.TEXT


@dataclass(slots=True)
class _Fence:
    mark: str
    is_quoted: bool
    line: int

    def is_closed_by(self, text: str) -> bool:
        stripped = text.strip(" \t")
        if self.is_quoted:
            stripped = stripped.lstrip("> \t")
        return len(stripped) >= len(self.mark) and set(stripped) == {self.mark[0]}


@dataclass(frozen=True, slots=True)
class Scan:
    """All lines of a text, and where a fence or comment was opened and never closed."""

    lines: tuple[Line, ...]
    unclosed_fence_line: int | None
    unclosed_comment_line: int | None


def scan(text: str) -> Scan:
    """Classify every line, in one pass. Any text is accepted; the lines joined are the text."""
    return _Scanner(text).scan()


def front_matter_length(rows: list[tuple[str, str]]) -> int:
    """How many lines of front matter a text starts with, its two rulers included; 0 when there is none."""
    if len(rows) < 2 or rows[0][0].rstrip().removeprefix("\ufeff") != "---":
        return 0
    if _FRONT_MATTER_KEY.match(rows[1][0]) is None:
        return 0
    for index, (text, _) in enumerate(rows[1:], start=1):
        if text.rstrip() in {"---", "..."}:
            return index + 1
        if _FRONT_MATTER_ROW.match(text) is None:
            return 0
    return 0


class _Scanner:
    def __init__(self, text: str) -> None:
        self._rows = list(_split_rows(text))
        self._last_closing = text.rfind(_COMMENT_CLOSING)
        self._fence: _Fence | None = None
        self._comment_line: int | None = None
        self._lines: list[Line] = []

    def scan(self) -> Scan:
        in_front_matter = front_matter_length(self._rows)
        start = 0
        for index, (text, ending) in enumerate(self._rows):
            if index < in_front_matter:
                line = Line(index + 1, start, text, ending, LineKind.FRONT_MATTER, "")
            else:
                line = self._classify(Line(index + 1, start, text, ending, LineKind.TEXT, text))
            self._lines.append(line)
            start = line.end
        fence_line = self._fence.line if self._fence else None
        return Scan(tuple(self._lines), fence_line, self._comment_line)

    def _classify(self, line: Line) -> Line:
        if self._fence is not None:
            if not self._fence.is_quoted or line.text.lstrip().startswith(">"):
                if self._fence.is_closed_by(line.text):
                    self._fence = None
                return _as(line, LineKind.CODE, "")
            self._fence = None
        was_in_comment = self._comment_line is not None
        if not was_in_comment and self._opens_fence(line):
            return _as(line, LineKind.CODE, "")
        visible = self._without_comments(line)
        if not visible.strip():
            return _as(line, LineKind.COMMENT if line.text.strip() else LineKind.BLANK, "")
        heading = None if was_in_comment else _ATX_HEADING.fullmatch(visible)
        if heading is not None:
            return _as(line, LineKind.HEADING, visible, len(heading.group(1)))
        if self._underlines_title(visible):
            title = self._lines[-1]
            self._lines[-1] = _as(title, LineKind.HEADING, title.visible, 1 if "=" in visible else 2)
            return _as(line, LineKind.UNDERLINE, "")
        return _as(line, LineKind.TEXT, visible)

    def _opens_fence(self, line: Line) -> bool:
        match = _FENCE_OPENING.fullmatch(line.text)
        if match is None or (match.group(2)[0] == "`" and "`" in match.group(3)):
            return False
        self._fence = _Fence(match.group(2), ">" in match.group(1), line.number)
        return True

    def _without_comments(self, line: Line) -> str:
        """Blank out comments. One that starts mid-line and is never closed is text; at a line's start it runs on."""
        text = line.text
        if self._comment_line is None and _COMMENT_OPENING not in text:
            return text
        code_blanked = mask_code(text)
        pieces: list[str] = []
        position = 0
        while position < len(text):
            if self._comment_line is not None:
                end = text.find(_COMMENT_CLOSING, position)
                position, skipped = (len(text) if end < 0 else end + len(_COMMENT_CLOSING)), position
                pieces.append(" " * (position - skipped))
                self._comment_line = self._comment_line if end < 0 else None
                continue
            opening = code_blanked.find(_COMMENT_OPENING, position)
            is_literal = line.start + opening >= self._last_closing and text[:opening].strip() != ""
            if opening < 0 or is_literal:
                pieces.append(text[position:])
                break
            pieces.append(text[position:opening])
            position = opening
            self._comment_line = line.number
        return "".join(pieces)

    def _underlines_title(self, visible: str) -> bool:
        """A setext title is a paragraph of one line: a ruler below a longer paragraph stays a ruler.

        `1. Context` is a title only above a line that nobody would draw as a ruler.
        """
        if not self._lines or _SETEXT_UNDERLINE.fullmatch(visible) is None:
            return False
        title = self._lines[-1]
        if not title.is_prose or _BLOCK_START.match(title.visible):
            return False
        if _NUMBERED.match(title.visible) and visible.strip() in {"-", "--", "---"}:
            return False
        return len(self._lines) < 2 or not self._lines[-2].is_prose


def has_content(lines: Iterable[Line]) -> bool:
    return any(line.kind in {LineKind.TEXT, LineKind.CODE} for line in lines)


def heading_text(line: Line) -> str:
    """A heading line's words as written, without its marks."""
    match = _ATX_HEADING.fullmatch(line.visible)
    if match is None:
        return line.visible.strip()
    text = (match.group(2) or "").strip()
    without_closing = text.rstrip("#")
    return without_closing.rstrip() if without_closing == "" or without_closing[-1] in " \t" else text


def _split_rows(text: str) -> Iterator[tuple[str, str]]:
    for match in _LINE.finditer(text):
        row = match.group()
        content = row.rstrip("\r\n")
        yield content, row[len(content) :]


def _as(line: Line, kind: LineKind, visible: str, level: int = 0) -> Line:
    return Line(line.number, line.start, line.text, line.ending, kind, visible, level)

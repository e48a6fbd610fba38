"""Inline Markdown within one line: code spans, links, emphasis, and the words that remain."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable

_TICKS = re.compile(r"`+")
_LINK = re.compile(r"!?\[([^\[\]]*)\]\([^()\s]*(?:\s+\"[^\"]*\")?\)")
_STARS = re.compile(r"(?<!\\)(?:(?<=\S)\*+|\*+(?=\S))")
_ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~])")
_WORD = re.compile(r"[^\W_]+(?:[-'.][^\W_]+)*")
_SPACE = re.compile(r"\s+")
_UNSAFE_CATEGORIES = frozenset({"Cc", "Cf", "Cs"})


def code_spans(text: str) -> list[tuple[int, int, int]]:
    """Every code span of a line as (start, end, number of backticks), in order and without overlap."""
    if "`" not in text:
        return []
    runs = [(match.start(), match.end() - match.start()) for match in _TICKS.finditer(text)]
    starts_by_length: dict[int, list[int]] = defaultdict(list)
    for start, length in runs:
        starts_by_length[length].append(start)
    spans: list[tuple[int, int, int]] = []
    position = 0
    for start, length in runs:
        if start < position:
            continue
        if _is_escaped(text, start):
            start, length = start + 1, length - 1
        candidates = starts_by_length.get(length, [])
        following = bisect_left(candidates, start + length)
        if length and following < len(candidates):
            end = candidates[following] + length
            spans.append((start, end, length))
            position = end
    return spans


def code_texts(text: str) -> list[str]:
    """What the code spans of a line hold, without backticks and padding."""
    return [text[start + ticks : end - ticks].strip() for start, end, ticks in code_spans(text)]


def mask_code(text: str) -> str:
    """The line with every code span blanked out, so that offsets stay the same."""
    return _replace_spans(text, lambda span: " " * len(span))


def plain(text: str) -> str:
    """The words a reader sees: links become their label, emphasis and backticks go, spaces collapse."""
    held: list[str] = []

    def hold(span: str) -> str:
        held.append(span.strip("`").strip())
        return f"\0{len(held) - 1}\0"

    text = _replace_spans(text.replace("\0", " "), hold)
    text = _STARS.sub("", _LINK.sub(r"\1", text))
    text = _ESCAPE.sub(r"\1", text)
    text = re.sub("\0(\\d+)\0", lambda match: held[int(match.group(1))], text)
    return _SPACE.sub(" ", text).strip()


def words(text: str) -> list[str]:
    """The lower-case words of a text, markup and punctuation removed."""
    return [match.group().casefold() for match in _WORD.finditer(plain(text))]


def shown(text: str) -> str:
    """Text from a document made safe for one line of a terminal: no control, no direction override, no newline."""
    one_line = _SPACE.sub(" ", text)
    return "".join(character for character in one_line if unicodedata.category(character) not in _UNSAFE_CATEGORIES)


def _is_escaped(text: str, position: int) -> bool:
    backslashes = 0
    while position - backslashes > 0 and text[position - backslashes - 1] == "\\":
        backslashes += 1
    return backslashes % 2 == 1


def _replace_spans(text: str, replacement: Callable[[str], str]) -> str:
    pieces: list[str] = []
    position = 0
    for start, end, _ in code_spans(text):
        pieces += (text[position:start], replacement(text[start:end]))
        position = end
    return "".join(pieces) + text[position:]

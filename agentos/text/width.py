"""How many columns of a terminal a text takes. Pure."""

from __future__ import annotations

import unicodedata
from functools import lru_cache
from typing import Final

_ELLIPSIS: Final = "…"
_EMOJI_SELECTOR: Final = "\ufe0f"
"""Makes the character before it a picture, which is wider."""


def width(text: str) -> int:
    """Columns: two for wide characters, none for combining ones. Of joined pictures it counts each part."""
    return len(text) if text.isascii() else sum(map(_columns, text))


def cut_to(text: str, columns: int) -> str:
    """The text, its end replaced by an ellipsis when it is wider than this."""
    if width(text) <= columns:
        return text
    kept, taken = [], 0
    for character in text:
        taken += _columns(character)
        if taken > columns - 1:
            break
        kept.append(character)
    return "".join(kept) + _ELLIPSIS if columns > 0 else ""


@lru_cache(maxsize=4096)
def _columns(character: str) -> int:
    if character == _EMOJI_SELECTOR:
        return 1
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1

"""TOML of files that people edit: a document, or what is wrong with it in one line, whatever the text is."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

MOST_CHARACTERS = 1_000_000
"""Nobody writes as much by hand, and reading it would take minutes."""
_MOST_CANDIDATES = 50
_LONGEST_STATEMENT = 200


class NotToml(ValueError):
    """`str(error)` may quote the text; `place` never does."""

    def __init__(self, message: str, place: str = "") -> None:
        super().__init__(message)
        self.place = place


def parse_toml(text: str) -> dict[str, Any]:
    """Raises NotToml, and nothing else."""
    if len(text) > MOST_CHARACTERS:
        raise NotToml(f"more than {MOST_CHARACTERS:,} characters")
    import tomllib  # noqa: PLC0415  Many commands find no file to read.

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        place = re.search(r"\(at (line \d+, column \d+|end of document)\)", str(error))
        raise NotToml(str(error), place[1] if place else "a place it does not name") from None
    except RecursionError:
        raise NotToml("nested too deeply") from None
    except ValueError:
        # The parser leaves it to Python to refuse a number of thousands of digits.
        raise NotToml("a number in it has too many digits") from None


def line_of(text: str, names: Sequence[str]) -> int | None:
    """The line on which a valid document first has a name, given with the tables around it; None if not found.

    What comes before a statement's end is a document of its own: the first one that has the name ends with it.
    """
    lines = text.split("\n")
    candidates = [place for place, line in enumerate(lines) if names[-1] in line]
    for first in candidates[:_MOST_CANDIDATES]:
        for last in range(first, min(first + _LONGEST_STATEMENT, len(lines))):
            try:
                document = parse_toml("\n".join(lines[: last + 1]))
            except NotToml:
                continue
            if _has(document, names):
                return first + 1
            break
    return None


def _has(document: Any, names: Sequence[str]) -> bool:
    for name in names:
        if not isinstance(document, dict) or name not in document:
            return False
        document = document[name]
    return True

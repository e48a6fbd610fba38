"""TOML of files that people edit: a document, or what is wrong with it in one line, whatever the text is."""

from __future__ import annotations

import re
import tomllib
from typing import Any

MOST_CHARACTERS = 1_000_000
"""Nobody writes as much by hand, and reading it would take minutes."""


class NotToml(ValueError):
    """`str(error)` may quote the text; `place` never does."""

    def __init__(self, message: str, place: str = "") -> None:
        super().__init__(message)
        self.place = place


def parse_toml(text: str) -> dict[str, Any]:
    """Raises NotToml, and nothing else."""
    if len(text) > MOST_CHARACTERS:
        raise NotToml(f"more than {MOST_CHARACTERS:,} characters")
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        place = re.search(r"\(at (line \d+, column \d+|end of document)\)", str(error))
        raise NotToml(str(error), place[1] if place else "") from None
    except RecursionError:
        raise NotToml("nested too deeply") from None
    except ValueError:
        # The parser leaves it to Python to refuse a number of thousands of digits.
        raise NotToml("a number in it has too many digits") from None

"""Which ids may become part of a file name."""

from __future__ import annotations

import re

from agentos.errors import InvalidIdentifier

MAX_IDENTIFIER_LENGTH = 128

_FORBIDDEN_CHARACTER = re.compile(r"[^a-zA-Z0-9_-]")

# On Windows `con.log` opens the console: a device name stays one whatever its case and its extension.
_DEVICE_NAMES = frozenset({"con", "prn", "aux", "nul"} | {f"{port}{n}" for port in ("com", "lpt") for n in range(10)})

_SHOWN_LENGTH = 60


def sanitize_identifier(value: str) -> str:
    """Return `value` unchanged if it is safe in a file name on every platform, else raise `InvalidIdentifier`.

    Safe is: 1 to 128 of the ASCII letters, digits, `_` and `-`, and not a device name of Windows.
    """
    problem = _problem_with(value)
    if problem is not None:
        raise InvalidIdentifier(
            f"Invalid identifier {_shown(value)}: {problem}; "
            f"use 1 to {MAX_IDENTIFIER_LENGTH} ASCII letters, digits, '_' or '-'"
        )
    return value


def _problem_with(value: str) -> str | None:
    if not value:
        return "it is empty"
    if "/" in value or "\\" in value:
        return "path separators not allowed"
    if forbidden := _FORBIDDEN_CHARACTER.search(value):
        return f"invalid characters ({forbidden.group()!a} at position {forbidden.start() + 1})"
    if len(value) > MAX_IDENTIFIER_LENGTH:
        return f"it has {len(value)} characters"
    if value.lower() in _DEVICE_NAMES:
        return "Windows reserves this name for a device"
    return None


def _shown(value: str) -> str:
    """The value as a short line of ASCII: look-alike letters and control characters are seen for what they are."""
    return ascii(value) if len(value) <= _SHOWN_LENGTH else ascii(value[:_SHOWN_LENGTH]) + "..."

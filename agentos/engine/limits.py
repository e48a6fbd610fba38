"""Limits that users set, in one place: of `--parallel`, and of a worker's memory. Pure."""

from __future__ import annotations

from agentos.errors import UsageError

DEFAULT_PARALLELISM = 3
MAX_PARALLELISM = 10
MEMORY_LIMIT_VARIABLE = "AGENTOS_MEMORY_LIMIT_MB"
"""How many megabytes a worker may have."""
_MOST_MEGABYTES = 1 << 40
_WORKING_MEGABYTES = 200
"""What a worker needs beside what it has loaded: stacks and heaps of its threads, and a little for its nodes."""
_VARYING_MEGABYTES = 128
"""By how much the same load differs from one time to the next: each thread that allocates may reserve 64 of them."""


def memory_limit(text: str) -> int | None:
    """Of the variable's text, in megabytes; None when there is none. Raises UsageError."""
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and 0 < int(text[:20]) <= _MOST_MEGABYTES):
        raise UsageError(f"{MEMORY_LIMIT_VARIABLE}={text[:40]!r}: expected a number of megabytes, like 2000.")
    return int(text)


def refuse_too_little(limit: int | None, loaded_megabytes: int) -> None:
    """Raises UsageError when a worker that has this much loaded could do nothing within the limit."""
    least = loaded_megabytes + _WORKING_MEGABYTES
    if limit is not None and limit < least:
        raise UsageError(
            f"{MEMORY_LIMIT_VARIABLE}={limit}: too little for a worker of this graph. "
            f"Give it at least {least + _VARYING_MEGABYTES}, or unset it."
        )

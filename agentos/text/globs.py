"""What people name on a command line: ids, or globs of them."""

from __future__ import annotations

import fnmatch
from collections.abc import Collection, Sequence


def matches(pattern: str, known: Collection[str]) -> list[str]:
    """The known ids a pattern names, sorted: the one that is spelled so, else those the glob matches."""
    if pattern in known:
        return [pattern]
    return sorted(each for each in known if fnmatch.fnmatchcase(each, pattern))


def chosen(patterns: Sequence[str], known: Collection[str]) -> tuple[list[str], list[str]]:
    """What the patterns name, each once and in the order named; and the patterns that name nothing."""
    found: dict[str, None] = {}
    unknown = []
    for pattern in dict.fromkeys(patterns):
        hits = matches(pattern, known)
        found.update(dict.fromkeys(hits))
        if not hits:
            unknown.append(pattern)
    return list(found), unknown

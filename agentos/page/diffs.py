"""Differences as the page shows them: files, hunks, lines. Pure."""

from __future__ import annotations

import difflib
import re
from typing import Any, Final

MOST_LINES: Final = 20_000
_LONGEST_LINE: Final = 4_000
_HUNK: Final = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
_FILE: Final = re.compile(r"diff --git a/(.*) b/(.*)")


def between(before: str, after: str, name: str) -> tuple[list[dict[str, Any]], bool]:
    """What one version of a text changed of another; and whether some of it is left out."""
    if len(before) + len(after) > 4_000_000:
        return [], True
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), "before", "after", lineterm="")
    return parse_unified([f"diff --git a/{name} b/{name}", *lines])


def parse_unified(lines: list[str]) -> tuple[list[dict[str, Any]], bool]:
    """The files of a unified diff, and whether some of it is left out."""
    files: list[dict[str, Any]] = []
    left = {"-": 0, "+": 0}
    for line in lines[:MOST_LINES]:
        if left["-"] > 0 or left["+"] > 0:
            _take_line(files[-1], left, line)
        elif found := _FILE.fullmatch(line):
            files.append({"path": found[2], "added": 0, "removed": 0, "is_binary": False, "hunks": []})
        elif files and (hunk := _HUNK.match(line)):
            left = {"-": int(hunk[1] or 1), "+": int(hunk[2] or 1)}
            files[-1]["hunks"].append({"header": line[:200], "lines": []})
        elif files and line.startswith("Binary files "):
            files[-1]["is_binary"] = True
        elif files and line.startswith("+++ b/"):
            files[-1]["path"] = line.removeprefix("+++ b/").rstrip("\t")
    return files, len(lines) > MOST_LINES


def _take_line(file: dict[str, Any], left: dict[str, int], line: str) -> None:
    """A line of a hunk; how many are left of each side says where it ends, whatever the lines contain."""
    mark = line[:1] if line[:1] in ("+", "-") else " "
    if line.startswith("\\"):
        return  # "No newline at end of file"
    if mark in ("-", " "):
        left["-"] -= 1
    if mark in ("+", " "):
        left["+"] -= 1
    file["added"] += mark == "+"
    file["removed"] += mark == "-"
    file["hunks"][-1]["lines"].append([mark, line[1:][:_LONGEST_LINE]])

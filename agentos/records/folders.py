"""The folders of runs under `runs_dir()`, each named by its start, and the summary of a run that has ended."""

from __future__ import annotations

import os
import re
from pathlib import Path

from agentos.files import open_record
from agentos.paths import runs_dir
from agentos.records.summary import RunSummary, parse_summary

SUMMARY_NAME = "summary.json"

_RUN_ID = re.compile(r"\d{8}-\d{6}-\d{6}")


def run_dirs() -> list[Path]:
    """The folders of all runs, newest first. Whatever else lies there is not looked at."""
    try:
        with os.scandir(runs_dir()) as entries:
            names = [entry.name for entry in entries if _is_run(entry)]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [runs_dir() / name for name in sorted(names, reverse=True)]


def _is_run(entry: os.DirEntry[str]) -> bool:
    return is_run_id(entry.name) and entry.is_dir(follow_symlinks=False)


def is_run_id(name: str) -> bool:
    """Whether a name is that of a run, and so of a folder among others of its kind."""
    return _RUN_ID.fullmatch(name) is not None


def read_summary(run_dir: Path, *, with_items: bool = True) -> RunSummary | None:
    """The run's summary; None if it has none or a damaged one."""
    try:
        with open_record(run_dir / SUMMARY_NAME) as file:
            return parse_summary(file.read(), with_items=with_items)
    except OSError:
        return None

"""`agentos doctor`: everything a run needs, looked at before one is started; each line with what to do about it."""

# What only this command needs is loaded by it: every command builds this parser.
# ruff: noqa: PLC0415

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from agentos.cli.options import project_from
from agentos.cli.output import say, say_json
from agentos.cli.parsing import add_json_option, add_project_option
from agentos.errors import ExitCode
from agentos.text.words import counted, duration

if TYPE_CHECKING:
    from agentos.cli.checkup import Finding

_LEVEL_COLOURS = {"ok": "32", "warning": "33", "error": "31"}


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Check what a run needs: installation, settings, home and disk, checkpoints, terminal, git, "
        "isolation, tests, models with their SDKs, and keys. It makes one cheap call with each key, and runs the "
        "project's tests once, in a copy. Exits 1 if anything is an error."
    )
    parser.add_argument("--no-calls", action="store_true", help="make no call to a provider")
    parser.add_argument("--no-suite", action="store_true", help="do not run the project's tests")
    add_json_option(parser)
    add_project_option(parser)
    parser.set_defaults(handler=run)


def run(arguments: argparse.Namespace) -> int:
    findings: list[Finding] = []
    for finding in _findings(arguments):
        if not arguments.json:
            say(*_fix_before(finding, findings), _line(finding))
        findings.append(finding)
    levels = Counter(str(finding.level) for finding in findings)
    if arguments.json:
        say_json({"findings": [finding.to_document() for finding in findings], **_counts(levels)})
    else:
        say(*_fix_before(None, findings))
        say(f"{levels['ok']} ok, {counted(levels['warning'], 'warning')}, {counted(levels['error'], 'error')}")
    return ExitCode.ITEM_FAILED if levels["error"] else ExitCode.OK


def _findings(arguments: argparse.Namespace) -> Iterator[Finding]:
    from agentos.cli.checkup import Checkup
    from agentos.environment import environment

    project_dir = project_from(arguments.project, Path.cwd())
    checkup = Checkup(
        project_dir,
        environment(),
        makes_calls=not arguments.no_calls,
        runs_suite=not arguments.no_suite,
        on_suite=_say_suite_runs,
    )
    return checkup.findings()


def _say_suite_runs(most_seconds: float) -> None:
    most = duration(most_seconds)
    say(f"Running the project's tests in a copy, for at most {most}. --no-suite leaves them out.", to_stderr=True)


def _counts(levels: Counter[str]) -> dict[str, int]:
    return {"ok": levels["ok"], "warnings": levels["warning"], "errors": levels["error"]}


def _fix_before(finding: Finding | None, earlier: list[Finding]) -> list[str]:
    """What to do about the last one, unless the next one needs the same: then it is said once, after both."""
    fix = earlier[-1].fix if earlier else ""
    return [f"         {fix}"] if fix and (finding is None or finding.fix != fix) else []


def _line(finding: Finding) -> str:
    level = finding.level.ljust(len("warning"))
    if _has_colour():
        level = f"\x1b[{_LEVEL_COLOURS[finding.level]}m{level}\x1b[0m"
    return f"{level}  {finding.area}: {finding.text}"


def _has_colour() -> bool:
    from agentos.environment import environment
    from agentos.reporters.console import wants_colour

    return wants_colour(environment(), is_terminal=sys.stdout.isatty())

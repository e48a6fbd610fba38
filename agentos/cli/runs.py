"""`agentos runs`: what the records of past and live runs say."""

# The verbs import what they need: every command builds this parser, few run it.
# ruff: noqa: PLC0415

from __future__ import annotations

import argparse
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from agentos.cli.output import say, say_json
from agentos.errors import ExitCode
from agentos.hints import remember_project
from agentos.paths import find_project_dir
from agentos.text.window import window_columns

if TYPE_CHECKING:
    from agentos.records.summary import RunSummary

PRUNE_HELP = (
    "remove runs beyond the newest 100 or older than 30 days, and checkpoints set aside that long ago; "
    "never live runs"
)


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "List, show, follow and prune runs, past and live, and report on them. Reads run records only."
    )
    parser.set_defaults(handler=run)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    verbs = parser.add_subparsers(dest="runs_verb", metavar="VERB")

    listing = verbs.add_parser("list", help="list all runs, newest first (the default)")
    show = verbs.add_parser("show", help="show how a run went, or how far it is")
    _add_run_argument(show)
    for parser in (listing, show):
        # Without a default of its own: `runs --json show RUN` must not be undone by it.
        parser.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print JSON")

    follow = verbs.add_parser(
        "follow", help="show what has happened so far, then what happens next, until the run ends"
    )
    _add_run_argument(follow)

    result = verbs.add_parser(
        "result",
        help="print the results of a run's graphs, one JSON object per item",
        description="Print the results of a run of your own graph as JSON Lines, or one item's in a readable form.",
    )
    _add_run_argument(result)
    result.add_argument("item", nargs="?", metavar="ITEM", help="show only this item's result")

    report = verbs.add_parser(
        "report",
        help="write one HTML file about a run, to hand over or to attach to CI",
        description="Write one HTML file about a run: the dashboard's views as they are now, with the ends of "
        "the logs. It opens from disk and loads nothing from elsewhere. In a GitHub job, the job's page gets a "
        "summary.",
    )
    _add_run_argument(report)
    report.add_argument("-o", "--output", metavar="FILE", help="where to write it (default: RUN.html; - prints it)")
    report.add_argument("--junit", metavar="FILE", help="also write a JUnit file, with one test case per item")

    prune = verbs.add_parser("prune", help=PRUNE_HELP)
    prune.add_argument("--dry-run", action="store_true", help="only list what would be removed")


def _add_run_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "run_id",
        nargs="?",
        default="last",
        metavar="RUN",
        help="a run's id or the beginning of one (default: the last)",
    )


def run(args: argparse.Namespace) -> int:
    """Do what the parsed arguments say and return the exit code. An unknown run raises UsageError."""
    match args.runs_verb:
        case "show":
            return _show(args.run_id, as_json=args.json)
        case "follow":
            return _follow(args.run_id)
        case "result":
            return _result(args.run_id, args.item)
        case "report":
            return _report(args.run_id, args.output, args.junit)
        case "prune":
            return _prune(is_dry=args.dry_run)
        case _:
            return _list(as_json=args.json)


def _list(*, as_json: bool) -> int:
    from agentos.paths import runs_dir
    from agentos.records.runs import list_runs
    from agentos.reporters.run_tables import list_lines

    runs = list_runs()
    if as_json:
        say_json([each.to_document() for each in runs])
    else:
        say(*(list_lines(runs, window_columns()) if runs else [f"No runs yet under {runs_dir()}"]))
    return ExitCode.OK


def _show(run_id: str, *, as_json: bool) -> int:
    from dataclasses import replace

    from agentos.cli.standing import standing_lines
    from agentos.records.runs import find_run, load_run
    from agentos.reporters.run_tables import show_lines
    from agentos.reporters.summary import summary_of

    run_dir = find_run(run_id)
    shown = load_run(run_dir)
    summary = summary_of(run_dir)
    if shown.state == "live":
        # Nothing to resume yet: the same command would only skip what this run holds.
        summary = replace(summary, resume_command="", start_over_command="")
    if as_json:
        say_json({**summary.to_document(), **shown.to_document()})
    else:
        with suppress(FileNotFoundError):  # The folder is gone: nothing can be typed here.
            if summary.project_dir != str(find_project_dir(Path.cwd())):
                remember_project(summary.project_dir)
        standing = standing_lines(run_dir, with_counts=False) if shown.wall_seconds is None else ()
        say(*show_lines(shown, summary, window_columns(), standing), *_reading_lines(summary))
    return ExitCode.OK


def _reading_lines(summary: RunSummary) -> list[str]:
    """How to read what it made; there one sees what comes next, too."""
    from agentos.hints import Hint
    from agentos.reporters.wording import COORDINATOR
    from agentos.workflows.registry import WORKFLOWS, label_of

    done = [item.id for item in summary.items if item.outcome.is_done]
    if not done or summary.workflow not in WORKFLOWS or not Path(summary.project_dir).is_dir():
        return []
    read = Hint.SHOW_DOCUMENT.line(label=label_of(summary.workflow, done[0]))
    return [f"{COORDINATOR} To read {'one of the documents' if len(done) > 1 else 'what it made'}: {read}"]


def _follow(run_id: str) -> int:
    from agentos.events import RunEnded
    from agentos.records.runs import find_run, follow_audit
    from agentos.reporters.console import ConsoleReporter
    from agentos.reporters.wording import COORDINATOR

    run_dir = find_run(run_id)
    clock = _RecordClock()
    reporter = ConsoleReporter(
        _StandardOutput(), is_terminal=False, columns=window_columns, colour=False, run_dir=run_dir, clock=clock
    )
    try:
        for stamped in follow_audit(run_dir):
            clock.set(stamped.time)
            reporter.handle(stamped)
            if isinstance(stamped.event, RunEnded):
                return ExitCode.OK
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    say(f"{COORDINATOR} Run {run_dir.name} did not end properly: none of its processes is alive")
    return ExitCode.ITEM_FAILED


def _report(run_id: str, output: str | None, junit: str | None) -> int:
    from agentos.dashboard.junit import junit_xml
    from agentos.dashboard.markdown_summary import markdown_summary
    from agentos.environment import environment
    from agentos.page.report import html_report
    from agentos.records.runs import find_run

    run_dir = find_run(run_id)
    page, view = html_report(run_dir)
    if output == "-":
        say(page.rstrip("\n"))
    else:
        path = Path(output or f"{run_dir.name}.html")
        _write(path, page.encode(errors="replace"))
        say(f"Report: {path}")
    if junit:
        _write(Path(junit), junit_xml(view))
    if summary := environment().get("GITHUB_STEP_SUMMARY"):
        with suppress(OSError), Path(summary).open("a", encoding="utf-8", errors="replace") as page_of_job:
            page_of_job.write(markdown_summary(view))
    return ExitCode.OK


def _write(path: Path, content: bytes) -> None:
    from agentos.errors import UsageError
    from agentos.files import write_whole

    if not path.absolute().parent.is_dir():
        raise UsageError(f"cannot write {path}: there is no folder {path.parent}")
    try:
        write_whole(path, content)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror or error}") from None


def _result(run_id: str, item: str | None) -> int:
    import json

    from agentos.errors import UsageError
    from agentos.records.results import RESULTS_NAME, read_results
    from agentos.text.suggestions import did_you_mean
    from agentos.wire import one_line_of_json

    run_dir, item = _run_and_item(run_id, item)
    if not (run_dir / RESULTS_NAME).exists():
        raise UsageError(f"Run {run_dir.name} has no results: only `agentos run` keeps the results of its graph.")
    found = {result["id"]: result for result in read_results(run_dir)}
    if item is None:
        say(*(one_line_of_json(result) for result in found.values()))
    elif item in found:
        say(json.dumps(found[item], ensure_ascii=False, indent=2))
    else:
        raise UsageError(f"Run {run_dir.name} has no result of {item!r}.{did_you_mean(item, found)}")
    return ExitCode.OK


def _run_and_item(run_id: str, item: str | None) -> tuple[Path, str | None]:
    """One name alone may be a run's or, in the last run, an item's."""
    from agentos.errors import UsageError
    from agentos.records.results import RESULTS_NAME, known_spans
    from agentos.records.runs import find_run

    try:
        return find_run(run_id), item
    except UsageError:
        if item is None and run_id in known_spans((last := find_run("last")) / RESULTS_NAME):
            return last, run_id
        raise


def _prune(*, is_dry: bool) -> int:
    from datetime import UTC, datetime, timedelta

    from agentos.engine.checkpoints import outlived
    from agentos.files import remove_all
    from agentos.records.runs import KEPT_DAYS, prunable, prune

    now = datetime.now(UTC)
    aside = outlived(now - timedelta(days=KEPT_DAYS))
    names = [*([run_dir.name for run_dir in prunable(now)] if is_dry else prune(now)), *(path.name for path in aside)]
    if not is_dry:
        remove_all(aside)
    say(*names, f"{len(names)} {'to remove' if is_dry else 'removed'}")
    return ExitCode.OK


class _RecordClock:
    """The time of the record being shown: what was told of the time left is told again as it was then."""

    def __init__(self) -> None:
        self._seconds = 0.0

    def __call__(self) -> float:
        return self._seconds

    def set(self, stamp: str) -> None:
        from datetime import datetime

        # A damaged stamp is no reason to stop following.
        with suppress(ValueError):
            self._seconds = datetime.fromisoformat(stamp).timestamp()


class _StandardOutput:
    def write(self, data: bytes, /) -> None:
        sys.stdout.write(data.decode(errors="replace"))
        sys.stdout.flush()

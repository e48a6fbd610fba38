"""`agentos ws`: make, run, pause, complete and remove workstreams."""

# The verbs import what they need: `agentos --help` and most verbs need no engine.
# ruff: noqa: PLC0415

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from agentos.cli.options import (
    SHUTDOWN_HELP,
    add_branch_options,
    add_engine_options,
    add_model_options,
    add_parallel_options,
    project_from,
    setting_flags,
)
from agentos.cli.output import read_standard_input, say, say_json
from agentos.cli.parsing import add_json_option, add_project_option
from agentos.engine.limits import DEFAULT_PARALLELISM
from agentos.errors import ExitCode
from agentos.hints import Hint

if TYPE_CHECKING:
    from agentos.workstreams.commands import ProjectWorkstreams

Handler = Callable[[argparse.Namespace, "ProjectWorkstreams"], int]
_SHOWN_HISTORY = 10


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Make, run, pause, complete and remove workstreams. Each has a worktree, a branch and a state of its own."
    )
    parser.epilog = "States: active, running, paused, completed, failed."
    verbs = parser.add_subparsers(dest="ws_verb", metavar="VERB", required=True)
    _add_making_verbs(verbs)
    _add_running_verbs(verbs)
    _add_looking_verbs(verbs)
    _add_state_verbs(verbs)
    _add_lease_verbs(verbs)


_Verbs = argparse._SubParsersAction


def _verb(
    verbs: _Verbs[argparse.ArgumentParser], name: str, help_text: str, handler: Handler
) -> argparse.ArgumentParser:
    parser = verbs.add_parser(name, help=help_text)
    parser.set_defaults(handler=lambda arguments: handler(arguments, _project(arguments)))
    return parser


def _add_slugs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("slugs", nargs="+", metavar="SLUG", help="workstreams; globs like 'feature-*' are allowed")


def _add_making_verbs(verbs: _Verbs[argparse.ArgumentParser]) -> None:
    new = _verb(verbs, "new", "make a worktree on the branch agentos/SLUG", _new)
    new.add_argument("slug", metavar="SLUG", help="letters, digits, _ and -; also the item's id")
    new.add_argument(
        "text", metavar="TEXT", help="what to do, the text that the workflow works on; - reads standard input"
    )
    new.add_argument("--base", default="HEAD", metavar="REF", help="where the branch starts (default: HEAD)")
    new.add_argument(
        "--copy",
        action="append",
        default=[],
        metavar="FILE",
        help="copy this ignored file of your checkout into the worktree, in addition to what workstreams.copy and "
        "workstreams.link in agentos.toml name; repeatable, globs are allowed",
    )
    add_json_option(new)
    add_project_option(new)
    rm = _verb(verbs, "rm", "remove a worktree and its branch; refuses to lose work", _remove)
    _add_slugs(rm)
    rm.add_argument("--force", action="store_true", help="remove even with uncommitted, unpushed or unmerged work")
    add_json_option(rm)
    add_project_option(rm)
    cleanup = _verb(
        verbs, "cleanup", "list workstreams that are merged, clean and not in use, ready to remove", _cleanup
    )
    cleanup.add_argument("--apply", action="store_true", help="remove them (default: only list them)")
    add_json_option(cleanup)
    add_project_option(cleanup)


def _add_running_verbs(verbs: _Verbs[argparse.ArgumentParser]) -> None:
    run = _verb(verbs, "run", "run workstreams in parallel, each in its own process", _run)
    _add_slugs(run)
    run_all = _verb(verbs, "run-all", "run every active workstream in parallel", _run_all)
    for parser in (run, run_all):
        parser.description = f"{parser.description}.\n\n{SHUTDOWN_HELP}"
        add_parallel_options(parser, "--max-concurrent", default=DEFAULT_PARALLELISM, things="workstreams")
        parser.add_argument(
            "--mode",
            choices=("execute", "analyze"),
            default="execute",
            help="execute designs and implements, analyze designs only (default: execute)",
        )
        parser.add_argument(
            "--steps",
            action="append",
            default=[],
            metavar="STEP",
            help="run only these stages (DESIGN, IMPLEMENTATION), or go no further than these nodes (like "
            "LLD.N1_design; with --graph, run only these nodes); repeatable, or separated by commas",
        )
        parser.add_argument(
            "--graph",
            metavar="SPEC",
            help="your own graph, MODULE:ATTR or PATH.py:ATTR; its state has slug, text, branch, base and worktree",
        )
        add_model_options(parser, has_coder=True)
        add_branch_options(parser)
        add_engine_options(parser)


def _add_looking_verbs(verbs: _Verbs[argparse.ArgumentParser]) -> None:
    for name, help_text, handler in (
        ("list", "list all workstreams with their state, distance from the base, size and last event", _list),
        ("status", "show everything about workstreams", _status),
    ):
        parser = _verb(verbs, name, help_text, handler)
        if name == "status":
            _add_slugs(parser)
        add_json_option(parser)
        add_project_option(parser)
    dashboard = _verb(verbs, "dashboard", "show a live table until Ctrl+C; in a pipe, print it once", _dashboard)
    add_project_option(dashboard)


def _add_state_verbs(verbs: _Verbs[argparse.ArgumentParser]) -> None:
    for name, help_text in (
        ("pause", "stop at the next node; a pause survives a restart"),
        ("resume", "make paused or failed workstreams active again; they continue from their checkpoint"),
        ("complete", "mark workstreams as done: nothing runs them again"),
    ):
        parser = _verb(verbs, name, help_text, _change)
        _add_slugs(parser)
        add_json_option(parser)
        add_project_option(parser)


def _add_lease_verbs(verbs: _Verbs[argparse.ArgumentParser]) -> None:
    lease = _verb(verbs, "lease", "reserve ports and names for a workstream, or list its reservations", _lease)
    lease.add_argument(
        "slugs",
        nargs="*",
        metavar="SLUG",
        help="workstreams; globs are allowed (default: list the reservations of all)",
    )
    lease.add_argument(
        "--port",
        dest="ports",
        action="append",
        nargs="?",
        const="PORT",
        default=[],
        metavar="VARIABLE",
        help="reserve a port that no other workstream has and nothing listens on; runs see it as VARIABLE "
        "(default: PORT); repeatable",
    )
    lease.add_argument(
        "--name",
        dest="names",
        action="append",
        default=[],
        metavar="VARIABLE",
        help="reserve a name that no other workstream has, for a database or a container; runs see it as VARIABLE",
    )
    release = _verb(verbs, "release", "release ports and names that a workstream has reserved", _release)
    release.add_argument("slugs", nargs=1, metavar="SLUG", help="a workstream, or a glob for several")
    release.add_argument("variables", nargs="*", metavar="VARIABLE", help="what to release (default: everything)")
    for parser in (lease, release):
        add_json_option(parser)
        add_project_option(parser)


def _project(arguments: argparse.Namespace) -> ProjectWorkstreams:
    from agentos.settings import load_settings
    from agentos.workstreams.commands import ProjectWorkstreams

    flags = setting_flags(arguments)
    return ProjectWorkstreams.open(
        project_from(arguments.project, Path.cwd()), lambda project_dir: load_settings(project_dir, flags=flags)
    )


def _new(arguments: argparse.Namespace, project: ProjectWorkstreams) -> int:
    from agentos.cli.ws_tables import made_json

    text = read_standard_input() if arguments.text == "-" else arguments.text
    made = project.new(arguments.slug, text, base=arguments.base, copy=arguments.copy)
    for provided in made.provided:
        if provided.problem:
            sys.stderr.write(f"Warning: {provided.path} left out: {provided.problem}\n")
    if arguments.json:
        say_json(made_json(made))
        return ExitCode.OK
    found = " (its worktree was there already)" if made.was_there else ""
    slug = made.workstream.slug
    say(f"{slug}: {made.workstream.branch} in {made.workstream.path}{found}")
    say(*(f"{slug}: {each.variable}={each.value}" for each in made.reservations))
    return ExitCode.OK


def _run(arguments: argparse.Namespace, project: ProjectWorkstreams) -> int:
    from agentos.cli import ws_run

    return ws_run.run_named(arguments, project)


def _run_all(arguments: argparse.Namespace, project: ProjectWorkstreams) -> int:
    from agentos.cli import ws_run

    return ws_run.run_all(arguments, project)


def _list(arguments: argparse.Namespace, project: ProjectWorkstreams) -> int:
    from agentos.cli import ws_tables
    from agentos.text.window import window_columns

    overviews = project.overview(sorted(project.refreshed()))
    if arguments.json:
        say_json([ws_tables.as_json(overview) for overview in overviews])
    elif overviews:
        say(*ws_tables.list_lines(overviews, window_columns()))
    else:
        say(f"No workstreams. `{Hint.NEW_WORKSTREAM.line()}` makes one.")
    return ExitCode.OK


def _status(arguments: argparse.Namespace, project: ProjectWorkstreams) -> int:
    from agentos.cli import ws_tables
    from agentos.workstreams.state import select_slugs

    slugs = select_slugs(arguments.slugs, project.refreshed())
    overviews = project.overview(slugs)
    entries = project.registry.history()
    histories = {slug: [entry for entry in entries if entry.get("slug") == slug] for slug in slugs}
    reservations = {slug: project.reservations.held(slug) for slug in slugs}
    if arguments.json:
        say_json(
            [
                ws_tables.as_json(each) | ws_tables.more_json(reservations[slug], histories[slug])
                for each in overviews
                if (slug := each.workstream.slug)
            ]
        )
        return ExitCode.OK
    for overview in overviews:
        slug = overview.workstream.slug
        say(*ws_tables.status_lines(overview, histories[slug][-_SHOWN_HISTORY:], reservations[slug]))
    return ExitCode.OK


def _dashboard(_: argparse.Namespace, project: ProjectWorkstreams) -> int:
    from agentos.cli import ws_dashboard

    return ws_dashboard.show(project)


def _change(arguments: argparse.Namespace, project: ProjectWorkstreams) -> int:
    from agentos.cli.ws_tables import state_json
    from agentos.errors import UsageError
    from agentos.workstreams.commands import choose_able
    from agentos.workstreams.state import Complete, Pause, Request, Resume
    from agentos.workstreams.wording import state_words

    requests: dict[str, Request] = {"pause": Pause(), "resume": Resume(), "complete": Complete()}
    request = requests[arguments.ws_verb]
    slugs, left = choose_able(project.refreshed(), arguments.slugs, request)
    sys.stderr.write("".join(f"Warning: skipped: {words}\n" for words in left))
    if not slugs:
        raise UsageError(f"no workstream to change: see `{Hint.LIST_WORKSTREAMS.line()}`")
    changed = project.apply(slugs, request)
    if arguments.json:
        say_json([{"slug": each.slug, **state_json(each.state)} for each in changed])
        return ExitCode.OK
    say(*(f"{each.slug}: {state_words(each.state)}" for each in changed))
    return ExitCode.OK


def _lease(arguments: argparse.Namespace, project: ProjectWorkstreams) -> int:
    from agentos.cli import ws_reservations

    return ws_reservations.lease(arguments, project)


def _release(arguments: argparse.Namespace, project: ProjectWorkstreams) -> int:
    from agentos.cli import ws_reservations

    return ws_reservations.release(arguments, project)


def _remove(arguments: argparse.Namespace, project: ProjectWorkstreams) -> int:
    from agentos.cli import ws_remove

    return ws_remove.remove(arguments, project)


def _cleanup(arguments: argparse.Namespace, project: ProjectWorkstreams) -> int:
    from agentos.cli import ws_remove

    return ws_remove.cleanup(arguments, project)

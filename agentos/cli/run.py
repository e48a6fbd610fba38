"""`agentos run`: any LangGraph graph over the items of a file."""

from __future__ import annotations

import argparse
import os
import re
import sys
from pathlib import Path

from agentos.cli import run_command
from agentos.cli.options import SHUTDOWN_HELP, add_engine_options, add_parallel_options, project_from
from agentos.cli.run_command import Work
from agentos.engine.plan import Item, parse_items, select
from agentos.errors import UsageError
from agentos.settings import load_settings
from agentos.workflows.registry import Workflow


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "run",
        help="run a LangGraph graph over many items",
        description="Run a LangGraph graph over many items, each in a process and with a checkpoint of its own.\n\n"
        + SHUTDOWN_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog='An items file has one JSON object per line: {"id": "a1", "input": {...}, "priority": 0, '
        '"depends_on": ["a0"]}.\nA state key "outcome" at the end of the graph becomes the item\'s outcome.',
    )
    parser.add_argument(
        "ids", nargs="*", metavar="ID", help="run only these items; globs like 'b*' too (default: all)"
    )
    parser.add_argument(
        "--graph",
        required=True,
        metavar="SPEC",
        help="MODULE:ATTR or PATH.py:ATTR: a StateGraph, or a function without arguments that returns one",
    )
    parser.add_argument(
        "--items", required=True, metavar="FILE", help="JSON Lines file of items; - for standard input"
    )
    add_parallel_options(parser)
    add_engine_options(parser)
    parser.set_defaults(handler=run)


def run(arguments: argparse.Namespace) -> int:
    project_dir = project_from(arguments.project, Path.cwd())
    workflow = graph_workflow(arguments.graph)
    plan, left = run_command.planned(arguments, select(_read_items(arguments.items), arguments.ids))
    return run_command.run(
        Work(
            arguments=arguments,
            workflow=workflow,
            project_dir=project_dir,
            settings=load_settings(project_dir),
            plan=plan,
            skipped=left,
        )
    )


def graph_workflow(spec: str) -> Workflow:
    """A user's graph, checked as far as can be seen without loading it."""
    _check_graph_spec(spec, Path.cwd())
    return Workflow(_workflow_name(spec), spec)


def _workflow_name(graph_spec: str) -> str:
    """The `{type}` of file names: `flows/review.py:graph` is `flows-review-graph`."""
    target, _, attribute = graph_spec.rpartition(":")
    name = re.sub(r"[^a-zA-Z0-9]+", "-", f"{target.removesuffix('.py')}-{attribute}").strip("-")
    return name[-64:].strip("-") or "graph"


def _check_graph_spec(spec: str, here: Path) -> None:
    """What can be seen without loading anything; loading it finds the rest."""
    target, colon, attribute = spec.rpartition(":")
    if not (colon and target and attribute):
        raise UsageError(f"--graph {spec!r}: expected MODULE:ATTR or PATH.py:ATTR, like flows/review.py:graph.")
    if not target.endswith(".py") and not all(target.split(".")):
        raise UsageError(f"--graph {spec!r}: {target!r} is no module. For a file, write PATH.py:ATTR.")
    if target.endswith(".py") and not (here / target).is_file():
        raise UsageError(f"--graph {spec!r}: no file {target!r} in {here}.")


def _read_items(name: str) -> list[Item]:
    try:
        text = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as error:
        raise UsageError(f"--items {name!r}: {error.strerror}.") from None
    source = "standard input" if name == "-" else os.path.basename(name)  # noqa: PTH119  Any string is fine here.
    try:
        # Not `splitlines`: a JSON string may hold a line separator of Unicode as it is.
        lines = re.split("\r\n|\n|\r", text.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = text[: error.start].count(b"\n") + 1
        raise UsageError(f"{source}, line {line}: not UTF-8 text.") from None
    items = parse_items(lines, source)
    if not items:
        raise UsageError(f"--items {name!r}: no items in it. Each line is an object with an id.")
    return items

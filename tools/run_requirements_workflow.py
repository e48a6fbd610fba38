"""Issues from briefs, or low-level designs from issues, many at once: a thin door to the commands (LLD-137)."""

from __future__ import annotations

from agentos.processes.stop_signals import as_program, leave_when_stopped

if __name__ == "__main__":  # Before the imports that take their time.
    leave_when_stopped()

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from cli_parallel_utils import WorkflowTask, add_parallel_arguments, run_work

from agentos.cli import issue, lld
from agentos.cli.main import guarded, open_standard_streams, parse
from agentos.cli.parsing import CommandParser
from agentos.engine.plan import Item
from agentos.paths import find_project_dir
from agentos.settings import Settings, load_settings
from agentos.workflows.document_paths import document_paths
from agentos.workflows.drafting.pending import find_briefs, find_llds
from agentos.workflows.pending import Wanted

COMMANDS = {"issue": issue.command(), "lld": lld.command()}
_FIND = {"issue": find_briefs, "lld": find_llds}


def parse_args(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """The flags: --type, and everything the console scripts take."""
    words = sys.argv[1:] if argv is None else list(argv)
    kind = argparse.ArgumentParser(add_help=False)
    kind.add_argument("--type", choices=tuple(COMMANDS), default="lld")
    command = COMMANDS[kind.parse_known_args([word for word in words if word not in ("-h", "--help")])[0].type]
    parser = CommandParser(prog="run_requirements_workflow.py")
    parser.add_argument(
        "--type", choices=tuple(COMMANDS), default="lld", help="what to write: issue or lld (default: lld)"
    )
    parser.set_defaults(script=__file__)
    add_parallel_arguments(parser)
    command.add_document_options(parser)
    return parse(parser, words)


def collect_pending_issues(input_dir: Path, kind: str = "lld") -> list[WorkflowTask]:
    """The pending items of a folder of Markdown files, in the order they would start."""
    project_dir = find_project_dir(input_dir.resolve())
    settings = load_settings(project_dir)
    name = "briefs" if kind == "issue" else "issues"
    settings = replace(settings, sources=replace(settings.sources, **{name: str(input_dir.resolve())}))
    return _tasks(project_dir, settings, kind, _FIND[kind](project_dir, settings, Wanted()).items)


def _tasks(project_dir: Path, settings: Settings, kind: str, items: Sequence[Item]) -> list[WorkflowTask]:
    return [
        WorkflowTask(
            issue_id=item.id,
            workflow_type="requirements",
            input_path=Path(str(item.input["origin"])),
            output_path=document_paths(project_dir, settings, kind, item.id)[0],
            status="pending",
        )
        for item in items
    ]


def run(args: argparse.Namespace) -> int:
    """Do what the flags say. Returns the exit code."""
    work = COMMANDS[args.type].prepare(args)
    return run_work(work, _tasks(work.project_dir, work.settings, args.type, work.plan.items))


def main(argv: Sequence[str] | None = None) -> int:
    open_standard_streams()
    args = parse_args(argv)
    return guarded(lambda: run(args))


if __name__ == "__main__":
    as_program(main)

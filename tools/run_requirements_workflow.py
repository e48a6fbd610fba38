"""Issues from briefs, or low-level designs from issues, many at once: a thin door to the commands (LLD-137)."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from cli_parallel_utils import (
    EngineBatch,
    WorkflowTask,
    add_parallel_arguments,
    create_parallel_config,
    display_dry_run_summary,
    execute_tasks_parallel,
)

from agentos.cli import issue, lld
from agentos.cli import run_command as drafting
from agentos.cli.main import guarded
from agentos.paths import find_project_dir
from agentos.settings import Settings, load_settings
from agentos.workflows.document_paths import document_paths
from agentos.workflows.drafting.pending import Pending, Wanted

COMMANDS = {"issue": issue.COMMAND, "lld": lld.COMMAND}


def parse_args(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """The flags: --type, and everything the console scripts take."""
    words = sys.argv[1:] if argv is None else list(argv)
    kind = argparse.ArgumentParser(add_help=False)
    kind.add_argument("--type", choices=tuple(COMMANDS), default="lld")
    command = COMMANDS[kind.parse_known_args([word for word in words if word not in ("-h", "--help")])[0].type]
    parser = argparse.ArgumentParser(prog="run_requirements_workflow.py")
    parser.add_argument(
        "--type", choices=tuple(COMMANDS), default="lld", help="what to write: issue or lld (default: lld)"
    )
    add_parallel_arguments(parser)
    drafting.add_document_options(parser, command)
    return parser.parse_args(words)


def collect_pending_issues(input_dir: Path, kind: str = "lld") -> list[WorkflowTask]:
    """The pending items of a folder of Markdown files, in the order they would start."""
    project_dir = find_project_dir(input_dir.resolve())
    settings = load_settings(project_dir)
    name = "briefs" if kind == "issue" else "issues"
    settings = replace(settings, sources=replace(settings.sources, **{name: str(input_dir.resolve())}))
    return _tasks(project_dir, settings, kind, COMMANDS[kind].find(project_dir, settings, Wanted()))


def _tasks(project_dir: Path, settings: Settings, kind: str, pending: Pending) -> list[WorkflowTask]:
    return [
        WorkflowTask(
            issue_id=item.id,
            workflow_type="requirements",
            input_path=Path(str(item.input["origin"])),
            output_path=document_paths(project_dir, settings, kind, item.id)[0],
            status="pending",
        )
        for item in pending.items
    ]


def run(args: argparse.Namespace) -> int:
    """Do what the flags say. Returns the exit code."""
    prepared = drafting.prepare(args, COMMANDS[args.type])
    args.parallel = prepared.parallel
    config = create_parallel_config(args)
    tasks = _tasks(prepared.project_dir, prepared.settings, args.type, prepared.pending)
    if config["dry_run"]:
        if args.json:
            return drafting.show_dry_run(prepared)
        display_dry_run_summary(tasks, args.type)
        return 0
    if not tasks:
        return drafting.say_nothing_to_do(prepared)
    batch = EngineBatch(lambda listener: drafting.launch(prepared, listener))
    return int(execute_tasks_parallel(tasks, config, batch)["exit_code"])


def main(argv: Sequence[str] | None = None) -> int:
    args = parse_args(argv)
    return guarded(lambda: run(args))


if __name__ == "__main__":
    sys.exit(main())

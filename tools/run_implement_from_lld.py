"""Branches with passing tests from approved designs, many at once: a thin door to `agentos implement` (LLD-137)."""

from __future__ import annotations

from agentos.processes.stop_signals import as_program, leave_when_stopped

if __name__ == "__main__":  # Before the imports that take their time.
    leave_when_stopped()

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from cli_parallel_utils import WorkflowTask, add_parallel_arguments, run_work

from agentos.cli import implement
from agentos.cli.main import guarded, open_standard_streams, parse
from agentos.cli.parsing import CommandParser
from agentos.engine.plan import Item
from agentos.paths import find_project_dir
from agentos.settings import Settings, load_settings
from agentos.workflows.document_paths import document_paths
from agentos.workflows.implementation.pending import WORKFLOW, Choices, find_designs
from agentos.workflows.pending import Wanted


def parse_args(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """The flags of `agentos implement`."""
    parser = CommandParser(prog="run_implement_from_lld.py")
    parser.set_defaults(script=__file__)
    add_parallel_arguments(parser)
    implement.COMMAND.add_document_options(parser)
    return parse(parser, argv)


def collect_pending_llds(lld_dir: Path) -> list[WorkflowTask]:
    """The approved designs of a folder that are not implemented yet, in the order they would start."""
    project_dir = find_project_dir(lld_dir.resolve())
    settings = load_settings(project_dir)
    folder = lld_dir.resolve().relative_to(project_dir).as_posix()
    settings = replace(settings, documents=replace(settings.documents, lld_dir=folder))
    return _tasks(project_dir, settings, find_designs(project_dir, settings, Wanted(), Choices()).items)


def _tasks(project_dir: Path, settings: Settings, items: Sequence[Item]) -> list[WorkflowTask]:
    return [
        WorkflowTask(
            issue_id=item.id,
            workflow_type="implementation",
            input_path=project_dir / str(item.input["lld_path"]),
            output_path=document_paths(project_dir, settings, WORKFLOW, item.id)[0],
            status="pending",
        )
        for item in items
    ]


def run(args: argparse.Namespace) -> int:
    """Do what the flags say. Returns the exit code."""
    work = implement.COMMAND.prepare(args)
    return run_work(work, _tasks(work.project_dir, work.settings, work.plan.items))


def main(argv: Sequence[str] | None = None) -> int:
    open_standard_streams()
    args = parse_args(argv)
    return guarded(lambda: run(args))


if __name__ == "__main__":
    as_program(main)

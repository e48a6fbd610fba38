"""What the workflow tools share: flags, configuration, the dry run and the execution of tasks (LLD-137)."""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol, TypedDict, runtime_checkable

from agentos.cli import run_command
from agentos.cli.options import add_parallel_options, capped
from agentos.cli.run_command import Work
from agentos.errors import ExitCode
from agentos.events import Event, ItemEnded, ItemStarted, Listener
from agentos.keys.credentials import load_credentials
from agentos.outcomes import Cause, item_exit_code
from agentos.paths import find_project_dir
from agentos.records.past import past_durations
from agentos.text.words import counted, duration
from agentos.workflows.parallel import CredentialCoordinator, ParallelCoordinator, sanitize_identifier


class WorkflowTask(TypedDict):
    """One item of a tool's batch."""

    issue_id: str
    workflow_type: str
    """`requirements` or `implementation`."""
    input_path: Path
    output_path: Path
    """Where the document goes. A task's executor writes to `temporary_path(task)`; success renames it."""
    status: str
    """`pending`, `running`, `completed` or `failed`."""


class ParallelConfig(TypedDict):
    """How a batch runs."""

    max_workers: int
    dry_run: bool
    credential_pool: list[str]
    """Names of the keys there are. Never their secrets: a configuration gets printed."""


@runtime_checkable
class BatchExecutor(Protocol):
    """An executor that takes the whole batch: the process engine, with checkpoints, isolation and a stop."""

    def run_batch(self, tasks: Sequence[WorkflowTask], config: ParallelConfig) -> dict[str, Any]:
        """Runs the tasks and returns what `execute_tasks_parallel` does."""
        ...


TaskExecutor = Callable[[WorkflowTask], Any]


def add_parallel_arguments(parser: argparse.ArgumentParser) -> None:
    """Add --parallel, --dry-run and --json."""
    add_parallel_options(parser, default=None)


def create_parallel_config(args: argparse.Namespace) -> ParallelConfig:
    """The configuration the flags ask for: one at a time unless told otherwise, at most ten."""
    max_workers, warnings = capped(args.parallel or 1)
    for warning in warnings:
        sys.stderr.write(f"Warning: {warning}\n")
    names = [credential.spec.name for credential in load_credentials().credentials]
    return ParallelConfig(max_workers=max_workers, dry_run=args.dry_run, credential_pool=names)


def execute_tasks_parallel(
    tasks: list[WorkflowTask], config: ParallelConfig, task_executor: TaskExecutor | BatchExecutor
) -> dict[str, Any]:
    """Run tasks side by side and say how they ended.

    A plain callable runs once per task, on a thread of this process; what it prints is prefixed with the task's id.
    It writes to `temporary_path(task)`: the file is renamed when the call returns and removed when it raises. With
    `dry_run` the tasks are listed and nothing is called. An executor with `run_batch` gets the batch and the config.
    Returns counts, the failed with their reasons, what is left for a later run, and the exit code.
    """
    for task in tasks:
        sanitize_identifier(task["issue_id"])
    if isinstance(task_executor, BatchExecutor):
        return task_executor.run_batch(tasks, config)
    if config["dry_run"]:
        display_dry_run_summary(tasks, _name_of(tasks))
        return _result(len(tasks), {}, [task["issue_id"] for task in tasks], ExitCode.OK)
    # Keys go by name: an executor that calls a model leases the secret itself, for the length of the call.
    keys = CredentialCoordinator(config["credential_pool"]) if config["credential_pool"] else None
    coordinator = ParallelCoordinator(config["max_workers"], keys)
    stats, results = coordinator.execute_parallel(
        tasks, lambda task, _key: _run_task(task, task_executor), lambda task: task["issue_id"]
    )
    failed = {result.item_id: result.error or result.error_type for result in results if not result.success}
    left = coordinator.get_checkpoints()
    for task in tasks:
        if task["issue_id"] in left:
            temporary_path(task).unlink(missing_ok=True)
    exit_code = ExitCode.INTERRUPTED if left else ExitCode.ITEM_FAILED if failed else ExitCode.OK
    return _result(stats.total, failed, left, exit_code)


class EngineBatch:
    """A batch executor over the process engine: `start` runs everything, tells its events, returns the exit code."""

    def __init__(self, start: Callable[[Listener], int]) -> None:
        self._start = start

    def run_batch(self, tasks: Sequence[WorkflowTask], config: ParallelConfig) -> dict[str, Any]:
        by_id = {task["issue_id"]: task for task in tasks}
        failed: dict[str, str] = {}
        left = dict.fromkeys(by_id)

        def note(event: Event) -> None:
            match event:
                case ItemStarted(item_id=item_id) if item_id in by_id:
                    by_id[item_id]["status"] = "running"
                case ItemEnded(item_id=item_id) if item_id in by_id:
                    by_id[item_id]["status"] = status = _status(event)
                    if status != "pending":
                        left.pop(item_id, None)
                    if status == "failed":
                        failed[item_id] = event.reason

        exit_code = self._start(note)
        return _result(len(by_id), failed, list(left), exit_code)


def run_work(work: Work, tasks: list[WorkflowTask]) -> int:
    """Show a command's work as tasks, or do it. Returns the exit code."""
    if work.arguments.dry_run:
        return run_command.preview(work)
    # The run itself warns of what is capped.
    config = create_parallel_config(argparse.Namespace(parallel=work.parallel, dry_run=False))
    batch = EngineBatch(lambda listener: run_command.run(work, listener))
    return int(execute_tasks_parallel(tasks, config, batch)["exit_code"])


def _name_of(tasks: Sequence[WorkflowTask]) -> str:
    return ", ".join(dict.fromkeys(task["workflow_type"] for task in tasks)) or "nothing"


def _status(end: ItemEnded) -> str:
    """A task whose item another run has is as pending as one that a stop left."""
    if end.outcome.is_left or end.cause is Cause.HELD:
        return "pending"
    is_failed = item_exit_code(end.outcome, end.cause) in (ExitCode.ITEM_FAILED, ExitCode.NO_USABLE_KEY)
    return "failed" if is_failed else "completed"


def _result(total: int, failed: dict[str, str], left: Sequence[str], exit_code: int) -> dict[str, Any]:
    return {
        "total": total,
        "completed": total - len(failed) - len(left),
        "failed": len(failed),
        "failed_items": dict(failed),
        "left": list(left),
        "exit_code": int(exit_code),
    }


def temporary_path(task: WorkflowTask) -> Path:
    """Where a task's executor writes: `{output_path}.tmp`."""
    return Path(f"{task['output_path']}.tmp")


def display_dry_run_summary(tasks: list[WorkflowTask], workflow_name: str) -> None:
    """Print what would run, in order: how many, which ids, from and to which files."""
    count = counted(len(tasks), "task")
    sys.stdout.write(f"Dry run mode: {count} of {workflow_name}. Nothing is started or written.\n")
    for number, task in enumerate(tasks, start=1):
        sys.stdout.write(f"  {number}. {task['issue_id']}  {task['input_path']} -> {task['output_path']}\n")
    past = past_durations(find_project_dir(Path.cwd()), workflow_name)
    if tasks and past:
        work = duration(statistics.fmean(past) * len(tasks))
        sys.stdout.write(f"Estimate: about {work} of work, from {counted(len(past), 'past item')}.\n")


def _run_task(task: WorkflowTask, execute: TaskExecutor) -> None:
    task["status"] = "running"
    unfinished = temporary_path(task)
    try:
        execute(task)
        if unfinished.exists():
            unfinished.replace(task["output_path"])
    except BaseException:
        task["status"] = "failed"
        unfinished.unlink(missing_ok=True)
        raise
    task["status"] = "completed"

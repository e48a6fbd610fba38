"""`agentos ws run` and `run-all`: workstreams on the process engine."""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from agentos.cli import branches as merging
from agentos.cli import dry_run
from agentos.cli.options import capped
from agentos.cli.run import check_graph_spec, workflow_name
from agentos.cli.run_command import choose_models
from agentos.cli.ws_tables import result_lines
from agentos.engine.plan import Plan, make_plan
from agentos.errors import ExitCode, UsageError
from agentos.outcomes import PAUSED
from agentos.processes import host
from agentos.settings import load_settings
from agentos.text.window import window_columns
from agentos.workflows.implementation.pending import Conflicts, find_conflicts
from agentos.workflows.issue.filing import TOKEN_VARIABLES
from agentos.workstreams.batch import Batch, Result
from agentos.workstreams.commands import ProjectWorkstreams, choose_able
from agentos.workstreams.registry import this_process
from agentos.workstreams.stages import (
    IMPLEMENTATION,
    Route,
    choose_route,
    find_work,
    graph_items,
)
from agentos.workstreams.state import Active, Start, Workstream

if TYPE_CHECKING:
    from agentos.launch import RunRequest


_COMMIT = re.compile(r"[0-9a-f]{40,64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Prepared:
    """What a run would do. Nothing has been started or written."""

    plan: Plan
    workflow: str
    graph: str
    route: Route
    skipped: Sequence[tuple[str, str]] = ()
    """Workstreams with nothing to do, and why."""
    conflicts: Conflicts | None = None
    """How the workstreams get in each other's way; None where no design is implemented."""


def run_named(arguments: argparse.Namespace, project: ProjectWorkstreams) -> int:
    """`ws run SLUG|GLOB …`."""
    workstreams = project.refreshed()
    chosen, left = choose_able(workstreams, arguments.slugs, Start("", this_process()))
    _note(f"left alone: {words}" for words in left)
    if not chosen:
        raise UsageError("no workstream to run: see `agentos ws list`")
    return _run(arguments, project, [workstreams[slug] for slug in chosen])


def run_all(arguments: argparse.Namespace, project: ProjectWorkstreams) -> int:
    """`ws run-all`: the active ones."""
    active = [each for _, each in sorted(project.refreshed().items()) if each.state == Active()]
    if not active:
        stream = sys.stderr if arguments.json else sys.stdout
        stream.write('No active workstreams. `agentos ws new SLUG "text"` makes one.\n')
        return ExitCode.OK
    return _run(arguments, project, active)


def _run(arguments: argparse.Namespace, project: ProjectWorkstreams, chosen: Sequence[Workstream]) -> int:
    parallel, warnings = capped(arguments.parallel)
    chosen = [project.with_living_base(each) for each in chosen]
    prepared = _prepare(arguments, project, chosen)
    if arguments.dry_run:
        _note(warnings)
        return _show_dry_run(arguments, project, prepared, parallel)
    if not prepared.plan.items:
        _note(f"{slug}: {why}" for slug, why in prepared.skipped)
        _finish_branches(arguments, project, prepared, chosen)
        return ExitCode.OK
    environment = _environment(arguments, project)
    for workstream in chosen:
        if workstream.path is None:
            project.restore_worktree(workstream)
    prepared = replace(prepared, plan=_with_leases(prepared.plan, project))
    slugs = [item.id for item in prepared.plan.items]
    batch = Batch(
        project.registry,
        project.repository,
        slugs,
        nodes=prepared.route.nodes,
        completes=prepared.route.completes,
    )
    warnings += [f"{slug} left alone: {why}" for slug, why in prepared.skipped]
    if prepared.conflicts is not None:
        warnings += merging.overlap_warnings(prepared.conflicts, "", is_allowed=arguments.allow_overlap)
    try:
        exit_code = batch.run(_request(arguments, project, prepared, parallel, warnings, environment))
    finally:
        project.end_leases()
    _tell(batch.results(), as_json=arguments.json)
    if exit_code != ExitCode.INTERRUPTED:
        _finish_branches(arguments, project, prepared, chosen)
    return exit_code


def _show_dry_run(
    arguments: argparse.Namespace, project: ProjectWorkstreams, prepared: _Prepared, parallel: int
) -> int:
    conflicts = prepared.conflicts
    return dry_run.show(
        prepared.plan,
        prepared.workflow,
        project.project_dir,
        parallel=parallel,
        fresh=arguments.fresh,
        as_json=arguments.json,
        skipped=prepared.skipped,
        notes=merging.dry_run_notes(conflicts, "") if conflicts else (),
        details=merging.dry_run_details(conflicts) if conflicts else None,
    )


def _finish_branches(
    arguments: argparse.Namespace, project: ProjectWorkstreams, prepared: _Prepared, chosen: Sequence[Workstream]
) -> None:
    """Say how the branches merge, and publish them if asked to: those implemented before too."""
    if prepared.conflicts is None:
        return
    run = merging.CodeRun(
        project_dir=project.project_dir,
        settings=project.settings,
        titles=merging.titles_of(prepared.plan, prepared.skipped),
        # A branch that was made from a bare commit is merged into whatever the user is on.
        bases={each.slug: each.base for each in chosen if not _COMMIT.fullmatch(each.base)},
        pushes=arguments.push,
        opens_pull_requests=arguments.pr,
        is_json=arguments.json,
    )
    merging.show_branches(run, prepared.conflicts.merge_order)
    merging.publish_all(run)


def _prepare(arguments: argparse.Namespace, project: ProjectWorkstreams, chosen: Sequence[Workstream]) -> _Prepared:
    route = choose_route(arguments.mode, arguments.steps)
    if (arguments.push or arguments.pr) and (arguments.graph or not route.completes):
        raise UsageError("--push and --pr publish what is implemented: leave them out, or use --mode execute")
    if arguments.graph:
        return _prepare_graph(arguments.graph, project, chosen, route)
    workflow = route.workflow()
    work = find_work(chosen, route, project.project_dir, project.settings, fresh=arguments.fresh)
    plan = make_plan(work.items)
    conflicts = find_conflicts(plan) if route.completes else None
    if conflicts is not None and not arguments.allow_overlap:
        # Designs that change the same file wait for each other: their branches would not merge.
        plan = replace(plan, exclusive=conflicts.rivals())
    return _Prepared(
        plan=plan,
        workflow=workflow.name,
        graph=workflow.graph,
        route=route,
        skipped=work.skipped,
        conflicts=conflicts,
    )


def _with_leases(plan: Plan, project: ProjectWorkstreams) -> Plan:
    """Each item with the ports and names of its workstream, also those declared since it was made."""
    items = []
    for item in plan.items:
        project.lease(item.id)
        items.append(replace(item, environment={**item.environment, **project.leases.environment(item.id)}))
    return replace(plan, items=tuple(items))


def _prepare_graph(graph: str, project: ProjectWorkstreams, chosen: Sequence[Workstream], route: Route) -> _Prepared:
    """A user's own graph is all there is to do for a workstream."""
    check_graph_spec(graph, Path.cwd())
    # A worktree that is missing now is made again, at its usual place, before the run.
    placed = [replace(each, path=each.path or project.repository.path_for(each.slug)) for each in chosen]
    return _Prepared(
        plan=make_plan(graph_items(placed)),
        workflow=workflow_name(graph),
        graph=graph,
        route=Route((IMPLEMENTATION,), route.nodes),
    )


def _environment(arguments: argparse.Namespace, project: ProjectWorkstreams) -> dict[str, str]:
    """The workers' environment: flags as variables. Raises NoUsableKeyError before anything starts."""
    environment = {name: value for name, value in os.environ.items() if name not in TOKEN_VARIABLES}
    flags = {
        "AGENTOS_DRAFTER": arguments.drafter,
        "AGENTOS_REVIEWER": arguments.reviewer,
        "AGENTOS_CODER": arguments.coder,
        "AGENTOS_MAX_ROUNDS": arguments.max_rounds,
        "AGENTOS_IMPLEMENTATION__MAX_ROUNDS": arguments.max_rounds,
        "AGENTOS_IMPLEMENTATION__COMMITS": arguments.commits,
    }
    environment |= {name: str(value) for name, value in flags.items() if value}
    if arguments.graph:
        return environment
    drafter, reviewer = choose_models(load_settings(project.project_dir, environment))
    return environment | {"AGENTOS_DRAFTER": drafter, "AGENTOS_REVIEWER": reviewer}


def _request(
    arguments: argparse.Namespace,
    project: ProjectWorkstreams,
    prepared: _Prepared,
    parallel: int,
    warnings: Sequence[str],
    environment: Mapping[str, str],
) -> RunRequest:
    from agentos.launch import RunRequest  # noqa: PLC0415  A dry run needs none of it.

    models = [environment.get(name, "") for name in ("AGENTOS_DRAFTER", "AGENTOS_REVIEWER", "AGENTOS_CODER")]
    return RunRequest(
        plan=prepared.plan,
        workflow=prepared.workflow,
        graph=prepared.graph,
        project_dir=project.project_dir,
        search_dir=Path.cwd() if arguments.graph else project.project_dir,
        parallel=parallel,
        timeout_seconds=arguments.timeout_seconds,
        stall_seconds=arguments.stall_seconds,
        retries=arguments.retry,
        fresh=arguments.fresh,
        fork=arguments.start_method == "forkserver" and host.CAN_FORK_SAFELY,
        budget_usd=arguments.budget,
        max_wait_seconds=arguments.max_wait,
        resume_command=_resume_command(arguments, prepared.plan),
        warnings=warnings,
        environment=environment,
        preload_providers=None if arguments.graph else [model.partition(":")[0] for model in models],
        is_json=arguments.json,
    )


def _resume_command(arguments: argparse.Namespace, plan: Plan) -> str:
    words = ["agentos", "ws", "run", *(item.id for item in plan.items)]
    if arguments.graph:
        words += ["--graph", arguments.graph]
    elif arguments.mode != "execute":
        words += ["--mode", arguments.mode]
    for step in arguments.steps:
        words += ["--steps", step]
    return shlex.join(words)


def _tell(results: Sequence[Result], *, as_json: bool) -> None:
    if as_json:
        sys.stdout.write("".join(json.dumps(result.as_json()) + "\n" for result in results))
        return
    lines = result_lines(results, window_columns())
    paused = [result.slug for result in results if result.outcome == PAUSED and result.exit_code]
    if paused:
        names = shlex.join(paused)
        lines.append(f"Paused ones go on with: agentos ws resume {names} && agentos ws run {names}")
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


def _note(texts: Iterable[str]) -> None:
    for text in texts:
        sys.stderr.write(f"Warning: {text}\n")

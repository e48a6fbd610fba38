"""`agentos ws run` and `run-all`: workstreams on the process engine."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from agentos.cli import run_command
from agentos.cli.branches import with_branches
from agentos.cli.resume import command_line, resume_template
from agentos.cli.run import graph_workflow
from agentos.cli.run_command import StartRun, Work
from agentos.cli.ws_tables import result_lines
from agentos.engine.plan import Plan
from agentos.errors import ExitCode, UsageError
from agentos.events import Listener
from agentos.hints import Hint
from agentos.outcomes import AS_ASKED, PAUSED
from agentos.reporters.resume_line import resume_line
from agentos.text.window import window_columns
from agentos.text.words import listed
from agentos.workflows.implementation.branch import folder_of
from agentos.workflows.implementation.pending import open_work
from agentos.workflows.implementation.records import read_record
from agentos.workstreams.commands import ProjectWorkstreams, choose_able
from agentos.workstreams.registry import this_process
from agentos.workstreams.run import WorkstreamResult, WorkstreamRun
from agentos.workstreams.stages import IMPLEMENTATION, Found, Route, choose_route, find_work, graph_items
from agentos.workstreams.state import Active, Completed, Failed, Paused, TakeUp, Workstream, status_word

if TYPE_CHECKING:
    from agentos.launch.request import RunRequest

_COMMIT = re.compile(r"[0-9a-f]{40,64}")


def run_named(arguments: argparse.Namespace, project: ProjectWorkstreams) -> int:
    """`ws run SLUG|GLOB …`."""
    workstreams = project.refreshed()
    chosen, left = choose_able(workstreams, arguments.slugs, TakeUp("", this_process()))
    sys.stderr.write("".join(f"Warning: skipped: {words}\n" for words in left))
    if not chosen:
        raise UsageError(f"no workstream to run: see `{Hint.LIST_WORKSTREAMS.line()}`")
    named = [slug for slug in chosen if slug in arguments.slugs]
    return run_command.run(_work(arguments, project, [workstreams[slug] for slug in chosen], named=named))


def run_all(arguments: argparse.Namespace, project: ProjectWorkstreams) -> int:
    """`ws run-all`: the active ones. Others that are not completed are named, with what runs them."""
    workstreams = [each for _, each in sorted(project.refreshed().items())]
    active = [each for each in workstreams if each.state == Active()]
    others = _not_active(arguments, workstreams)
    if active:
        work = _work(arguments, project, active)
        return run_command.run(replace(work, warnings=[*work.warnings, *others]))
    stream = sys.stderr if arguments.json else sys.stdout
    more = others or [f"`{Hint.NEW_WORKSTREAM.line()}` makes one."]
    stream.write("".join(f"{line}\n" for line in ["No active workstreams.", *more]))
    return ExitCode.OK


def _not_active(arguments: argparse.Namespace, workstreams: Iterable[Workstream]) -> list[str]:
    """Which workstreams `run-all` does not take although they are not done, and how to run them."""
    again = resume_template(arguments, verb="run")
    resume = resume_template(arguments, verb="resume", kept=("project",))
    by_state: dict[str, list[Workstream]] = {"failed": [], "paused": []}
    for each in workstreams:
        if isinstance(each.state, Failed | Paused):
            by_state[status_word(each.state)].append(each)
    lines = []
    for word, templates in (("failed", [again]), ("paused", [resume, again])):
        if slugs := [each.slug for each in by_state[word]]:
            commands = " && ".join(resume_line(template, slugs, arguments.budget) for template in templates)
            lines.append(
                f"not active, {word}: {listed(slugs)}. To run {'it' if len(slugs) == 1 else 'them'}: {commands}"
            )
    return lines


def _work(
    arguments: argparse.Namespace,
    project: ProjectWorkstreams,
    chosen: Sequence[Workstream],
    *,
    named: Collection[str] = (),
) -> Work:
    """What a run would do. Nothing has been started or written."""
    chosen = [project.with_living_base(each) for each in chosen]
    route = choose_route(arguments.mode, arguments.steps, is_own_graph=bool(arguments.graph))
    if (arguments.push or arguments.pr) and (arguments.graph or not route.completes):
        raise UsageError("--push and --pr publish what is implemented: leave them out, or use --mode execute")
    if arguments.graph:
        # A user's own graph is all there is to do for a workstream.
        route = Route((IMPLEMENTATION,), route.nodes)
        # A worktree that is missing now is made again, at its usual place, before the run.
        placed = [replace(each, path=each.path or project.repository.path_for(each.slug)) for each in chosen]
        found = Found(tuple(graph_items(placed, folder_of(project.project_dir, project.repository))))
    else:
        found = find_work(chosen, route, project.project_dir, project.settings, fresh=arguments.fresh, named=named)
    unfinished = _unfinished(project, is_own_graph=bool(arguments.graph))
    if route.completes:
        found = found.without_unmet(unfinished, named)
    plan, left = run_command.planned(arguments, found.items)
    work = Work(
        arguments=arguments,
        workflow=graph_workflow(arguments.graph, project.project_dir)
        if arguments.graph
        else replace(route.workflow(), label_prefix=""),
        project_dir=project.project_dir,
        settings=project.settings,
        plan=plan,
        noun="workstream",
        skipped=(*found.skipped, *left),
        warnings=found.warnings,
        resume_verb="run",
        further={"mode": "execute", "steps": []},
        open_work=unfinished,
        start=_starter(arguments, project, chosen, route),
    )
    if arguments.graph or not route.completes:
        return work
    # A branch that was made from a bare commit is merged into whatever the user is on.
    return with_branches(work, {each.slug: each.base for each in chosen if not _COMMIT.fullmatch(each.base)})


def _unfinished(project: ProjectWorkstreams, *, is_own_graph: bool) -> set[str]:
    """What others cannot build on yet: workstreams and, for our own workflows, issues and designs without code.

    A design stays when its workstream is removed: without its branch it is open again.
    """
    known = project.registry.workstreams()
    completed = {slug for slug, each in known.items() if each.state == Completed()}
    begun = {slug for slug in known if slug not in completed and read_record(project.project_dir, slug) is None}
    documents = set() if is_own_graph else open_work(project.project_dir, project.settings)
    return begun | (documents - completed)


def _starter(
    arguments: argparse.Namespace, project: ProjectWorkstreams, chosen: Sequence[Workstream], route: Route
) -> StartRun:
    """Workstreams are there before their run begins, and change their state with it."""

    def start(request: RunRequest, listener: Listener | None) -> int:
        for workstream in chosen:
            if workstream.path is None:
                project.restore_worktree(workstream)
        plan = _with_reservations(request.plan, project)
        slugs = [item.id for item in plan.items]
        run = WorkstreamRun(project.registry, project.repository, slugs, nodes=route.nodes, completes=route.completes)
        try:
            exit_code = run.run(replace(request, plan=plan), listener)
        finally:
            project.end_reservations()
        _tell(arguments, run.results(), project)
        return exit_code

    return start


def _with_reservations(plan: Plan, project: ProjectWorkstreams) -> Plan:
    """Each item with the ports and names of its workstream, also those declared since it was made."""
    items = []
    for item in plan.items:
        project.reserve(item.id)
        items.append(replace(item, environment={**item.environment, **project.reservations.environment(item.id)}))
    return replace(plan, items=tuple(items))


def _held_lines(
    arguments: argparse.Namespace, results: Sequence[WorkstreamResult], project: ProjectWorkstreams
) -> list[str]:
    """How to go on with those that were held: somebody paused them, or the chosen steps ended."""
    held = [result.slug for result in results if result.outcome in (PAUSED, AS_ASKED)]
    known = project.registry.workstreams() if held else {}
    paused = [slug for slug in held if slug in known and isinstance(known[slug].state, Paused)]
    ended = [slug for slug in held if slug in known and known[slug].state == Active()]
    lines = []
    if paused:
        resume = resume_template(arguments, verb="resume", kept=("project",))
        commands = [resume_line(resume, paused), command_line(arguments, paused, verb="run")]
        lines.append(f"Resume the paused ones with: {' && '.join(commands)}")
    if ended:
        lines.append(f"To go further: {command_line(arguments, ended, verb='run', steps=[])}")
    return lines


def _tell(arguments: argparse.Namespace, results: Sequence[WorkstreamResult], project: ProjectWorkstreams) -> None:
    if arguments.json:
        sys.stdout.write("".join(json.dumps(result.as_json()) + "\n" for result in results))
        return
    lines = [*result_lines(results, window_columns()), *_held_lines(arguments, results, project)]
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()

"""Runs of code and their branches: which get in each other's way, which merge cleanly, which are published."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentos.cli.output import say, shown
from agentos.cli.run_command import Work
from agentos.documents.approval import REHEARSER
from agentos.engine.plan import Plan
from agentos.errors import AgentosError, UsageError
from agentos.hints import Hint
from agentos.sandbox.isolation import Isolation
from agentos.settings import Settings
from agentos.workflows.context import ALLOW_UNSANDBOXED_VARIABLE, Context
from agentos.workflows.implementation.pending import Conflicts, find_conflicts
from agentos.workflows.implementation.records import Implemented, read_record
from agentos.workflows.pending import Reason, ReasonKind

if TYPE_CHECKING:
    from agentos.git.worktrees import Repository
    from agentos.workflows.implementation.publishing import Publication


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeRun:
    """What a run of code is about, as far as its branches are concerned."""

    project_dir: Path
    settings: Settings
    conflicts: Conflicts
    titles: Mapping[str, str]
    """What every chosen item is about, including those that were implemented before."""
    bases: Mapping[str, str]
    """What items are to be merged into that have a base of their own."""
    label_prefix: str
    pushes: bool
    opens_pull_requests: bool
    is_json: bool
    allows_unsandboxed: bool

    def record(self, item_id: str) -> Implemented | None:
        return read_record(self.project_dir, item_id)

    def base(self, item_id: str) -> str:
        return self.bases.get(item_id, self.settings.implementation.base)


def with_branches(work: Work, bases: Mapping[str, str] | None = None) -> Work:
    """Work on code: items that change the same file run one after the other; branches are told and published."""
    arguments, prefix = work.arguments, work.workflow.label_prefix
    conflicts = find_conflicts(work.plan)
    run = CodeRun(
        project_dir=work.project_dir,
        settings=work.settings,
        conflicts=conflicts,
        titles=_titles(work.plan, work.skipped),
        bases=bases or {},
        label_prefix=prefix,
        pushes=arguments.push,
        opens_pull_requests=arguments.pr,
        is_json=arguments.json,
        allows_unsandboxed=arguments.allow_unsandboxed,
    )
    how = (
        "run at the same time all the same (--allow-overlap)"
        if arguments.allow_overlap
        else "do not run at the same time"
    )
    overlapping = [f"{line}: they {how}" for line in conflicts.words(prefix)]
    added = [
        f"{line}: that keeps nobody waiting, and the merge is tried" for line in conflicts.additions_in_words(prefix)
    ]
    sandbox_warnings, sandbox_notices = _sandbox_words(work)
    return replace(
        work,
        environment={**work.environment, **_allowances(work)},
        plan=work.plan if arguments.allow_overlap else replace(work.plan, exclusive=conflicts.rivals()),
        warnings=[
            *sandbox_warnings,
            *work.warnings,
            *([] if arguments.dry_run else overlapping),
        ],
        notices=[*sandbox_notices, *work.notices, *([] if arguments.dry_run else added)],
        notes=[*_dry_run_notes(conflicts, prefix), *work.notes],
        details=_dry_run_details(conflicts),
        check=lambda: _check_publishing(run),
        close=lambda: _close(run),
    )


def _allowances(work: Work) -> dict[str, str]:
    return {ALLOW_UNSANDBOXED_VARIABLE: "1"} if work.arguments.allow_unsandboxed else {}


def _sandbox_words(work: Work) -> tuple[list[str], list[str]]:
    """Where the code of this run runs, as a warning or as a notice.

    Raises UsageError where there is no sandbox and nobody allowed it.
    """
    if work.arguments.dry_run or not work.plan.items:
        return [], []
    from agentos.sandbox.sandbox import chosen_isolation, readable_paths  # noqa: PLC0415  A dry run tries no sandbox.

    chosen = work.settings.implementation
    isolation = chosen_isolation(chosen.sandbox, allow_none=work.arguments.allow_unsandboxed)
    readable = readable_paths(work.project_dir, chosen.readable)
    also = f"; may also read {', '.join(map(str, readable))}" if readable else ""
    line = f"Sandbox: {isolation.words()}{also}"
    return ([line], []) if isolation is Isolation.NONE else ([], [line])


def _titles(plan: Plan, skipped: Sequence[tuple[str, Reason]]) -> dict[str, str]:
    """Titles of a plan's items and of those left out of it because they are implemented."""
    titles = {item.id: str(item.input["title"]) for item in plan.items}
    return titles | {item_id: f"LLD-{item_id}" for item_id, why in skipped if why.kind is ReasonKind.IMPLEMENTED}


def _dry_run_notes(conflicts: Conflicts, label_prefix: str) -> list[str]:
    """What a dry run says about overlaps, in lines for people."""
    notes = [f"Overlap: {line}" for line in conflicts.words(label_prefix)]
    notes += [f"Additions: {line}" for line in conflicts.additions_in_words(label_prefix)]
    if len(conflicts.merge_order) > 1:
        notes.append(f"Merge order: {', '.join(f'{label_prefix}{item_id}' for item_id in conflicts.merge_order)}")
    return notes


def _dry_run_details(conflicts: Conflicts) -> dict[str, Any]:
    """The same as fields of a JSON document."""
    overlaps = [
        {"items": [each.first, each.second], "files": list(each.files), "added_to": list(each.added_to)}
        for each in conflicts.overlaps
    ]
    return {"overlaps": overlaps, "merge_order": list(conflicts.merge_order)}


def _close(run: CodeRun) -> None:
    """Say which items change the same file and how the branches merge, and publish them if asked to."""
    # It was said before the items' output; there it is out of sight.
    if lines := [f"Overlap: {line}" for line in run.conflicts.words(run.label_prefix)]:
        say(*lines, to_stderr=run.is_json)
    _show_branches(run)
    _publish_all(run)


def _show_branches(run: CodeRun) -> None:
    """Say of every branch that this run's items left whether it merges after those before it."""
    by_base: dict[str, dict[str, Implemented]] = {}
    for item_id in run.conflicts.merge_order:
        record = run.record(item_id)
        if record and record.is_rehearsal:
            say(f"{record.branch} is a rehearsal by the offline model: nothing to merge.", to_stderr=run.is_json)
        elif record:
            by_base.setdefault(run.base(item_id), {})[item_id] = record
    for base, records in by_base.items():
        say(*_merge_lines(run, base, records), to_stderr=run.is_json)


def _merge_lines(run: CodeRun, base: str, records: Mapping[str, Implemented]) -> list[str]:
    from agentos.git.merge_check import check_merges  # noqa: PLC0415
    from agentos.workflows.implementation.branch import open_repository  # noqa: PLC0415  Not for a dry run.

    repository = open_repository(run.project_dir, run.settings)
    checks = check_merges(repository, base, [record.branch for record in records.values()])
    clean = [check.branch for check in checks if check.is_clean]
    together = _together(run, repository, base, clean)
    into = "the current branch" if base == "HEAD" else base
    lines = [f"Branches, in the order to merge them into {into}:"]
    for (item_id, record), check in zip(records.items(), checks, strict=True):
        if check.is_clean:
            words = f"merges cleanly{together.get(record.branch, '')}"
        elif check.conflicts:
            words = f"conflicts in {', '.join(_explained(check.conflicts, run.conflicts.all_added_to))}"
        else:
            words = f"not tried: {check.problem}"
        lines.append(f"  {run.label_prefix}{item_id}  {record.branch}  {words}")
    first = next(iter(records.values()))
    lines.append(
        f"To look at the first: {Hint.SHOW_BRANCH.line(repository=shown(run.project_dir), branch=first.branch)}"
    )
    if checks[0].is_clean and base == "HEAD":
        lines.append(f"To merge it: {Hint.MERGE.line(repository=shown(run.project_dir), branch=first.branch)}")
    return lines


def _together(run: CodeRun, repository: Repository, base: str, branches: Sequence[str]) -> dict[str, str]:
    """What the project's tests say of each branch once those before it are merged, after a comma."""
    commit = repository.git.resolve(base)
    if len(branches) < 2 or commit is None:
        return {}
    from agentos.workflows.implementation.merge_trial import try_together  # noqa: PLC0415  Not for a dry run.

    say(f"Testing {len(branches)} branches, merged one after the other.", to_stderr=run.is_json)
    try:
        context = Context(
            project_dir=run.project_dir, settings=run.settings, allows_unsandboxed=run.allows_unsandboxed
        )
        found = try_together(context, commit, branches)
    except AgentosError as error:
        return dict.fromkeys(branches, f", tests not run: {error}")
    return {branch: f", {each.words()}" for branch, each in found.items()}


def _explained(paths: Sequence[str], added_to: Collection[str]) -> list[str]:
    return [f"{path} (both add to it: keep both sides)" if path.casefold() in added_to else path for path in paths]


def _check_publishing(run: CodeRun) -> None:
    """Raises UsageError when what is asked for could not be done after the run."""
    if run.pushes or run.opens_pull_requests:
        if run.settings.models.who_codes == REHEARSER:
            raise UsageError(
                "--push and --pr publish work; the offline model only rehearses it: choose another --coder."
            )
        from agentos.workflows.implementation import publishing  # noqa: PLC0415  Loads the GitHub client.
        from agentos.workflows.implementation.branch import open_repository  # noqa: PLC0415

        repository = open_repository(run.project_dir, run.settings)
        publishing.check_remote(repository, opens_pull_requests=run.opens_pull_requests)


def _publish_all(run: CodeRun) -> None:
    """Push and open pull requests, if asked to, for every chosen item that is implemented, in this run or before."""
    if not (run.pushes or run.opens_pull_requests):
        return
    from agentos.workflows.implementation import publishing  # noqa: PLC0415  Loads the GitHub client.
    from agentos.workflows.implementation.branch import folder_of, open_repository  # noqa: PLC0415

    repository = open_repository(run.project_dir, run.settings)
    folder = folder_of(run.project_dir, repository)
    reports_dir = f"{folder}/{run.settings.documents.reports_dir}".lstrip("/")
    problems: list[AgentosError] = []
    for item_id, title in run.titles.items():
        record = run.record(item_id)
        if record is None:
            continue
        if record.is_rehearsal:
            problems.append(AgentosError(f"{record.branch} is a rehearsal and is not published."))
            continue
        publication = publishing.Publication(item_id, record.title or title, record)
        try:
            say(*_published(run, repository, publication, reports_dir), to_stderr=run.is_json)
        except UsageError:
            raise
        except AgentosError as problem:
            # One branch that cannot be published is no reason to keep the others back.
            problems.append(problem)
    if problems:
        raise AgentosError(" ".join(str(problem) for problem in problems))


def _published(run: CodeRun, repository: Repository, publication: Publication, reports_dir: str) -> list[str]:
    """Publish one branch. What was done, in words."""
    from agentos.workflows.implementation import publishing  # noqa: PLC0415

    branch = publication.record.branch
    if run.opens_pull_requests and (address := publishing.closed_pull_request(repository, publication)):
        return [f"  {branch} had the pull request {address}, which is closed and is not reopened"]
    publishing.push(repository, publication)
    lines = [f"  {branch} is pushed"]
    if run.opens_pull_requests:
        address = publishing.open_pull_request(repository, publication, reports_dir)
        lines.append(f"  {branch} has the pull request {address}")
    return lines

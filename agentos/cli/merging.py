"""After a run of code: which branches merge cleanly and in which order; pushes and pull requests."""

from __future__ import annotations

import sys

from agentos.cli.drafting import Prepared
from agentos.settings import Settings
from agentos.workflows.implementation.pending import Conflicts
from agentos.workflows.implementation.records import Implemented, read_record


def show_branches(prepared: Prepared, conflicts: Conflicts) -> None:
    """Say of every branch that this run's items left whether it merges after those before it."""
    from agentos.workflows.implementation.branch import open_repository  # noqa: PLC0415  Not for a dry run.
    from agentos.workstreams.merge_check import check_merges  # noqa: PLC0415

    records = {item_id: record for item_id in conflicts.merge_order if (record := _record(prepared, item_id))}
    if not records:
        return
    repository = open_repository(prepared.project_dir, prepared.settings)
    base = prepared.settings.implementation.base
    checks = check_merges(repository, base, [record.branch for record in records.values()])
    lines = [f"Branches, in an order to merge them into {_base_words(prepared.settings)}:"]
    for (item_id, record), check in zip(records.items(), checks, strict=True):
        if check.is_clean:
            words = "merges cleanly"
        elif check.conflicts:
            words = f"conflicts in {', '.join(check.conflicts)}"
        else:
            words = f"not tried: {check.problem}"
        lines.append(f"  {prepared.workflow.label_prefix}{item_id}  {record.branch}  {words}")
    _say(prepared, lines)


def _base_words(settings: Settings) -> str:
    base = settings.implementation.base
    return "the current branch" if base == "HEAD" else base


def _record(prepared: Prepared, item_id: str) -> Implemented | None:
    return read_record(prepared.project_dir, item_id)


def publish_all(prepared: Prepared) -> None:
    """Push and open pull requests, if asked to, for every chosen item that is implemented, in this run or before."""
    arguments = prepared.arguments
    if not (arguments.push or arguments.pr):
        return
    from agentos.workflows.implementation import publishing  # noqa: PLC0415  Loads the GitHub client.
    from agentos.workflows.implementation.branch import open_repository  # noqa: PLC0415
    from agentos.workflows.implementation.workplace import folder_of  # noqa: PLC0415

    repository = open_repository(prepared.project_dir, prepared.settings)
    reports_dir = f"{folder_of(prepared.project_dir, repository)}/{prepared.settings.documents.reports_dir}".lstrip(
        "/"
    )
    titles = {item.id: str(item.input["title"]) for item in prepared.pending.items}
    skipped = [item_id for item_id, reason in prepared.pending.skipped if reason.startswith("implemented")]
    for item_id in (*titles, *skipped):
        record = _record(prepared, item_id)
        if record is None:
            continue
        publication = publishing.Publication(item_id, titles.get(item_id, f"LLD-{item_id}"), record)
        publishing.push(repository, publication)
        lines = [f"  {record.branch} is pushed"]
        if arguments.pr:
            address = publishing.open_pull_request(repository, publication, reports_dir)
            lines.append(f"  {record.branch} has the pull request {address}")
        _say(prepared, lines)


def _say(prepared: Prepared, lines: list[str]) -> None:
    stream = sys.stderr if prepared.arguments.json else sys.stdout
    stream.write("\n".join(lines) + "\n")
    stream.flush()

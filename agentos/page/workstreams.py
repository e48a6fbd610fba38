"""Workstreams of the projects that runs tell of: what `ws list` knows, what overlaps, and how the branches merge."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from agentos.dashboard.payload import notice, project_name
from agentos.errors import AgentosError
from agentos.git.merge_check import MergeCheck, check_merges
from agentos.hints import Hint
from agentos.page.documents import is_folder
from agentos.paths import workstreams_dir
from agentos.settings import load_settings
from agentos.text.words import one_line
from agentos.workflows.implementation.overlap import find_overlaps, merge_order
from agentos.workstreams.commands import Overview, ProjectWorkstreams
from agentos.workstreams.state import Completed, Failed
from agentos.workstreams.under_way import current_nodes, run_of_workstream
from agentos.workstreams.wording import last_event_words, size_words, state_words

_KINDS = {"running": "run", "pausing": "wait", "paused": "wait", "completed": "good", "failed": "bad"}


def workstreams_document(project_dirs: Iterable[str]) -> dict[str, Any]:
    """Blocking: asks git."""
    projects = [_project(Path(folder)) for folder in project_dirs if _has_workstreams(Path(folder))]
    command = Hint.NEW_WORKSTREAM.line()
    return {
        "projects": projects,
        "notice": None if projects else notice("There are no workstreams.", "Make one in a project:", command),
    }


def _has_workstreams(project_dir: Path) -> bool:
    return is_folder(project_dir) and workstreams_dir(project_dir).is_dir()


def _project(project_dir: Path) -> dict[str, Any]:
    document: dict[str, Any] = {
        "project": one_line(project_name(str(project_dir)), longest=80),
        "project_dir": one_line(str(project_dir)),
        "workstreams": [],
        "overlaps": [],
        "merge_order": [],
        "problem": "",
    }
    try:
        project = ProjectWorkstreams.open(project_dir, load_settings)
        overviews = project.overview(sorted(project.refreshed()), with_size=True)
        nodes = current_nodes(overviews)
        document["workstreams"] = [_row(each, nodes) for each in overviews]
        changes = _changes(project, overviews)
        document["overlaps"] = [
            {
                "first": each.first,
                "second": each.second,
                "words": each.words(),
                "files": [*each.files, *each.added_to],
            }
            for each in find_overlaps(changes)
        ]
        document["merge_order"] = _merges(project, overviews, changes)
    except AgentosError as error:
        document["problem"] = one_line(str(error))
    return document


def _row(overview: Overview, nodes: Mapping[str, str]) -> dict[str, Any]:
    workstream = overview.workstream
    words = state_words(workstream.state)
    reason = workstream.state.reason if isinstance(workstream.state, Failed) else ""
    return {
        "slug": workstream.slug,
        "state": words,
        "words": one_line(f"{words}: {reason}" if reason else words),
        "kind": _KINDS.get(words, "dim"),
        "branch": one_line(workstream.branch),
        "head": overview.head[:12],
        "base": one_line(workstream.base),
        "ahead": overview.ahead,
        "behind": overview.behind,
        "changes": len(overview.unsaved.uncommitted) if overview.unsaved else 0,
        "size": size_words(overview.size_bytes),
        "last_event": last_event_words(workstream),
        "text": one_line(workstream.text),
        "run": run_of_workstream(overview) or None,
        "node": one_line(nodes.get(workstream.slug, ""), longest=80),
    }


def _changes(project: ProjectWorkstreams, overviews: Iterable[Overview]) -> dict[str, tuple[str, ...]]:
    """Files that the branch of each open workstream changes."""
    found = {}
    for each in overviews:
        workstream = each.workstream
        if isinstance(workstream.state, Completed) or not each.ahead:
            continue
        range_ = f"{workstream.base}...{workstream.branch}"
        names = project.repository.git.text("diff", "--name-only", "-z", "--no-renames", "--end-of-options", range_)
        found[workstream.slug] = tuple(name for name in names.split("\0") if name)
    return found


def _merges(
    project: ProjectWorkstreams, overviews: Iterable[Overview], changes: Mapping[str, tuple[str, ...]]
) -> list[dict[str, Any]]:
    """In an order to merge them, each tried after those before it, by what they are to be merged into."""
    known = {each.workstream.slug: each.workstream for each in overviews}
    by_base: dict[str, list[str]] = {}
    for slug in merge_order(changes):
        by_base.setdefault(known[slug].base, []).append(slug)
    rows = []
    for base, slugs in by_base.items():
        checks = check_merges(project.repository, base, [known[slug].branch for slug in slugs])
        rows += [_merge_row(slug, check) for slug, check in zip(slugs, checks, strict=True)]
    return rows


def _merge_row(slug: str, check: MergeCheck) -> dict[str, Any]:
    words = "merges cleanly" if check.is_clean else f"conflicts in {', '.join(check.conflicts)}"
    if check.problem is not None:
        words = f"not tried: {check.problem}"
    return {
        "slug": slug,
        "branch": check.branch,
        "words": one_line(words),
        "kind": "good" if check.is_clean else "bad",
    }

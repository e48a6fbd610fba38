"""Where running workstreams are, from the records of their runs."""

from __future__ import annotations

from collections.abc import Sequence

from agentos.dashboard.fold import view_of
from agentos.dashboard.view import RunView
from agentos.paths import runs_dir
from agentos.records.runs import is_live, read_audit
from agentos.workstreams.commands import Overview
from agentos.workstreams.state import Running


def current_nodes(overviews: Sequence[Overview]) -> dict[str, str]:
    """What each of the running ones does now, by slug; empty when it does nothing."""
    run_of = {each.workstream.slug: run_id for each in overviews if (run_id := run_of_workstream(each))}
    views = {run_id: _view(run_id) for run_id in sorted(set(run_of.values()))}
    return {slug: _node(views[run_id], slug) for slug, run_id in run_of.items()}


def run_of_workstream(overview: Overview) -> str:
    """The run that has it; empty when none does."""
    state = overview.workstream.state
    return state.run_id if isinstance(state, Running) else ""


def _view(run_id: str) -> RunView:
    run_dir = runs_dir() / run_id
    return view_of(read_audit(run_dir), is_live=is_live(run_dir))


def _node(view: RunView, slug: str) -> str:
    return view.items[slug].node if slug in view.items else ""

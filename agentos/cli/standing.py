"""How a run stands, from its record: what `runs show` and `ctl` tell, in the words of the page and the live block."""

from __future__ import annotations

from pathlib import Path

from agentos.clock import utc_now
from agentos.dashboard.fold import view_of
from agentos.dashboard.status_lines import count_lines, status_lines
from agentos.records.past import past_durations
from agentos.records.runs import is_live, read_audit
from agentos.text.window import window_columns


def standing_lines(run_dir: Path, *, with_counts: bool) -> list[str]:
    """The run in a line, what is under way, what needs somebody; with what has ended and what has not started."""
    view = view_of(read_audit(run_dir), is_live=is_live(run_dir), now=utc_now())
    past = past_durations(Path(view.project_dir), view.workflow, view.models) if view.project_dir else []
    lines = status_lines(view, window_columns(), past)
    return [*lines, *count_lines(view)] if with_counts else lines

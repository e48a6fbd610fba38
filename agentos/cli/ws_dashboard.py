"""`agentos ws dashboard`: a table of all workstreams, live on a terminal, once in a pipe."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from agentos.cli.ws_tables import DASHBOARD_EXPENDABLE, dashboard_rows
from agentos.errors import ExitCode
from agentos.text.table import narrowed, table_lines
from agentos.text.window import window_columns
from agentos.workstreams.commands import ProjectWorkstreams
from agentos.workstreams.under_way import current_nodes

if TYPE_CHECKING:
    from rich.table import Table

_REFRESH_SECONDS = 1.0
_SIZES_EVERY = 30
"""Walking big worktrees takes longer than all the rest: sizes are looked at every so many refreshes."""
_COLOURS = {"running": "cyan", "pausing": "yellow", "paused": "yellow", "completed": "green", "failed": "red"}


def show(project: ProjectWorkstreams) -> int:
    """On a terminal until Ctrl+C, which is the way out and no error."""
    if not sys.stdout.isatty():
        lines = table_lines(_Watch(project).rows(), window_columns(), expendable=DASHBOARD_EXPENDABLE)
        sys.stdout.write("".join(f"{line}\n" for line in lines))
        return ExitCode.OK
    from rich.console import Console  # noqa: PLC0415  Only for a terminal.
    from rich.live import Live  # noqa: PLC0415

    watch = _Watch(project)
    try:
        with Live(_table(watch.rows()), console=Console(), screen=True, auto_refresh=False) as live:
            while True:
                time.sleep(_REFRESH_SECONDS)
                live.update(_table(watch.rows()), refresh=True)
    except KeyboardInterrupt:
        return ExitCode.OK


class _Watch:
    """Looks again and again, without measuring again what hardly changes."""

    def __init__(self, project: ProjectWorkstreams) -> None:
        self._project = project
        self._looks = 0
        self._sizes: dict[str, int | None] = {}

    def rows(self) -> list[tuple[str, ...]]:
        measures = self._looks % _SIZES_EVERY == 0
        self._looks += 1
        overviews = self._project.overview(sorted(self._project.refreshed()), with_size=measures)
        if measures:
            self._sizes = {each.workstream.slug: each.size_bytes for each in overviews}
        sized = [replace(each, size_bytes=self._sizes.get(each.workstream.slug)) for each in overviews]
        return dashboard_rows(sized, current_nodes(overviews))


def _table(rows: Sequence[Sequence[str]]) -> Table:
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    # Two columns are the table's own margin.
    headings, *body = narrowed(rows, window_columns() - 2, DASHBOARD_EXPENDABLE)
    table = Table(box=None, header_style="bold", caption="Ctrl+C closes the table; nothing is stopped")
    for heading in headings:
        table.add_column(heading, no_wrap=True, overflow="ellipsis")
    for row in body:
        style = _COLOURS.get(row[1], "")
        # Text, not markup: what a branch or a reason contains is shown as it is.
        table.add_row(*(Text(cell, style=style if column == 1 else "") for column, cell in enumerate(row)))
    return table

"""Designs of workstreams, for the commands on designs: what they are written from is in no folder of issues."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from agentos.paths import workstreams_dir
from agentos.settings import Settings
from agentos.sources import SourceItem
from agentos.workflows.pending import Pending, Wanted
from agentos.workflows.pipeline.pending import find_designs_alone


def find_designs(project_dir: Path, settings: Settings, wanted: Wanted) -> Pending:
    """Issues that need a design. A workstream's is written by `ws run`: here only one that is there begins again."""
    if wanted.begins_with_document or wanted.is_fresh:
        wanted = replace(wanted, also=named_workstreams(project_dir, wanted.patterns))
    return find_designs_alone(project_dir, settings, wanted)


def named_workstreams(project_dir: Path, names: Sequence[str]) -> Sequence[SourceItem]:
    """The texts of the workstreams among these names, as issues."""
    if not names or not workstreams_dir(project_dir).parent.is_dir():
        return ()
    from agentos.workstreams.stages import issues_named  # noqa: PLC0415  Most projects have no workstreams.

    return issues_named(project_dir, names)

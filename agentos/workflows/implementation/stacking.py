"""Which branches an item starts from because they change the same files: what is merged before it anyway."""

from __future__ import annotations

from pathlib import Path

from agentos.documents.lld import parse_lld
from agentos.git.worktrees import BRANCH_PREFIX, branch_of
from agentos.settings import Settings
from agentos.workflows.implementation.overlap import find_overlaps
from agentos.workflows.implementation.pending import read_designs, why_implemented
from agentos.workflows.implementation.records import branch_prefix, read_record
from agentos.workflows.pending import ReasonKind


def stacks_on(item_id: str, project_dir: Path, settings: Settings) -> tuple[str, ...]:
    """Implemented designs that change a file which this one changes too: their branches come before its own.

    Not those that are built on this one's branch themselves.
    """
    if settings.implementation.stacking == "no":
        return ()
    designs = {design.id: design for design in read_designs(project_dir, settings)}
    listed = {design_id: parse_lld(design.input["lld_text"]) for design_id, design in designs.items()}
    overlaps = find_overlaps(
        {design_id: each.listed_files for design_id, each in listed.items()},
        {design_id: each.added_to for design_id, each in listed.items()},
    )
    pairs = [(overlap.first, overlap.second) for overlap in overlaps if overlap.files]
    rivals = [second if first == item_id else first for first, second in pairs if item_id in (first, second)]
    return tuple(
        rival
        for rival in rivals
        if (done := why_implemented(designs[rival], project_dir, settings)) is not None
        and done.kind is ReasonKind.IMPLEMENTED
        and not _comes_after(rival, item_id, project_dir)
    )


def _comes_after(rival: str, item_id: str, project_dir: Path) -> bool:
    """Whether a rival's branch was begun on the item's own, by way of others or not."""
    own = branch_of(f"{branch_prefix(project_dir)}{item_id}")
    record = read_record(project_dir, rival)
    for _ in range(100):
        if record is None or record.base == own:
            return record is not None
        slug = record.base.removeprefix(BRANCH_PREFIX).removeprefix(branch_prefix(project_dir))
        record = read_record(project_dir, slug) if record.base.startswith(BRANCH_PREFIX) else None
    return True

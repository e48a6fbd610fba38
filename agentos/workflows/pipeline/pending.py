"""Which issues a pipeline run would take, and from which stage on. Reads files; starts and writes nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

from agentos.engine.checkpoints import store_for
from agentos.engine.checkpoints.protocol import ItemRef
from agentos.engine.plan import Item, input_hash
from agentos.hints import Hint
from agentos.settings import Settings
from agentos.sources import natural_key
from agentos.workflows import model_options
from agentos.workflows.drafting.pending import find_llds, without_unready
from agentos.workflows.implementation.pending import (
    open_work,
    read_designs,
    why_implemented,
    why_needs_revision,
    without_unmet,
)
from agentos.workflows.implementation.records import branch_prefix
from agentos.workflows.item_names import issue_files, item_named
from agentos.workflows.pending import Pending, Reason, ReasonKind, Wanted

_HAS_DESIGN: Final = (ReasonKind.APPROVED, ReasonKind.REHEARSED_ALREADY)


def find_items(project_dir: Path, settings: Settings, wanted: Wanted) -> Pending:
    """Issues that need a design, and approved designs that are not implemented."""
    issues = find_llds(project_dir, settings, wanted)
    ids = [*(item.id for item in issues.items), *(item_id for item_id, _ in issues.skipped)]
    named = [item_named(text, ids, lambda: issue_files(project_dir, settings)) for text in wanted.patterns]
    designs = {design.id: design for design in read_designs(project_dir, settings)}
    prefix = branch_prefix(project_dir)
    # What `agentos lld` left unfinished is continued there: a second design of it would be paid for twice.
    begun = set() if wanted.is_fresh else {i.id for i in issues.items if _is_begun(project_dir, i.id)}
    items = [from_issue(item, prefix) for item in issues.items if item.id not in begun]
    reasons = dict(issues.reasons)
    models = model_options.of_run(project_dir, settings.models) if begun else ""
    skipped = [(item_id, _left_to(item_id, "lld", models)) for item_id in sorted(begun, key=natural_key)]
    for item_id, reason in issues.skipped:
        design = designs.get(item_id) if reason.kind in _HAS_DESIGN else None
        done = _why_done(design, project_dir, settings) if design else reason
        if design is None or done:
            skipped.append((item_id, done or reason))
            continue
        item = from_design(design)
        if _began_otherwise(project_dir, item):
            skipped.append((item_id, _designed_apart(item_id, model_options.of_run(project_dir, settings.models))))
            continue
        items.append(item)
        is_approved = reason.kind is ReasonKind.APPROVED
        reasons[item_id] = Reason(ReasonKind.DESIGNED if is_approved else ReasonKind.DESIGNED_IN_REHEARSAL)
    in_order = sorted(items, key=lambda item: natural_key(item.id))
    found = Pending(tuple(in_order), reasons, tuple(skipped), issues.warnings)
    return without_unmet(found, open_work(project_dir, settings), named=named)


def find_designs_alone(project_dir: Path, settings: Settings, wanted: Wanted) -> Pending:
    """Issues that need a design, for a run that stops there. What a pipeline has begun is continued there."""
    found = find_llds(project_dir, settings, wanted)
    if wanted.is_fresh or wanted.begins_with_document:
        return found
    prefix = branch_prefix(project_dir)
    begun = {item.id for item in found.items if _is_continued_by_pipeline(project_dir, from_issue(item, prefix))}
    if not begun:
        return found
    models = model_options.of_run(project_dir, settings.models)
    return without_unready(
        replace(
            found,
            items=tuple(item for item in found.items if item.id not in begun),
            skipped=(*found.skipped, *((i, _left_to(i, "pipeline", models)) for i in sorted(begun, key=natural_key))),
        )
    )


def _is_begun(project_dir: Path, item_id: str) -> bool:
    store = store_for(project_dir)
    return store.exists(ItemRef("lld", item_id)) and not store.exists(ItemRef("pipeline", item_id))


def _is_continued_by_pipeline(project_dir: Path, item: Item) -> bool:
    """A pipeline was stopped on this very issue: it would continue, and its design is not in its place yet."""
    found = store_for(project_dir).peek(ItemRef("pipeline", item.id))
    return found is not None and not found.is_untouched and found.input_hash == input_hash(item.input)


def _began_otherwise(project_dir: Path, item: Item) -> bool:
    """What a pipeline left of it began without this design, and cannot continue with it."""
    found = store_for(project_dir).peek(ItemRef("pipeline", item.id))
    return found is not None and not found.is_untouched and found.input_hash != input_hash(item.input)


def _left_to(item_id: str, workflow: str, models: str) -> Reason:
    continues = Hint.CONTINUE.line(workflow=workflow, item=item_id, options=models)
    kind = ReasonKind.DESIGN_UNFINISHED if workflow == "lld" else ReasonKind.PIPELINE_UNFINISHED
    return Reason(kind, further=f"continue it first: {continues}")


def _designed_apart(item_id: str, models: str) -> Reason:
    """Starting over would replace an approved design: its code is another command's."""
    continues = Hint.CONTINUE.line(workflow="implement", item=item_id, options=models)
    return Reason(ReasonKind.DESIGNED_APART, further=f"implement it: {continues}")


def _why_done(design: Item, project_dir: Path, settings: Settings) -> Reason | None:
    if store_for(project_dir).exists(ItemRef("pipeline", design.id)):
        return why_implemented(design, project_dir, settings)
    return why_implemented(design, project_dir, settings) or why_needs_revision(design, project_dir)


def from_issue(issue: Item, prefix: str = "") -> Item:
    """An item that begins with its design."""
    later = {"lld_path": "", "lld_text": "", "depends_on": list(issue.depends_on), "branch_prefix": prefix}
    return replace(issue, input={**issue.input, **later})


def from_design(design: Item) -> Item:
    """An item whose design is approved: it begins with its code."""
    return replace(design, input={**dict.fromkeys(("source_text", "source_hash", "origin"), ""), **design.input})

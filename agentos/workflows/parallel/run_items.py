"""The items of a `ParallelRunConfig`: what the project has under these ids, and which of them are done already."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from agentos.engine.plan import Item
from agentos.settings import Settings
from agentos.text.identifiers import sanitize_identifier
from agentos.workflows.drafting.pending import find_briefs, find_llds
from agentos.workflows.implementation.pending import Choices, find_designs
from agentos.workflows.pending import Pending, ReasonKind, Wanted
from agentos.workflows.pipeline.pending import find_items
from agentos.workflows.registry import Workflow

_FIND: dict[str, Callable[[Path, Settings, Wanted], Pending]] = {
    "lld": find_llds,
    "issue": find_briefs,
    "implementation": partial(find_designs, choices=Choices()),
    "pipeline": find_items,
}
_DONE = frozenset(
    {
        ReasonKind.APPROVED,
        ReasonKind.IMPLEMENTED,
        ReasonKind.MERGED,
        ReasonKind.DESIGN_APPROVED,
        ReasonKind.REHEARSED_ON,
        ReasonKind.REHEARSED_ALREADY,
    }
)


@dataclass(frozen=True, slots=True)
class RunItems:
    """What a run is to do, in the order asked for."""

    ids: tuple[str, ...]
    """Everything that was asked for, each once."""
    items: tuple[Item, ...]
    done: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def find_run_items(
    workflow: Workflow,
    ids: Sequence[str],
    inputs: Mapping[str, dict[str, Any]],
    project_dir: Path,
    settings: Settings,
) -> RunItems:
    """Items of a registered workflow come from the project, those of a graph from `inputs`.

    Raises UsageError for ids that the project does not have.
    """
    wanted = tuple(dict.fromkeys(sanitize_identifier(i).removeprefix(workflow.label_prefix) for i in ids))
    is_registered = bool(workflow.models)
    given = {i: Item(id=i, input=inputs.get(i, {})) for i in wanted if i in inputs or not is_registered}
    sought = [item_id for item_id in wanted if item_id not in given]
    if not sought:
        return RunItems(wanted, tuple(given.values()))
    found = _FIND[workflow.name](project_dir, settings, Wanted(patterns=sought))
    items = {**given, **{item.id: item for item in found.items}}
    left = [(item_id, reason) for item_id, reason in found.skipped if reason.kind not in _DONE]
    return RunItems(
        ids=wanted,
        items=tuple(items[item_id] for item_id in wanted if item_id in items),
        done=tuple(item_id for item_id, reason in found.skipped if reason.kind in _DONE),
        warnings=(
            *found.warnings,
            *(f"{workflow.label_prefix}{item_id} skipped: {reason}" for item_id, reason in left),
        ),
    )

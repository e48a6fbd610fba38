"""What an item starts from: its checkpoint if that is its own and whole, its input otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from agentos.engine.checkpoints.protocol import CheckpointStore, CheckpointUnusable, ItemCheckpoint, ItemRef
from agentos.engine.plan import work_hash
from agentos.errors import CannotContinueError


class InputChanged(CannotContinueError):
    """The item has a checkpoint that belongs to another input, context or configuration."""


@dataclass(frozen=True, slots=True)
class Opened:
    """An item's checkpoint, and what to run it with."""

    checkpoint: ItemCheckpoint
    initial_state: dict[str, Any] | None
    """None resumes."""
    notice: str = ""
    """What a user should know: an earlier checkpoint is not resumed from."""


def open_item(
    store: CheckpointStore,
    ref: ItemRef,
    item_input: dict[str, Any],
    options: Mapping[str, Any] = MappingProxyType({}),
    *,
    fresh: bool = False,
) -> Opened:
    """Open the item's checkpoint, in its worker. Raises InputChanged when it must not be resumed from.

    `options` are the item's, see `Item`.
    """
    if fresh:
        store.remove(ref)
    checkpoint, notice = _open_usable(store, ref)
    fingerprint, known = work_hash(item_input, options), checkpoint.standing.input_hash
    if known is not None and known != fingerprint:
        checkpoint.close()
        changed = "input" if known.partition("+")[0] != fingerprint.partition("+")[0] else "context or configuration"
        if not checkpoint.standing.is_untouched:
            raise InputChanged(
                f"the {changed} has changed since this item's checkpoint was made. "
                "Run with --fresh to start over, or restore what it began with to resume."
            )
        # Made ready by a run that was killed, or stopped in its first node: the old input has left nothing to keep.
        store.remove(ref)
        checkpoint, notice = store.open(ref), f"the {changed} has changed; nothing was done with the old one"
        known = None
    if known is None:
        checkpoint.begin(fingerprint)
    return Opened(checkpoint, None if checkpoint.has_steps else item_input, notice)


def _open_usable(store: CheckpointStore, ref: ItemRef) -> tuple[ItemCheckpoint, str]:
    try:
        return store.open(ref), ""
    except CheckpointUnusable as error:
        kept = store.keep_aside(ref, error.kind)
        return store.open(ref), f"{error}; set aside as {kept}, starting over"

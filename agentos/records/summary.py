"""What `summary.json` holds: how a run and each of its items ended.

Reading trusts nothing: a value of the wrong type gives no summary, never an error.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from agentos.outcomes import Cause, Outcome, counts_by_name
from agentos.records.values import WrongShape, values_of

SUMMARY_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemSummary:
    """How one item ended."""

    id: str
    outcome: Outcome
    cause: Cause = Cause.OTHER
    reason: str = ""
    seconds: float = 0.0
    attempts: int = 1
    log: str = ""
    """A file in the run's folder."""
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0
    cluster_node: str = ""
    """The machine that it was on last; empty where there is only one."""

    def to_document(self) -> dict[str, Any]:
        """Plain values for JSON."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return values | {"outcome": self.outcome.name, "cause": self.cause.value}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """What `summary.json` holds."""

    version: int = SUMMARY_VERSION
    run: str
    workflow: str = ""
    project_dir: str = ""
    label_prefix: str = ""
    resume_command: str = ""
    """Empty when the same command has nothing left to do."""
    folder: str = ""
    """Where the user was: its commands are typed there."""
    start_over_command: str = ""
    """For items that cannot be continued."""
    models: tuple[str, ...] = ()
    """What it was to call, as far as was known before it started."""
    started: str = ""
    ended: str = ""
    """Empty as long as the run has not ended."""
    total: int = 0
    wall_seconds: float = 0.0
    item_seconds: float = 0.0
    working_seconds: float | None = None
    """`item_seconds` without waiting for keys and being suspended; None where it was not measured."""
    speed_up: float = 0.0
    """How many times longer the items' work would have taken one after another; 0 when unknown or not finished."""
    counts: Mapping[Outcome, int] = field(default_factory=dict)
    exit_code: int | None = None
    left: tuple[str, ...] = ()
    items: tuple[ItemSummary, ...] = ()

    def to_document(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {**self._without_items(), "items": [item.to_document() for item in self.items]}

    def to_json(self) -> str:
        """The same as text, with a line per item: of thousands, one at a time is a document."""
        head = json.dumps(self._without_items(), indent=1).removesuffix("\n}")
        items = ",\n  ".join(json.dumps(item.to_document()) for item in self.items)
        return f'{head},\n "items": [{items}]\n}}\n'

    def _without_items(self) -> dict[str, Any]:
        document = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "items"}
        return {**document, "counts": counts_by_name(self.counts)}


def parse_summary(text: bytes, *, with_items: bool = True) -> RunSummary | None:
    """The other side of `RunSummary.to_document`; None if it is damaged. Without items it is much faster."""
    try:
        values = values_of(RunSummary, json.loads(text))
        items = values.pop("items", []) if with_items else []
        return RunSummary(**{**values, "items": tuple(ItemSummary(**values_of(ItemSummary, item)) for item in items)})
    except (ValueError, OverflowError, RecursionError, WrongShape):
        return None

"""What is known of a run before it starts. A dry run shows it, and has no use for the events of a run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PreflightDone:
    """What the run has to work with, as far as is known before it starts."""

    models: tuple[str, ...] = ()
    """Empty: only the graph knows."""
    keys: tuple[str, ...] = ()
    """Names of the keys that can serve these models."""
    key_providers: tuple[str, ...] = ()
    """Of each of the keys, whose it is; in their order."""
    key_groups: tuple[str, ...] = ()
    """Of each of the keys, the group that it shares its limits with; its own name where it shares them with none."""
    expected_cost_usd: float | None = None
    """None when no past run tells."""
    past_items: int = 0
    """How many items of past runs the cost is judged by."""
    day_budget_usd: float | None = None
    """What everything with this home may spend in a UTC day; None without such a cap."""
    spent_today_usd: float = 0.0
    """Of that: spent or reserved."""

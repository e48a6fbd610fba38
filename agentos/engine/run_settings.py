"""What a run is told before it starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentos.engine.item_watch import TimeLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """What a run needs to know. Everything has been checked."""

    run_id: str
    workflow: str
    """The `{type}` of file names."""
    project_dir: Path
    parallel: int = 1
    time_limits: TimeLimits
    retries: int = 0
    fresh: bool = False
    batch: tuple[str, ...] = ()
    """All items that belong together, when the plan may be some of them."""
    graph_options: Mapping[str, Any] = field(default_factory=dict)
    """How workers run the graph, beside what an item says of itself; plain data."""
    label_prefix: str = ""
    resume_command: str = ""
    folder: str = ""
    """Where the user was."""
    budget_usd: float | None = None
    python: str = ""
    """What workers run under, when that is not what we run under."""

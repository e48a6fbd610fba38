"""What a run is told before it starts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

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
    label_prefix: str = ""
    resume_command: str = ""
    budget_usd: float | None = None

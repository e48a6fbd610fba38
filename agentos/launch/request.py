"""What a command decides about a run, and what the engine is told of that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentos.engine.done_notes import StillDone, always
from agentos.engine.interpreter import Interpreter
from agentos.engine.item_run import HoldNode, hold_nothing
from agentos.engine.item_watch import TimeLimits
from agentos.engine.plan import Plan
from agentos.engine.run_settings import RunSettings
from agentos.keys.credentials import CredentialSet
from agentos.paths import store_path
from agentos.preflight import PreflightDone
from agentos.reporters.output_mode import OutputMode
from agentos.reporters.resume_line import with_run_dir
from agentos.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """Everything a command decides about a run."""

    plan: Plan
    workflow: str
    graph: str
    project_dir: Path
    search_dir: Path
    settings: Settings
    """Read once, by the command: workers are sent these."""
    environment: Mapping[str, str]
    """The user's, with what the command adds to it."""
    parallel: int = 1
    timeout_seconds: float = 1800.0
    stall_seconds: float = 60.0
    retries: int = 0
    fresh: bool = False
    start_method: str = "forkserver"
    """How workers are made, as `--start-method` calls it."""
    budget_usd: float | None = None
    max_wait_seconds: float | None = None
    label_prefix: str = ""
    resume_command: str = ""
    """What resumes it, with places for what only its end tells: see `reporters.resume_line`."""
    piped_input: str = ""
    """What came through standard input: kept with the run's records, where the line that resumes it finds it."""
    preflight: PreflightDone | None = None
    """What was found before the start, to be told first."""
    notices: Sequence[str] = ()
    """What to tell before the first item starts; nothing of it is wrong."""
    warnings: Sequence[str] = ()
    credentials: CredentialSet | None = None
    """Keys to use instead of the user's own."""
    secrets: Sequence[str] = ()
    """What workers may know beside keys, and nobody may see."""
    needed_models: Sequence[str] = ()
    """Without one of these no item can be done."""
    preload_providers: Sequence[str] | None = None
    """Providers this run will call; None when only the graph knows."""
    hold_node: HoldNode = hold_nothing
    """Asked before each node; an item that it holds resumes later."""
    still_done: StillDone = always
    """Asked of each item that an earlier run of the batch noted as done."""
    is_quiet: bool = False
    """For callers with a listener of their own: nothing on the console."""
    batch: Sequence[str] = ()
    """All items that belong together, in the order of the input, when the plan may be some of them."""
    hands_out_results: bool = False
    """Keep what each item's graph came to, for `runs result`."""
    results_target: Path | None = None
    """Where else results go; `-` is standard output, which then carries nothing else."""
    results_in_order: bool = False
    """Of the input."""
    graph_options: Mapping[str, Any] = field(default_factory=dict)
    """How workers run the graph; plain data."""
    pass_env: Sequence[str] = ()
    """Variables that workers get though they hold keys."""
    python: Interpreter | None = None
    """What workers run under; None is what we run under."""
    output_mode: OutputMode | None = None
    """What the console tells; None is what suits the terminal."""
    stages: Sequence[str] = ()
    """The graph's nodes in the order an item meets them. Empty: only the graph knows."""
    is_json: bool = False
    """Standard output carries the event stream; people's text goes to standard error."""
    shows_node: bool = False
    """Lines of the console say which node of a cluster their item is on."""

    @property
    def has_budget(self) -> bool:
        """Of its own or of the home's."""
        return self.budget_usd is not None or self.settings.budget.usd_per_day is not None

    def for_engine(self, run_dir: Path) -> RunSettings:
        """What the engine is told of it."""
        return RunSettings(
            run_id=run_dir.name,
            workflow=self.workflow,
            project_dir=self.project_dir,
            parallel=self.parallel,
            time_limits=TimeLimits(
                timeout_seconds=self.timeout_seconds,
                stall_seconds=self.stall_seconds,
                heartbeat_seconds=min(5.0, self.stall_seconds / 4),
            ),
            retries=self.retries,
            fresh=self.fresh,
            prepares_ahead=self.settings.cluster.backend == "local",
            batch=tuple(self.batch),
            graph_options={
                **self.graph_options,
                "result": self.hands_out_results,
                "store": str(store_path(self.project_dir, self.workflow)),
            },
            label_prefix=self.label_prefix,
            resume_command=with_run_dir(self.resume_command, run_dir),
            folder=str(Path.cwd()),
            budget_usd=self.budget_usd,
            python=str(self.python or ""),
        )

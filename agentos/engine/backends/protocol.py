"""What a backend is: it makes workers, carries messages to and from them, and ends them.

Nobody outside a backend knows where workers are or what they are made of. All calls, both ways, are made in the run's
loop. The suite in `tests/contract/test_backend.py` says what every backend has to keep.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from agentos.engine.messages import DownMessage, StartItem, UpMessage
from agentos.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSetup:
    """What all workers of a run have in common."""

    run_id: str
    graph: str
    """`MODULE:ATTR` or `PATH.py:ATTR`."""
    search_dir: Path
    """Where the graph's module is looked for."""
    checkpoint_address: str = ""
    """Of no item: what such addresses need is loaded before workers are made."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Without secrets."""
    python: Path | None = None
    """The interpreter that workers run under; None is ours."""
    extension: str = ""
    """What workers load beside the graph, see `engine/worker_extension.py`."""
    extension_options: Mapping[str, Any] = field(default_factory=dict)
    """For its `preload`; plain data."""
    service_port: int = 0
    """Of this machine's loopback: what listens there serves workers wherever they are. 0 without one."""
    service_variables: frozenset[str] = frozenset()
    """The variables of the environment that lead there. What they hold is good for nothing else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadFailure:
    """The graph could not be loaded; nothing was started."""

    message: str
    place: str = ""
    """The line of the user's own code that it happened at, if that is known."""
    is_usage: bool = True
    """The message says all there is to say."""
    is_of_graph: bool = True
    """Else of what workers are to run on."""
    has_died: bool = False
    """The process that loads it; whether that was the graph's doing is not known."""

    def error(self) -> UsageError:
        if self.is_usage:
            return UsageError(self.message)
        return UsageError(f"The graph cannot be loaded: {self.message}{f' ({self.place})' if self.place else ''}")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerExit:
    """A worker is gone, with everything it started."""

    code: int | None
    """Exit status, or the negative signal number; None when the worker was lost through no fault of its own."""
    leaked: tuple[int, ...] = ()
    """Processes that it left behind and that were ended, by the numbers people know them by."""
    fault: str = ""
    """Why the backend ended it, if it did so by itself."""


class WorkerEvents(Protocol):
    """What is heard of an item's worker: what it said and wrote, in order, and last that it is gone."""

    def worker_said(self, item_id: str, message: UpMessage) -> None: ...

    def worker_wrote(self, item_id: str, block: bytes) -> None:
        """Whole lines, or one that does not end; without secrets and control sequences."""
        ...

    def worker_gone(self, item_id: str, end: WorkerExit) -> None: ...


class BackendEvents(WorkerEvents, Protocol):
    """What the coordinator hears."""

    def loading(self, pid: int, node: str = "") -> None:
        """A process of this machine has begun to load the graph, or is about to start what does."""
        ...

    def loaded(self, input_keys: list[str] | None, notice: str = "", node: str = "") -> None:
        """Workers can start; said again by each node that comes later.

        The keys are those of the graph's input, if it has a fixed set.
        The notice, if there is one, is what users should know of how workers are made.
        """
        ...

    def load_failed(self, failure: LoadFailure) -> None: ...

    def lost(self, reason: str) -> None:
        """After `loaded`: all workers are lost; `worker_gone` follows for each. `load` makes it ready again."""
        ...

    def loading_wrote(self, block: bytes) -> None:
        """Whole lines that the graph's module has printed."""
        ...

    def noticed(self, text: str) -> None:
        """Something that users should know of where workers run."""
        ...

    def places_changed(self, count: int) -> None:
        """So many workers can run at once from now on. Backends without such a limit never say it."""
        ...

    def worker_reached(self, item_id: str, port: int) -> None:
        """A worker elsewhere is about to connect to the service port; on this machine it comes from that port.

        Instead of an item, what loads the graph there (`loading_on`).
        """
        ...

    def failing(self, reason: str) -> None:
        """Workers still run, but not for long, and no new ones can be made."""
        ...


class Backend(Protocol):
    """Where workers run. An item has at most one worker at a time."""

    def load(self) -> None:
        """Begin to load the graph: `loaded`, `load_failed` or `lost` follows."""
        ...

    def start(self, message: StartItem) -> None:
        """Make a worker for the item, which holds the item's claim as long as it lives.

        Raises OSError when there is nothing to make it of; a worker that cannot start after that is `worker_gone`.
        """
        ...

    def send(self, item_id: str, message: DownMessage) -> None:
        """To the item's worker; nowhere when it has none."""
        ...

    def kill(self, item_id: str) -> None:
        """Now, with everything it started; `worker_gone` follows."""
        ...

    def node_of(self, item_id: str) -> str:
        """The name of the machine that the item's worker is on; empty where there is only one."""
        ...

    def is_elsewhere(self, item_id: str) -> bool:
        """Whether the item's worker is on another machine than the coordinator."""
        ...

    def retire(self, node: str, reason: str) -> bool:
        """Nothing starts on this other machine any more. False when there is nowhere else to start anything."""
        ...

    def is_suspended(self, item_id: str) -> bool:
        """Whether somebody has stopped the worker from running for now: it is silent, but not wedged."""
        ...

    def suspend_all(self) -> None: ...

    def continue_all(self) -> None: ...

    def pause_output(self) -> None:
        """The reader is slow: workers wait in their writes and at their next node until `resume_output`."""
        ...

    def resume_output(self) -> None: ...

    def hold_nothing_back(self) -> None:
        """From here on what workers say counts at once, however slow the reader is: the run is stopping."""
        ...

    def close(self, within_seconds: float) -> None:
        """Nothing of this run stays alive behind this call. May be called again."""
        ...

"""A person steers a run that is under way: what each act asks for, and what it does. All calls come from the loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from agentos.engine.item_run import ItemRun
from agentos.engine.limits import MAX_PARALLELISM
from agentos.engine.results import Results
from agentos.engine.run_settings import RunSettings
from agentos.engine.schedule import Action, Schedule
from agentos.events import ControlTaken, Listener
from agentos.outcomes import Outcome

ACTS: Final = {
    "status": "show the run's progress",
    "pause": "start no new node; nodes under way finish",
    "resume": "continue after a pause",
    "parallel": "run N items at once",
    "budget": "let the run spend up to USD dollars",
    "stop": "stop the run, or one ITEM of it, which keeps its checkpoint",
    "retry": "queue a failed ITEM again",
    "skip": "do not run ITEM or anything that depends on it",
}
ITEM_ACTS: Final = frozenset({"retry", "skip"})
"""Acts that mean nothing without an item; `stop` may have one."""
NUMBER_ACTS: Final = frozenset({"parallel", "budget"})


class ActRefused(Exception):
    """The act makes no sense now; its text says why."""


class NotYet(ActRefused):
    """The run is just starting: the same act is taken in a moment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    name: str
    by: str
    """The user, and what they used: `ada (ctl)`."""
    item_id: str = ""
    value: float | None = None
    reason: str = ""


class Steered(Protocol):
    """What steering needs of the run."""

    @property
    def schedule(self) -> Schedule: ...
    @property
    def running(self) -> Mapping[str, ItemRun]: ...
    @property
    def results(self) -> Results: ...
    @property
    def is_stopping(self) -> bool: ...
    def perform(self, actions: Sequence[Action]) -> None: ...
    def follow_limits(self) -> None: ...
    def want_parallel(self, parallel: int, reason: str) -> None: ...
    def change_budget(self, cap_usd: float) -> bool: ...
    def request_stop(self, reason: str) -> None: ...
    def status(self) -> dict[str, Any]: ...


class Steering:
    """Acts in, changes of the run out. What was done is emitted, with who did it and why."""

    def __init__(self, run: Steered, settings: RunSettings, emit: Listener) -> None:
        self._run = run
        self._emit = emit
        self._most_parallel = max(MAX_PARALLELISM, settings.parallel)
        self._label_prefix = settings.label_prefix
        self.paused_by = ""
        """Who paused the run, if it is paused."""

    @property
    def is_paused(self) -> bool:
        return bool(self.paused_by)

    def take(self, act: Act) -> dict[str, Any]:
        """Do it, and say how the run is. Raises ActRefused."""
        if act.name != "status" and self._run.is_stopping:
            raise ActRefused("the run is stopping")
        match act.name:
            case "status":
                pass
            case "pause":
                self._pause(act)
            case "resume":
                self._resume(act)
            case "parallel":
                self._change_parallel(act)
            case "budget":
                self._change_budget(act)
            case "stop" if not act.item_id:
                self._tell(act)
                self._run.request_stop(f"requested by {act.by}")
            case "stop":
                self._stop_item(act)
            case "skip":
                self._skip(act)
            case "retry":
                self._retry(act)
            case unknown:
                raise ActRefused(f"unknown act {unknown!r}; known: {', '.join(ACTS)}")
        return self._run.status()

    def _pause(self, act: Act) -> None:
        if self.is_paused:
            raise ActRefused(f"the run is paused already, by {self.paused_by}")
        self.paused_by = act.by
        self._tell(act)
        self._run.follow_limits()

    def _resume(self, act: Act) -> None:
        if not self.is_paused:
            raise ActRefused("the run is not paused")
        self.paused_by = ""
        self._tell(act)
        for item_run in tuple(self._run.running.values()):
            item_run.go_on()
        self._run.follow_limits()

    def _change_parallel(self, act: Act) -> None:
        wanted = act.value
        if wanted is None or not wanted.is_integer() or not 1 <= wanted <= self._most_parallel:
            raise ActRefused(f"parallel is a whole number from 1 to {self._most_parallel} in this run")
        self._tell(act)
        self._run.want_parallel(int(wanted), f"requested by {act.by}")

    def _change_budget(self, act: Act) -> None:
        if act.value is None or not 0 < act.value < float("inf"):
            raise ActRefused("budget is a number of dollars, like 2.50")
        if not self._run.change_budget(act.value):
            raise ActRefused("the run was started without a budget; start it with --budget to have one")
        self._tell(act)

    def _stop_item(self, act: Act) -> None:
        item_id = self._open_item(act)
        if item_id in self._run.schedule.withdrawn:
            raise ActRefused(f"{item_id} is {'stopping' if item_id in self._run.running else 'stopped'} already")
        self._tell(act, item_id)
        actions = self._run.schedule.withdraw(item_id)
        if item_id in self._run.running:
            self._run.running[item_id].stop()
        self._run.perform(actions)

    def _skip(self, act: Act) -> None:
        item_id = self._open_item(act)
        self._tell(act, item_id)
        reason = f"by {act.by}{f': {act.reason}' if act.reason else ''}"
        if item_id in self._run.running:
            self._run.running[item_id].skipped_because = reason
            self._run.running[item_id].stop()
            return
        # How it ended first: its dependents are skipped because of it.
        self._run.results.skipped_by(item_id, reason)
        self._run.perform(self._run.schedule.skip(item_id))

    def _retry(self, act: Act) -> None:
        item_id = self._known_item(act)
        if item_id in self._run.running:
            raise ActRefused(f"{item_id} has not ended yet")
        outcome = self._run.results.outcome_of(item_id)
        if outcome is None and item_id not in self._run.schedule.withdrawn:
            raise ActRefused(f"{item_id} has not ended yet")
        dependents = self._run.schedule.skipped_for(item_id)
        if outcome is not None:
            self._reopen(item_id, outcome, dependents)
        self._tell(act, item_id, dependents)
        self._run.perform(self._run.schedule.reopen(item_id))

    def _reopen(self, item_id: str, outcome: Outcome, dependents: Sequence[str]) -> None:
        """An item that ended is the run's again, and with it those that were skipped for it. Raises ActRefused."""
        if not outcome.is_unfinished or outcome.needs_person:
            raise ActRefused(f"{item_id} {outcome.as_clause()}: there is nothing to retry")
        waits = self._run.schedule.unmet(item_id)
        if waits:
            raise ActRefused(f"{item_id} depends on {waits[0]}, which is not done; retry that one")
        if elsewhere := self._run.results.reopened([item_id, *dependents]):
            raise ActRefused(f"another run now has {elsewhere}")

    def _open_item(self, act: Act) -> str:
        item_id = self._known_item(act)
        if item_id not in self._run.schedule.left:
            outcome = self._run.results.outcome_of(item_id)
            raise ActRefused(f"{item_id} {outcome.as_clause() if outcome else 'has ended'} already")
        return item_id

    def _known_item(self, act: Act) -> str:
        """By its id, or as people see it: `LLD-42`."""
        for item_id in (act.item_id, act.item_id.removeprefix(self._label_prefix)):
            if item_id in self._run.schedule:
                return item_id
        raise ActRefused(f"the run has no item {act.item_id!r}")

    def _tell(self, act: Act, item_id: str = "", dependents: Sequence[str] = ()) -> None:
        self._emit(
            ControlTaken(
                act=act.name,
                by=act.by,
                target=item_id,
                value=act.value,
                reason=act.reason,
                dependents=tuple(dependents),
            )
        )

"""What is shown of a run: its records in, its state out. Pure; the one owner of "how far is it".

A live run, a finished one and one whose coordinator was killed come out of the same records.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from agentos.events import (
    BudgetNoticed,
    ControlTaken,
    ItemEnded,
    ItemNoticed,
    ItemRetried,
    ItemStarted,
    NodeFinished,
    NodeStarted,
    ParallelismChanged,
    PoolExhausted,
    PoolResumed,
    PreflightDone,
    RunEnded,
    RunFaulted,
    RunStarted,
    Stamped,
    StopRequested,
    Warned,
)
from agentos.outcomes import AWAITING_REVIEW, INTERRUPTED, Outcome


class RunState(StrEnum):
    """One word for a run."""

    RUNNING = "Running"
    WAITING = "Waiting for keys"
    PAUSED = "Paused"
    STOPPING = "Stopping"
    LOST = "Coordinator lost"
    DONE = "Done"


@dataclass(slots=True)
class Span:
    """A node at work, in seconds since the run's start."""

    node: str
    start: float
    end: float | None = None
    """None as long as it runs, or when nobody could say how it ended."""


@dataclass(slots=True)
class ItemView:
    """One item."""

    id: str
    label: str
    outcome: Outcome | None = None
    """None as long as it has not ended."""
    reason: str = ""
    error_type: str = ""
    traceback: str = ""
    attempts: int = 0
    started: float | None = None
    seconds: float = 0.0
    """Of its last attempt, when it has ended."""
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0
    spans: list[Span] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)

    @property
    def node(self) -> str:
        """What it does now; empty when it does nothing."""
        return self.spans[-1].node if self.outcome is None and self.spans and self.spans[-1].end is None else ""

    @property
    def needs_person(self) -> bool:
        """Somebody has to do something about it before it can end well."""
        return self.outcome is not None and (self.outcome.needs_person or self.outcome.is_failure)


@dataclass(frozen=True, slots=True)
class Note:
    """Something of the run itself that people should know."""

    at: float
    text: str


@dataclass(slots=True)
class RunView:
    """One run, as far as its records go."""

    run_id: str = ""
    workflow: str = ""
    project_dir: str = ""
    started: str = ""
    models: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    parallel: int = 0
    budget_usd: float | None = None
    resume_command: str = ""
    items: dict[str, ItemView] = field(default_factory=dict)
    """In the order of the plan."""
    notes: list[Note] = field(default_factory=list)
    elapsed: float = 0.0
    """Seconds since its start: up to now while it goes on, else up to its last record."""
    exit_code: int | None = None
    state: RunState = RunState.RUNNING
    paused_by: str = ""

    @property
    def counts(self) -> Mapping[Outcome, int]:
        return Counter(item.outcome for item in self.items.values() if item.outcome is not None)

    @property
    def ended_count(self) -> int:
        return sum(item.outcome is not None and item.outcome != INTERRUPTED for item in self.items.values())

    @property
    def running(self) -> list[ItemView]:
        return [item for item in self.items.values() if item.outcome is None and item.started is not None]

    @property
    def needing_somebody(self) -> list[ItemView]:
        """Those that wait for an answer first, then what failed."""
        found = [item for item in self.items.values() if item.needs_person]
        return sorted(found, key=lambda item: (item.outcome != AWAITING_REVIEW, not _needs(item)))

    @property
    def cost_usd(self) -> float:
        return sum(item.cost_usd for item in self.items.values())

    @property
    def tokens(self) -> int:
        return sum(item.input_tokens + item.output_tokens for item in self.items.values())


def _needs(item: ItemView) -> bool:
    return item.outcome is not None and item.outcome.needs_person


def view_of(records: Iterable[Stamped], *, is_live: bool, now: datetime | None = None) -> RunView:
    """The run that these records tell of, in their order."""
    fold = RunFold()
    for stamped in records:
        fold.add(stamped)
    return fold.view(is_live=is_live, now=now)


class RunFold:
    """Takes a run's records one by one, and says at any time how it stands."""

    def __init__(self) -> None:
        self._view = RunView()
        self._began: datetime | None = None
        self._last_at = 0.0
        self._is_stopping = self._has_ended = False
        self._waits_for_keys = False

    def add(self, stamped: Stamped) -> None:
        """The next record. One that this version knows nothing about changes nothing."""
        view, event = self._view, stamped.event
        at = self._seconds(stamped.time)
        self._last_at = max(self._last_at, at)
        match event:
            case RunStarted():
                self._begin(stamped, event)
            case PreflightDone(models=models, keys=keys):
                view.models, view.keys = models, keys
            case ParallelismChanged(now=parallel, reason=reason):
                view.parallel = parallel
                self._note(at, f"{parallel} at a time: {reason}")
            case PoolExhausted(kind=kind):
                self._waits_for_keys = kind != "none_valid"
            case PoolResumed(waited_seconds=seconds):
                self._waits_for_keys = False
                self._note(at, f"waited {seconds:.0f} s for keys")
            case ControlTaken():
                self._steered(at, event)
            case StopRequested(reason=reason):
                self._is_stopping = True
                self._note(at, f"stopping: {reason}")
            case RunFaulted(reason=text) | Warned(text=text):
                self._note(at, text)
            case BudgetNoticed(spent_usd=spent, budget_usd=budget):
                self._note(at, f"${spent:.2f} of ${budget:.2f} spent")
            case RunEnded(exit_code=exit_code):
                self._has_ended, view.exit_code = True, exit_code
            case _:
                self._of_item(at, stamped)

    def view(self, *, is_live: bool, now: datetime | None = None) -> RunView:
        """The run as it stands. It is the fold's own, and changes with the next record and the next look.

        Without `now`, as it stood when its last record was written; that is also as far as a dead run goes.
        """
        view = self._view
        view.state = self._state(is_live=is_live)
        is_going_on = view.state not in (RunState.DONE, RunState.LOST)
        view.elapsed = max(self._last_at, self._since_start(now)) if now and is_going_on else self._last_at
        return view

    def _state(self, *, is_live: bool) -> RunState:
        if self._has_ended:
            return RunState.DONE
        if not is_live:
            return RunState.LOST
        if self._is_stopping:
            return RunState.STOPPING
        if self._view.paused_by:
            return RunState.PAUSED
        return RunState.WAITING if self._waits_for_keys else RunState.RUNNING

    def _begin(self, stamped: Stamped, event: RunStarted) -> None:
        view = self._view
        view.run_id, view.started = stamped.run_id, stamped.time
        view.workflow, view.project_dir = event.workflow, event.project_dir
        view.parallel, view.budget_usd = event.parallel, event.budget_usd
        view.items = {i: ItemView(i, f"{event.label_prefix}{i}") for i in event.items}

    def _of_item(self, at: float, stamped: Stamped) -> None:
        event = stamped.event
        item = self._view.items.get(getattr(event, "item_id", ""))
        if item is None:
            return
        match event:
            case ItemStarted(attempt=attempt):
                item.outcome, item.attempts = None, attempt
                item.started = at if item.started is None else item.started
            case NodeStarted(node=node):
                item.spans.append(Span(node, at))
            case NodeFinished(node=node):
                self._close(item, at, node)
            case ItemRetried(reason=reason):
                self._close(item, at)
                item.notices.append(f"attempt {event.attempt}: {reason}")
            case ItemNoticed(text=text):
                item.notices.append(text)
            case ItemEnded():
                self._close(item, at)
                _end(item, event)

    def _close(self, item: ItemView, at: float, node: str = "") -> None:
        for span in item.spans:
            if span.end is None and node in ("", span.node):
                span.end = at

    def _steered(self, at: float, event: ControlTaken) -> None:
        if event.act in ("pause", "resume"):
            self._view.paused_by = event.by if event.act == "pause" else ""
        if event.act == "budget":
            self._view.budget_usd = event.value
        words = " ".join(filter(None, [event.act, event.target, "" if event.value is None else f"{event.value:g}"]))
        self._note(at, f"{words}, by {event.by}{f': {event.reason}' if event.reason else ''}")

    def _note(self, at: float, text: str) -> None:
        self._view.notes.append(Note(at, text))

    def _seconds(self, stamp: str) -> float:
        try:
            moment = datetime.fromisoformat(stamp)
        except ValueError:
            return self._last_at
        if self._began is None:
            self._began = moment
        return self._since_start(moment)

    def _since_start(self, moment: datetime) -> float:
        return 0.0 if self._began is None else max(0.0, (moment - self._began).total_seconds())


def _end(item: ItemView, event: ItemEnded) -> None:
    item.outcome, item.reason, item.seconds = event.outcome, event.reason, event.seconds
    item.error_type, item.traceback = event.error_type, event.traceback
    item.attempts = event.attempts
    item.input_tokens, item.output_tokens = event.input_tokens, event.output_tokens
    item.cost_usd = event.cost_usd

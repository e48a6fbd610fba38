"""What is shown of a run: its records in, its state out. Pure; the one owner of "how far is it".

A live run, a finished one and one whose coordinator was killed come out of the same records.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from itertools import takewhile
from typing import Final

from agentos.dashboard.key_use import KeyUse, KeyUses
from agentos.events import (
    BudgetNoticed,
    CallFinished,
    CallStarted,
    ControlTaken,
    ItemEnded,
    ItemNoticed,
    ItemRetried,
    ItemStalled,
    ItemStarted,
    ItemWaited,
    ItemWaiting,
    KeyCoolingDown,
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
from agentos.reporters.progress import ENDED_BEFORE_ESTIMATE, Durations, seconds_left
from agentos.reporters.summary import speed_up_of

STALLED_SECONDS: Final = 15 * 60.0
"""A live run that has put nothing on record for so long, with items at work, is called stalled."""
BURN_WINDOW_SECONDS: Final = 10 * 60.0
"""What a run costs per hour is judged by as much of its past."""
_SHORTEST_BURN_SECONDS: Final = 30.0


class RunState(StrEnum):
    """One word for a run."""

    RUNNING = "Running"
    WAITING = "Waiting for keys"
    PAUSED = "Paused"
    STOPPING = "Stopping"
    STALLED = "Stalled"
    LOST = "Coordinator lost"
    DONE = "Done"


@dataclass(slots=True)
class Span:
    """An item at work on a node, or waiting, in seconds since the run's start."""

    node: str
    start: float
    end: float | None = None
    """None as long as it lasts, or when nobody could say how it ended."""
    kind: str = "node"
    """`node`, `start` before the first of them, or the cause of a wait: `busy`, `limited`, `budget`, `paused`."""
    item_id: str = ""
    slot: int = 0
    """Which of the places for items it was in."""
    number: int = 0
    """Its own, in the order of beginnings."""
    is_done: bool = False
    """The node's result is on disk."""
    changed: int = 0
    """The record that changed it last."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a model that came back."""

    at: float
    node: str
    model: str
    key_name: str
    waited: float
    seconds: float
    outcome: str
    input_tokens: int
    output_tokens: int
    cost_usd: float


@dataclass(slots=True)
class Attempt:
    number: int
    start: float
    end: float | None = None
    reason: str = ""
    resumed_after: str = ""


@dataclass(slots=True)
class ItemView:
    """One item."""

    id: str
    label: str
    title: str = ""
    place: int = 0
    """In the plan."""
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
    slot: int | None = None
    """Its place among those that run at once, while it runs."""
    spans: list[Span] = field(default_factory=list)
    """Nodes at work."""
    waits: list[Span] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    calling_since: list[float] = field(default_factory=list)
    """When each of its calls began that is under way."""
    tries: list[Attempt] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    changed: int = 0
    """The record that changed it last."""

    @property
    def node(self) -> str:
        """What it does now; empty when it does nothing."""
        return self.spans[-1].node if self.outcome is None and self.spans and self.spans[-1].end is None else ""

    @property
    def waits_for(self) -> Span | None:
        """What holds it up now."""
        return self.waits[-1] if self.outcome is None and self.waits and self.waits[-1].end is None else None

    @property
    def resumed_after(self) -> str:
        """The node that was on disk when its last attempt began."""
        return self.tries[-1].resumed_after if self.tries else ""

    @property
    def waited(self) -> float:
        """Seconds that its calls waited for keys."""
        return sum(call.waited for call in self.calls)

    @property
    def is_running(self) -> bool:
        return self.outcome is None and self.slot is not None

    @property
    def needs_person(self) -> bool:
        """Somebody has to do something about it before it can end well."""
        return self.outcome is not None and (self.outcome.needs_person or self.outcome.is_failure)


@dataclass(frozen=True, slots=True)
class Note:
    """Something of the run itself that people should know."""

    at: float
    text: str
    sequence: int = 0
    """Of its record."""


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
    """How many may run at once."""
    wanted: int = 0
    """How many somebody asked for."""
    parallel_reason: str = ""
    """Why it is another number, or was last changed."""
    budget_usd: float | None = None
    needed_usd: float | None = None
    """What the budget would have to be for the call that did not fit."""
    resume_command: str = ""
    items: dict[str, ItemView] = field(default_factory=dict)
    """In the order of the plan."""
    stages: list[str] = field(default_factory=list)
    """Nodes, in their order where it is known, else as items first came to them."""
    stages_changed: int = 0
    spans: list[Span] = field(default_factory=list)
    """Of all items, in the order of their beginnings."""
    latest_spans: dict[int, Span] = field(default_factory=dict)
    """By number; those that changed last come last."""
    latest_items: dict[str, ItemView] = field(default_factory=dict)
    key_uses: dict[str, KeyUse] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)
    elapsed: float = 0.0
    """Seconds since its start: up to now while it goes on, else up to its last record."""
    last_at: float = 0.0
    """When its last record was written."""
    last_sequence: int = 0
    exit_code: int | None = None
    speed_up: float | None = None
    state: RunState = RunState.RUNNING
    paused_by: str = ""
    pause_reason: str = ""
    stop_reason: str = ""
    limited_at: list[float] = field(default_factory=list)
    """When providers answered that a limit is reached."""
    spending: list[tuple[float, float]] = field(default_factory=list)
    """When calls came back, and what each cost."""

    def spans_since(self, sequence: int) -> list[Span]:
        """Those that later records changed, in the order of their beginnings."""
        found = takewhile(lambda span: span.changed > sequence, reversed(self.latest_spans.values()))
        return sorted(found, key=lambda span: span.number)

    def items_since(self, sequence: int) -> list[ItemView]:
        """Those that later records changed, in the order of the plan."""
        found = takewhile(lambda item: item.changed > sequence, reversed(self.latest_items.values()))
        return sorted(found, key=lambda item: item.place)

    @property
    def is_over(self) -> bool:
        return self.state in (RunState.DONE, RunState.LOST)

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

    @property
    def limited_in_5_minutes(self) -> int:
        """How often providers said so in the last five minutes."""
        return len(self.limited_at) - bisect_left(self.limited_at, self.elapsed - 300.0)

    @property
    def burn_usd_per_hour(self) -> float | None:
        """What the last minutes cost, per hour. None when too little is known, or nothing is spent any more."""
        if self.is_over or self.elapsed < _SHORTEST_BURN_SECONDS or not self.spending:
            return None
        window = min(BURN_WINDOW_SECONDS, self.elapsed)
        since = bisect_left(self.spending, (self.elapsed - window, 0.0))
        return sum(cost for _, cost in self.spending[since:]) * 3600.0 / window

    def seconds_left(self, past: Iterable[float] = ()) -> tuple[float, float] | None:
        """The least and the most time that is likely left. None when nobody can say.

        `past` are durations of such items in earlier runs: they tell as long as too few have ended in this one.
        """
        if self.state is not RunState.RUNNING:
            return None
        finished = self._durations()
        if finished.count < ENDED_BEFORE_ESTIMATE:
            for seconds in past:
                finished.add(seconds)
        running = [self.elapsed - _last_start(item) for item in self.items.values() if item.is_running]
        pending = len(self.items) - len(running) - sum(item.outcome is not None for item in self.items.values())
        if finished.count < ENDED_BEFORE_ESTIMATE or not (running or pending):
            return None
        return seconds_left(finished, running, max(0, pending), max(1, self.parallel))

    def _durations(self) -> Durations:
        finished = Durations()
        for item in self.items.values():
            if item.outcome is not None and item.attempts and not (item.outcome.never_ran or item.outcome.is_left):
                finished.add(item.seconds)
        return finished


def _last_start(item: ItemView) -> float:
    return item.tries[-1].start if item.tries else item.started or 0.0


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

    def __init__(self, nodes_of: Callable[[str], Sequence[str]] = lambda _workflow: ()) -> None:
        """`nodes_of` gives the nodes of a workflow in their order, as far as they are known beforehand."""
        self._nodes_of = nodes_of
        self._view = RunView()
        self._keys = KeyUses(self._view.key_uses)
        self._began: datetime | None = None
        self._is_stopping = self._has_ended = False
        self._waits_for_keys = False
        self._slots: dict[int, str] = {}

    def add(self, stamped: Stamped) -> None:
        """The next record. One that this version knows nothing about changes nothing."""
        view, event = self._view, stamped.event
        at = self._seconds(stamped.time)
        view.last_at, view.last_sequence = max(view.last_at, at), stamped.sequence
        match event:
            case RunStarted():
                self._begin(stamped, event)
            case PreflightDone(models=models, keys=keys):
                view.models, view.keys = models, keys
                self._keys.know(keys, stamped.sequence)
            case ParallelismChanged(now=parallel, reason=reason):
                view.parallel, view.parallel_reason = parallel, reason
                self._note(at, f"{parallel} at a time: {reason}")
            case PoolExhausted(kind=kind):
                self._waits_for_keys = kind != "none_valid"
            case PoolResumed(waited_seconds=seconds):
                self._waits_for_keys = False
                self._note(at, f"waited {seconds:.0f} s for keys")
            case KeyCoolingDown():
                self._cool(at, stamped.sequence, event)
            case ControlTaken():
                self._steered(at, event)
            case StopRequested(reason=reason):
                self._is_stopping, view.stop_reason = True, reason
                self._note(at, f"stopping: {reason}")
            case RunFaulted(reason=text) | Warned(text=text):
                self._note(at, text)
            case BudgetNoticed(spent_usd=spent, budget_usd=budget, needed_usd=needed):
                view.needed_usd = needed
                self._note(at, f"${spent:.2f} of ${budget:.2f} spent")
            case RunEnded():
                self._end(event)
            case _:
                self._of_item(at, stamped)

    def view(self, *, is_live: bool, now: datetime | None = None) -> RunView:
        """The run as it stands. It is the fold's own, and changes with the next record and the next look.

        Without `now`, as it stood when its last record was written; that is also as far as a dead run goes.
        """
        view = self._view
        view.state = self._state(is_live=is_live)
        view.elapsed = max(view.last_at, self._since_start(now)) if now and not view.is_over else view.last_at
        is_silent = view.elapsed - view.last_at >= STALLED_SECONDS
        if view.state is RunState.RUNNING and is_silent and any(item.is_running for item in view.items.values()):
            view.state = RunState.STALLED
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
        view.stages, view.stages_changed = list(self._nodes_of(event.workflow)), stamped.sequence
        view.parallel = view.wanted = event.parallel
        view.budget_usd = event.budget_usd
        titles = event.titles if len(event.titles) == len(event.items) else ("",) * len(event.items)
        view.items = {
            item_id: ItemView(item_id, f"{event.label_prefix}{item_id}", title, place, changed=stamped.sequence)
            for place, (item_id, title) in enumerate(zip(event.items, titles, strict=True))
        }
        view.latest_items = dict(view.items)

    def _end(self, event: RunEnded) -> None:
        self._has_ended, self._view.exit_code = True, event.exit_code
        self._view.speed_up = speed_up_of(event) or None

    def _of_item(self, at: float, stamped: Stamped) -> None:
        event = stamped.event
        item = self._view.items.get(getattr(event, "item_id", ""))
        if item is None:
            return
        item.changed = stamped.sequence
        self._view.latest_items[item.id] = self._view.latest_items.pop(item.id)
        match event:
            case ItemStarted():
                self._start(item, at, event)
            case NodeStarted(node=node):
                self._enter(item, at, node)
            case NodeFinished(node=node):
                self._close(item.spans, at, node, is_done=True)
            case CallStarted():
                item.calling_since.append(at)
                self._keys.started(event, stamped.sequence)
            case CallFinished():
                self._call(item, at, event)
            case ItemWaiting(cause=cause, seconds=seconds):
                self._close(item.waits, at)
                self._open(item.waits, item, item.node, max(0.0, at - seconds), cause)
            case ItemWaited():
                self._close(item.waits, at)
            case ItemRetried(reason=reason):
                item.notices.append(f"attempt {event.attempt}: {reason}")
                self._leave(item, at, reason)
            case ItemNoticed(text=text):
                item.notices.append(text)
            case ItemStalled(silent_seconds=seconds):
                item.notices.append(f"no sign of life for {seconds:.0f} s")
            case ItemEnded():
                self._leave(item, at, event.reason)
                _end(item, event)

    def _start(self, item: ItemView, at: float, event: ItemStarted) -> None:
        item.outcome, item.attempts, item.reason = None, event.attempt, ""
        item.started = at if item.started is None else item.started
        item.tries.append(Attempt(event.attempt, at, resumed_after=event.resumed_after or ""))
        item.slot = next(slot for slot in range(len(self._slots) + 1) if slot not in self._slots)
        self._slots[item.slot] = item.id
        self._open(item.waits, item, "", at, "start")

    def _enter(self, item: ItemView, at: float, node: str) -> None:
        self._close(item.waits, at)
        if node not in self._view.stages:
            self._view.stages.append(node)
            self._view.stages_changed = self._view.last_sequence
        self._open(item.spans, item, node, at, "node")

    def _leave(self, item: ItemView, at: float, reason: str) -> None:
        """Its attempt is over."""
        self._close(item.spans, at)
        self._close(item.waits, at)
        item.calling_since.clear()
        self._keys.item_left(item.id, self._view.last_sequence)
        if item.tries and item.tries[-1].end is None:
            item.tries[-1].end, item.tries[-1].reason = at, reason
        if item.slot is not None:
            del self._slots[item.slot]
            item.slot = None

    def _call(self, item: ItemView, at: float, event: CallFinished) -> None:
        view = self._view
        if item.calling_since:
            item.calling_since.pop(0)
        call = Call(
            max(0.0, at - event.seconds),
            event.node,
            event.model,
            event.key_name,
            event.waited_seconds,
            event.seconds,
            event.outcome,
            event.input_tokens,
            event.output_tokens,
            event.cost_usd,
        )
        item.calls.append(call)
        item.input_tokens += call.input_tokens
        item.output_tokens += call.output_tokens
        item.cost_usd += call.cost_usd
        if call.cost_usd:
            view.spending.append((at, call.cost_usd))
        if self._keys.finished(at, event, view.last_sequence):
            view.limited_at.append(at)

    def _cool(self, at: float, sequence: int, event: KeyCoolingDown) -> None:
        if not self._keys.has_calls:
            self._view.limited_at.append(at)  # A record of an earlier version: it tells of no calls.
        self._keys.cooling(at, event, sequence)

    def _open(self, spans: list[Span], item: ItemView, node: str, at: float, kind: str) -> None:
        view = self._view
        slot = item.slot or 0
        span = Span(node, at, None, kind, item.id, slot, len(view.spans), changed=view.last_sequence)
        view.spans.append(span)
        view.latest_spans[span.number] = span
        spans.append(span)

    def _close(self, spans: list[Span], at: float, node: str = "", *, is_done: bool = False) -> None:
        view = self._view
        for span in spans:
            if span.end is None and node in ("", span.node):
                span.end, span.is_done, span.changed = max(at, span.start), is_done, view.last_sequence
                view.latest_spans[span.number] = view.latest_spans.pop(span.number)

    def _steered(self, at: float, event: ControlTaken) -> None:
        view = self._view
        match event.act:
            case "pause":
                view.paused_by, view.pause_reason = event.by, event.reason
            case "resume":
                view.paused_by = view.pause_reason = ""
            case "budget":
                view.budget_usd, view.needed_usd = event.value, None
            case "parallel" if event.value is not None:
                view.wanted = int(event.value)
        words = " ".join(filter(None, [event.act, event.target, "" if event.value is None else f"{event.value:g}"]))
        self._note(at, f"{words}, by {event.by}{f': {event.reason}' if event.reason else ''}")

    def _note(self, at: float, text: str) -> None:
        self._view.notes.append(Note(at, text, self._view.last_sequence))

    def _seconds(self, stamp: str) -> float:
        try:
            moment = datetime.fromisoformat(stamp)
        except ValueError:
            return self._view.last_at
        if self._began is None:
            self._began = moment
        return self._since_start(moment)

    def _since_start(self, moment: datetime) -> float:
        if self._began is None or (moment.tzinfo is None) != (self._began.tzinfo is None):
            return self._view.last_at
        return max(0.0, (moment - self._began).total_seconds())


def _end(item: ItemView, event: ItemEnded) -> None:
    item.outcome, item.reason, item.seconds = event.outcome, event.reason, event.seconds
    item.error_type, item.traceback = event.error_type, event.traceback
    item.attempts = event.attempts
    # Calls tell of all attempts, the end of the last one; earlier versions have no calls on record.
    item.input_tokens = max(item.input_tokens, event.input_tokens)
    item.output_tokens = max(item.output_tokens, event.output_tokens)
    item.cost_usd = max(item.cost_usd, event.cost_usd)

"""What is shown of a run: its items, their nodes and waits, its calls, money and keys. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import takewhile
from typing import Final

from agentos.dashboard.key_use import KeyUse
from agentos.outcomes import AWAITING_REVIEW, INTERRUPTED, Outcome
from agentos.reporters.progress import ENDED_BEFORE_ESTIMATE, Durations, seconds_left

STALLED_SECONDS: Final = 15 * 60.0
"""A live run that has put nothing on record for so long, although items are at work, is called stalled."""
WAIT_WORDS: Final = {
    "busy": "waiting for a key",
    "limited": "waiting for a limit",
    "budget": "waiting for money",
    "paused": "paused",
}
"""What holds an item up, by the cause on record."""
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
    cluster_node: str = ""
    """The machine of its last attempt; empty where there is only one."""
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
    is_withdrawn: bool = False
    """A person stopped it: it goes no further in this run, unless they want it again."""
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
    first_parallel: int = 0
    """How many it was started with."""
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
    ended_seconds: dict[tuple[str, bool], float] = field(default_factory=lambda: defaultdict(float))
    """How long spans took that have ended, by their kind and whether they lay within a node."""
    slots: dict[int, str] = field(default_factory=dict)
    """The items at work, by their places among those that run at once."""
    key_uses: dict[str, KeyUse] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)
    elapsed: float = 0.0
    """Seconds since its start: up to now while it goes on, else up to its last record."""
    last_at: float = 0.0
    """When its last record was written."""
    last_sequence: int = 0
    exit_code: int | None = None
    wall_seconds: float | None = None
    """What the run took from its very beginning, before its first record; None until it has ended."""
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

    @property
    def slot_seconds(self) -> Mapping[str, float]:
        """What the places for items were used for so far, by kind of span; time waited within a node is no work."""
        sums = self.ended_seconds.copy()
        for item_id in self.slots.values():
            item = self.items[item_id]
            for span in (*item.spans, *item.waits):
                if span.end is None:
                    sums[span.kind, bool(span.node)] += max(0.0, self.elapsed - span.start)
        within = sum(seconds for (kind, is_within), seconds in sums.items() if is_within and kind != "node")
        found: dict[str, float] = defaultdict(float)
        for (kind, _), seconds in sums.items():
            found[kind] += seconds
        return found | {"node": max(0.0, found["node"] - within)}

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

"""How far a run is: the bar, the running items and an honest range of the time left. Pure: the clock is passed in."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from agentos.events import (
    ControlTaken,
    Event,
    ItemEnded,
    ItemRetried,
    ItemStarted,
    ParallelismChanged,
    PoolExhausted,
    PoolResumed,
    RunStarted,
    StopRequested,
)
from agentos.outcomes import Outcome
from agentos.reporters.wording import LabelOf, counts_in_words

BAR_WIDTH = 10
ENDED_BEFORE_ESTIMATE = 2
# Deviations to each side: with these the range holds in about nine of ten runs of unlike items.
_SPREAD = 1.7


@dataclass(slots=True)
class Durations:
    """Mean, spread and bounds of what was added, in constant memory (Welford's running variance)."""

    count: int = 0
    mean: float = 0.0
    shortest: float = math.inf
    longest: float = 0.0
    _squares: float = 0.0

    def add(self, seconds: float) -> None:
        self.count += 1
        delta = seconds - self.mean
        self.mean += delta / self.count
        self._squares += delta * (seconds - self.mean)
        self.shortest = min(self.shortest, seconds)
        self.longest = max(self.longest, seconds)

    @property
    def deviation(self) -> float:
        return math.sqrt(self._squares / (self.count - 1)) if self.count > 1 else 0.0


def bar(ended: int, total: int) -> str:
    """`[=====>    ]`: a tenth of the items a character."""
    filled = BAR_WIDTH if ended >= total else ended * BAR_WIDTH // total
    return f"[{('=' * filled + '>')[:BAR_WIDTH]:<{BAR_WIDTH}}]"


def standing(counts: Mapping[Outcome, int], total: int) -> str:
    """`[=====>    ] 4/10 workflows complete, 1 failed`: what failed or waits for somebody is not complete."""
    ended = sum(counts.values())
    not_done = {outcome: number for outcome, number in counts.items() if outcome.is_unfinished}
    words = f"{bar(ended, total)} {ended - sum(not_done.values())}/{total} workflows complete"
    return f"{words}, {counts_in_words(not_done)}" if not_done else words


def seconds_left(finished: Durations, elapsed: list[float], pending: int, parallel: int) -> tuple[float, float]:
    """The least and the most time that is likely left, given what finished items took.

    The work of the pending items is a prediction interval: it widens with the spread of what was seen and narrows
    with every item that ends. An item that runs for longer than any before may well take as long again.
    """
    least = [max(0.0, finished.shortest - seconds) for seconds in elapsed]
    most = [finished.longest - seconds if seconds < finished.longest else seconds for seconds in elapsed]
    margin = _SPREAD * finished.deviation * math.sqrt(pending + pending**2 / finished.count)
    least_work = max(pending * finished.mean - margin, pending * finished.shortest) + sum(least)
    most_work = pending * finished.mean + margin + sum(most)
    workers = max(1, min(parallel, pending + len(elapsed)))
    # The last items may run side by side with idle workers: at worst one whole item after the rest is shared out.
    tail = finished.longest * (1 - 1 / workers) if pending else 0.0
    low = max([least_work / workers, finished.shortest if pending else 0.0, *least])
    high = max([most_work / workers + tail, *most])
    return low, max(low, high)


def range_in_words(low: float, high: float) -> str:
    """`2-4 min left`, in the unit of the longer end, rounded outwards."""
    unit, size = next((unit, size) for unit, size, below in _UNITS if high < below)
    step = 5 if unit == "s" and high > 20 else 1
    least = math.floor(low / size / step) * step
    most = max(1, math.ceil(high / size / step) * step)
    if least <= 0:
        return f"under {most} {unit} left"
    return f"about {most} {unit} left" if least == most else f"{least}-{most} {unit} left"


_UNITS = (("s", 1, 90), ("min", 60, 90 * 60), ("h", 3600, math.inf))


class Progress:
    """Follows the events of a run; says where it stands in as many columns as there are."""

    def __init__(self) -> None:
        self.total = 0
        self._ends: dict[str, Outcome] = {}
        self._parallel = 1
        self._place: dict[str, int] = {}
        self._running: dict[str, float] = {}
        self._finished = Durations()
        self._has_keys = True
        self._is_stopping = False
        self._is_paused = False

    def note(self, event: Event, now: float) -> bool:
        """Take the event in. True if what is shown changes by it."""
        match event:
            case RunStarted(items=items, parallel=parallel):
                self.total, self._parallel = len(items), parallel
                self._place = {item_id: place for place, item_id in enumerate(items)}
            case ItemStarted(item_id=item_id):
                self._running[item_id] = now
            case ItemRetried(item_id=item_id):
                self._running.pop(item_id, None)
            case ItemEnded():
                self._end(event)
            case ParallelismChanged(now=parallel):
                self._parallel = parallel
            case PoolExhausted(kind=kind):
                self._has_keys = kind == "none_valid"  # Then calls fail; nobody waits.
            case PoolResumed():
                self._has_keys = True
            case ControlTaken(act="pause" | "resume" as act):
                self._is_paused = act == "pause"
            case ControlTaken(reopened=(_, *_) as reopened):
                for item_id in reopened:
                    self._ends.pop(item_id, None)
            case StopRequested():
                self._is_stopping = True
            case _:
                return False
        return True

    def _end(self, event: ItemEnded) -> None:
        self._running.pop(event.item_id, None)
        if not event.outcome.is_left:
            self._ends[event.item_id] = event.outcome
            if not event.outcome.never_ran and event.attempts:
                self._finished.add(event.seconds)

    @property
    def ended(self) -> int:
        return len(self._ends)

    @property
    def running(self) -> int:
        return len(self._running)

    @property
    def percent(self) -> int:
        return self.ended * 100 // self.total if self.total else 100

    @property
    def has_estimate(self) -> bool:
        """Whether a time left is shown, which changes by the clock alone."""
        is_known = self._finished.count >= ENDED_BEFORE_ESTIMATE and self._has_keys
        return is_known and not (self._is_stopping or self._is_paused) and self.ended < self.total

    def line(self) -> str:
        """`[=====>    ] 5/10 workflows complete`."""
        return standing(Counter(self._ends.values()), self.total)

    def status_line(self, now: float, columns: int, label_of: LabelOf) -> str:
        """The line with all that fits into the columns: words go first, the numbers last."""
        return next((line for line in self._candidates(now, label_of) if len(line) <= columns), "")

    def bar_line(self, now: float, columns: int, extras: Sequence[str] = ()) -> str:
        """The line below running items that are told of elsewhere: the extras go first when there is no room."""
        short = f"{bar(self.ended, self.total)} {self.ended}/{self.total}"
        outlook = self._outlook(now)
        shown = [[self.line(), outlook, *extras[:number]] for number in range(len(extras), -1, -1)]
        for parts in (*shown, [short, outlook], [short], [f"{self.ended}/{self.total}"], [f"{self.percent}%"]):
            line = " · ".join(filter(None, parts))
            if len(line) <= columns:
                return line
        return ""

    def _candidates(self, now: float, label_of: LabelOf) -> Iterator[str]:
        outlook = self._outlook(now)
        for shown in range(len(self._running), -1, -1):
            yield " · ".join(part for part in (self.line(), self._running_words(shown, label_of), outlook) if part)
        short = f"{bar(self.ended, self.total)} {self.ended}/{self.total}"
        for shown in range(len(self._running), -1, -1):
            yield " · ".join(part for part in (short, self._running_words(shown, label_of), outlook) if part)
        yield " · ".join(part for part in (short, outlook) if part)
        yield short
        yield f"{self.ended}/{self.total}"
        yield f"{self.percent}%"

    def _running_words(self, shown: int, label_of: LabelOf) -> str:
        if not self._running:
            return ""
        in_order = sorted(self._running, key=lambda item_id: self._place.get(item_id, 0))
        labels = [label_of(item_id) for item_id in in_order[:shown]]
        more = len(self._running) - shown
        if not labels:
            return f"{len(self._running)} running"
        return f"{len(self._running)} running: {' '.join(labels)}{f' +{more}' if more else ''}"

    def _outlook(self, now: float) -> str:
        if self._is_stopping:
            return "stopping"
        if self._is_paused:
            return "paused"
        if not self._has_keys:
            return "waiting for keys"
        if not self.has_estimate:
            return ""
        elapsed = [now - started for started in self._running.values()]
        pending = max(0, self.total - self.ended - len(elapsed))
        return range_in_words(*seconds_left(self._finished, elapsed, pending, self._parallel))

"""Facts of a run, in the past tense. Stamped once where they are emitted; reporters give them their words."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, get_args

from agentos.outcomes import Cause, Outcome, counts_by_name
from agentos.preflight import PreflightDone

RECORD_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted:
    """The plan is fixed and the first item may start."""

    workflow: str
    project_dir: str
    items: tuple[str, ...]
    parallel: int
    pid: int
    label_prefix: str = ""
    """What people see before an item's id: `LLD-` makes `[LLD-42]`."""
    resume_command: str = ""
    """What resumes it, with places for what only its end tells: see `reporters.resume_line`."""
    folder: str = ""
    """Where the user was: what resumes it is typed there."""
    budget_usd: float | None = None
    python: str = ""
    """The interpreter of the graph's workers and its versions, when that is not the one AgentOS runs under."""
    titles: tuple[str, ...] = ()
    """What each item is about, in the order of `items`; empty when nobody said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemStarted:
    """A worker has the item."""

    item_id: str
    attempt: int
    pid: int
    resumed_after: str | None = None
    """The last finished node when the item continues from a checkpoint."""
    cluster_node: str = ""
    """The machine it is on; empty where there is only one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStarted:
    item_id: str
    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFinished:
    """The node's result is on disk."""

    item_id: str
    node: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputProduced:
    """Whole lines a worker or its children wrote, made safe to show. Goes to console and logs, not to the audit."""

    item_id: str
    block: bytes
    """UTF-8, every line ended by a newline, no terminal control but colour."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomWritten:
    """What a node wrote to its stream, `get_stream_writer()(data)`."""

    item_id: str
    node: str
    data: Any
    """Plain values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultProduced:
    """What an item's graph came to: kept before the item counts as done, so before its end is told.

    Goes to the results, not to the audit.
    """

    item_id: str
    outcome: Outcome
    seconds: float
    attempts: int
    state: str
    """The graph's output, as one line of JSON."""
    interrupts: str = ""
    """What it asks a person, as JSON, if it waits for one."""
    models: str = ""
    """What its own models reported of their use, as JSON."""
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CallStarted:
    """A call of a model has its key, and goes out."""

    item_id: str
    node: str
    model: str
    """`provider:model`."""
    key_name: str
    waited_seconds: float = 0.0
    """For the key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFinished:
    """The key is back, with what the call came to."""

    item_id: str
    node: str
    model: str
    key_name: str
    seconds: float
    outcome: str
    """`ok`, or what came instead: `rate_limited`, `out_of_quota`, `rejected`, `not_served`, `overloaded`,
    `no_answer`, `refused` (the request itself) or `abandoned`.
    """
    waited_seconds: float = 0.0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemWaiting:
    """An item waits, for longer than a moment, or for another cause than before."""

    item_id: str
    cause: str
    """`busy` (its keys serve others), `limited` (its keys cool down), `budget` or `paused`."""
    seconds: float = 0.0
    """How long it has waited already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemWaited:
    """It waits no longer for this cause."""

    item_id: str
    cause: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemNoticed:
    """Something about one item worth a line: a damaged database set aside, a suspended worker."""

    item_id: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemEnded:
    """The item's one and only outcome in this run."""

    item_id: str
    outcome: Outcome
    seconds: float
    cause: Cause = Cause.OTHER
    reason: str = ""
    error_type: str = ""
    traceback: str = ""
    attempts: int = 1
    """0 when it was not tried: an earlier run of the batch has done it, or it was skipped."""
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemRetried:
    """A crashed or timed-out attempt; the item goes back to the queue."""

    item_id: str
    attempt: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemStalled:
    """A worker gave no sign of life for too long; it is ended next."""

    item_id: str
    silent_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildrenLeaked:
    """Processes an item left behind; they were ended."""

    item_id: str
    pids: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRequested:
    """Nothing new starts from here on."""

    reason: str
    at_once: bool = False
    has_workers: bool = True
    """Somebody is at work, and will be waited for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFaulted:
    """A fault of the run itself: everything stops gracefully."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Warned:
    """Something the user should know; the run continues."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunNoticed:
    """Something worth a line; nothing is wrong."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolExhausted:
    """Model calls wait for a key."""

    kind: str
    """`in_use`, `limited` or `none_valid`."""
    until: str | None = None
    """ISO 8601 UTC time of the next opening, when `limited`."""
    seconds: float | None = None
    names: tuple[str, ...] = ()
    """The busy keys when `in_use`, all of the provider's when `none_valid`."""
    limited: tuple[str, ...] = ()
    """Keys that are limited beside the busy ones."""
    slots: int | None = None
    """How many calls the busy keys carry at once."""
    waiting: tuple[str, ...] = ()
    """Who waits, when there are open keys for other models; empty when no call of this run can start."""
    is_overload: bool = False
    """When `limited`: not by the keys, but because their provider is overloaded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolResumed:
    waited_seconds: float
    waiting: tuple[str, ...] = ()
    """As when it was exhausted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyCoolingDown:
    """One key (and its group) is limited."""

    key_number: int
    """Place in the pool: no part of a key is ever shown."""
    key_name: str
    seconds: float
    """Until it serves again; 0 when waiting does not help."""
    reason: str = "rate-limited"
    state: str = "rate_limited"
    """`rate_limited`, `out_of_quota` or `rejected`."""
    provider: str = ""
    group: str = ""
    """Keys of one group share their limits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParallelismChanged:
    now: int
    before: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlTaken:
    """Somebody steered the run while it was under way."""

    act: str
    """`pause`, `resume`, `parallel`, `budget`, `stop`, `skip` or `retry`."""
    by: str
    """The user, and what they used: `ada (ctl)`."""
    target: str = ""
    """The item that was meant, if it was one."""
    value: float | None = None
    reason: str = ""
    dependents: tuple[str, ...] = ()
    """Items that had been skipped because of the target, and are queued again with it."""

    @property
    def reopened(self) -> tuple[str, ...]:
        """Items that are to be done after all: how they ended counts no more."""
        return (self.target, *self.dependents) if self.act == "retry" else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetNoticed:
    """80 % or 100 % of the budget is spent or reserved, or a call does not fit into what is left."""

    spent_usd: float
    budget_usd: float
    needed_usd: float | None = None
    """What the budget would have to be for the call that does not fit; the run stops."""
    day: str = ""
    """The UTC day, if the budget is that of everything with this home; empty: the run's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnded:
    """The last event of a run."""

    counts: Mapping[Outcome, int]
    """How many items ended so."""
    left: tuple[str, ...]
    """Items that did not end: they resume with the same command."""
    wall_seconds: float
    item_seconds: float
    exit_code: int
    working_seconds: float | None = None
    """`item_seconds` without waiting for keys and being suspended; None in records of earlier versions."""


ItemEvent = (
    ItemStarted
    | NodeStarted
    | NodeFinished
    | OutputProduced
    | CustomWritten
    | ResultProduced
    | CallStarted
    | CallFinished
    | ItemWaiting
    | ItemWaited
    | ItemNoticed
    | ItemEnded
    | ItemRetried
    | ItemStalled
    | ChildrenLeaked
)
"""About one item."""
Event = (
    ItemEvent
    | RunStarted
    | PreflightDone
    | StopRequested
    | RunFaulted
    | Warned
    | RunNoticed
    | PoolExhausted
    | PoolResumed
    | KeyCoolingDown
    | ParallelismChanged
    | ControlTaken
    | BudgetNoticed
    | RunEnded
)
Listener = Callable[[Event], None]


@dataclass(frozen=True, slots=True)
class Stamped:
    """An event with its place in the run."""

    sequence: int
    time: str
    """Aware UTC, ISO 8601 with milliseconds and a final Z."""
    run_id: str
    event: Event


_WORD_START = re.compile(r"(?<!^)(?=[A-Z])")


def _names(kind: Any) -> tuple[str, tuple[tuple[str, str], ...]]:
    in_records = tuple((known.name, "item" if known.name == "item_id" else known.name) for known in fields(kind))
    return _WORD_START.sub("_", kind.__name__).lower(), in_records


_NAMES = {kind: _names(kind) for kind in get_args(Event)}
"""How an event and each of its fields are called in records."""


def type_name(event: Event) -> str:
    """`ItemStarted` is written as `item_started`."""
    return _NAMES[type(event)][0]


def to_record(stamped: Stamped) -> dict[str, Any]:
    """The versioned record of the audit files and of `--json`. `item` is there when the event is an item's."""
    kind, names = _NAMES[type(stamped.event)]
    record: dict[str, Any] = {
        "v": RECORD_VERSION,
        "seq": stamped.sequence,
        "time": stamped.time,
        "run": stamped.run_id,
        "type": kind,
    }
    for field_name, name in names:
        record[name] = getattr(stamped.event, field_name)
    match stamped.event:
        case ItemEnded(outcome=outcome) | ResultProduced(outcome=outcome):
            record["outcome"] = str(outcome)
        case RunEnded(counts=counts):
            record["counts"] = counts_by_name(counts)
    return record

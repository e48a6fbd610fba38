"""How much a run tells on its console: all as it comes, what ended above a live block, or what went wrong."""

from __future__ import annotations

from agentos.events import (
    BudgetNoticed,
    ChildrenLeaked,
    CustomWritten,
    Event,
    ItemEnded,
    ItemRetried,
    ItemStalled,
    NodeStarted,
    OutputProduced,
    PoolExhausted,
    PoolResumed,
    RunEnded,
    RunFaulted,
    StopRequested,
    Warned,
)
from agentos.reporters.output_mode import OutputMode


def is_told(mode: OutputMode, event: Event) -> bool:
    """Whether the event's lines are for the console in this mode. Logs and records have them in any."""
    match mode, event:
        case OutputMode.STREAM, _:
            return True
        case _, PoolExhausted(kind=kind):
            return kind != "in_use"  # That ends in a moment; limits may last for hours.
        case OutputMode.LIVE, _:
            # What each item does and waits for is in the block; what it writes is in its log.
            return not isinstance(event, OutputProduced | CustomWritten | NodeStarted | PoolResumed)
        case _, ItemEnded(outcome=outcome):
            return outcome.is_failure
        case _:
            return isinstance(event, _TOLD_WHEN_QUIET)


_TOLD_WHEN_QUIET = (
    Warned,
    RunFaulted,
    ItemRetried,
    ItemStalled,
    ChildrenLeaked,
    BudgetNoticed,
    StopRequested,
    RunEnded,
)

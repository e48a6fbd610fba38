"""How an item ended. Pure: what its worker said last and how it died in, a decision out."""

from __future__ import annotations

import signal
import traceback
from dataclasses import dataclass, replace

from agentos.engine.messages import ItemDone, ItemFailed, ItemStopped
from agentos.engine.schedule import Ending
from agentos.errors import AgentosError
from agentos.outcomes import (
    AS_ASKED,
    AWAITING_REVIEW,
    FAILED,
    INTERRUPTED,
    PAUSED,
    SKIPPED,
    Cause,
    Outcome,
    outcome_named,
)

FinalMessage = ItemDone | ItemFailed | ItemStopped
_WORKERS_OWN = (Cause.NO_USABLE_KEY, Cause.CANNOT_CONTINUE, Cause.UNDECIDED)
"""Causes that a worker may give; of the others only the engine knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemEnd:
    """What to do and to record."""

    ending: Ending
    outcome: Outcome | None = None
    """None when the attempt is repeated."""
    cause: Cause = Cause.OTHER
    reason: str = ""
    error_type: str = ""
    traceback: str = ""
    outputs: tuple[str, ...] = ()
    """Documents to put into place first."""
    has_succeeded: bool = False
    """Its checkpoint has served its purpose."""
    is_run_fault: bool = False


@dataclass(frozen=True, slots=True)
class Hold:
    """Why a node must not start now: its item keeps its checkpoint and resumes later."""

    reason: str
    is_as_asked: bool = False
    """The run was not to go further; else somebody has to let the item go on."""


@dataclass(frozen=True, slots=True)
class GivenUp:
    """Why the engine ended a worker: its time limit, a stall, or what it said."""

    cause: Cause
    reason: str
    traceback: str = ""


def surprise(error: Exception) -> GivenUp:
    """What an item led to that the engine did not foresee."""
    if isinstance(error, AgentosError):
        return GivenUp(Cause.CRASHED, str(error))
    trace = "".join(traceback.format_exception(error))
    return GivenUp(Cause.CRASHED, f"AgentOS failed on this item: {type(error).__name__}: {error}", trace)


_ERROR_TYPES = {Cause.CRASHED: "Crashed", Cause.TIMED_OUT: "TimedOut", Cause.STALLED: "Stalled"}


def decide_end(
    word: FinalMessage | None,
    exit_code: int | None,
    *,
    given_up: GivenUp | None = None,
    held: Hold | None = None,
    skipped_because: str = "",
    is_stopping: bool = False,
    may_retry: bool = False,
) -> ItemEnd:
    """`exit_code` is None when the worker was lost with its backend; `given_up` says that we killed it."""
    match word:
        case ItemDone(is_parked=True):
            return ItemEnd(ending=Ending.NOT_DONE, outcome=AWAITING_REVIEW)
        case ItemDone():
            return _done(word, outcome_named(word.outcome))
        case ItemFailed(is_run_fault=True):
            return ItemEnd(ending=Ending.INTERRUPTED, outcome=INTERRUPTED, reason=word.message, is_run_fault=True)
        case ItemFailed():
            return ItemEnd(
                ending=Ending.NOT_DONE,
                outcome=FAILED,
                cause=cause if (cause := Cause(word.cause)) in _WORKERS_OWN else Cause.OTHER,
                reason=word.message,
                error_type=word.error_type,
                traceback=word.traceback,
            )
    if skipped_because:
        return ItemEnd(ending=Ending.NOT_DONE, outcome=SKIPPED, cause=Cause.PERSON, reason=skipped_because)
    if held is not None and not is_stopping:
        return ItemEnd(ending=Ending.NOT_DONE, outcome=AS_ASKED if held.is_as_asked else PAUSED, reason=held.reason)
    if isinstance(word, ItemStopped) or (is_stopping and given_up is None):
        return ItemEnd(ending=Ending.INTERRUPTED, outcome=INTERRUPTED)
    if exit_code is None:
        return ItemEnd(ending=Ending.LOST, reason="its worker was lost")
    given_up = given_up or GivenUp(Cause.CRASHED, _death(exit_code))
    return _crash(given_up, may_retry=may_retry and not is_stopping)


def _done(word: ItemDone, outcome: Outcome) -> ItemEnd:
    if outcome.is_engines_own:
        reason = f"the graph gave {outcome.name!r} as its outcome, which is reserved for the engine; choose another"
        return ItemEnd(ending=Ending.NOT_DONE, outcome=FAILED, reason=reason)
    if outcome.is_failure:
        return ItemEnd(ending=Ending.NOT_DONE, outcome=outcome, reason=word.reason)
    return ItemEnd(
        ending=Ending.DONE if outcome.is_done else Ending.NOT_DONE,
        outcome=outcome,
        reason=word.reason,
        outputs=tuple(word.outputs),
        has_succeeded=True,
    )


def without_documents(end: ItemEnd, reason: str) -> ItemEnd:
    """The same end when its documents could not be put into place: it failed, and keeps its checkpoint."""
    return replace(
        end,
        ending=Ending.NOT_DONE,
        outcome=FAILED,
        reason=reason,
        error_type="OSError",
        has_succeeded=False,
    )


def _crash(given_up: GivenUp, *, may_retry: bool) -> ItemEnd:
    if may_retry:
        return ItemEnd(ending=Ending.CRASHED, reason=given_up.reason)
    return ItemEnd(
        ending=Ending.CRASHED,
        outcome=FAILED,
        cause=given_up.cause,
        reason=given_up.reason,
        error_type=_ERROR_TYPES[given_up.cause],
        traceback=given_up.traceback,
    )


def _death(exit_code: int) -> str:
    if exit_code >= 0:
        return f"worker exited with status {exit_code} before it was done"
    try:
        name = signal.Signals(-exit_code).name
    except ValueError:
        name = "unknown"
    hint = " (out of memory?)" if exit_code == -signal.SIGKILL else ""
    return f"worker killed by signal {-exit_code} ({name}){hint}"

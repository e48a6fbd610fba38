"""How an item ended. Pure: what its worker said last and how it died in, a decision out."""

from __future__ import annotations

import signal
from dataclasses import dataclass, replace

from agentos.engine.messages import ItemDone, ItemFailed, ItemStopped
from agentos.engine.schedule import Ending
from agentos.errors import ExitCode

ATTENTION_OUTCOMES = ("needs_revision", "awaiting_review", "paused")
"""Nothing failed, but somebody has to do something."""
UNFINISHED_OUTCOMES = ("failed", "skipped", "interrupted", "awaiting_review", "paused")
"""The same command has something left to do."""

_OWN_OUTCOMES = ("interrupted", "skipped", "paused", "awaiting_review")
"""What only the engine can say of an item: a graph that ran to its end is none of it."""

LastWord = ItemDone | ItemFailed | ItemStopped | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemEnd:
    """What to do and to record."""

    ending: Ending
    outcome: str = ""
    """Empty when the attempt is repeated."""
    reason: str = ""
    error_type: str = ""
    traceback: str = ""
    outputs: tuple[str, ...] = ()
    """Documents to put into place first."""
    has_succeeded: bool = False
    """Its checkpoint has served its purpose."""
    is_run_fault: bool = False
    lacks_key: bool = False


def decide_end(
    word: LastWord,
    exit_code: int | None,
    *,
    ended_because: str = "",
    held_because: str = "",
    is_stopping: bool = False,
    may_retry: bool = False,
) -> ItemEnd:
    """`exit_code` is None when the fork server was lost with the worker; `ended_because` when we killed it."""
    match word:
        case ItemDone(is_parked=True):
            return ItemEnd(ending=Ending.NOT_DONE, outcome="awaiting_review")
        case ItemDone(outcome="failed"):
            return ItemEnd(ending=Ending.NOT_DONE, outcome="failed", reason=word.reason)
        case ItemDone(outcome=outcome) if outcome in _OWN_OUTCOMES:
            reason = f"the graph gave {outcome!r} as its outcome, a word of the engine's own; choose another"
            return ItemEnd(ending=Ending.NOT_DONE, outcome="failed", reason=reason)
        case ItemDone():
            return ItemEnd(
                ending=Ending.NOT_DONE if word.outcome in ATTENTION_OUTCOMES else Ending.DONE,
                outcome=word.outcome,
                reason=word.reason,
                outputs=tuple(word.outputs),
                has_succeeded=True,
            )
        case ItemFailed(is_run_fault=True):
            return ItemEnd(ending=Ending.INTERRUPTED, outcome="interrupted", reason=word.message, is_run_fault=True)
        case ItemFailed():
            return ItemEnd(
                ending=Ending.NOT_DONE,
                outcome="failed",
                reason=word.message,
                error_type=word.error_type,
                traceback=word.traceback,
                lacks_key=word.exit_code == ExitCode.NO_USABLE_KEY,
            )
    if held_because and not is_stopping:
        return ItemEnd(ending=Ending.NOT_DONE, outcome="paused", reason=held_because)
    if isinstance(word, ItemStopped) or (is_stopping and not ended_because):
        return ItemEnd(ending=Ending.INTERRUPTED, outcome="interrupted")
    if exit_code is None:
        return ItemEnd(ending=Ending.LOST, reason="its fork server was killed")
    return _crash(ended_because, exit_code, may_retry=may_retry and not is_stopping)


def without_documents(end: ItemEnd, reason: str) -> ItemEnd:
    """The same end when its documents could not be put into place: it failed, and keeps its checkpoint."""
    return replace(
        end,
        ending=Ending.NOT_DONE,
        outcome="failed",
        reason=reason,
        error_type="OSError",
        has_succeeded=False,
    )


def _crash(ended_because: str, exit_code: int, *, may_retry: bool) -> ItemEnd:
    reason = ended_because or _death(exit_code)
    if may_retry:
        return ItemEnd(ending=Ending.CRASHED, reason=reason)
    kind = "TimedOut" if reason.startswith("timed out") else "Stalled" if ended_because else "Crashed"
    return ItemEnd(ending=Ending.CRASHED, outcome="failed", reason=reason, error_type=kind)


def _death(exit_code: int) -> str:
    if exit_code >= 0:
        return f"worker exited with status {exit_code} before it was done"
    try:
        name = signal.Signals(-exit_code).name
    except ValueError:
        name = "unknown"
    hint = " (out of memory?)" if exit_code == -signal.SIGKILL else ""
    return f"worker killed by signal {-exit_code} ({name}){hint}"

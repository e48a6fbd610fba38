"""What is worth telling somebody who does not watch, and in which words. Pure: events in, notices out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from agentos.errors import ExitCode
from agentos.events import (
    ControlTaken,
    Event,
    ItemEnded,
    ItemRetried,
    OutputProduced,
    PoolExhausted,
    RunEnded,
    RunFaulted,
    RunStarted,
    Stamped,
)
from agentos.reporters.logs import log_name
from agentos.reporters.wording import counts_in_words, lines, outcome_words
from agentos.text.tail import Tail
from agentos.text.terminal import clean_block
from agentos.text.words import counted, one_line

VERSION: Final = 1
MOST_TOLD: Final = 20
"""Items in one notification; of more only the number is told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """One thing that happened."""

    reason: str
    """One of `notify.on`."""
    text: str
    item_id: str = ""
    """Empty for the run itself."""
    label: str = ""
    outcome: str = ""
    log: str = ""
    log_tail: str = ""
    exit_code: int | None = None


class Occasions:
    """Follows a run and says what to tell of it. The same thing is told once."""

    def __init__(self, reasons: Collection[str], run_dir: Path) -> None:
        self._reasons = frozenset(reasons)
        self._run_dir = run_dir
        self._label_prefix = ""
        self._told: set[tuple[str, str, str]] = set()
        self._tails: defaultdict[str, Tail] = defaultdict(Tail)

    def take(self, stamped: Stamped) -> Notice | None:
        event = stamped.event
        match event:
            case RunStarted(label_prefix=prefix):
                self._label_prefix = prefix
            case OutputProduced(item_id=item_id, block=block):
                self._tails[item_id].add(block)
            case ItemRetried(item_id=item_id):
                self._tails.pop(item_id, None)
        found = self._notice(event)
        if found is None or found.reason not in self._reasons:
            return None
        key = (found.reason, found.item_id, "" if found.item_id else _kind(event))
        if key in self._told:
            return None
        self._told.add(key)
        return found

    def _notice(self, event: Event) -> Notice | None:
        match event:
            case ItemEnded(outcome=outcome):
                tail = self._tails.pop(event.item_id, Tail())
                if outcome.needs_person:
                    return self._of_item("needs_review", event, tail)
                # What was skipped for it is told by what failed.
                return self._of_item("failed", event, tail) if outcome.is_failure and not outcome.never_ran else None
            case RunFaulted(reason=reason):
                return Notice(reason="failed", text=one_line(reason))
            case PoolExhausted(kind="limited" | "none_valid", waiting=()):
                return Notice(reason="paused", text=_words(event))
            case ControlTaken(act="pause"):
                return Notice(reason="paused", text=_words(event))
            # Whoever stops a run by hand knows.
            case RunEnded(exit_code=code, counts=counts) if code != ExitCode.INTERRUPTED:
                return Notice(reason="done", text=counts_in_words(counts), exit_code=code)
            case _:
                return None

    def _of_item(self, reason: str, event: ItemEnded, tail: Tail) -> Notice:
        why = one_line(event.reason or event.error_type)
        return Notice(
            reason=reason,
            text=f"{outcome_words(event.outcome)}: {why}" if why else outcome_words(event.outcome),
            item_id=event.item_id,
            label=self._label_prefix + event.item_id,
            outcome=str(event.outcome),
            log=str(self._run_dir / log_name(event.item_id)),
            log_tail=clean_block(tail.block(), keep_colour=False).decode(errors="replace"),
        )


def _kind(event: Event) -> str:
    """What makes two notices of the run itself the same."""
    match event:
        case PoolExhausted(kind=kind):
            return kind
        case ControlTaken(by=by, reason=reason):
            return f"{by} {reason}"
        case RunFaulted(reason=reason):
            return reason
        case _:
            return ""


def _words(event: Event) -> str:
    return " ".join(line.partition("] ")[2] for line in lines(event))


def title_of(notices: Sequence[Notice]) -> str:
    """Of notices of one reason: `2 items failed`, `LLD-42 needs you`."""
    first, number = notices[0], len(notices)
    who = first.label if number == 1 else counted(number, "item")
    match first.reason:
        case "done":
            return "Run done" if not first.exit_code else "Run ended"
        case "paused":
            return "Run paused"
        case "failed":
            return f"{who} failed" if first.item_id else "Run stopped by a fault"
        case _:
            return f"{who} {'needs' if number == 1 else 'need'} you"


def text_of(notices: Sequence[Notice]) -> str:
    """A line for each, as many as fit a notification."""
    shown = [f"{each.label}: {each.text}" if each.label else each.text for each in notices[:5]]
    more = [f"and {len(notices) - 5} more"] if len(notices) > 5 else []
    return "\n".join([*shown, *more])


def document_of(notices: Sequence[Notice], run: RunStarted, run_dir: Path) -> dict[str, Any]:
    """What a command gets on standard input: the first in full, the rest of those told with it beside it."""
    first, *others = [_as_record(each) for each in notices[:MOST_TOLD]]
    return {
        "version": VERSION,
        "run": run_dir.name,
        "run_dir": str(run_dir),
        "workflow": run.workflow,
        "project_dir": run.project_dir,
        "reason": notices[0].reason,
        "title": title_of(notices),
        "count": len(notices),
        **first,
        "exit_code": notices[0].exit_code,
        "others": others,
    }


def _as_record(notice: Notice) -> dict[str, Any]:
    return {
        "item": notice.item_id or None,
        "label": notice.label or None,
        "outcome": notice.outcome or None,
        "text": notice.text,
        "log": notice.log or None,
        "log_tail": notice.log_tail,
    }

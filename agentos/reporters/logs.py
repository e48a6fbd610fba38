"""`{item}.log`: all an item and its children wrote, with its nodes and its end."""

from __future__ import annotations

from pathlib import Path
from typing import assert_never

from agentos.events import (
    BudgetNoticed,
    ChildrenLeaked,
    ItemEnded,
    ItemNoticed,
    ItemRetried,
    ItemStalled,
    ItemStarted,
    KeyCoolingDown,
    NodeFinished,
    NodeStarted,
    OutputProduced,
    ParallelismChanged,
    PoolExhausted,
    PoolResumed,
    RunEnded,
    RunFaulted,
    RunStarted,
    Stamped,
    StopRequested,
    Warned,
)
from agentos.outcomes import FAILED
from agentos.reporters.item_files import ItemFiles
from agentos.reporters.wording import outcome_words
from agentos.text.terminal import clean_block
from agentos.text.words import counted, duration, one_line


def log_name(item_id: str) -> str:
    """The name of an item's log in the run's folder."""
    return f"{item_id}.log"


class LogReporter:
    """Writes one log an item. Holds no more files open than items run."""

    name = "writing the items' logs"

    def __init__(self, run_dir: Path) -> None:
        self._files = ItemFiles(run_dir, log_name)

    def handle(self, stamped: Stamped) -> None:
        """Raises OSError if the log cannot be written."""
        event = stamped.event
        match event:
            case OutputProduced(item_id=item_id, block=block):
                # Blocks come in safe to show, so only colour is left to take out, and few have any.
                plain = clean_block(block, keep_colour=False) if b"\x1b" in block else block
                self._files.append(item_id, plain)
            case ItemStarted(item_id=item_id):
                self._files.open(item_id)
                self._note(stamped, item_id, _start_words(event))
            case ItemEnded(item_id=item_id):
                self._note(stamped, item_id, _end_words(event))
                if event.traceback:
                    self._files.append(item_id, _safe_lines(event.traceback))
                self._files.close(item_id)
            case ItemRetried(item_id=item_id, attempt=attempt, reason=reason):
                self._note(stamped, item_id, f"attempt {attempt} failed: {one_line(reason)}; trying again")
                self._files.close(item_id)
            case NodeStarted() | NodeFinished() | ItemNoticed() | ItemStalled() | ChildrenLeaked():
                self._note(stamped, event.item_id, _middle_words(event))
            case (
                RunStarted()
                | StopRequested()
                | RunFaulted()
                | Warned()
                | PoolExhausted()
                | PoolResumed()
                | KeyCoolingDown()
                | ParallelismChanged()
                | BudgetNoticed()
                | RunEnded()
            ):
                pass
            case _:
                assert_never(event)

    def close(self) -> None:
        self._files.close_all()

    def _note(self, stamped: Stamped, item_id: str, text: str) -> None:
        self._files.append(item_id, f"{stamped.time} {text}\n".encode(errors="replace"))


def _start_words(event: ItemStarted) -> str:
    start = f"attempt {event.attempt} started (pid {event.pid})"
    return start if event.resumed_after is None else f"{start}, resuming after {one_line(event.resumed_after)}"


def _middle_words(event: NodeStarted | NodeFinished | ItemNoticed | ItemStalled | ChildrenLeaked) -> str:
    match event:
        case NodeStarted(node=node):
            return f">>> Executing: {one_line(node)}"
        case NodeFinished(node=node, seconds=seconds):
            return f"<<< Finished: {one_line(node)} ({duration(seconds)})"
        case ItemNoticed(text=text):
            return one_line(text)
        case ItemStalled(silent_seconds=seconds):
            return f"no sign of life for {duration(seconds)}, ending it"
        case ChildrenLeaked(pids=pids):
            return f"left processes behind, ended now: {' '.join(map(str, pids))}"
        case _:
            assert_never(event)


def _end_words(event: ItemEnded) -> str:
    name = "FAILED" if event.outcome == FAILED else outcome_words(event.outcome)
    cause = ": ".join(one_line(part, longest=4000) for part in (event.error_type, event.reason) if part)
    if event.outcome.never_ran:
        return f"{name}: {cause}" if cause else name
    after = f"after {duration(event.seconds)} in {counted(event.attempts, 'attempt')}"
    return f"{name} {after}: {cause}" if cause else f"{name} {after}"


def _safe_lines(text: str) -> bytes:
    ended = text if text.endswith("\n") else text + "\n"
    return clean_block(ended.encode(errors="replace"), keep_colour=False)

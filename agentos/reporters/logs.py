"""`{item}.log`: all an item and its children wrote, with its nodes and its end."""

from __future__ import annotations

from pathlib import Path
from typing import assert_never

from agentos.events import (
    BudgetNoticed,
    CallFinished,
    CallStarted,
    ChildrenLeaked,
    ControlTaken,
    CustomWritten,
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
    OutputProduced,
    ParallelismChanged,
    PoolExhausted,
    PoolResumed,
    PreflightDone,
    ResultProduced,
    RunEnded,
    RunFaulted,
    RunNoticed,
    RunStarted,
    Stamped,
    StopRequested,
    Warned,
)
from agentos.reporters.item_files import ItemFiles
from agentos.reporters.wording import ItemEvent, log_text
from agentos.text.terminal import clean_block


def log_name(item_id: str) -> str:
    """The name of an item's log in the run's folder."""
    return f"{item_id}.log"


class LogReporter:
    """Writes one log per item. Holds no more files open than items run."""

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
                self._note(stamped, event)
            case ItemEnded(item_id=item_id):
                self._note(stamped, event)
                if event.traceback:
                    self._files.append(item_id, _safe_lines(event.traceback))
                self._files.close(item_id)
            case ItemRetried(item_id=item_id):
                self._note(stamped, event)
                self._files.close(item_id)
            case NodeStarted() | NodeFinished() | CustomWritten() | ItemNoticed() | ItemStalled() | ChildrenLeaked():
                self._note(stamped, event)
            case (
                RunStarted()
                | PreflightDone()
                | ResultProduced()
                | CallStarted()
                | CallFinished()
                | ItemWaiting()
                | ItemWaited()
                | StopRequested()
                | RunFaulted()
                | Warned()
                | RunNoticed()
                | PoolExhausted()
                | PoolResumed()
                | KeyCoolingDown()
                | ParallelismChanged()
                | ControlTaken()
                | BudgetNoticed()
                | RunEnded()
            ):
                pass
            case _:
                assert_never(event)

    def close(self) -> None:
        self._files.close_all()

    def _note(self, stamped: Stamped, event: ItemEvent) -> None:
        self._files.append(event.item_id, f"{stamped.time} {log_text(event)}\n".encode(errors="replace"))


def _safe_lines(text: str) -> bytes:
    ended = text if text.endswith("\n") else text + "\n"
    return clean_block(ended.encode(errors="replace"), keep_colour=False)

"""`{item}.log`: all an item and its children wrote, with its nodes and its end."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, assert_never

from agentos.events import (
    CallFinished,
    CallStarted,
    ChildrenLeaked,
    CustomWritten,
    ItemEnded,
    ItemEvent,
    ItemNoticed,
    ItemRetried,
    ItemStalled,
    ItemStarted,
    ItemWaited,
    ItemWaiting,
    NodeFinished,
    NodeStarted,
    OutputProduced,
    ResultProduced,
    Stamped,
)
from agentos.reporters.item_files import ItemFiles
from agentos.reporters.wording import log_text
from agentos.text.terminal import clean_block

# As `log_text` words them, after the stamp.
_STEP_LINE: Final = re.compile(
    r"\d{4}-\d\d-\d\dT[\d:.]+Z (?:>>> Executing: |<<< Finished: |attempt \d+ started \(pid )"
)


def log_name(item_id: str) -> str:
    """The name of an item's log in the run's folder."""
    return f"{item_id}.log"


def is_step_line(line: str) -> bool:
    """Whether it is one of those by which a log tells where its item is, and no output of the item."""
    return _STEP_LINE.match(line) is not None


class LogReporter:
    """Writes one log per item. Holds no more files open than items run."""

    name = "writing the items' logs"

    def __init__(self, run_dir: Path) -> None:
        self._files = ItemFiles(run_dir, log_name)

    def handle(self, stamped: Stamped) -> None:
        """Raises OSError if the log cannot be written."""
        event = stamped.event
        if not isinstance(event, ItemEvent):
            return
        match event:
            case OutputProduced(item_id=item_id, block=block):
                # Blocks come in safe to show; their colours stay, for the page and for `less -R`.
                self._files.append(item_id, block)
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
            case ResultProduced() | CallStarted() | CallFinished() | ItemWaiting() | ItemWaited():
                pass  # As the console: lines would drown what an item says itself.
            case _:
                assert_never(event)

    def close(self) -> None:
        self._files.close_all()

    def _note(self, stamped: Stamped, event: ItemEvent) -> None:
        self._files.append(event.item_id, f"{stamped.time} {log_text(event)}\n".encode(errors="replace"))


def _safe_lines(text: str) -> bytes:
    ended = text if text.endswith("\n") else text + "\n"
    return clean_block(ended.encode(errors="replace"), keep_colour=False)

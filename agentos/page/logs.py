"""An item's log, in pieces: by byte offset, from the end, and as it grows. Only files of a run's own folder."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from agentos.page.mask import Mask
from agentos.reporters.logs import log_name
from agentos.text.terminal import clean_block

CHUNK_BYTES: Final = 64 * 1024
MOST_BYTES: Final = 1024 * 1024
"""The most that one answer holds."""


def chunk(run_dir: Path, item_id: str, offset: int, limit: int, mask: Mask, *, is_final: bool) -> dict[str, Any]:
    """Part of the log; an offset below zero counts from the end, and is moved to the start of a line.

    It ends with a line if it can: the rest of a line that is being written comes with the next part.
    """
    limit = min(max(1, limit), MOST_BYTES)
    with _opened(run_dir, item_id) as descriptor:
        size = os.fstat(descriptor).st_size if descriptor is not None else 0
        start = min(offset, size) if offset >= 0 else max(0, size + offset)
        data = os.pread(descriptor, limit, start) if descriptor is not None else b""
    if offset < 0 and start > 0:
        skipped = data.find(b"\n") + 1
        start, data = start + skipped, data[skipped:]
    data = _whole_lines(data, is_last=start + len(data) >= size and is_final, is_full=len(data) >= limit)
    return {
        "item": item_id,
        "offset": start,
        "next": start + len(data),
        "size": size,
        "text": _shown(data, mask),
        "is_final": is_final and start + len(data) >= size,
    }


def _whole_lines(data: bytes, *, is_last: bool, is_full: bool) -> bytes:
    end = data.rfind(b"\n") + 1
    if is_last or (not end and is_full):
        return data  # A line without an end, or of more than a whole chunk.
    return data[:end]


def _shown(data: bytes, mask: Mask) -> str:
    ends = data.endswith(b"\n")
    safe = clean_block(data if ends else data + b"\n", keep_colour=True).decode(errors="replace")
    return mask.text(safe if ends else safe.removesuffix("\n"))


@contextmanager
def _opened(run_dir: Path, item_id: str) -> Iterator[int | None]:
    """None when there is no such log: no link is followed, and nothing but a regular file is read."""
    name = log_name(item_id)
    if "/" in name or "\0" in name:
        yield None
        return
    try:
        descriptor = os.open(run_dir / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        yield None
        return
    try:
        yield descriptor if stat.S_ISREG(os.fstat(descriptor).st_mode) else None
    finally:
        os.close(descriptor)


class LogTail:
    """Follows one log for one reader."""

    def __init__(self, run_dir: Path, item_id: str, offset: int, mask: Mask) -> None:
        self._run_dir = run_dir
        self._item_id = item_id
        self._mask = mask
        self.offset = offset

    def chunks(self) -> list[dict[str, Any]]:
        """What has come since, in parts."""
        found = []
        for _ in range(MOST_BYTES // CHUNK_BYTES):
            part = chunk(self._run_dir, self._item_id, self.offset, CHUNK_BYTES, self._mask, is_final=False)
            self.offset = part["next"]
            if not part["text"]:
                break
            found.append(part)
        return found

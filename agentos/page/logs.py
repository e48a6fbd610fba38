"""An item's log, in pieces: by byte offset, from the end, and as it grows. Only files of a run's own folder."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from agentos.page.mask import Mask
from agentos.reporters.logs import is_step_line, log_name
from agentos.text.terminal import clean_block

CHUNK_BYTES: Final = 64 * 1024
_TAIL_BYTES: Final = 4096
_AROUND_BYTES: Final = 4096
"""So much before and after a part is looked at for keys that are only partly in it."""
MOST_BYTES: Final = 1024 * 1024
"""The most that one answer holds."""


def log_path(run_dir: Path, item_id: str) -> Path | None:
    """None for an item whose name would lead out of the run's folder: a damaged record may have one."""
    name = log_name(item_id)
    return None if "/" in name or "\0" in name else run_dir / name


def last_line(run_dir: Path, item_id: str, size: int) -> str:
    """The item's own last line of a log of this size, as far as its end tells."""
    with _opened(run_dir, item_id) as descriptor:
        tail = b"" if descriptor is None else os.pread(descriptor, _TAIL_BYTES, max(0, size - _TAIL_BYTES))
    lines = tail.decode(errors="replace").splitlines()
    return next((line for line in reversed(lines) if line.strip() and not is_step_line(line)), "")


def chunk(run_dir: Path, item_id: str, offset: int, limit: int, mask: Mask, *, is_final: bool) -> dict[str, Any]:
    """Part of the log; an offset below zero counts from the end, and is moved to the start of a line.

    It ends with a line if it can: the rest of a line that is being written comes with the next part.
    """
    limit = min(max(1, limit), MOST_BYTES)
    with _opened(run_dir, item_id) as descriptor:
        size = os.fstat(descriptor).st_size if descriptor is not None else 0
        start = min(offset, size) if offset >= 0 else max(0, size + offset)
        first = max(0, start - _AROUND_BYTES)
        length = start - first + limit + _AROUND_BYTES
        window = os.pread(descriptor, length, first) if descriptor is not None else b""
    window = mask.output(window)
    data = window[start - first :][:limit]
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
    """Masked before, but for what only lines that are joined, or codes that are dropped, make a key of."""
    ends = data.endswith(b"\n")
    safe = clean_block(data if ends else data + b"\n", keep_colour=True).decode(errors="replace")
    return mask.text(safe if ends else safe.removesuffix("\n"))


@contextmanager
def _opened(run_dir: Path, item_id: str) -> Iterator[int | None]:
    """None when there is no such log: no link is followed, and nothing but a regular file is read."""
    path = log_path(run_dir, item_id)
    if path is None:
        yield None
        return
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
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

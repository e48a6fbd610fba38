"""Append-only files of a run, one writer each: whole records at the end of a file, one open file per running item."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC


class AppendFile:
    """An open file that takes whole lines. They are with the operating system when `append` returns."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = os.open(path, _FLAGS, 0o600)
        status = os.fstat(self._descriptor)
        self._identity = status.st_dev, status.st_ino
        self._size = status.st_size
        self._is_torn = False

    @property
    def is_in_place(self) -> bool:
        """Whether all that was written is under the file's name: nobody has removed, replaced or shortened it."""
        try:
            status = os.stat(self._path)  # noqa: PTH116  Once per record.
        except OSError:
            return False
        return (status.st_dev, status.st_ino) == self._identity and status.st_size >= self._size

    def append(self, lines: bytes) -> None:
        """One write; more only after a short one. Raises OSError when the file cannot take it."""
        # After a failed write the last line is half there: it must not swallow the next record.
        rest = memoryview(b"\n" + lines if self._is_torn else lines)
        while rest:
            written = os.write(self._descriptor, rest)
            self._size += written
            self._is_torn = written < len(rest)
            rest = rest[written:]

    def close(self) -> None:
        os.close(self._descriptor)


class ItemFiles:
    """One file per item, open only while the item runs."""

    def __init__(self, run_dir: Path, name_of: Callable[[str], str]) -> None:
        self._run_dir = run_dir
        self._name_of = name_of
        self._open: dict[str, AppendFile] = {}

    def open(self, item_id: str) -> None:
        """Keep the item's file open until `close`."""
        if item_id not in self._open:
            self._open[item_id] = self._file(item_id)

    def append(self, item_id: str, lines: bytes) -> None:
        """Write to the item's file. One that is not open (an item that never ran) is opened for this write alone."""
        file = self._open.get(item_id)
        if file is not None:
            file.append(lines)
            return
        file = self._file(item_id)
        try:
            file.append(lines)
        finally:
            file.close()

    def close(self, item_id: str) -> None:
        file = self._open.pop(item_id, None)
        if file is not None:
            file.close()

    def close_all(self) -> None:
        for item_id in tuple(self._open):
            self.close(item_id)

    def _file(self, item_id: str) -> AppendFile:
        return AppendFile(self._run_dir / self._name_of(item_id))

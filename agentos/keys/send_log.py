"""The calls of the last minute, on disk: what one run sends, another at the same time or right after it knows."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from agentos.files import PRIVATE_DIR_MODE, PRIVATE_FILE_MODE
from agentos.keys.pool import PastSend
from agentos.keys.presence import begin_turn, end_turn
from agentos.paths import key_sends_path

KEPT_SECONDS = 120.0
LONGEST_BYTES = 1024 * 1024
"""Of a file that is shortened when it is next opened; a line is about a hundred."""


class SendLog:
    """One line per call, by the fingerprint of its key and never by its secret or name.

    Whoever decides whether a call fits does so in its turn, in which nobody else notes one: together, all pools of a
    home keep within a limit. A turn ends with its process, so that a kill blocks nobody.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = key_sends_path() if path is None else path
        self._me = os.urandom(4).hex()
        self._descriptor: int | None = None
        self._position = 0

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Nobody else sends inside the block. Raises OSError when the log cannot be kept."""
        descriptor = self._opened()
        begin_turn(descriptor)
        try:
            yield
        finally:
            end_turn(descriptor)

    def note(self, fingerprint: str, model: str, at: float, tokens: int) -> None:
        """In a turn. Raises OSError when it cannot be kept."""
        line = json.dumps([round(at, 3), fingerprint, model, tokens, self._me], separators=(",", ":"))
        os.write(self._opened(), f"{line}\n".encode())

    def sent_by_others(self, fingerprints: Mapping[str, str], now: float) -> list[PastSend]:
        """What others have sent with the keys at hand since this was last asked; at first, in the last minutes."""
        descriptor = self._opened()
        size = os.fstat(descriptor).st_size
        begin, self._position = min(self._position, size), size
        if size == begin:
            return []
        begin = max(begin, size - LONGEST_BYTES)
        names = {mark: name for name, mark in fingerprints.items()}
        lines = os.pread(descriptor, size - begin, begin).decode(errors="replace").splitlines()
        return [send for line in lines if (send := self._read(line, names, now)) is not None]

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _read(self, line: str, names: Mapping[str, str], now: float) -> PastSend | None:
        try:
            at, mark, model, tokens, sender = json.loads(line)
            if sender == self._me or mark not in names or float(at) < now - KEPT_SECONDS:
                return None
            return PastSend(names[mark], str(model), float(at), int(tokens))
        except (ValueError, TypeError):
            return None  # A line of another version, or of a full disk.

    def _opened(self) -> int:
        if self._descriptor is None:
            self._path.parent.mkdir(mode=PRIVATE_DIR_MODE, parents=True, exist_ok=True)
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            self._descriptor = os.open(self._path, flags, PRIVATE_FILE_MODE)
            self._shorten(self._descriptor)
        return self._descriptor

    def _shorten(self, descriptor: int) -> None:
        """Keep the end of a long log. In place: others have it open."""
        if os.fstat(descriptor).st_size <= LONGEST_BYTES:
            return
        begin_turn(descriptor)
        try:
            size = os.fstat(descriptor).st_size
            kept = os.pread(descriptor, LONGEST_BYTES // 2, size - LONGEST_BYTES // 2).partition(b"\n")[2]
            os.ftruncate(descriptor, 0)
            os.write(descriptor, kept)
        finally:
            end_turn(descriptor)

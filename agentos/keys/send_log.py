"""The calls of the last minute, on disk: a run right after another, or after a kill, knows what was just sent."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path

from agentos.files import PRIVATE_DIR_MODE, PRIVATE_FILE_MODE, lock_of, locked, write_private
from agentos.keys.pool import PastSend
from agentos.paths import key_sends_path

KEPT_SECONDS = 120.0
LONGEST_BYTES = 1024 * 1024
"""Of a file that is shortened when it is next opened; a line is about a hundred."""


class SendLog:
    """One line per call, by the fingerprint of its key and never by its secret or name.

    A line is one short append, so that runs at the same time do not mix theirs and a kill leaves none cut in two.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = key_sends_path() if path is None else path
        self._descriptor: int | None = None

    def note(self, fingerprint: str, model: str, at: float, tokens: int) -> None:
        """Raises OSError when it cannot be kept."""
        if self._descriptor is None:
            self._descriptor = self._open()
        line = json.dumps([round(at, 3), fingerprint, model, tokens], separators=(",", ":"))
        os.write(self._descriptor, f"{line}\n".encode())

    def recent(self, fingerprints: Mapping[str, str], now: float) -> list[PastSend]:
        """What was sent a moment ago with the keys at hand, by whomever."""
        names = {mark: name for name, mark in fingerprints.items()}
        sends = []
        for line in self._lines():
            try:
                at, mark, model, tokens = json.loads(line)
                if now - KEPT_SECONDS < float(at) and mark in names:
                    sends.append(PastSend(names[mark], str(model), float(at), int(tokens)))
            except (ValueError, TypeError):
                continue  # A line of another version, or of a full disk.
        return sends

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _open(self) -> int:
        self._path.parent.mkdir(mode=PRIVATE_DIR_MODE, parents=True, exist_ok=True)
        if self._path.exists() and self._path.stat().st_size > LONGEST_BYTES:
            with locked(lock_of(self._path)):
                self._shorten(time.time())
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        return os.open(self._path, flags, PRIVATE_FILE_MODE)

    def _shorten(self, now: float) -> None:
        """What another run appends meanwhile may be lost, at most once in ten thousand calls."""
        kept = [line for line in self._lines() if line[1:11].isdigit() and int(line[1:11]) > now - KEPT_SECONDS]
        write_private(self._path, "".join(f"{line}\n" for line in kept))

    def _lines(self) -> list[str]:
        try:
            with self._path.open("rb") as file:
                file.seek(max(0, self._path.stat().st_size - LONGEST_BYTES))
                return file.read().decode(errors="replace").splitlines()
        except OSError:
            return []

"""What a home has spent on one UTC day, on disk: one line when money is reserved, one when the call is over.

A reservation counts as spent until its call is over. That of a process that died counts for the rest of the day:
nobody will say what its call cost, and the provider may well charge for it.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Collection
from contextlib import closing, suppress
from pathlib import Path

from agentos.files import PRIVATE_DIR_MODE, PRIVATE_FILE_MODE, remove_all
from agentos.keys.presence import begin_turn, end_turn

_RESERVED, _SETTLED = "+", "="
_READ_BYTES = 1 << 20


class DayLedger:
    """Of all processes of the home. Every method raises OSError when the file cannot be read or written."""

    def __init__(self, path: Path, me: str) -> None:
        """`me` names this process in it."""
        path.parent.mkdir(mode=PRIVATE_DIR_MODE, parents=True, exist_ok=True)
        self.path = path
        self._me = me
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._descriptor = os.open(path, flags, PRIVATE_FILE_MODE)
        self._position = 0
        self._open: dict[tuple[str, int], float] = {}
        """What is reserved, by process and call."""
        self._settled_usd = 0.0

    def total_usd(self) -> float:
        """Spent or reserved, by everybody."""
        self._read()
        return self._settled_usd + sum(self._open.values())

    def has_open(self, processes: Collection[str]) -> bool:
        """Whether a call of these may still turn out to cost less than is reserved for it."""
        self._read()
        return any(process in processes for process, _ in self._open)

    def reserve(self, call: int, usd: float, cap_usd: float) -> bool:
        """False when it does not fit, or when a process that was suspended keeps the file locked."""
        if not begin_turn(self._descriptor):
            return False
        try:
            if self.total_usd() + usd > cap_usd:
                return False
            self._write(_RESERVED, call, usd)
            return True
        finally:
            end_turn(self._descriptor)

    def settle(self, call: int, usd: float) -> None:
        self._write(_SETTLED, call, usd)

    def close(self) -> None:
        os.close(self._descriptor)

    def _write(self, kind: str, call: int, usd: float) -> None:
        line = json.dumps([kind, self._me, call, round(usd, 9)], separators=(",", ":"))
        # In one piece, and apart from a line of another that a full disk has cut off.
        entry = f"\n{line}\n".encode()
        if os.write(self._descriptor, entry) < len(entry):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))

    def _read(self) -> None:
        while data := os.pread(self._descriptor, _READ_BYTES, self._position):
            whole, newline, _ = data.rpartition(b"\n")
            if not newline:
                return  # Its end is not there yet.
            self._position += len(whole) + 1
            for line in whole.splitlines():
                self._take(line)

    def _take(self, line: bytes) -> None:
        try:
            kind, process, call, usd = json.loads(line)
            known, amount = (str(process), int(call)), float(usd)
        except (ValueError, TypeError):
            return  # Empty, or the rest of a line that a full disk has cut off.
        if kind == _RESERVED:
            self._open[known] = amount
        elif kind == _SETTLED and self._open.pop(known, None) is not None:
            self._settled_usd += amount


def ledger_of(folder: Path, day: str, me: str) -> DayLedger:
    """That of `day`, like `2026-11-19`. Of earlier ones the last is kept: calls of its may still be settled."""
    ledger = DayLedger(folder / f"{day}.jsonl", me)
    remove_all(sorted(path for path in folder.glob("*.jsonl") if path.stem < day)[:-1])
    return ledger


def spent_usd(folder: Path, day: str) -> float:
    """What was spent or is reserved; makes no file. 0.0 where none can be read."""
    path = folder / f"{day}.jsonl"
    if not path.exists():
        return 0.0
    with suppress(OSError), closing(DayLedger(path, "")) as ledger:
        return ledger.total_usd()
    return 0.0

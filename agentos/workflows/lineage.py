"""The history of one item's documents: an append-only folder of numbered files."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from agentos.errors import InvalidIdentifier
from agentos.files import sync_dir

_NAME = re.compile(r"(\d{3,})-([a-z0-9][a-z0-9-]*)\.(md|json)")
_KIND = re.compile(r"[a-z0-9][a-z0-9-]{0,60}")


@dataclass(frozen=True, slots=True)
class Entry:
    """One file of a lineage: `002-draft.md` has number 2 and kind `draft`."""

    number: int
    kind: str
    path: Path

    def read(self) -> str:
        return self.path.read_bytes().decode("utf-8")


class Lineage:
    """One item's folder. Entries are written whole or not at all, never changed, and never two under one number."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def entries(self, kind: str | None = None) -> list[Entry]:
        """All entries, or those of one kind, in order. Files that are none are ignored."""
        names = [path.name for path in self.directory.iterdir()] if self.directory.is_dir() else []
        found = [
            Entry(int(match[1]), match[2], self.directory / name)
            for name in names
            if (match := _NAME.fullmatch(name))
        ]
        return sorted(
            (entry for entry in found if kind in {None, entry.kind}), key=lambda entry: (entry.number, entry.kind)
        )

    def latest(self, kind: str) -> Entry | None:
        """The last entry of a kind."""
        return next(reversed(self.entries(kind)), None)

    def last_number(self) -> int:
        """The number of the last entry, 0 when there is none: what a node keeps to resume with (see `record`)."""
        return max((entry.number for entry in self.entries()), default=0)

    def record(self, kind: str, content: str, *, after: int | None = None) -> Entry:
        """Append a document (`issue`, `draft`, `prompt-design`; `verdict` is JSON). On disk when this returns.

        A step that runs again after a crash finds what it wrote: the same content as the last entry of that kind is
        not written twice. With `after`, only entries above that number count as this step's own, so that a later
        step may record the same content once more.
        """
        if _KIND.fullmatch(kind) is None:
            raise InvalidIdentifier(f"lineage kind {kind!r}: use lower-case letters, digits and dashes")
        data = content.encode("utf-8", "backslashreplace")
        own = [entry for entry in self.entries(kind) if after is None or entry.number > after]
        for entry in own[-1:] if after is None else own:
            if entry.path.read_bytes() == data:
                return entry
        return self._append(kind, data)

    def _append(self, kind: str, data: bytes) -> Entry:
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        number = self.last_number() + 1
        while (path := self._write_as(number, kind, data)) is None:
            number += 1
        return Entry(number, kind, path)

    def _write_as(self, number: int, kind: str, data: bytes) -> Path | None:
        """Write under a number, or None when it is taken.

        The draft of the file is also the claim on its number: whoever creates it, exclusively, may rename it. Another
        writer may have finished with the number in between, so the folder is looked at once the claim is held.
        A claim left by a killed writer costs its number, nothing more.
        """
        claim = self.directory / f".{number:03d}.tmp"
        try:
            descriptor = os.open(claim, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        except FileExistsError:
            return None
        path = self.directory / f"{number:03d}-{kind}.{'json' if kind.startswith('verdict') else 'md'}"
        try:
            with os.fdopen(descriptor, "wb") as file:
                if any(entry.number == number for entry in self.entries()):
                    return None
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            claim.rename(path)
        finally:
            claim.unlink(missing_ok=True)
        sync_dir(self.directory)
        return path

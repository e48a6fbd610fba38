"""The copy of an item's standing that can be read without its database: one line in a file beside it."""

from __future__ import annotations

import json
import os
import zlib
from dataclasses import fields
from pathlib import Path

from agentos.engine.checkpoints.protocol import Standing
from agentos.files import read_regular, write_private

_FORMAT = 1
_BLOCK_BYTES = 512
"""Lines are filled up to whole blocks, so that most replace one of the same length."""
_MOST_READS = 3
_MOST_BYTES = 1 << 26
_NAMES = [known.name for known in fields(Standing)]


def to_text(standing: Standing) -> str:
    # Not `asdict`, which copies what it finds: this is written with every step of every item.
    return json.dumps({"format": _FORMAT, **{name: getattr(standing, name) for name in _NAMES}}, default=str)


def from_text(text: str) -> Standing | None:
    """None for what this version did not write."""
    try:
        fields = json.loads(text)
        if fields.pop("format") != _FORMAT:
            return None
        return Standing(**fields)
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def write(path: Path, text: str, *, is_lasting: bool) -> None:
    """A lasting one is on the disk itself, for a person to find. Others cost no sync: they are replaced soon.

    Those are written in place: a rename would make the database's next sync wait for the new file as well.
    """
    line = _line(text)
    if is_lasting:
        write_private(path, line.decode())
        return
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.pwrite(descriptor, line, 0)
    finally:
        os.close(descriptor)


def read(path: Path) -> Standing | None:
    """None when there is none, or none that is whole. One that is just being written is read again."""
    for _ in range(_MOST_READS):
        try:
            line, _, _ = read_regular(path, _MOST_BYTES).partition(b"\n")
        except OSError:
            return None
        sum_, _, text = line.rstrip().partition(b" ")
        if sum_ == _sum(text):
            return from_text(text.decode(errors="replace"))
    return None


def _line(text: str) -> bytes:
    content = text.encode()
    line = _sum(content) + b" " + content
    return line.ljust(-(len(line) + 1) // _BLOCK_BYTES * -_BLOCK_BYTES - 1) + b"\n"


def _sum(content: bytes) -> bytes:
    return b"%08x" % zlib.crc32(content)

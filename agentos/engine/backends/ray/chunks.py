"""Long things in messages of a bearable size, and back. Pure."""

from __future__ import annotations

import base64
from collections.abc import Iterator

from agentos.engine.backends.ray.messages import Piece

PIECE_BYTES = 1 << 20


def in_pieces(key: str, content: bytes) -> Iterator[Piece]:
    """At least one, also of nothing."""
    last = max(0, (len(content) - 1) // PIECE_BYTES)
    for number in range(last + 1):
        part = content[number * PIECE_BYTES : (number + 1) * PIECE_BYTES]
        yield Piece(key=key, data=base64.b64encode(part).decode(), is_last=number == last)


class Assembly:
    """Pieces to what they are of."""

    def __init__(self) -> None:
        self._parts: dict[str, bytearray] = {}

    def add(self, piece: Piece) -> bytes | None:
        """All of it, once its last piece is there."""
        parts = self._parts.setdefault(piece.key, bytearray())
        parts += base64.b64decode(piece.data)
        return bytes(self._parts.pop(piece.key)) if piece.is_last else None

"""Replies as they were before they were packed, however much one packed byte stands for. Pure."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

_PIECE_BYTES = 64 * 1024
_READABLE = frozenset({"gzip", "x-gzip", "deflate"})


class PackingError(Exception):
    """A body that cannot be looked through: what it says, and quotes, nobody knows."""


class Unpacker:
    """One body, by its `Content-Encoding`. Raises PackingError where it cannot be read, here or in `pieces`."""

    def __init__(self, encoding: str) -> None:
        packings = [name for word in encoding.split(",") if (name := word.strip().lower()) not in ("", "identity")]
        if len(packings) > 1 or not _READABLE.issuperset(packings):
            raise PackingError("a packing that was not asked for")
        self._inflate = _inflater() if packings else None

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """What `data` stands for, in bearable sizes. Several packed parts in a row are one body."""
        if self._inflate is None:
            yield data
            return
        while data:
            if self._inflate.eof:
                data, self._inflate = data.lstrip(b"\0"), _inflater()
                continue
            try:
                plain = self._inflate.decompress(data, _PIECE_BYTES)
                while plain:
                    yield plain
                    plain = self._inflate.decompress(self._inflate.unconsumed_tail, _PIECE_BYTES)
            except zlib.error:
                raise PackingError("a packed answer that cannot be unpacked") from None
            data = self._inflate.unused_data


def unpacked(body: bytes, encoding: str, most_bytes: int) -> bytes:
    """The whole body, or as much of it as is bearable."""
    unpacker, plain = Unpacker(encoding), bytearray()
    for piece in unpacker.pieces(body):
        plain += piece
        if len(plain) >= most_bytes:
            break
    return bytes(plain[:most_bytes])


def _inflater() -> zlib._Decompress:
    # 32 takes the forms of both `gzip` and `deflate`.
    return zlib.decompressobj(wbits=32 + zlib.MAX_WBITS)

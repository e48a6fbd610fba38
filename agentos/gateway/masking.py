"""The key of a call, kept out of what its client gets to see, whatever a provider quotes. All else stays as it is."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx

from agentos.gateway.dialect import Headers
from agentos.gateway.packing import Unpacker
from agentos.keys.redaction import Redactor


def masked_headers(headers: Headers, redactor: Redactor) -> Headers:
    return [(name, redactor.redact_text(value)) for name, value in headers]


async def plain_pieces(reply: httpx.Response) -> AsyncIterator[bytes]:
    """The body unpacked, as it comes. Raises PackingError when it cannot be looked through."""
    unpacker = Unpacker(reply.headers.get("content-encoding", ""))
    async for packed in reply.aiter_raw():
        for piece in unpacker.pieces(packed):
            yield piece

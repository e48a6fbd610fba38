"""What a provider's reply shows while it passes through unchanged: whether it is whole, and what it used. Pure."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping

from agentos.gateway.dialect import Tokens, mapping
from agentos.gateway.routing import Call
from agentos.llm.pricing import estimate_tokens
from agentos.providers.answers import StreamWatch, answer_fault
from agentos.providers.evidence import Evidence
from agentos.providers.replies import without_mark

_MOST_UNPACKED = 64 * 1024 * 1024


class Unpacker:
    """A body as it was before it was packed, as far as it has come. Packed into too much, it is left."""

    def __init__(self, encoding: str) -> None:
        # 32 takes the forms of both `gzip` and `deflate`.
        self._inflate = zlib.decompressobj(wbits=32 + zlib.MAX_WBITS) if encoding in ("gzip", "deflate") else None
        self._left = _MOST_UNPACKED
        self._is_readable = encoding in ("", "identity", "gzip", "deflate")

    def feed(self, data: bytes) -> bytes:
        if not self._is_readable or self._left <= 0:
            return b""
        try:
            plain = self._inflate.decompress(data, self._left) if self._inflate else data[: self._left]
        except zlib.error:
            self._is_readable = False
            return b""
        self._left -= len(plain)
        return plain


class ReplyWatch:
    """Follows one reply of a good status."""

    def __init__(self, call: Call, headers: Mapping[str, str]) -> None:
        self._call = call
        self._headers = headers
        self._unpacker = Unpacker(headers.get("content-encoding", "").strip().lower())
        self.is_stream = headers.get("content-type", "").startswith("text/event-stream")
        self._watch = StreamWatch(call.provider, headers, ends=call.endpoint.ends_stream, on_event=self._read_event)
        self._body = bytearray()
        self._told = Tokens()
        self._written = 0
        """Characters of the answer, for streams that do not tell what they used."""

    def feed(self, data: bytes) -> None:
        plain = self._unpacker.feed(data)
        if self.is_stream:
            self._watch.feed(plain)
        else:
            self._body += plain

    def finish(self) -> None:
        if self.is_stream:
            self._watch.finish()
        else:
            self._read_event(self._document())

    def fault(self, now: float) -> Evidence | None:
        """What is wrong with it if nothing more comes."""
        if self.is_stream:
            return self._watch.fault(now) if self._is_checked else None
        return answer_fault(self._call.provider, self._headers, bytes(self._body), now) if self._is_checked else None

    def early_fault(self, now: float) -> Evidence | None:
        """An error in the place of an answer that has only just begun."""
        return self._watch.fault(now) if self.is_stream and self._watch.has_error else None

    @property
    def _is_checked(self) -> bool:
        return self._call.endpoint.is_answer or (self._call.endpoint.ends_stream is not None and self.is_stream)

    @property
    def tokens(self) -> tuple[int, int]:
        """In and out: as told, else by the length of what was said."""
        written = estimate_tokens("x" * self._written) if self._written else 0
        output = self._told.output_tokens
        return self._told.input_tokens or 0, max(output or 0, 0) if output is not None else written

    def _read_event(self, event: object) -> None:
        document = mapping(event)
        self._told = self._told.updated(self._call.dialect.usage(document))
        self._written += len(self._call.dialect.text(document))

    def _document(self) -> object:
        try:
            document = json.loads(without_mark(bytes(self._body)))
        except (ValueError, RecursionError):
            return {}
        # Gemini streams a list of events where no event stream is asked for.
        if isinstance(document, list):
            for event in document[:-1]:
                self._read_event(event)
            return document[-1] if document else {}
        return document

"""What a provider's reply shows while it passes through unchanged: whether it is whole, and what it used. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping

from agentos.gateway.dialect import Tokens, mapping
from agentos.gateway.routing import Call
from agentos.llm.pricing import estimate_tokens
from agentos.providers.answers import ListWatch, StreamWatch, answer_fault
from agentos.providers.evidence import Evidence
from agentos.providers.replies import without_mark


def is_event_stream(headers: Mapping[str, str]) -> bool:
    return headers.get("content-type", "").startswith("text/event-stream")


def is_stream(call: Call, headers: Mapping[str, str]) -> bool:
    """Passed on as it comes."""
    return is_event_stream(headers) or call.endpoint.streams_list


class ReplyWatch:
    """Follows one reply of a good status, unpacked."""

    def __init__(self, call: Call, headers: Mapping[str, str]) -> None:
        self._call = call
        self._headers = headers
        self.is_stream = is_stream(call, headers)
        kind = StreamWatch if is_event_stream(headers) or not self.is_stream else ListWatch
        self._watch = kind(call.provider, headers, ends=call.endpoint.ends_stream, on_event=self._read_event)
        self._body = bytearray()
        self._told = Tokens()
        self._written = 0
        """Characters of the answer, for streams that do not tell what they used."""

    def feed(self, data: bytes) -> None:
        if self.is_stream:
            self._watch.feed(data)
        else:
            self._body += data

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

    @property
    def has_begun(self) -> bool:
        """Enough of a stream has come to tell an answer from an error in its place."""
        return self._watch.has_begun

    def early_fault(self, now: float) -> Evidence | None:
        """An error in the place of an answer that has only just begun."""
        return self._watch.fault(now) if self.is_stream and self._watch.has_error else None

    @property
    def is_cut_off(self) -> bool:
        """A stream that is over without its end, or an error in its place, having come."""
        return self.is_stream and self._is_checked and not self._watch.is_over

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
            return json.loads(without_mark(bytes(self._body)))
        except (ValueError, RecursionError):
            return {}

"""Whether a reply that began well is a whole answer, and what it says if it is not. Pure.

A status of 200 promises little: bodies come empty, without a choice, or with an error in the place of the answer, and
streams end in the middle. What a whole answer has is each provider's own to say, see `Provider.answer_problem`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from agentos.providers.classify import classify
from agentos.providers.evidence import Evidence, RequestFailed, TransportFailed
from agentos.providers.registry import providers
from agentos.providers.replies import without_mark

_LONGEST_LINE = 32 * 1024 * 1024
"""Of an event stream. Images come as one line."""


def answer_fault(provider: str, headers: Mapping[str, str], body: bytes, now: float) -> Evidence | None:
    """What is wrong with the body of a good status; None if it is an answer."""
    try:
        document = json.loads(without_mark(body))
    except (ValueError, RecursionError):
        return TransportFailed(reason="an unreadable answer" if body.strip() else "an empty answer")
    return _fault(provider, headers, document, now)


def _fault(provider: str, headers: Mapping[str, str], document: Any, now: float) -> Evidence | None:
    if isinstance(document, list) and len(document) == 1:
        document = document[0]
    if not isinstance(document, Mapping):
        return TransportFailed(reason="an answer without content")
    if document.get("error"):
        return _as_error(provider, headers, document["error"], now)
    match providers()[provider].answer_problem(document):
        case str(words):
            return TransportFailed(reason=words) if words else None
        case error:
            return _as_error(provider, headers, error, now)


def _as_error(provider: str, headers: Mapping[str, str], error: object, now: float) -> Evidence:
    """An error that came as an answer: what its fields say, and a failed transport if they say nothing."""
    evidence = classify(provider, None, headers, {"error": error}, now=now)
    if isinstance(evidence, RequestFailed) and evidence.status is None:
        return TransportFailed(reason="an error instead of an answer")
    return evidence


class StreamWatch:
    """Follows an event stream without changing it: knows at its end whether it was whole."""

    def __init__(
        self,
        provider: str,
        headers: Mapping[str, str],
        *,
        ends: Callable[[object], bool] | None = None,
        on_event: Callable[[object], None] = lambda _event: None,
    ) -> None:
        """`ends` knows the regular end of streams that are no answers of the provider's usual kind."""
        self._provider = provider
        self._headers = headers
        self._ends = ends or providers()[provider].ends_stream
        self._on_event = on_event
        self._line = bytearray()
        self.has_begun = False
        """A whole event has come, or a comment that keeps the connection alive."""
        self._has_ended = False
        self._error: object = None

    def feed(self, data: bytes) -> None:
        *lines, rest = data.split(b"\n")
        for line in lines:
            self._line += line
            self._read(bytes(self._line))
            self._line.clear()
        self._line += rest
        if len(self._line) > _LONGEST_LINE:
            self._line.clear()

    def finish(self) -> None:
        """Nothing more comes: a last line need not have an end."""
        self._read(bytes(self._line))
        self._line.clear()

    @property
    def is_over(self) -> bool:
        """Its regular end or an error has come."""
        return self._has_ended or self.has_error

    @property
    def has_error(self) -> bool:
        return bool(self._error)

    def fault(self, now: float) -> Evidence | None:
        """What is wrong if nothing more comes."""
        if self._error:
            return _as_error(self._provider, self._headers, self._error, now)
        return None if self._has_ended else TransportFailed(reason="an answer that stopped before its end")

    def _read(self, line: bytes) -> None:
        name, colon, text = line.strip().partition(b":")
        if name == b"data" and colon:
            self._take(text)
        elif colon and not name:
            self.has_begun = True

    def _take(self, text: bytes) -> None:
        self.has_begun = True
        try:
            event = json.loads(text)
        except (ValueError, RecursionError):
            event = text.strip().decode(errors="replace")
        if isinstance(event, Mapping) and event.get("error"):
            self._error = event["error"]
        self._has_ended = self._has_ended or self._ends(event)
        self._on_event(event)


_MARKS = re.compile(rb'["\\{}\[\]]')
"""What tells where a part of a JSON document begins and ends."""


class ListWatch(StreamWatch):
    """Follows a stream whose events are the members of one JSON list: Gemini's, if no event stream is asked for."""

    _depth = 0
    _depth_of_events = 1
    _is_in_string = False
    _ends_in_escape = False

    def feed(self, data: bytes) -> None:
        start, escaped_at = 0, 0 if self._ends_in_escape else -1
        for found in _MARKS.finditer(data):
            at, mark = found.start(), found[0]
            if at == escaped_at:
                continue
            if mark == b"\\":
                escaped_at = at + 1
            elif mark == b'"':
                self._is_in_string = not self._is_in_string
            elif self._is_in_string:
                continue
            elif mark in (b"{", b"["):
                start = self._open(mark, at, start)
            elif self._closes_event():
                self._line += data[start : at + 1]
                self._take(bytes(self._line))
                self._line.clear()
        if self._depth > self._depth_of_events:
            self._line += data[start:]
        if len(self._line) > _LONGEST_LINE:
            self._line.clear()
        self._ends_in_escape = escaped_at == len(data)

    def finish(self) -> None:
        """What has not come to its end is no event."""

    def _open(self, mark: bytes, at: int, start: int) -> int:
        """Where the event begins that is read now. A document that is no list is one event."""
        if self._depth == 0:
            self._depth_of_events = 1 if mark == b"[" else 0
        self._depth += 1
        return at if self._depth == self._depth_of_events + 1 else start

    def _closes_event(self) -> bool:
        self._depth -= 1
        return self._depth == self._depth_of_events

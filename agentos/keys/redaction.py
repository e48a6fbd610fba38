"""Keeps secrets out of everything that is written: finds them by exact value, in every form they travel in.

They are looked for in the text without its breaks, so that wrapped base64 or a narrow terminal hide nothing. Every
character of a form becomes `*` and breaks stay, so lengths, lines and the framing around the text stay as they were.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, Protocol

from agentos.keys.masked_spans import (
    TEXT_CHARACTER,
    Span,
    exposed_length,
    mask,
    mask_text,
    merged,
    start_of_last,
    without_breaks,
)
from agentos.keys.secret_forms import forms_of
from agentos.keys.secret_index import MOST_SHOWN, SHORTEST_SECRET, Index, MarkIndex, Marks, marks_of

_COLOUR_CODE = re.compile(rb"(\x1b\[[0-9;:]*m)")
_MOST_HELD_BYTES = 4096


class Masking(Protocol):
    """Hides secrets in what is about to be written. Lengths stay as they are."""

    def redact(self, data: bytes) -> bytes: ...
    def redact_text(self, text: str) -> str: ...


class Redactor:
    """Masks a set of secrets that may grow. Safe to use from several threads.

    All masking keeps the length: bytes for `redact`, characters for `redact_text`. Secrets that overlap, or of which
    one begins another, are each masked in full. Secrets of fewer than `SHORTEST_SECRET` characters are ignored.
    """

    __slots__ = ("_index", "_marks", "_secrets")

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._secrets: frozenset[str] = frozenset()
        self._index: Index | None = None
        self._marks: Marks | None = None
        self.add(secrets)

    def __repr__(self) -> str:
        return f"<Redactor of {len(self._secrets)} secrets>"

    def marks(self) -> Marks:
        """For a `MarkRedactor` in a process that must not know the secrets."""
        if self._marks is None:
            self._marks = Marks() if self._index is None else marks_of(self._index)
        return self._marks

    def add(self, secrets: Iterable[str]) -> None:
        """Mask these as well from now on. Nothing is ever forgotten: a replaced key may still be printed."""
        stripped = {secret.strip() for secret in secrets}
        wanted = self._secrets | {s for s in stripped if len(TEXT_CHARACTER.findall(s)) >= SHORTEST_SECRET}
        if wanted != self._secrets:
            self._index = Index.of({form for secret in wanted for form in forms_of(secret)})
            self._marks = None
            self._secrets = wanted

    def redact(self, data: bytes, *, is_cut: bool = False) -> bytes:
        """Mask every form of every secret. `data` itself is returned when there is none.

        `is_cut` says that the data may stop in the middle of a secret: a beginning of more than `MOST_SHOWN`
        characters at its very end is masked too.
        """
        index = self._index
        return data if index is None else mask(data, index.spans(data, is_cut=is_cut))

    def redact_coloured(self, block: bytes) -> bytes:
        """Like `redact`, for terminal output: colour codes inside of a secret do not hide it, and stay."""
        masked = self.redact(block)
        if self._index is None or b"\x1b[" not in masked:
            return masked
        pieces = _COLOUR_CODE.split(masked)
        plain = b"".join(pieces[::2])
        plain_masked = self.redact(plain)
        if plain_masked is plain:
            return masked
        done = 0
        for number in range(0, len(pieces), 2):
            end = done + len(pieces[number])
            pieces[number] = plain_masked[done:end]
            done = end
        return b"".join(pieces)

    def redact_text(self, text: str, *, is_cut: bool = False) -> str:
        """Like `redact`, for text."""
        index = self._index
        if index is None:
            return text
        data = text.encode(errors="surrogatepass")
        return mask_text(text, data, index.spans(data, is_cut=is_cut))


@lru_cache(maxsize=256)
def redactor_of(secret: str) -> Redactor:
    """For what a provider says to one who has this key."""
    return Redactor([secret])


class MarkRedactor:
    """Masks what marks find, in every form, as the redactor that made them would. It knows no secret."""

    __slots__ = ("_index",)

    def __init__(self, marks: Marks | None = None) -> None:
        self._index = None if marks is None or not marks.forms else MarkIndex.of(marks)

    def redact(self, data: bytes) -> bytes:
        return data if self._index is None else mask(data, self._index.spans(data))

    def redact_text(self, text: str) -> str:
        if self._index is None:
            return text
        data = text.encode(errors="surrogatepass")
        return mask_text(text, data, self._index.spans(data))


class StreamRedactor:
    """Redacts a stream that comes in chunks.

    All that `feed` and `flush` return is, put together, `redact(whole, is_cut=True)`, however the whole was cut into
    chunks. Only an ending that may be the beginning of a secret is held back; other text passes at once.
    """

    __slots__ = ("_covered", "_redactor", "_shown", "_tail")

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        # The ending that may become a secret, and how many bytes of it are out already.
        self._tail = b""
        self._shown = 0
        # How many bytes of the tail belong to a secret that began before it.
        self._covered = 0

    @property
    def is_holding(self) -> bool:
        """Whether there is text that waits for what follows it."""
        return len(self._tail) > self._shown

    def feed(self, chunk: bytes) -> bytes:
        """Take what was read and return what is certain by now, possibly nothing."""
        index = self._redactor._index
        if index is None:
            return chunk
        data = self._tail + chunk
        spans = self._with_covered(index.spans(data))
        hold_from = start_of_last(data, index.unfinished_length(data))
        safe = mask(data, spans)[self._shown : hold_from]
        # What starts inside of the tail is found again with the next chunk.
        ends = [end for start, end in spans if start < hold_from]
        self._covered = max(0, max([self._covered, *ends]) - hold_from)
        self._shown = max(0, self._shown - hold_from)
        self._tail = data[hold_from:]
        if len(self._tail) > max(_MOST_HELD_BYTES, 2 * index.longest):
            # Almost nothing but breaks: no memory for whoever prints them without an end.
            safe += self._release([(0, len(self._tail))])
        return safe

    def flush_partial(self) -> bytes:
        """Return what is held back, unless that would show more than `MOST_SHOWN` characters of a secret.

        For a prompt, which must be seen though nothing follows. If the rest of a secret does follow, that rest is
        masked.
        """
        index = self._redactor._index
        if index is None or not self.is_holding:
            return b""
        spans = self._with_covered(index.spans(self._tail))
        if exposed_length(self._tail, spans) > MOST_SHOWN:
            return b""
        return self._release(spans)

    def flush(self) -> bytes:
        """Return the rest: the stream has ended. The beginning of a secret is masked in it like a whole one."""
        is_long = len(without_breaks(self._tail)) > MOST_SHOWN
        rest = self._release([(0, len(self._tail) if is_long else self._covered)])
        self._tail, self._shown = b"", 0
        return rest

    def _with_covered(self, spans: list[Span]) -> list[Span]:
        return merged([(0, self._covered), *spans]) if self._covered else spans

    def _release(self, spans: list[Span]) -> bytes:
        """Give the tail out, and remember its characters for the match that may come."""
        out = mask(self._tail, spans)[self._shown :]
        self._tail = without_breaks(self._tail)
        self._shown = len(self._tail)
        self._covered = 0
        return out


def redact_record(value: Any, redactor: Masking) -> Any:
    """Copy JSON-like data with every text in it redacted, the keys of dictionaries too."""
    return map_texts(
        value, lambda text: redactor.redact_text(text) if isinstance(text, str) else redactor.redact(text)
    )


def map_texts(value: Any, change: Callable[[Any], Any]) -> Any:
    """Copy JSON-like data with every text in it changed, str and bytes, the keys of dictionaries too."""
    match value:
        case str() | bytes():
            return change(value)
        case dict():
            return {map_texts(key, change): map_texts(entry, change) for key, entry in value.items()}
        case list():
            return [map_texts(entry, change) for entry in value]
        case tuple():
            return tuple(map_texts(entry, change) for entry in value)
        case _:
            return value

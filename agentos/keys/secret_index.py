"""Finds secrets in a text, in any of their forms: by what they are, or by marks that do not tell them."""

from __future__ import annotations

import secrets as randomness
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b

from agentos.keys.masked_spans import (
    BREAKS,
    Span,
    last_characters,
    merged,
    start_of_last,
    with_breaks,
    without_breaks,
)

SHORTEST_SECRET = 6
"""Anything shorter is not masked: it is no key, and masking it would eat ordinary words."""
MOST_SHOWN = 3
"""How many characters of the beginning of a secret may be shown, when it is unknown whether the rest will follow."""

_ALPHANUMERIC = frozenset(byte for byte in range(128) if chr(byte).isalnum())
_LONGEST_NEEDLE = 24
_LONGEST_GRAM = 8
_MARKED_GRAMS = 4
"""So many in a row are told of each form: more would tell more of it, fewer take longer to look for."""
_MARK_BYTES = 2
_DIGEST_BYTES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """What finds secrets and is none: for a process that must not hold one. Bytes are in hex digits."""

    salt: str = ""
    words: str = ""
    """The bytes that runs are made of."""
    run_length: int = 0
    gram_length: int = 0
    forms: tuple[tuple[int, str, int, tuple[str, ...]], ...] = ()
    """Each form's length and salted digest; from which place on its grams are told, and a few bits of theirs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Index:
    """Finds any of many forms in one pass that almost never stops.

    Every form has a long run of *word* bytes (letters and digits). The pass maps word bytes to 1 and others to 0 and
    looks for runs of that length, which ordinary text hardly has. Inside such a run it looks up every `stride`-th
    gram, a few bytes: each form is filed under as many grams in a row, so one of them is always looked up.
    """

    word_table: bytes
    needle: bytes
    stride: int
    gram_length: int
    grams: dict[bytes, list[tuple[bytes, int]]]
    """The forms that contain a gram, with its place in them."""
    windows: dict[bytes, int]
    """The forms, and where the grams begin that each is filed under."""
    beginnings: dict[bytes, list[bytes]]
    """The forms by their first byte and by their first two."""
    form_table: bytes
    """Maps to 0 the bytes that are in no form."""
    longest: int

    @classmethod
    def of(cls, forms: set[bytes]) -> Index:
        """Index at least one form; all have `SHORTEST_SECRET` bytes or more, and no breaks."""
        words = set(_ALPHANUMERIC)
        for form in forms:
            if _longest_run(form, words)[1] < SHORTEST_SECRET:
                words.update(form)
        windows = {form: _longest_run(form, words) for form in forms}
        length = min(_LONGEST_NEEDLE, *(length for _, length in windows.values()))
        gram_length = min(_LONGEST_GRAM, length // 2)
        stride = length - gram_length + 1
        grams: dict[bytes, list[tuple[bytes, int]]] = {}
        beginnings: dict[bytes, list[bytes]] = {}
        for form, (start, _) in windows.items():
            for place in range(start, start + stride):
                grams.setdefault(form[place : place + gram_length], []).append((form, place))
            beginnings.setdefault(form[:1], []).append(form)
            beginnings.setdefault(form[:2], []).append(form)
        return cls(
            word_table=_membership(words),
            needle=b"\1" * length,
            stride=stride,
            gram_length=gram_length,
            grams=grams,
            windows={form: start for form, (start, _) in windows.items()},
            beginnings=beginnings,
            form_table=_membership(set().union(*forms)),
            longest=max(map(len, forms)),
        )

    def spans(self, data: bytes, *, is_cut: bool = False) -> list[Span]:
        """Where `data` has to be masked: in order, apart from each other, breaks inside of them included."""
        spans = self._whole_forms(data)
        if is_cut and (length := self.unfinished_length(data)) > MOST_SHOWN:
            spans = merged([*spans, (start_of_last(data, length), len(data))])
        return spans

    def unfinished_length(self, data: bytes) -> int:
        """How many characters at the end of `data`, breaks not counted, may be the beginning of a form."""
        tail = last_characters(data, self.longest - 1)
        for start in range(tail.translate(self.form_table).rfind(b"\0") + 1, len(tail)):
            forms = self.beginnings.get(tail[start : start + 2])
            if forms:
                ending = tail[start:]
                if any(len(form) > len(ending) and form.startswith(ending) for form in forms):
                    return len(ending)
        return 0

    def _whole_forms(self, data: bytes) -> list[Span]:
        runs = list(_runs(data, self.word_table, self.needle))
        if not runs:
            return []
        text, length, grams = without_breaks(data), self.gram_length, self.grams
        spans = [
            span
            for start, end in runs
            for place in range(start, end - length + 1, self.stride)
            if text[place : place + length] in grams
            for span in self._forms_at(text, place)
        ]
        return with_breaks(merged(spans), data)

    def _forms_at(self, text: bytes, place: int) -> Iterator[Span]:
        for form, place_in_form in self.grams[text[place : place + self.gram_length]]:
            start = place - place_in_form
            if start >= 0 and text.startswith(form, start):
                yield start, start + len(form)


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkIndex:
    """Finds forms as `Index` does, by digests of them and of their grams."""

    salt: bytes
    word_table: bytes
    needle: bytes
    gram_length: int
    grams: dict[bytes, list[tuple[int, bytes, int]]]
    """By the digest of a gram: length and digest of each form that contains it, and its place in them."""

    @classmethod
    def of(cls, marks: Marks) -> MarkIndex:
        grams: dict[bytes, list[tuple[int, bytes, int]]] = {}
        for length, digest, first, told in marks.forms:
            for place, gram in enumerate(told, start=first):
                grams.setdefault(bytes.fromhex(gram), []).append((length, bytes.fromhex(digest), place))
        return cls(
            salt=bytes.fromhex(marks.salt),
            word_table=_membership(set(bytes.fromhex(marks.words))),
            needle=b"\1" * marks.run_length,
            gram_length=marks.gram_length,
            grams=grams,
        )

    def spans(self, data: bytes) -> list[Span]:
        runs = list(_runs(data, self.word_table, self.needle))
        if not runs:
            return []
        text, salt, grams = without_breaks(data), self.salt, self.grams
        length, stride = self.gram_length, _stride_of_marks(len(self.needle), self.gram_length)
        spans = [
            span
            for start, end in runs
            for place in range(start, end - length + 1, stride)
            if (gram := _digest(text[place : place + length], salt, _MARK_BYTES)) in grams
            for span in self._forms_at(text, place, gram)
        ]
        return with_breaks(merged(spans), data)

    def _forms_at(self, text: bytes, place: int, gram: bytes) -> Iterator[Span]:
        for length, digest, place_in_form in self.grams[gram]:
            start = place - place_in_form
            if start >= 0 and _digest(text[start : start + length], self.salt, _DIGEST_BYTES) == digest:
                yield start, start + length


def marks_of(index: Index) -> Marks:
    salt, length = randomness.token_bytes(16), index.gram_length
    count = _stride_of_marks(len(index.needle), length)
    forms = []
    for form, first in index.windows.items():
        places = range(first, first + count)
        grams = tuple(_digest(form[place : place + length], salt, _MARK_BYTES).hex() for place in places)
        forms.append((len(form), _digest(form, salt, _DIGEST_BYTES).hex(), first, grams))
    words = bytes(byte for byte in range(256) if index.word_table[byte])
    return Marks(
        salt=salt.hex(), words=words.hex(), run_length=len(index.needle), gram_length=length, forms=tuple(forms)
    )


def _stride_of_marks(run_length: int, gram_length: int) -> int:
    return min(_MARKED_GRAMS, run_length - gram_length + 1)


def _digest(piece: bytes, salt: bytes, size: int) -> bytes:
    return blake2b(piece, digest_size=size, key=salt).digest()


def _runs(data: bytes, word_table: bytes, needle: bytes) -> Iterator[Span]:
    """Stretches of word bytes, of at least the needle's length, in the text without its breaks."""
    words = data.translate(word_table, BREAKS)
    start = words.find(needle)
    while start >= 0:
        end = words.find(b"\0", start)
        end = len(words) if end < 0 else end
        yield start, end
        start = words.find(needle, end)


def _membership(members: set[int]) -> bytes:
    """A translation table: 1 for these bytes, 0 for others."""
    return bytes(byte in members for byte in range(256))


def _longest_run(form: bytes, words: set[int]) -> tuple[int, int]:
    """Start and length of the longest stretch of word bytes."""
    best = (0, 0)
    start = 0
    for place, byte in enumerate(form):
        if byte not in words:
            start = place + 1
        elif place + 1 - start > best[1]:
            best = (start, place + 1 - start)
    return best

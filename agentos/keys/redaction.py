r"""Keeps secrets out of everything that is written: finds them by exact value, in every form they travel in.

A secret's *forms* are its own text and what common encoders make of it. They are looked for in the text without its
*breaks*, which are line breaks and other control characters, so that wrapped base64 or a narrow terminal hide
nothing. Every character of a form becomes `*` and breaks stay, so lengths, lines and the framing around the text stay
as they were. Keys that nobody told us are found by their shape.
"""

from __future__ import annotations

import base64
import itertools
import json
import re
import secrets as randomness
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Protocol
from urllib.parse import quote, quote_plus

SHORTEST_SECRET = 6
"""Anything shorter is not masked: it is no key, and masking it would eat ordinary words."""
MOST_SHOWN = 3
"""How many characters of the beginning of a secret may be shown, when it is unknown whether the rest will follow."""

_BREAKS = bytes(byte for byte in (*range(32), 127) if byte != ord("\t"))
_MASK_TABLE = bytes(byte if byte in _BREAKS else ord("*") for byte in range(256))
_STRETCH = re.compile(rb"[^\x00-\x08\x0a-\x1f\x7f]+")
_TEXT_CHARACTER = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f]")
_COLOUR_CODE = re.compile(rb"(\x1b\[[0-9;:]*m)")
_PERCENT_CODE = re.compile(r"%[0-9A-F]{2}")
_UNICODE_ESCAPE = re.compile(r"\\u[0-9a-f]{4}")
_ALPHANUMERIC = frozenset(byte for byte in range(128) if chr(byte).isalnum())
_LONGEST_NEEDLE = 24
_LONGEST_GRAM = 8
_MARKED_GRAMS = 4
"""So many in a row are told of each form: more would tell more of it, fewer take longer to look for."""
_MARK_BYTES = 2
_DIGEST_BYTES = 16
_MOST_HELD_BYTES = 4096

Span = tuple[int, int]


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
        self._index: _Index | None = None
        self._marks: Marks | None = None
        self.add(secrets)

    def __repr__(self) -> str:
        return f"<Redactor of {len(self._secrets)} secrets>"

    def marks(self) -> Marks:
        """For a `MarkRedactor` in a process that must not know the secrets."""
        if self._marks is None:
            self._marks = Marks() if self._index is None else _marks_of(self._index)
        return self._marks

    def add(self, secrets: Iterable[str]) -> None:
        """Mask these as well from now on. Nothing is ever forgotten: a replaced key may still be printed."""
        stripped = {secret.strip() for secret in secrets}
        wanted = self._secrets | {s for s in stripped if len(_TEXT_CHARACTER.findall(s)) >= SHORTEST_SECRET}
        if wanted != self._secrets:
            self._index = _Index.of({form for secret in wanted for form in forms_of(secret)})
            self._marks = None
            self._secrets = wanted

    def redact(self, data: bytes, *, is_cut: bool = False) -> bytes:
        """Mask every form of every secret. `data` itself is returned when there is none.

        `is_cut` says that the data may stop in the middle of a secret: a beginning of more than `MOST_SHOWN`
        characters at its very end is masked too.
        """
        index = self._index
        return data if index is None else _mask(data, index.spans(data, is_cut=is_cut))

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
        return _mask_text(text, data, index.spans(data, is_cut=is_cut))


class MarkRedactor:
    """Masks what marks find, in every form, as the redactor that made them would. It knows no secret."""

    __slots__ = ("_index",)

    def __init__(self, marks: Marks | None = None) -> None:
        self._index = None if marks is None or not marks.forms else _MarkIndex.of(marks)

    def redact(self, data: bytes) -> bytes:
        return data if self._index is None else _mask(data, self._index.spans(data))

    def redact_text(self, text: str) -> str:
        if self._index is None:
            return text
        data = text.encode(errors="surrogatepass")
        return _mask_text(text, data, self._index.spans(data))


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
        hold_from = _start_of_last(data, index.unfinished_length(data))
        safe = _mask(data, spans)[self._shown : hold_from]
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
        if _exposed_length(self._tail, spans) > MOST_SHOWN:
            return b""
        return self._release(spans)

    def flush(self) -> bytes:
        """Return the rest: the stream has ended. The beginning of a secret is masked in it like a whole one."""
        is_long = len(_without_breaks(self._tail)) > MOST_SHOWN
        rest = self._release([(0, len(self._tail) if is_long else self._covered)])
        self._tail, self._shown = b"", 0
        return rest

    def _with_covered(self, spans: list[Span]) -> list[Span]:
        return _merged([(0, self._covered), *spans]) if self._covered else spans

    def _release(self, spans: list[Span]) -> bytes:
        """Give the tail out, and remember its characters for the match that may come."""
        out = _mask(self._tail, spans)[self._shown :]
        self._tail = _without_breaks(self._tail)
        self._shown = len(self._tail)
        self._covered = 0
        return out


_KEY_SHAPES = re.compile(
    "|".join(
        (
            # A block runs to its end, or as far as it looks like one: output may be cut anywhere.
            r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,10}-----"
            r"(?:(?:[A-Za-z0-9+/=\s:,.-]|\\[nrt]){0,20000}?-----END [A-Z0-9 ]{0,50}-----"
            r"|(?:[A-Za-z0-9+/=\s]|\\[nrt]){0,20000})",
            r"\bsk-[A-Za-z0-9_-]{20,}",  # OpenAI, Anthropic and many that followed
            r"\b(?:A3T[A-Z0-9]|AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b",  # AWS
            r"(?i:aws.{0,20}secret.{0,20}[\s\"'=:]{1,5})[A-Za-z0-9/+]{40}\b",
            r"\b(?:gh[opusr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{22,}|glpat-[A-Za-z0-9_-]{20,})",
            r"\b(?:AIza[A-Za-z0-9_-]{35}|ya29\.[A-Za-z0-9_-]{20,}|GOCSPX-[A-Za-z0-9_-]{20,})",  # Google
            r"\b(?:xox[abeoprs]-[A-Za-z0-9-]{10,}|xapp-[A-Za-z0-9-]{20,})",  # Slack
            r"\bhooks\.slack\.com/services/[A-Za-z0-9/]{20,}",
            r"\b(?:[rs]k_(?:live|test)_|whsec_)[A-Za-z0-9]{16,}",  # Stripe
            r"\b(?:hf_|gsk_|xai-|npm_|dop_v1_)[A-Za-z0-9]{30,}|\bpypi-[A-Za-z0-9_-]{50,}",
            r"\bSG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}",  # SendGrid
            r"\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}",  # signed tokens, JWT
            r"(?<=://)[^/\s:@\"'<>]{1,200}:[^/\s@\"'<>]{3,200}(?=@)",
            r"(?i:\bbearer\s{1,3})[A-Za-z0-9._~+/-]{20,}",
        )
    )
)
"""How keys look that common services give out. A key that looks like nothing is found by its value alone."""


_BASE64_RUN = re.compile(r"[A-Za-z0-9+/_-]{24,}={0,2}")
_ONE_ALPHABET = str.maketrans("-_", "+/")
_LINE = re.compile(r"[^\r\n]+")
_MOST_JOINED = 400_000
"""Characters of a text that is looked at without its line ends as well: more than a prompt or a report shows."""


def redact_shapes(text: str) -> str:
    """Mask everything that looks like a key, whoever it belongs to: plain, in base64, or broken over lines.

    Lengths and lines stay as they are.
    """
    if "\n" in text and len(text) <= _MOST_JOINED:
        text = _redact_over_lines(text)
    text = _KEY_SHAPES.sub(_starred, text)
    return _BASE64_RUN.sub(lambda found: _starred(found) if _hides_a_key(found[0]) else found[0], text)


def _starred(found: re.Match[str]) -> str:
    return _TEXT_CHARACTER.sub("*", found[0])


def _hides_a_key(run: str) -> bool:
    """Wherever the encoded text begins in it: what stands before may look like a part of it."""
    letters = run.rstrip("=").translate(_ONE_ALPHABET)
    decoded = (base64.b64decode(letters[at : at + (len(letters) - at) // 4 * 4]).decode("latin-1") for at in range(4))
    return any(_KEY_SHAPES.search(text) for text in decoded)


def _redact_over_lines(text: str) -> str:
    """What a terminal or an encoder has broken into lines is one text without them."""
    stretches = list(_LINE.finditer(text))
    joined = "".join(stretch[0] for stretch in stretches)
    found = [match.span() for match in _KEY_SHAPES.finditer(joined)]
    found += [run.span() for run in _BASE64_RUN.finditer(joined) if _hides_a_key(run[0])]
    if not found:
        return text
    starts = list(itertools.accumulate((len(stretch[0]) for stretch in stretches[:-1]), initial=0))

    def place(joined_place: int) -> int:
        number = bisect_right(starts, joined_place) - 1
        return stretches[number].start() + joined_place - starts[number]

    for start, end in found:
        first, last = place(start), place(end - 1) + 1
        text = text[:first] + _TEXT_CHARACTER.sub("*", text[first:last]) + text[last:]
    return text


def redact_record(value: Any, redactor: Redactor) -> Any:
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


def forms_of(secret: str) -> set[bytes]:
    """The secret as it may be met in text without breaks: plain, escaped, quoted for URLs, hex and base64."""
    texts = {secret, *_escaped(secret), *_url_quoted(secret)}
    raw = secret.encode(errors="surrogatepass")
    for encoded in _base64_cores(raw):
        texts |= {encoded, encoded.translate(str.maketrans("+/", "-_")), *_url_quoted(encoded)}
    texts |= {raw.hex(), raw.hex().upper()}
    return {_without_breaks(text.encode(errors="surrogatepass")) for text in texts}


def _escaped(secret: str) -> Iterator[str]:
    """Inside of JSON, once and twice, of Python literals and of HTML."""
    for is_ascii in (True, False):
        once = json.dumps(secret, ensure_ascii=is_ascii)[1:-1]
        for form in (once, once.replace("/", r"\/"), _UNICODE_ESCAPE.sub(_upper_digits, once)):
            yield form
            yield json.dumps(form)[1:-1]
    yield repr(secret)[1:-1]
    yield repr(secret.encode(errors="surrogatepass"))[2:-1]
    html = secret.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    yield html
    yield html.replace('"', "&quot;").replace("'", "&#x27;")
    yield html.replace('"', "&#34;").replace("'", "&#39;")


def _upper_digits(escape: re.Match[str]) -> str:
    return r"\u" + escape[0][2:].upper()


def _url_quoted(text: str) -> Iterator[str]:
    """As path, query and form encoders of Python, browsers and curl write it, in both cases of hex digits."""
    quoted = [quote(text, safe=safe, errors="surrogatepass") for safe in ("", "/", "!*'()", ";,/?:@&=+$!*'()#")]
    for form in (*quoted, quote_plus(text, errors="surrogatepass")):
        yield form
        yield _PERCENT_CODE.sub(lambda code: code[0].lower(), form)


def _base64_cores(raw: bytes) -> Iterator[str]:
    """The base64 characters that `raw` alone decides, wherever it stands in a longer text that is encoded.

    A byte's bits reach into two characters, so there are three ways to begin, and the characters at the borders
    depend on the neighbours too. Where nothing follows, the last of them is decided as well.
    """
    for bytes_before in range(3):
        encoded = base64.b64encode(bytes(bytes_before) + raw).decode().rstrip("=")
        first = -(-bytes_before * 8 // 6)
        yield encoded[first : (bytes_before + len(raw)) * 8 // 6]
        yield encoded[first:]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Index:
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
    def of(cls, forms: set[bytes]) -> _Index:
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
            spans = _merged([*spans, (_start_of_last(data, length), len(data))])
        return spans

    def unfinished_length(self, data: bytes) -> int:
        """How many characters at the end of `data`, breaks not counted, may be the beginning of a form."""
        tail = _last_characters(data, self.longest - 1)
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
        text, length, grams = _without_breaks(data), self.gram_length, self.grams
        spans = [
            span
            for start, end in runs
            for place in range(start, end - length + 1, self.stride)
            if text[place : place + length] in grams
            for span in self._forms_at(text, place)
        ]
        return _with_breaks(_merged(spans), data)

    def _forms_at(self, text: bytes, place: int) -> Iterator[Span]:
        for form, place_in_form in self.grams[text[place : place + self.gram_length]]:
            start = place - place_in_form
            if start >= 0 and text.startswith(form, start):
                yield start, start + len(form)


@dataclass(frozen=True, slots=True, kw_only=True)
class _MarkIndex:
    """Finds forms as `_Index` does, by digests of them and of their grams."""

    salt: bytes
    word_table: bytes
    needle: bytes
    gram_length: int
    grams: dict[bytes, list[tuple[int, bytes, int]]]
    """By the digest of a gram: length and digest of each form that contains it, and its place in them."""

    @classmethod
    def of(cls, marks: Marks) -> _MarkIndex:
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
        text, salt, grams = _without_breaks(data), self.salt, self.grams
        length, stride = self.gram_length, _stride_of_marks(len(self.needle), self.gram_length)
        spans = [
            span
            for start, end in runs
            for place in range(start, end - length + 1, stride)
            if (gram := _digest(text[place : place + length], salt, _MARK_BYTES)) in grams
            for span in self._forms_at(text, place, gram)
        ]
        return _with_breaks(_merged(spans), data)

    def _forms_at(self, text: bytes, place: int, gram: bytes) -> Iterator[Span]:
        for length, digest, place_in_form in self.grams[gram]:
            start = place - place_in_form
            if start >= 0 and _digest(text[start : start + length], self.salt, _DIGEST_BYTES) == digest:
                yield start, start + length


def _marks_of(index: _Index) -> Marks:
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
    words = data.translate(word_table, _BREAKS)
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


def _without_breaks(data: bytes) -> bytes:
    return data.translate(None, _BREAKS)


def _last_characters(data: bytes, count: int) -> bytes:
    """The last `count` bytes that are not breaks, or all there are."""
    tail = _without_breaks(data[-2 * count :])
    if len(tail) < count < len(data):
        tail = _without_breaks(data)
    return tail[-count:]


def _start_of_last(data: bytes, count: int) -> int:
    """Where the last `count` bytes that are not breaks begin; there are as many."""
    start = len(data)
    while count:
        start -= 1
        count -= data[start] not in _BREAKS
    return start


def _merged(spans: list[Span]) -> list[Span]:
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _with_breaks(spans: list[Span], data: bytes) -> list[Span]:
    """Translate places in the text without breaks to places in `data`."""
    if not spans:
        return spans
    starts: list[int] = []
    shifts: list[int] = []
    length = 0
    for stretch in _STRETCH.finditer(data):
        starts.append(length)
        shifts.append(stretch.start() - length)
        length += stretch.end() - stretch.start()

    def place(text_place: int) -> int:
        return text_place + shifts[bisect_right(starts, text_place) - 1]

    return [(place(start), place(end - 1) + 1) for start, end in spans]


def _mask(data: bytes, spans: list[Span]) -> bytes:
    if not spans:
        return data
    pieces: list[bytes] = []
    done = 0
    for start, end in spans:
        pieces += data[done:start], data[start:end].translate(_MASK_TABLE)
        done = end
    return b"".join((*pieces, data[done:]))


def _mask_text(text: str, data: bytes, spans: list[Span]) -> str:
    """`data` is the text's bytes. Forms are whole characters, so their borders never fall inside of one."""
    if not spans:
        return text
    pieces: list[str] = []
    done = 0
    for start, end in spans:
        pieces.append(data[done:start].decode(errors="surrogatepass"))
        pieces.append(_TEXT_CHARACTER.sub("*", data[start:end].decode(errors="surrogatepass")))
        done = end
    return "".join(pieces) + data[done:].decode(errors="surrogatepass")


def _exposed_length(data: bytes, spans: list[Span]) -> int:
    """How many characters, breaks not counted, the spans leave readable."""
    masked = sum(len(_without_breaks(data[start:end])) for start, end in spans)
    return len(_without_breaks(data)) - masked

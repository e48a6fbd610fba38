"""Places in a text that are found without its breaks and masked with them.

*Breaks* are line breaks and other control characters. Places are (start, end), in order and apart from each other.
"""

from __future__ import annotations

import re
from bisect import bisect_right

BREAKS = bytes(byte for byte in (*range(32), 127) if byte != ord("\t"))
TEXT_CHARACTER = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f]")
"""Whatever is no break."""
_MASK_TABLE = bytes(byte if byte in BREAKS else ord("*") for byte in range(256))
_STRETCH = re.compile(rb"[^\x00-\x08\x0a-\x1f\x7f]+")

Span = tuple[int, int]


def without_breaks(data: bytes) -> bytes:
    return data.translate(None, BREAKS)


def last_characters(data: bytes, count: int) -> bytes:
    """The last `count` bytes that are not breaks, or all there are."""
    tail = without_breaks(data[-2 * count :])
    if len(tail) < count < len(data):
        tail = without_breaks(data)
    return tail[-count:]


def start_of_last(data: bytes, count: int) -> int:
    """Where the last `count` bytes that are not breaks begin; there are as many."""
    start = len(data)
    while count:
        start -= 1
        count -= data[start] not in BREAKS
    return start


def merged(spans: list[Span]) -> list[Span]:
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def with_breaks(spans: list[Span], data: bytes) -> list[Span]:
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


def mask(data: bytes, spans: list[Span]) -> bytes:
    if not spans:
        return data
    pieces: list[bytes] = []
    done = 0
    for start, end in spans:
        pieces += data[done:start], data[start:end].translate(_MASK_TABLE)
        done = end
    return b"".join((*pieces, data[done:]))


def mask_text(text: str, data: bytes, spans: list[Span]) -> str:
    """`data` is the text's bytes. Forms are whole characters, so their borders never fall inside of one."""
    if not spans:
        return text
    pieces: list[str] = []
    done = 0
    for start, end in spans:
        pieces.append(data[done:start].decode(errors="surrogatepass"))
        pieces.append(TEXT_CHARACTER.sub("*", data[start:end].decode(errors="surrogatepass")))
        done = end
    return "".join(pieces) + data[done:].decode(errors="surrogatepass")


def exposed_length(data: bytes, spans: list[Span]) -> int:
    """How many characters, breaks not counted, the spans leave readable."""
    masked = sum(len(without_breaks(data[start:end])) for start, end in spans)
    return len(without_breaks(data)) - masked

"""Text for streams whose encoding has not every character: shown as well as it can be, never an error."""

from __future__ import annotations

import codecs
import io
from typing import Any, Protocol

PLAIN = "agentos.plain"
"""An error handler: punctuation in ASCII, everything else as a visible escape such as `\\u0141`."""

_ASCII = {
    "…": "...", "–": "-", "—": "-", "‘": "'", "’": "'", "‚": "'", "“": '"', "”": '"', "„": '"', "→": "->",
    "•": "*", "≤": "<=", "≥": ">=", "×": "x", "✓": "v", "✗": "x", "│": "|", "─": "-", "\N{NO-BREAK SPACE}": " ",
}  # fmt: skip


def _plain(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    shown = [_ASCII.get(each) or _escaped(each) for each in error.object[error.start : error.end]]
    return "".join(shown), error.end


def _escaped(character: str) -> str:
    return character.encode("ascii", "backslashreplace").decode("ascii")


codecs.register_error(PLAIN, _plain)


def never_fails(stream: Any) -> None:
    """From here on the stream takes any text."""
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors=PLAIN)


class _Bytes(Protocol):
    def write(self, data: bytes, /) -> object: ...


class Transcoded:
    """Takes whole lines in UTF-8 and passes them on in another encoding."""

    def __init__(self, sink: _Bytes, encoding: str) -> None:
        self._sink = sink
        self._encoding = encoding

    def write(self, data: bytes, /) -> object:
        return self._sink.write(data.decode(errors="replace").encode(self._encoding, PLAIN))


def is_utf8(encoding: str | None) -> bool:
    """Whether text in UTF-8 can go there as it is; a stream that names no encoding gets it."""
    return encoding is None or codecs.lookup(encoding).name == "utf-8"

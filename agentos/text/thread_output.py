"""What one thread prints, under a prefix of its own, while the other threads of the process print as they did."""

from __future__ import annotations

import io
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, TextIO, cast

from agentos.text.output_prefixer import OutputPrefixer

_installing = threading.Lock()


class _Switch(io.TextIOBase):
    """Stands in for a standard stream: threads with a prefix write through it, all others straight."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self.stream = stream
        self.prefixers: dict[int, OutputPrefixer] = {}

    @property
    def _own(self) -> Any:
        return self.prefixers.get(threading.get_ident(), self.stream)

    def writable(self) -> bool:
        return True

    def write(self, text: str, /) -> int:
        return int(self._own.write(text))

    def flush(self) -> None:
        self._own.flush()

    def isatty(self) -> bool:
        return bool(self._own.isatty())

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return str(self._own.encoding)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


@contextmanager
def prefixed_output(prefix: str) -> Iterator[None]:
    """Inside, whatever this thread prints comes out in whole lines that begin with the prefix."""
    with ExitStack() as streams:
        for name in ("stdout", "stderr"):
            streams.enter_context(_prefixed(name, prefix))
        yield


@contextmanager
def _prefixed(name: str, prefix: str) -> Iterator[None]:
    thread = threading.get_ident()
    with _installing:
        switch = getattr(sys, name)
        if not isinstance(switch, _Switch):
            switch = _Switch(switch)
            setattr(sys, name, cast(TextIO, switch))
        switch.prefixers[thread] = prefixer = OutputPrefixer(prefix, switch.stream)
    try:
        yield
    finally:
        prefixer.close()
        with _installing:
            del switch.prefixers[thread]
            # Somebody else's stream stays: whoever put it there takes it away.
            if not switch.prefixers and getattr(sys, name) is switch:
                setattr(sys, name, switch.stream)


def unprefixed_stdout() -> TextIO:
    """Standard output for lines that have a prefix already, also from a thread that has its own."""
    return cast(TextIO, _WholeLines(sys.stdout.stream)) if isinstance(sys.stdout, _Switch) else sys.stdout


class _WholeLines(io.TextIOBase):
    """Passes on lines in one piece each: `print` writes a line and its end apart, and other threads print too."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream
        self._begun = ""

    def write(self, text: str, /) -> int:
        self._begun += text
        if text.endswith("\n"):
            self._stream.write(self._begun)
            self._begun = ""
        return len(text)

"""Turns what a worker writes into whole lines, each with the worker's prefix before it."""

from __future__ import annotations

import io
import sys
import threading
from types import TracebackType
from typing import Protocol, Self, TextIO, cast

from agentos.text.terminal import clean_block

DEFAULT_MAX_LINE_BYTES = 16 * 1024 * 1024
_CLOSING = "]"


class LineAssembler:
    r"""Collects bytes and gives them back as whole lines, each ended by `\n`; nothing here reads or writes.

    `\n` and `\r\n` end a line. A lone `\r` sends the cursor back, as on a terminal: the text that follows replaces
    the line so far, so a progress bar leaves its last state only. The lines depend on the bytes alone, never on how
    they were cut into chunks. At most `max_line_bytes` are held back: a longer line comes out in pieces of that size.
    """

    def __init__(self, max_line_bytes: int = DEFAULT_MAX_LINE_BYTES) -> None:
        if max_line_bytes < 1:
            raise ValueError(f"max_line_bytes must be at least 1, not {max_line_bytes}")
        self._max_line_bytes = max_line_bytes
        self._line = bytearray()
        # After a `\r`: the line still shows its text, and the next byte of text replaces it.
        self._is_returned = False
        # Part of this line is out already, with a newline of its own: an end with nothing more to show adds no line.
        self._is_continued = False

    @property
    def has_partial(self) -> bool:
        """Whether there is text that waits for the end of its line."""
        return bool(self._line)

    def feed(self, chunk: bytes) -> bytes:
        """Take what was read and return the lines it completes, possibly none."""
        if self._is_fresh and len(chunk) <= self._max_line_bytes and b"\r" not in chunk:
            end = chunk.rfind(b"\n") + 1
            self._line += chunk[end:]
            return chunk[:end]
        out: list[bytes] = []
        for start in range(0, len(chunk), self._max_line_bytes):
            self._feed_window(chunk[start : start + self._max_line_bytes], out)
        return b"".join(out)

    def flush_partial(self) -> bytes:
        """Return the text that waits for its end as a line now; what comes later starts the next line.

        For a prompt: it must be seen though no newline follows. If nothing but the end of the line comes later, that
        end is not shown as an empty line.
        """
        if not self._line:
            return b""
        out: list[bytes] = []
        self._emit_line(out)
        self._is_continued = True
        return b"".join(out)

    def finish(self) -> bytes:
        """Return what is left, with the newline it lacks; the assembler is then as new."""
        partial = self.flush_partial()
        self._is_continued = False
        return partial

    @property
    def _is_fresh(self) -> bool:
        return not (self._line or self._is_returned or self._is_continued)

    def _feed_window(self, window: bytes, out: list[bytes]) -> None:
        """Handle at most `max_line_bytes`, so that a line that begins in here cannot be too long already."""
        if b"\r" in window:  # far faster to rule out than a search for both bytes
            window = window.replace(b"\r\n", b"\n")
        first_end = window.find(b"\n")
        if first_end < 0:
            self._append(window, out)
            return
        self._append(window[:first_end], out)
        self._end_line(out)
        last_end = window.rfind(b"\n")
        out.append(_without_replaced_text(window[first_end + 1 : last_end + 1]))
        self._append(window[last_end + 1 :], out)

    def _append(self, text: bytes, out: list[bytes]) -> None:
        """Add text without newlines to the line."""
        before_return, carriage_return, rest = text.partition(b"\r")
        self._append_plain(before_return, out)
        if not carriage_return:
            return
        self._is_returned = True
        self._append_plain(_last_shown(rest), out)
        self._is_returned = self._is_returned or rest.endswith(b"\r")

    def _append_plain(self, text: bytes, out: list[bytes]) -> None:
        if not text:
            return
        if self._is_returned:
            self._line.clear()
            self._is_returned = False
        while len(self._line) + len(text) > self._max_line_bytes:
            room = self._max_line_bytes - len(self._line)
            self._line += text[:room]
            text = text[room:]
            self._emit_line(out)
            self._is_continued = True
        self._line += text

    def _end_line(self, out: list[bytes]) -> None:
        if self._line or not self._is_continued:
            self._emit_line(out)
        self._is_returned = False
        self._is_continued = False

    def _emit_line(self, out: list[bytes]) -> None:
        out.append(bytes(self._line))
        out.append(b"\n")
        self._line.clear()
        self._is_returned = False


def _last_shown(text: bytes) -> bytes:
    r"""What is left to see of a line: its last stretch between carriage returns that has any text."""
    text = text.rstrip(b"\r")
    return text[text.rfind(b"\r") + 1 :]


def _without_replaced_text(block: bytes) -> bytes:
    """Reduce each of these whole lines to what it finally showed; only lines with a carriage return cost a step."""
    out: list[bytes] = []
    done = 0
    while (carriage_return := block.find(b"\r", done)) >= 0:
        start = block.rfind(b"\n", done, carriage_return) + 1
        end = block.find(b"\n", carriage_return)
        out.append(block[done:start])
        out.append(_last_shown(block[start:end]))
        done = end
    out.append(block[done:])
    return b"".join(out)


def prefix_of(label: str) -> str:
    """What stands before every line of an item, or of the coordinator: `[LLD-42]`."""
    return f"[{label}{_CLOSING}"


def label_in(prefix: str) -> str:
    """The label that a prefix is made of."""
    return prefix.removeprefix("[").removesuffix(_CLOSING)


def split_prefix(line: str) -> tuple[str, str]:
    """A line's prefix and what stands behind it; the whole line and nothing where there is no prefix."""
    label, closing, text = line.partition(f"{_CLOSING} ")
    return label + closing.rstrip(), text


def prefix_block(prefix: bytes, block: bytes, *, prefix_empty: bool = True) -> bytes:
    """Put `prefix` and a space before every line of a block of whole lines; before empty ones only if `prefix_empty`.

    Neither splits nor loops over lines, so it keeps up with a worker that prints as fast as it can.
    """
    if not block:
        return b""
    line_start = b"\n" + prefix + b" "
    prefixed = line_start + block.removesuffix(b"\n").replace(b"\n", line_start) + b"\n"
    if not prefix_empty:
        # Two empty lines in a row share a newline, so one pass leaves every second one.
        for _ in range(2):
            prefixed = prefixed.replace(line_start + b"\n", b"\n\n")
    return prefixed[1:]


class LineSink(Protocol):
    """What lines are written to: any text stream."""

    def write(self, text: str, /) -> object: ...

    def flush(self) -> object: ...


class OutputPrefixer(io.TextIOBase):
    """A text stream that passes on whole lines with a prefix, one line a `write` of the stream behind it.

    `prefix` is used as given, followed by a space; empty lines stay empty. Lines are cleaned like a worker's output
    and keep their colour. Threads may share it: each thread's unfinished line is its own, so `print` calls never mix.

    As a context manager it stands in for `sys.stdout` and `sys.stderr` of the whole process and restores them. Given
    one stream, both go there; given two, or none, each goes to its own.
    """

    def __init__(
        self,
        prefix: str,
        stream: LineSink | None = None,
        original_stderr: LineSink | None = None,
        *,
        original_stdout: LineSink | None = None,
    ) -> None:
        super().__init__()
        if stream is None:
            stream = original_stdout
        self._prefix = prefix.encode(errors="backslashreplace")
        self._stream: LineSink = sys.stdout if stream is None else stream
        if original_stderr is None:
            original_stderr = sys.stderr if stream is None else stream
        self._stderr_stream: LineSink = original_stderr
        # Reentrant: a signal handler may print while this very thread is inside `write`.
        self._lock = threading.RLock()
        self._assemblers: dict[int, LineAssembler] = {}
        self._replaced: list[tuple[TextIO, TextIO, OutputPrefixer]] = []

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """The encoding of the stream behind this one."""
        encoding = getattr(self._stream, "encoding", None)
        return encoding if isinstance(encoding, str) else "utf-8"

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        """Always false: whoever draws on a terminal needs a cursor, and lines are all that passes here."""
        return False

    def write(self, text: str, /) -> int:
        """Write the lines that `text` completes and keep the rest until its line ends or is flushed."""
        with self._lock:
            if self.closed:
                raise ValueError("write to a closed OutputPrefixer")
            assembler = self._assemblers.setdefault(threading.get_ident(), LineAssembler())
            self._write_lines(assembler.feed(text.encode(errors="backslashreplace")))
        return len(text)

    def flush(self) -> None:
        """Write this thread's unfinished line, and those that ended threads left, and flush the stream behind."""
        with self._lock:
            others = {thread.ident for thread in threading.enumerate()} - {threading.get_ident()}
            for thread_id, assembler in list(self._assemblers.items()):
                if thread_id not in others:
                    self._write_lines(assembler.flush_partial())
            self._stream.flush()

    def close(self) -> None:
        """Write every unfinished line. The stream behind stays open: it belongs to whoever opened it."""
        if not self.closed:
            self._finish_lines()
        super().close()

    def __enter__(self) -> Self:
        shares_stream = self._stderr_stream is self._stream
        stderr = self if shares_stream else OutputPrefixer(self._prefix.decode(), self._stderr_stream)
        self._replaced.append((sys.stdout, sys.stderr, stderr))
        # A TextIOBase is what these names hold in practice; their declared type is a nominal class of `typing`.
        sys.stdout, sys.stderr = cast(TextIO, self), cast(TextIO, stderr)
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        sys.stdout, sys.stderr, stderr = self._replaced.pop()
        self._finish_lines()
        stderr._finish_lines()

    def _finish_lines(self) -> None:
        with self._lock:
            for assembler in list(self._assemblers.values()):
                self._write_lines(assembler.finish())
            self._stream.flush()

    def _write_lines(self, block: bytes) -> None:
        cleaned = clean_block(block, keep_colour=True)
        for line in prefix_block(self._prefix, cleaned, prefix_empty=False).splitlines(keepends=True):
            self._stream.write(line.decode())

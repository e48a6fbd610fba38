"""The installed command on a real pseudo-terminal: what it draws can be read, keys can be typed."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import threading
from typing import Self

from harness import AGENTOS, DEADLINE_SECONDS, Sandbox, eventually

_SEQUENCE = re.compile(r"\x1b\[([\d;]*)([A-Za-z])")
_UNSEEN = re.compile(r"\x1b\[\?2026[hl]|\x1b\[2[23];2t|\x1b\]2;[^\x07\x1b]*\x07|\x1b\]8;;[^\x07\x1b]*\x1b\\\\")
"""The bounds of a frame, the window's title, the ends of links."""


class Screen:
    """What a window of some width shows after these bytes: rows of text, the last one where the cursor is.

    Knows what the command may send: text, newline, carriage return, cursor up, erase below, colour, and what a window
    does not show. Anything else fails the test. A line that is too long wraps, as it would.
    """

    def __init__(self, columns: int) -> None:
        self._columns = columns
        self.rows = [""]
        self._row = self._column = 0

    def feed(self, drawn: bytes) -> Self:
        text = drawn.decode()
        position = 0
        while position < len(text):
            sequence = _SEQUENCE.match(text, position)
            if unseen := _UNSEEN.match(text, position):
                position = unseen.end()
            elif sequence:
                self._control(int(sequence[1].partition(";")[0] or 0), sequence[2])
                position = sequence.end()
            else:
                self._put(text[position])
                position += 1
        return self

    def _control(self, number: int, kind: str) -> None:
        match kind:
            case "A":
                self._row = max(0, self._row - max(1, number))
            case "J":
                self.rows[self._row] = self.rows[self._row][: self._column]
                del self.rows[self._row + 1 :]
            case "m":
                pass
            case _:
                raise AssertionError(f"an escape sequence of kind {kind!r}")

    def _put(self, character: str) -> None:
        if character == "\r":
            self._column = 0
        elif character == "\n":
            self._down()
        else:
            assert character.isprintable(), repr(character)
            if self._column == self._columns:
                self._down()
                self._column = 0
            row = self.rows[self._row].ljust(self._column)
            self.rows[self._row] = row[: self._column] + character + row[self._column + 1 :]
            self._column += 1

    def _down(self) -> None:
        self._row += 1
        if self._row == len(self.rows):
            self.rows.append("")


class Terminal:
    """As a context manager: starts the command in a session of its own that the terminal controls, and ends it."""

    def __init__(
        self,
        sandbox: Sandbox,
        *arguments: str,
        columns: int = 100,
        rows: int = 30,
        env: dict[str, str] | None = None,
        program: str = str(AGENTOS),
    ) -> None:
        self._master, slave = pty.openpty()
        self._drawn = bytearray()
        self._is_hung_up = False
        self.resize(columns, rows)
        environment = {**sandbox.environment, "TERM": "xterm-256color", **(env or {})}
        for name in ("COLUMNS", "LINES", *({"NO_COLOR", "CI"} - set(env or {}))):
            environment.pop(name, None)
        self.process = subprocess.Popen(
            [program, *arguments],
            cwd=sandbox.project,
            env=environment,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(slave)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self._reader.join(DEADLINE_SECONDS)
        if not self._is_hung_up:
            os.close(self._master)

    def resize(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, keys: bytes) -> None:
        os.write(self._master, keys)

    def hang_up(self) -> None:
        """The window is closed."""
        self._is_hung_up = True
        # As long as anybody is inside a read, the terminal is there.
        self._reader.join(DEADLINE_SECONDS)
        os.close(self._master)

    def drawn(self) -> bytes:
        """Every byte so far."""
        return bytes(self._drawn)

    def text(self) -> str:
        return self.drawn().decode(errors="replace")

    def screen(self, columns: int) -> Screen:
        return Screen(columns).feed(self.drawn())

    def wait_for(self, text: str) -> None:
        eventually(lambda: text in self.text(), f"{text!r} on the terminal")

    def wait(self, seconds: float = DEADLINE_SECONDS) -> int:
        """The exit code, once everything drawn has been read."""
        code = self.process.wait(seconds)
        if not self._is_hung_up:
            self._reader.join(seconds)
        return code

    def _read(self) -> None:
        while not self._is_hung_up:
            if not select.select([self._master], [], [], 0.05)[0]:
                continue
            try:
                data = os.read(self._master, 1 << 16)
            except OSError:
                return
            if not data:
                return
            self._drawn += data

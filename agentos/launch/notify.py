"""Tells somebody who does not watch, by the user's command or the desktop's: beside the run, never in its way."""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from html import escape
from pathlib import Path
from typing import Final

from agentos.events import RunEnded, RunStarted, Stamped, Warned
from agentos.processes.children import ChildResult, run_child
from agentos.reporters.notifications import Notice, Occasions, document_of, text_of, title_of
from agentos.settings import Notify
from agentos.text.words import one_line

TIME_LIMIT_SECONDS: Final = 10.0
GATHER_SECONDS: Final = 1.0
"""What happens within this time of the first is told with it."""
LAST_SECONDS: Final = 5.0
"""What is left to tell when the run is over has this long; then it is ended."""
_IN_APPLESCRIPT: Final = "display notification (item 2 of argv) with title (item 1 of argv)"


class Notifier:
    """A reporter. What it has to tell is told by a thread of its own, one command at a time."""

    name = "notifying"

    def __init__(
        self,
        notify: Notify,
        run_dir: Path,
        environment: Mapping[str, str],
        *,
        redact: Callable[[str], str],
        on_failure: Callable[[str], None],
        gather_seconds: float = GATHER_SECONDS,
    ) -> None:
        """`environment` has no keys in it. `on_failure` hears of the first failure, in that thread."""
        self._notify = notify
        self._run_dir = run_dir
        self._environment = dict(environment)
        self._redact = redact
        self._on_failure = on_failure
        self._gather_seconds = gather_seconds
        self._occasions = Occasions(notify.on, run_dir)
        self._run: RunStarted | None = None
        self._pending: dict[str, list[Notice]] = {}
        self._changed = threading.Condition()
        self._is_over = False
        self._thread: threading.Thread | None = None
        self._end_read, self._end_write = os.pipe()
        self._failure = ""
        self._is_failure_told = False

    def handle(self, stamped: Stamped) -> None:
        match stamped.event:
            case RunStarted():
                self._run = stamped.event
            case Warned(text=text):
                self._is_failure_told |= text == self._failure
        notice = self._occasions.take(stamped)
        if notice is None or self._run is None:
            return
        with self._changed:
            self._pending.setdefault(notice.reason, []).append(notice)
            self._is_over = isinstance(stamped.event, RunEnded)
            self._changed.notify()
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, args=(self._run,), daemon=True)
            self._thread.start()

    @property
    def untold_failure(self) -> str:
        """What went wrong too late for the run to say it."""
        return "" if self._is_failure_told else self._failure

    def close(self) -> None:
        """Nothing more will happen; what is left is told by `finish`."""
        with self._changed:
            self._is_over = True
            self._changed.notify()

    def finish(self, seconds: float = LAST_SECONDS) -> None:
        """Give what is left this long; then nothing of it is left running."""
        self.close()
        if self._thread is not None:
            self._thread.join(seconds)
            with self._changed:
                self._pending.clear()
            os.write(self._end_write, b"\0")
            self._thread.join(TIME_LIMIT_SECONDS)
        for descriptor in (self._end_read, self._end_write):
            with suppress(OSError):
                os.close(descriptor)

    def _work(self, run: RunStarted) -> None:
        while notices := self._next():
            for argv, stdin in self._commands(notices, run):
                self._tell(argv, stdin)

    def _next(self) -> list[Notice]:
        """All of one reason that have come together; none when the run is over and everything is told."""
        with self._changed:
            self._changed.wait_for(lambda: bool(self._pending) or self._is_over)
            self._changed.wait_for(lambda: self._is_over, self._gather_seconds)
            reason = next(iter(self._pending), "")
            return self._pending.pop(reason, [])

    def _commands(self, notices: Sequence[Notice], run: RunStarted) -> list[tuple[list[str], bytes]]:
        document = json.dumps(document_of(notices, run, self._run_dir)).encode() + b"\n"
        own = [(list(self._notify.command), document)] if self._notify.command else []
        title = f"agentos: {title_of(notices)}"
        desktop = [(_desktop_command(title, text_of(notices)), b"")] if self._notify.desktop else []
        return own + desktop

    def _tell(self, argv: Sequence[str], stdin: bytes) -> None:
        try:
            done = run_child(
                argv,
                cwd=self._run_dir,
                env=self._environment,
                timeout_seconds=TIME_LIMIT_SECONDS,
                stdin=stdin,
                limit_bytes=4096,
                cancel_descriptor=self._end_read,
            )
        except (OSError, ValueError) as error:
            self._fail(f"cannot run {one_line(argv[0])}: {getattr(error, 'strerror', None) or error}")
        else:
            if done.exit_code != 0:
                self._fail(_failure_words(argv[0], done))

    def _fail(self, words: str) -> None:
        """Told once: what fails once is likely to fail again."""
        if not self._failure:
            self._failure = self._redact(f"nobody was notified: {words}")
            self._on_failure(self._failure)


def _failure_words(program: str, done: ChildResult) -> str:
    name = one_line(Path(program).name)
    if done.timed_out:
        return f"{name} did not end in time and was ended"
    how = (
        f"exited with {done.exit_code}" if done.exit_code is not None else f"was ended by signal {done.signal_number}"
    )
    said = one_line(done.stderr.text(), 200)
    return f"{name} {how}{f': {said}' if said else ''}"


def _desktop_command(title: str, text: str) -> list[str]:
    """Text from others is an argument, never a script; desktops read markup in it."""
    if shutil.which("osascript"):
        return ["osascript", "-e", "on run argv", "-e", _IN_APPLESCRIPT, "-e", "end run", title, text]
    return ["notify-send", "--app-name=agentos", "--", title, escape(text, quote=False)]

"""Stamps events, once, and hands them to the reporters."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Protocol

from agentos.events import Event, Stamped, Warned


class Reporter(Protocol):
    """Listens; never calls back."""

    def handle(self, stamped: Stamped) -> None: ...
    def close(self) -> None: ...


class Emitter:
    """A reporter that fails is dropped with a warning. A vital one (the audit) fails the run instead."""

    def __init__(
        self,
        run_id: str,
        reporters: Iterable[Reporter],
        *,
        vital: Iterable[Reporter],
        on_vital_failure: Callable[[str], None],
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._run_id = run_id
        self._reporters = list(reporters)
        self._vital = list(vital)
        self._on_vital_failure = on_vital_failure
        self._clock = clock
        self._sequence = 0

    def emit(self, event: Event) -> None:
        self._sequence += 1
        time = self._clock().isoformat(timespec="milliseconds").replace("+00:00", "Z")
        stamped = Stamped(self._sequence, time, self._run_id, event)
        for reporter in tuple(self._vital):
            try:
                reporter.handle(stamped)
            except OSError as error:
                self._vital.remove(reporter)
                self._on_vital_failure(f"cannot write the audit log: {error.strerror or error}")
        for reporter in tuple(self._reporters):
            self._hand_over(reporter, stamped)

    def _hand_over(self, reporter: Reporter, stamped: Stamped) -> None:
        try:
            reporter.handle(stamped)
        except Exception as error:
            if reporter in self._reporters:
                self._reporters.remove(reporter)
                reason = f"{type(reporter).__name__} stopped: {error}"
                self.emit(Warned(text=reason))

    def close(self) -> None:
        for reporter in (*self._vital, *self._reporters):
            try:
                reporter.close()
            except OSError:
                continue  # What it had to say is on disk or cannot be.

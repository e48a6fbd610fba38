"""Stamps events, once, and hands them to the reporters."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Protocol

from agentos.clock import stamp, utc_now
from agentos.events import Event, OutputProduced, ResultProduced, Stamped, Warned


class Reporter(Protocol):
    """Listens; never calls back."""

    name: str
    """What people call it: what cannot be written, or has stopped."""

    def handle(self, stamped: Stamped) -> None: ...
    def close(self) -> None: ...


class VitalReporter(Reporter, Protocol):
    """One without which a run must not go on, nor be said to have succeeded."""

    def settle(self) -> None:
        """Before the run's end is told: have everything in its place. Raises OSError."""
        ...


class Emitter:
    """A reporter that fails is dropped with a warning. A vital one (the audit) fails the run instead."""

    def __init__(
        self,
        run_id: str,
        reporters: Iterable[Reporter],
        *,
        vital: Iterable[VitalReporter],
        on_vital_failure: Callable[[str], None],
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        self._run_id = run_id
        self._reporters = list(reporters)
        self._vital = list(vital)
        self._on_vital_failure = on_vital_failure
        self._clock = clock
        self._sequence = 0

    def emit(self, event: Event) -> None:
        # Output is no record: it shares the number of the one before, so that a gap in the audit is a loss.
        if not isinstance(event, OutputProduced | ResultProduced):
            self._sequence += 1
        time = stamp(self._clock(), "milliseconds")
        stamped = Stamped(self._sequence, time, self._run_id, event)
        faults = self._hand_to_vital(stamped)
        losses = self._hand_to_others(stamped)
        # What follows from a failure is told when everybody has heard the event it happened at.
        for fault in faults:
            self._on_vital_failure(fault)
        for loss in losses:
            self.emit(Warned(text=loss))

    def _hand_to_vital(self, stamped: Stamped) -> list[str]:
        faults = []
        for reporter in tuple(self._vital):
            try:
                reporter.handle(stamped)
            except OSError as error:
                self._vital.remove(reporter)
                faults.append(f"cannot write {reporter.name}: {error.strerror or error}")
        return faults

    def _hand_to_others(self, stamped: Stamped) -> list[str]:
        losses = []
        for reporter in tuple(self._reporters):
            try:
                reporter.handle(stamped)
            except Exception as error:
                self._reporters.remove(reporter)
                losses.append(f"{reporter.name} stopped: {error}")
        return losses

    def settle(self) -> None:
        """Nothing but the run's end is still to come."""
        for reporter in self._vital:
            try:
                reporter.settle()
            except OSError as error:
                self._on_vital_failure(f"cannot write {reporter.name}: {error.strerror or error}")

    def close(self) -> None:
        for reporter in (*self._vital, *self._reporters):
            try:
                reporter.close()
            except OSError:
                continue  # What it had to say is on disk or cannot be.

"""The cap of a home per UTC day: over all commands, gateways and notebooks that use it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from agentos.files import remove_all
from agentos.keys.budget import SpendingWarnings
from agentos.keys.presence import appear, living
from agentos.keys.spending import DayLedger, ledger_of, spent_usd
from agentos.paths import spending_dir

RETRY_SECONDS = 0.25
"""A call that waits for money which another process has reserved looks again after this: nobody tells it."""


def day_budget(usd_per_day: float | None) -> DayBudget | None:
    """What the user's settings say of this home; None without a cap."""
    return None if usd_per_day is None else DayBudget(usd_per_day)


def spent_today_usd() -> float:
    """What everything with this home has spent or reserved today, as far as a cap has counted it. Writes nothing."""
    return spent_usd(spending_dir(), _day_of(time.time()))


def _day_of(now: float) -> str:
    return datetime.fromtimestamp(now, UTC).date().isoformat()


class DayBudget:
    """Reserves in the home's ledger before a call goes, in turns with all other processes, and settles after it."""

    retry_seconds: float | None = RETRY_SECONDS

    def __init__(self, cap_usd: float, folder: Path | None = None, clock: Callable[[], float] = time.time) -> None:
        self.cap_usd = cap_usd
        self.problem = ""
        self.day = ""
        self._folder = spending_dir() if folder is None else folder
        self._clock = clock
        self._me = f"{os.getpid()}-{os.urandom(4).hex()}"
        self._presence = -1
        self._ledger: DayLedger | None = None
        self._reserved: dict[int, tuple[DayLedger, float]] = {}
        """By fence: in the ledger of the day on which the call was let go."""
        self._warnings = SpendingWarnings()

    @property
    def spent_usd(self) -> float:
        """Today, and reserved."""
        with suppress(OSError):
            return self._today().total_usd()
        return 0.0

    def fits(self, estimate_usd: float) -> bool:
        try:
            total = self._today().total_usd()
        except OSError as error:
            return self._fail(error)
        self.problem = ""
        return total + estimate_usd <= self.cap_usd

    def could_fit_later(self, estimate_usd: float) -> bool:
        """Calls in flight, here or in another process that lives, may cost less than was reserved for them."""
        if self.problem or estimate_usd > self.cap_usd:
            return False
        with suppress(OSError):
            return self._today().has_open({self._me, *living(self._processes, but=self._me)})
        return False

    def reserve(self, fence: int, estimate_usd: float) -> bool:
        try:
            if self._presence < 0:
                self._presence = appear(self._processes, self._me)
                living(self._processes, but=self._me)  # Removes what killed processes have left.
            ledger = self._today()
            if not ledger.reserve(fence, estimate_usd, self.cap_usd):
                return False
        except OSError as error:
            return self._fail(error)
        self._reserved[fence] = ledger, estimate_usd
        return True

    def settle(self, fence: int, cost_usd: float) -> None:
        """What cannot be written stays at the price that was reserved for it."""
        ledger, _ = self._reserved.pop(fence, (None, 0.0))
        if ledger is not None:
            with suppress(OSError):
                ledger.settle(fence, cost_usd)
            self._close_if_idle(ledger)

    def write_off(self, fence: int) -> None:
        """The call's end will never be known: it counts as what was reserved for it."""
        if fence in self._reserved:
            self.settle(fence, self._reserved[fence][1])

    def warning_due(self) -> bool:
        return self._warnings.is_due(self.spent_usd, self.cap_usd)

    def close(self) -> None:
        """What is still reserved then is nobody's who lives."""
        if self._presence >= 0:
            remove_all([self._processes / self._me])
            os.close(self._presence)
            self._presence = -1

    @property
    def _processes(self) -> Path:
        return self._folder / "processes"

    def _today(self) -> DayLedger:
        day = _day_of(self._clock())
        if self._ledger is None or day != self.day:
            before, self._ledger = self._ledger, ledger_of(self._folder, day, self._me)
            self.day, self._warnings = day, SpendingWarnings()
            if before is not None:
                self._close_if_idle(before)
        return self._ledger

    def _close_if_idle(self, ledger: DayLedger) -> None:
        if ledger is not self._ledger and all(each is not ledger for each, _ in self._reserved.values()):
            ledger.close()

    def _fail(self, error: OSError) -> bool:
        """A cap that cannot be kept lets no call go."""
        self.problem = f"{self._folder} cannot be used: {error.strerror or error}"
        return False

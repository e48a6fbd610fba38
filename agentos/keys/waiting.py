"""What is said while calls wait for keys: once when it begins, once when it ends. Pure."""

from __future__ import annotations

from agentos.clock import stamp_of_epoch
from agentos.events import Listener, PoolExhausted, PoolResumed
from agentos.keys.pool import AllInUse, AllLimited

BRIEF_WAIT_SECONDS = 2.0
"""Keys that are all busy for less than this are the normal flow; only the first time is reported."""


class WaitingNotices:
    """Waiting is over when somebody was served; those who give up, are refused or gone end nothing."""

    def __init__(self, emit: Listener) -> None:
        self._emit = emit
        self._since: float | None = None
        """When the present waiting began."""
        self._said: PoolExhausted | None = None
        """What the user was told of the waiting and not yet told the end of."""
        self._has_spoken = False
        self._is_served = False

    @property
    def is_quiet(self) -> bool:
        """Nobody has waited, and there is nothing to say the end of."""
        return self._since is None

    def serve(self) -> None:
        """A call got its key."""
        self._is_served = True

    def refuse(self) -> None:
        """Waiting came to nothing, which is said elsewhere: keys are not available again."""
        self._said, self._is_served = None, False

    def update(
        self,
        now: float,
        why: AllInUse | AllLimited | None,
        *,
        is_waiting: bool,
        slots: int,
        waiting: tuple[str, ...] = (),
    ) -> None:
        """Say what has changed. `why` is the reason to wait, `slots` what the keys carry at once.

        `waiting` names those who wait, where others need not.
        """
        if self._since is not None:
            # The clock may have been set back.
            self._since = min(self._since, now)
        has_opened = not is_waiting or (self._is_said("limited") and not isinstance(why, AllLimited))
        if self._is_served and has_opened:
            self._end(now)
        if not is_waiting:
            self._since = self._since if self._said else None
            return
        if self._since is None:
            self._since = now
        match why:
            case AllLimited(until=until, is_overload=is_overload) if not self._is_said("limited"):
                left, opens = round(until - now, 1), stamp_of_epoch(until)
                self._say(
                    PoolExhausted(kind="limited", until=opens, seconds=left, waiting=waiting, is_overload=is_overload)
                )
            case AllInUse(busy=busy, limited=limited) if self._said is None and self._is_worth_saying(now):
                self._say(
                    PoolExhausted(kind="in_use", names=busy, limited=limited, slots=slots, waiting=waiting),
                )

    def next_change(self) -> float | None:
        """When waiting stops being brief and is to be said."""
        return None if self._said or self._since is None else self._since + BRIEF_WAIT_SECONDS

    def _is_said(self, kind: str) -> bool:
        return self._said is not None and self._said.kind == kind

    def _is_worth_saying(self, now: float) -> bool:
        is_brief = self._since is None or now - self._since < BRIEF_WAIT_SECONDS
        return not (is_brief and self._has_spoken)

    def _say(self, event: PoolExhausted) -> None:
        self._said, self._has_spoken, self._is_served = event, True, False
        self._emit(event)

    def _end(self, now: float) -> None:
        if self._said and self._since is not None:
            self._emit(PoolResumed(waited_seconds=round(now - self._since, 1), waiting=self._said.waiting))
        self._since, self._said, self._is_served = None, None, False

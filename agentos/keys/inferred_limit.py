"""A limit that nobody tells, found out from what is accepted and what is refused. Pure.

The number of requests that a minute takes is what it took when one was refused. It falls when refusals go on, rises
while one request more is accepted now and then, in steps that double, and is worth less the older it is.

Providers count in two ways. Some take so many in a minute, all at once if one likes: then the minute is filled.
Others take one every so often: they refuse although the minute is not full, and accept again long before it is over.
For those requests are spaced, a little closer with each that is accepted and further apart with each that is not.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agentos.keys.timeline import insert_in_order

MINUTE_SECONDS = 60.0
SLACK_SECONDS = 0.25
"""Calls travel for varying times: the provider's minute may end a little later than ours."""
MARGIN_SECONDS = 1.0
"""So close to the end of the minute, a request that is accepted shows nothing: there may be room for it already."""
DECREASE = 0.7
"""What is left of a limit that is refused again before any call was accepted."""
FIRST_PROBE_SECONDS = 2.0
LEARNING_SECONDS = 32.0
"""Until the pauses between probes are this long, the limit has only just been met, and may be another one."""
RECOVERY_SECONDS = 15.0
"""After a decrease, which may have been too large."""
SPACED_DECREASES = (0.93, 0.8, 0.65)
"""What is left of the rate of spaced requests after the first, second and any further refusal in a row."""
SPACED_INCREASE, MOST_INCREASE = 0.0023, 0.1
"""What each accepted one adds to it: about thirty make good for a refusal."""
INCREASE_CALLS, INCREASE_SECONDS = 30, 90.0
"""After as many, or as long, without a refusal they add twice as much."""
SETTLING_SECONDS = 20.0
"""After spacing has begun, the waits that are asked for tell the rate best."""
SPACED_SECONDS = 600.0
"""After which requests are no longer spaced: bursts may be taken again."""
AGE_SECONDS = {False: 3_600.0, True: 86_400.0}
"""How long a limit is worth remembering: inferred, or told by a refusal."""


@dataclass(frozen=True, slots=True)
class Probing:
    """How often one request more than the limit is tried."""

    seconds: float
    calls: int
    """As many must have been accepted since the last one was refused: so few are wasted."""


FELT, TOLD = Probing(50.0, 25), Probing(110.0, 40)


@dataclass(frozen=True, slots=True, eq=False)
class Send:
    """A request that went."""

    at: float


class InferredLimit:
    """Requests per minute of one quota."""

    def __init__(self) -> None:
        self.limit: float | None = None
        self.is_told = False
        """A refusal named it."""
        self.changed = -math.inf
        self._sends: deque[Send] = deque()
        """Of the last minute, in order, without those that were refused."""
        self._spaced_at = -math.inf
        self._refused_at = -math.inf
        self._accepted_since = 0
        self._full: tuple[Send, int] | None = None
        """At the last refusal: the oldest request of the minute, and how many it held."""
        self._is_overfull = False
        """Since then the very same minute has taken one more: it is not the minute that counts."""
        self._last_at = -math.inf
        self._strikes = 0
        """Refusals in a row of requests that were within the limit, those under way together counted as one."""
        self._probe: Send | None = None
        self._probe_at = math.inf
        self._probe_pause = FIRST_PROBE_SECONDS
        self._calls_to_probe = 0
        self._step = 1

    def opening(self, now: float) -> float:
        """When the next request may go."""
        if self.limit is None:
            return now
        if self.is_spaced(now):
            return max(now, self._last_at + MINUTE_SECONDS / self.limit)
        opening = self._window_opening(now)
        if opening <= now + MARGIN_SECONDS:
            return max(now, opening)
        may_probe = self._probe is None and self._calls_to_probe <= 0
        return max(now, min(opening, self._probe_at if may_probe else math.inf))

    def send(self, now: float) -> Send:
        """Count a request that goes now."""
        send = Send(now)
        if not self.is_spaced(now) and self._window_opening(now) > now:
            self._probe = send
        self._sends.append(send)
        self._last_at = now
        return send

    def remember(self, at: float) -> None:
        """Count a request of an earlier run."""
        insert_in_order(self._sends, Send(at), lambda send: send.at)

    def accept(self, now: float, send: Send) -> None:
        self._strikes = 0
        self._calls_to_probe -= 1
        self._accepted_since += send.at > self._refused_at
        if self.limit is None:
            return
        if self.is_spaced(now):
            quiet = int((now - max(self._refused_at, self._spaced_at)) // INCREASE_SECONDS)
            doublings = min(max(self._accepted_since // INCREASE_CALLS, quiet), 10)
            self.limit *= 1.0 + min(SPACED_INCREASE * 2**doublings, MOST_INCREASE)
        elif send is self._probe:
            self._is_overfull = self._is_overfull or self._full == (self._sends[0], self._count(now) - 1)
            self.limit = int(self.limit) + self._step
            self._step = min(2 * self._step, int(self.limit))
            self._probe_at, self._probe_pause, self.changed = now, LEARNING_SECONDS, now
        self.drop(send)

    def drop(self, send: Send) -> None:
        """The request came to nothing that tells of a limit."""
        if send is self._probe:
            self._probe = None

    def refuse(self, now: float, send: Send, *, is_first: bool, wait: float | None, told: int | None) -> None:
        """A request was refused; `is_first` of those that were under way together. `told` is the limit it named."""
        if send in self._sends:
            self._sends.remove(send)
        accepted = sum(each.at <= send.at for each in self._sends) if self._count(now) else 0
        was_probe = send is self._probe
        self.drop(send)
        rate = self._rate_without_bursts(now, send, accepted, wait, told)
        if self.is_spaced(now):
            self._space_out(now, accepted, is_first=is_first, wait=wait)
        elif rate is not None:
            self._learn(now, max(rate, accepted), is_told=False)
            self._spaced_at = now
        elif was_probe and told is None:
            self._give_up_probing(now, wait)
        elif told is not None and not (is_first and self._strikes):
            self._learn(now, told, is_told=True)
            self._give_up_probing(now, wait)
        elif self.limit is None:
            if accepted:
                self._learn(now, accepted, is_told=False)
                # What is accepted when the wait is over was waited for, and is not one more.
                self._probe_at = now + (wait + MARGIN_SECONDS if wait else FIRST_PROBE_SECONDS)
                self._probe_pause = FIRST_PROBE_SECONDS
        else:
            self._decrease(now, accepted, is_again=is_first and self._strikes > 0)
        self._strikes += is_first and not was_probe
        self._refused_at, self._accepted_since, self._is_overfull = max(self._refused_at, send.at), 0, False
        self._full = (self._sends[0], len(self._sends)) if self._sends else None

    def is_spaced(self, now: float) -> bool:
        return self._spaced_at > now - SPACED_SECONDS

    def forget(self) -> None:
        """The limit is known from elsewhere."""
        self.limit, self.is_told = None, False

    def export(self, skew: float) -> dict[str, Any]:
        if self.limit is None:
            return {}
        return {"felt": [round(self.limit, 1), self.is_told, self.changed - skew]}

    def restore(self, now: float, skew: float, record: Mapping[str, Any]) -> None:
        """What an earlier run found out, if that is not long ago: tried upward soon."""
        if self.limit is not None or "felt" not in record:
            return
        limit, is_told, changed = record["felt"]
        changed = min(float(changed) + skew, now)
        if now - changed < AGE_SECONDS[bool(is_told)]:
            self._learn(changed, float(limit), is_told=bool(is_told))
            self._probe_at, self._probe_pause = max(now, changed + self._probing.seconds), LEARNING_SECONDS

    @property
    def _probing(self) -> Probing:
        return TOLD if self.is_told else FELT

    def _rate_without_bursts(
        self, now: float, send: Send, accepted: int, wait: float | None, told: int | None
    ) -> float | None:
        """What a minute takes, if this refusal shows that it takes no bursts; else None."""
        if told is not None:
            return told if accepted < 0.75 * told else None
        if wait and accepted:
            # By the minute alone, the first of those accepted would have to leave it.
            is_early = wait < 0.25 * (self._sends[0].at + MINUTE_SECONDS - now)
            return MINUTE_SECONDS / wait if is_early else None
        few = self.limit is not None and self._accepted_since < 0.25 * self.limit + 1
        if self._is_overfull and few and send.at > self._refused_at:
            return MINUTE_SECONDS * self._accepted_since / (send.at - self._refused_at)
        return None

    def _space_out(self, now: float, accepted: int, *, is_first: bool, wait: float | None) -> None:
        assert self.limit is not None
        if self._strikes > len(SPACED_DECREASES):
            # No spacing helps: it is the minute that counts after all.
            self._spaced_at = -math.inf
            self._learn(now, max(accepted, 1), is_told=False)
            self._probe_at, self._probe_pause = now + RECOVERY_SECONDS, LEARNING_SECONDS
        elif wait and now - self._spaced_at < SETTLING_SECONDS:
            self.limit = max(1.0, min(self.limit, MINUTE_SECONDS / wait))
        elif is_first:
            factor = SPACED_DECREASES[min(self._strikes, len(SPACED_DECREASES) - 1)]
            self.limit = max(1.0, self.limit * factor)
        self.changed = now

    def _learn(self, now: float, limit: float, *, is_told: bool) -> None:
        self.limit, self.is_told, self.changed = max(1.0, limit), is_told, now
        self._step = max(1, int(self.limit) // 16)

    def _decrease(self, now: float, accepted: int, *, is_again: bool) -> None:
        """Once may be a matter of moments; a second time the limit is lower than it was."""
        assert self.limit is not None
        kept = min(self.limit, max(accepted, 1))
        self._learn(now, int(kept * DECREASE) if is_again else kept, is_told=False)
        self._probe_at, self._probe_pause = now + RECOVERY_SECONDS, LEARNING_SECONDS
        self._calls_to_probe = 0

    def _give_up_probing(self, now: float, wait: float | None) -> None:
        """The limit stands: wait longer with each probe that is refused, up to what is usual."""
        self._step = max(1, int(self.limit or 1) // 16)
        is_learning = self._probe_pause < LEARNING_SECONDS and not self.is_told
        self._probe_pause = min(2 * self._probe_pause, LEARNING_SECONDS) if is_learning else LEARNING_SECONDS
        if self._probe_pause < LEARNING_SECONDS:
            self._probe_at = now + max(self._probe_pause, wait or 0.0)
        else:
            self._probe_at = now + max(self._probing.seconds, wait or 0.0)
            self._calls_to_probe = self._probing.calls

    def _window_opening(self, now: float) -> float:
        """When a request fits into the minute."""
        count = self._count(now)
        if self.limit is None or count < int(self.limit):
            return now
        return self._sends[count - int(self.limit)].at + MINUTE_SECONDS + SLACK_SECONDS

    def _count(self, now: float) -> int:
        horizon = now - MINUTE_SECONDS - SLACK_SECONDS
        while self._sends and self._sends[0].at <= horizon + 1e-6:
            self._sends.popleft()
        return len(self._sends)

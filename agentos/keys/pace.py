"""The pace of one quota: how many calls and tokens were sent, and when the next call fits. Pure."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agentos.keys.inferred_limit import InferredLimit, Send
from agentos.keys.timeline import insert_in_order
from agentos.providers.evidence import LearnedLimit, RateLimited

CLOCK_GRAIN_SECONDS = 1e-6
"""Epoch seconds as floats are exact to a quarter of this: a wake-up at the deadline must count as past it."""

MINUTE_SECONDS = 60.0
DAY_SECONDS = 86_400.0

SMOOTHING_SECONDS = 600.0
"""How long calls are spaced for a provider that refused a burst."""
REFUSALS_WORD_SECONDS = 600.0
"""How long a limit counts that only a refusal has told: it may rise, and nobody would say so."""

HISTORY_SECONDS = 2 * MINUTE_SECONDS
HISTORY_LENGTH = 10_000
"""Sends remembered for a limit that is learned later."""

WindowKey = tuple[str, float]
"""(what is counted, as in LearnedLimit; window seconds)."""


@dataclass(frozen=True, slots=True)
class Size:
    """What one call counts: estimated before it goes, known afterwards."""

    input_tokens: int = 0
    output_tokens: int = 0

    def counted(self, what: str) -> int:
        match what:
            case "requests":
                return 1
            case "input_tokens":
                return self.input_tokens
            case "output_tokens":
                return self.output_tokens
            case _:
                return self.input_tokens + self.output_tokens


@dataclass(slots=True)
class _Charge:
    """One send in a window; its amount is corrected when the call's real usage is known."""

    expires: float
    amount: int


@dataclass(slots=True)
class _Window:
    """At most `limit` of `what` in any `seconds`. A window of a day is the provider's calendar day."""

    what: str
    seconds: float
    configured: int | None = None
    learned: int | None = None
    learned_at: float = -math.inf
    is_from_refusal: bool = False
    """Only a refusal has told it: nobody would say that it has risen."""
    charges: deque[_Charge] = field(default_factory=deque)
    total: int = 0

    @property
    def limit(self) -> int | None:
        """What a person says wins."""
        return self.learned if self.configured is None else self.configured

    @property
    def lasts_a_day(self) -> bool:
        return self.seconds >= DAY_SECONDS

    def charge_send(self, sent: float, size: Size, day_ends: float) -> _Charge:
        """Count a send. Calls travel for varying times, so a little is added to the window."""
        expires = day_ends if self.lasts_a_day else sent + self.seconds + min(0.25, 0.02 * self.seconds)
        return self.charge(expires, size.counted(self.what))

    def charge(self, expires: float, amount: int) -> _Charge:
        entry = _Charge(expires, amount)
        insert_in_order(self.charges, entry, lambda charge: charge.expires)
        self.total += amount
        return entry

    def correct(self, entry: _Charge, amount: int) -> None:
        """Replace an estimate by what was used, if the send still counts."""
        if self.charges and entry.expires >= self.charges[0].expires:
            self.total += amount - entry.amount
            entry.amount = amount

    def opening(self, now: float, amount: int) -> float:
        """The earliest time `amount` fits. More than the whole limit fits when the window is empty."""
        self.forget(now)
        if self.is_from_refusal and not self.lasts_a_day and self.learned_at < now - REFUSALS_WORD_SECONDS:
            self.learned = None
        limit = self.limit
        if limit is None:
            return now
        excess = self.total + min(max(amount, 1), limit) - limit
        for entry in self.charges:
            if excess <= 0:
                return now
            excess -= entry.amount
            if excess <= 0:
                return entry.expires
        return now

    def forget(self, now: float) -> None:
        while self.charges and self.charges[0].expires <= now + CLOCK_GRAIN_SECONDS:
            self.total -= self.charges.popleft().amount


@dataclass(slots=True)
class Sent:
    """A call that went, with what it counts as far as is known."""

    at: float
    size: Size


@dataclass(slots=True)
class Receipt:
    """What one send was counted as, to be corrected by its real token counts."""

    sent: Sent
    request: Send
    token_charges: list[tuple[_Window, _Charge]] = field(default_factory=list)


class Pace:
    """Keeps our sends within every known limit: sent by us, no window ever holds more than its limit."""

    def __init__(self) -> None:
        self._windows: dict[WindowKey, _Window] = {}
        self._history: deque[Sent] = deque(maxlen=HISTORY_LENGTH)
        self._usual_output = 0.0
        """Tokens of an answer, by the latest ones: nobody knows before the call."""
        self._inferred = InferredLimit()
        self._smoothed_at = -math.inf
        self._last_send = -math.inf
        self._hold_until = -math.inf

    def opening(self, now: float, tokens: int) -> float:
        """When the next call of so many tokens fits; `now` if it fits at once."""
        opening = max(now, self._hold_until, self._inferred.opening(now))
        is_smoothed = self._smoothed_at > now - SMOOTHING_SECONDS
        size = self._estimated(tokens)
        for window in self._windows.values():
            opening = max(opening, window.opening(now, size.counted(window.what)))
            if is_smoothed and window.what == "requests" and window.limit and not window.lasts_a_day:
                opening = max(opening, self._last_send + window.seconds / window.limit)
        return opening

    def depends_on_tokens(self) -> bool:
        """Whether a smaller call might fit sooner."""
        return any(window.what != "requests" and window.limit is not None for window in self._windows.values())

    def record_send(self, now: float, tokens: int, day_ends: float) -> Receipt:
        """Count a call that goes now."""
        self._last_send = now
        receipt = Receipt(Sent(now, self._estimated(tokens)), self._inferred.send(now))
        while self._history and self._history[0].at < now - HISTORY_SECONDS:
            self._history.popleft()
        self._history.append(receipt.sent)
        for window in self._windows.values():
            charge = window.charge_send(now, receipt.sent.size, day_ends)
            if window.what != "requests":
                receipt.token_charges.append((window, charge))
        return receipt

    def remember_send(self, at: float, size: Size, day_ends: float) -> None:
        """Count a call that an earlier run made within the last minutes."""
        self._inferred.remember(at)
        insert_in_order(self._history, Sent(at, size), lambda sent: sent.at)
        for window in self._windows.values():
            if not window.lasts_a_day:
                window.charge_send(at, size, day_ends)

    @property
    def knows_rate(self) -> bool:
        """Whether the pace itself keeps calls within what is accepted."""
        told = any(w.what == "requests" and w.limit is not None and not w.lasts_a_day for w in self._windows.values())
        return told or self._inferred.limit is not None

    def seconds_between(self, now: float) -> float | None:
        """How far apart calls are, if they are spaced."""
        limit = self._inferred.limit
        return MINUTE_SECONDS / limit if limit and self._inferred.is_spaced(now) else None

    def accept(self, now: float, receipt: Receipt) -> None:
        """The call was let in."""
        self._inferred.accept(now, receipt.request)

    def drop(self, receipt: Receipt) -> None:
        """The call came to nothing that tells of a limit."""
        self._inferred.drop(receipt.request)

    def settle(self, receipt: Receipt, used: Size) -> None:
        """Replace the estimate of a call by the tokens it used."""
        receipt.sent.size = used
        self._usual_output += (used.output_tokens - self._usual_output) / 8
        for window, charge in receipt.token_charges:
            window.correct(charge, used.counted(window.what))

    def refuse(self, now: float, receipt: Receipt, said: RateLimited, *, is_first: bool, day_ends: float) -> None:
        """A throttle came; `is_first` of the calls that were under way together."""
        paced = [w for w in self._windows.values() if w.what == "requests" and w.limit is not None]
        if paced and all(window.opening(now, 1) <= now for window in paced):
            # It came within the known limit: the provider takes no bursts, so the calls are spaced.
            self._smoothed_at = now
        others = tuple(limit for limit in said.limits if not self._is_minutes_requests(limit))
        told = [limit.value for limit in said.limits if limit not in others and limit.value > 0]
        self.learn(now, others, day_ends, is_refusal=True)
        is_about_tokens = bool(said.limits) and not told
        if not is_about_tokens:
            self._inferred.refuse(
                now,
                receipt.request,
                is_first=is_first,
                wait=said.retry_after_seconds,
                told=min(told) if told else None,
            )
        else:
            self._inferred.drop(receipt.request)

    def _is_minutes_requests(self, limit: LearnedLimit) -> bool:
        """The limit that is inferred as well, unless good replies tell it."""
        window = self._windows.get(("requests", MINUTE_SECONDS))
        is_told_by_answers = window is not None and window.learned is not None
        return (limit.what, limit.window_seconds) == ("requests", MINUTE_SECONDS) and not is_told_by_answers

    def configure(self, limits: Mapping[WindowKey, int], day_ends: float) -> None:
        """Take the user's limits."""
        for key in set(self._windows) | set(limits):
            self._window(key, day_ends).configured = limits.get(key)

    def learn(
        self, now: float, limits: tuple[LearnedLimit, ...], day_ends: float, *, is_refusal: bool = False
    ) -> None:
        """Take the limits a reply told. The latest word about one limit replaces the earlier one."""
        for limit in limits:
            if limit.value <= 0 or not limit.window_seconds > 0:
                continue
            window = self._window((limit.what, limit.window_seconds), day_ends)
            window.learned, window.learned_at, window.is_from_refusal = limit.value, now, is_refusal
            if not is_refusal and (limit.what, limit.window_seconds) == ("requests", MINUTE_SECONDS):
                self._inferred.forget()
            if limit.remaining == 0 and limit.resets_in_seconds is not None:
                # The reset is when all of it is back; one call's worth is back much sooner, and within the window.
                pause = min(max(limit.resets_in_seconds, 0.0) / limit.value, limit.window_seconds)
                self._hold_until = max(self._hold_until, now + pause)

    def export(self, skew: float) -> dict[str, Any]:
        """Learned limits and what is used of the day, in wall-clock time."""
        record: dict[str, Any] = self._inferred.export(skew)
        learned = [[w.what, w.seconds, w.learned] for w in self._windows.values() if w.learned is not None]
        if learned:
            record["learned"] = learned
        days = [w for w in self._windows.values() if w.lasts_a_day and w.charges]
        if days:
            record["day"] = [[w.what, w.seconds, w.total, w.charges[-1].expires - skew] for w in days]
        return record

    def restore(self, now: float, skew: float, record: Mapping[str, Any], day_ends: float) -> None:
        """Take what an earlier run learned and used of today."""
        for what, seconds, value in record.get("learned", ()):
            limit = LearnedLimit(what=what, value=value, window_seconds=float(seconds))
            # It may have changed since: it is believed for as long as a refusal's word.
            self.learn(now, (limit,), day_ends, is_refusal=True)
        requests = self._windows.get(("requests", MINUTE_SECONDS))
        if requests is None or requests.limit is None:
            self._inferred.restore(now, skew, record)
        for what, seconds, total, ends in record.get("day", ()):
            window = self._window((what, float(seconds)), day_ends)
            window.forget(now)
            # What ends later is of another day: the clock has been set back.
            if total > window.total and now < ends + skew < now + 2 * DAY_SECONDS:
                window.charge(min(ends + skew, day_ends), total - window.total)

    def _window(self, key: WindowKey, day_ends: float) -> _Window:
        """The window, made from what was sent before its limit was known."""
        window = self._windows.get(key)
        if window is None:
            window = self._windows[key] = _Window(*key)
            for sent in self._history:
                window.charge_send(sent.at, sent.size, day_ends)
        return window

    def _estimated(self, tokens: int) -> Size:
        return Size(tokens, round(self._usual_output))

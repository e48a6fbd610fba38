"""What is known of one quota, a (group, model): until when it is closed and how it reopens. Pure."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from datetime import UTC, datetime, time, timedelta, timezone, tzinfo
from enum import Enum
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from agentos.keys.pace import CLOCK_GRAIN_SECONDS, DAY_SECONDS, Pace, Receipt
from agentos.providers.evidence import KEY_STATES, NotServed, QuotaSpent, RateLimited
from agentos.providers.registry import providers
from agentos.providers.replies import LONGEST_WAIT_SECONDS

BACKOFF_BASE_SECONDS = 2.0
BACKOFF_CAP_SECONDS = 300.0
PACED_BACKOFF_CAP_SECONDS = 10.0
"""Where the pace itself holds calls back, a limit that has fallen is met again soon."""
PROOF_SECONDS = DAY_SECONDS
"""How long a call that went well speaks for a key: a day may end what it had."""

DAILY_PROBES = 3
FIRST_DAILY_PROBE_SECONDS = 3_600.0

VERDICT_SECONDS = 60.0
"""How long a quota in doubt waits for another group to show whose fault it is."""


class LimitKind(Enum):
    """Why a quota is closed."""

    RATE = KEY_STATES[RateLimited].name
    QUOTA = KEY_STATES[QuotaSpent].name
    NOT_SERVED = KEY_STATES[NotServed].name


@lru_cache(maxsize=8)
def day_zone(name: str) -> tzinfo:
    """Where the provider's midnight is."""
    provider = providers().get(name)
    if provider is None:
        return UTC
    try:
        return ZoneInfo(provider.day_zone)
    except ZoneInfoNotFoundError:
        # Without a time zone database: standard time resets at or after the real midnight, never before.
        return timezone(timedelta(hours=provider.day_offset_hours))


def next_day_reset(provider: str, wall_now: float) -> float:
    """The next instant the provider's day begins: at midnight in its own time zone, or UTC."""
    zone = day_zone(provider)
    tomorrow = datetime.fromtimestamp(wall_now, zone).date() + timedelta(days=1)
    return datetime.combine(tomorrow, time.min, zone).timestamp()


def by_this_clock(record: Mapping[str, Any], wall_now: float) -> Mapping[str, Any]:
    """What was exported when the clock was further on than it is now: as if it had been found out just now."""
    lead = float(record.get("changed", wall_now)) - wall_now
    if lead <= 0:
        return record
    return {**record, **{name: record[name] - lead for name in _MOMENTS if name in record}}


_MOMENTS = ("changed", "until", "next_daily_probe")


def clean_delay(seconds: float | None) -> float | None:
    """A provider's delay as a number that can be waited; None if it is not one."""
    if seconds is None or not seconds <= LONGEST_WAIT_SECONDS:
        return None
    return max(seconds, 0.0)


class Quota:
    """One (group, model) of a provider. All times are the pool's own, which never run backwards."""

    def __init__(self) -> None:
        self.pace = Pace()
        self.until = 0.0
        self.kind: LimitKind | None = None
        self.reason = ""
        self.words = ""
        """What the provider said about it."""
        self.never_resets = False
        self.is_reopening = False
        """A limit was hit and no call has succeeded since: one probe at a time."""
        self.needs_probe = False
        """Nobody knows what it takes: after its end, one call shows whether it is open."""
        self.probe_fence: int | None = None
        self.last_limited = -math.inf
        self.proven_at: float | None = None
        """When a call last showed that it serves."""
        self.doubted_at: float | None = None
        """When a call was last told that the account does not have what it asks for, and none has succeeded since."""
        self.doubt = ""
        self._verdict_by = -math.inf
        """Until then another group may show whether the doubt is right: a further call here would be wasted."""
        self.changed: float | None = None
        """When the provider last showed this quota open or closed."""
        self._calls_under_way = 0
        self._strikes = 0
        self._limit_fence = -1
        self._next_daily_probe = math.inf
        self._daily_probes_left = 0

    @property
    def rank(self) -> float:
        """Smaller is tried first: the least recently limited.

        Last comes one that may not have the model at all, or whose very first call is under way: it may be spent, and
        a second call would then be wasted too.
        """
        is_known = self.proven_at is not None or self.changed is not None
        is_first_call_out = self._calls_under_way > 0 and not is_known
        return math.inf if is_first_call_out or self.doubted_at is not None else self.last_limited

    def prove(self, now: float) -> None:
        """A call went well."""
        self.proven_at, self.doubted_at, self.doubt = now, None, ""
        self.end_verdict()

    def is_limited(self, now: float) -> bool:
        """Closed by the provider's word, for now or for good."""
        return self.never_resets or (self.is_reopening and self.until > now + CLOCK_GRAIN_SECONDS)

    def is_tried_out(self, now: float) -> bool:
        """One call is to show whether it serves; the next waits for that."""
        return self.probe_fence is not None or self.awaits_verdict(now)

    def opening(self, now: float, tokens: int) -> float:
        """When the next call may go: `now` for at once, infinity if only an event can tell."""
        if self.never_resets or self.probe_fence is not None:
            return math.inf
        if self.awaits_verdict(now):
            return self._verdict_by
        if self.is_reopening:
            gate = min(self.until, self._next_daily_probe)
            if gate > now + CLOCK_GRAIN_SECONDS:
                return gate
        return self.pace.opening(now, tokens)

    def record_send(self, now: float, fence: int, tokens: int, day_ends: float) -> Receipt:
        """Count a call that goes now; while reopening it is the probe. `end_call` follows."""
        self._calls_under_way += 1
        if self.is_reopening and not self.needs_probe and self.until <= now + CLOCK_GRAIN_SECONDS:
            self.is_reopening, self.until, self.kind = False, 0.0, None
        if self.is_reopening:
            self.probe_fence = fence
            if self.until > now + CLOCK_GRAIN_SECONDS:
                self._daily_probes_left -= 1
                self._plan_daily_probe(now)
        return self.pace.record_send(now, tokens, day_ends)

    def begin_call(self) -> None:
        """A call is under way that was counted elsewhere. `end_call` follows."""
        self._calls_under_way += 1

    def end_call(self) -> None:
        """A call that was sent is over, however it went."""
        self._calls_under_way -= 1

    def limit_rate(
        self,
        now: float,
        fence: int,
        newest_fence: int,
        said: RateLimited,
        rng: random.Random,
        *,
        receipt: Receipt,
        day_ends: float,
    ) -> None:
        """A throttle. The provider's own wait counts, else a backoff; a failed probe doubles the least wait.

        Calls that were under way together are one strike. A deadline only ever moves later. Where the pace knows what
        is accepted, calls continue by it when the wait is over; else one call probes.
        """
        is_first = fence > self._limit_fence
        self.pace.refuse(now, receipt, said, is_first=is_first, day_ends=day_ends)
        self.needs_probe = not self.pace.knows_rate
        if is_first:
            self._strikes += 1 if self.is_reopening else 0
            self._limit_fence = newest_fence
        delay = clean_delay(said.retry_after_seconds) or None  # A refusal with a wait of 0 did not say how long.
        cap = BACKOFF_CAP_SECONDS if self.needs_probe else PACED_BACKOFF_CAP_SECONDS
        base = self.pace.seconds_between(now) or BACKOFF_BASE_SECONDS
        backoff = min(base * 2.0 ** min(self._strikes, 30), cap)
        wait = backoff if delay is None else max(delay, backoff if self._strikes else 0.0)
        deadline = now + wait + rng.uniform(0.0, min(wait * (0.25 if delay is None else 0.05), 1.0))
        if self.kind is LimitKind.QUOTA and self.until > now:
            self._next_daily_probe = max(self._next_daily_probe, deadline)
        else:
            self.kind, self.reason, self._next_daily_probe = LimitKind.RATE, "", math.inf
        self._close(now, fence, deadline)

    def spend(self, now: float, fence: int, newest_fence: int, said: QuotaSpent, day_ends: float) -> None:
        """Out for the day, for a stated time, or until the user acts."""
        self._limit_fence = max(self._limit_fence, newest_fence)
        self.needs_probe = True
        if self.kind is not LimitKind.QUOTA or self.until <= now + CLOCK_GRAIN_SECONDS:
            self._daily_probes_left = DAILY_PROBES
        self.kind, self.reason, self.words = LimitKind.QUOTA, said.reason, said.words
        if said.never_resets:
            self.never_resets = True
            self._close(now, fence, self.until)
            return
        delay = clean_delay(said.resets_in_seconds)
        self._close(now, fence, day_ends if delay is None else now + delay)
        self._plan_daily_probe(now)

    def doubt_model(self, now: float, said: NotServed) -> None:
        """The account may not have this model. What another group's key is told will show."""
        self.doubted_at, self.doubt = now, said.reason

    def await_verdict(self, now: float) -> None:
        """The call that was refused here is about to be tried with another group."""
        self._verdict_by = now + VERDICT_SECONDS

    def awaits_verdict(self, now: float) -> bool:
        return self._verdict_by > now + CLOCK_GRAIN_SECONDS

    def end_verdict(self) -> None:
        self._verdict_by = -math.inf

    def deny_model(self, now: float, fence: int) -> None:
        """Another group has just served what this one would not: it is without this model until the user acts."""
        self.kind, self.reason, self.never_resets = LimitKind.NOT_SERVED, self.doubt, True
        self._close(now, fence, self.until)

    def finish_probe(self, now: float, fence: int, *, succeeded: bool) -> None:
        """The probe came back: success opens unless a limit was told since, anything else lets the next probe go."""
        if self.probe_fence != fence:
            return
        self.probe_fence = None
        if succeeded and fence > self._limit_fence:
            self.reopen(now)

    def reopen(self, now: float) -> None:
        """Open as if never limited; the pace stays."""
        self.until, self.kind, self.reason, self.words = 0.0, None, "", ""
        self.doubted_at, self.doubt = None, ""
        self.end_verdict()
        self.never_resets = self.is_reopening = False
        self._strikes = 0
        self._next_daily_probe, self._daily_probes_left = math.inf, 0
        self.changed = now

    def export(self, skew: float) -> dict[str, Any]:
        """Plain data in wall-clock time; empty if there is nothing to remember."""
        record = self.pace.export(skew)
        if self.proven_at is not None:
            record["proven"] = self.proven_at - skew
        if self.changed is not None:
            record["changed"] = self.changed - skew
        if self.is_reopening and self.kind is not None:
            record |= {"kind": self.kind.value, "until": self.until - skew, "reason": self.reason}
            record |= {"words": self.words} if self.words else {}
            record |= {"never_resets": self.never_resets, "daily_probes_left": self._daily_probes_left}
            if math.isfinite(self._next_daily_probe):
                record["next_daily_probe"] = self._next_daily_probe - skew
        return record

    def restore(self, now: float, skew: float, record: Mapping[str, Any], day_ends: float) -> None:
        """Take what an earlier run knew: only ever closes longer. A limit that has ended is not restored."""
        record = by_this_clock(record, now - skew)
        self.pace.restore(now, skew, record, day_ends)
        proven_at = float(record.get("proven", -math.inf)) + skew
        if self.proven_at is None and now - PROOF_SECONDS < proven_at:
            self.proven_at = min(proven_at, now)
        if "kind" not in record:
            return
        until = float(record["until"]) + skew
        never_resets = bool(record.get("never_resets"))
        if until <= now and not never_resets:
            return
        if until >= self.until or never_resets:
            self.kind, self.reason = LimitKind(record["kind"]), str(record.get("reason", ""))
            self.words = str(record.get("words", ""))
            self._daily_probes_left = int(record.get("daily_probes_left", 0))
            self._next_daily_probe = float(record.get("next_daily_probe", math.inf)) + skew
        self.until = max(self.until, until)
        self.never_resets = self.never_resets or never_resets
        self.is_reopening = self.needs_probe = True
        self.changed = max(self.changed or 0.0, min(float(record.get("changed", now - skew)) + skew, now))
        self.last_limited = max(self.last_limited, self.changed)

    def _close(self, now: float, fence: int, deadline: float) -> None:
        self.until = max(self.until, deadline)
        self.is_reopening = True
        self.last_limited = self.changed = now
        if self.probe_fence == fence:
            self.probe_fence = None

    def _plan_daily_probe(self, now: float) -> None:
        """Space the probes left over the rest of the wait, none within the first hour."""
        left = self.until - now
        pause = max(FIRST_DAILY_PROBE_SECONDS, left / (self._daily_probes_left + 1))
        self._next_daily_probe = now + pause if self._daily_probes_left > 0 and pause < left else math.inf

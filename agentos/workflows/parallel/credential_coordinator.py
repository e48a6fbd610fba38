"""One key pool for the threads of a process: take a key, give it back, wait in order. Shows keys by number."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime

from agentos.events import Event, KeyCoolingDown, Listener, PoolExhausted, PoolResumed
from agentos.keys.pool import AllInUse, AllLimited, Exhaustion, Grant, KeyPool, KeySpec
from agentos.providers.evidence import Abandoned, Evidence, RateLimited, Succeeded

DEFAULT_BACKOFF_SECONDS = 60.0
LONGEST_SLEEP_SECONDS = 60.0

_PROVIDER = _MODEL = "any"
_log = logging.getLogger(__name__)


class CredentialCoordinator:
    """A pool of keys that threads share. A key is held by one caller at a time; waiting callers are served in order.

    `acquire` and `reserve` return the key itself. Events go to `on_event`, without a lock held; with no listener they
    are printed.
    """

    def __init__(
        self,
        credential_pool: list[str],
        *,
        on_event: Listener | None = None,
        clock: Callable[[], float] = time.time,
        rng: random.Random | None = None,
    ) -> None:
        if on_event is None:
            # The one edge from here to the reporters, taken only when nobody listens.
            from agentos.reporters.console import PrintingListener  # noqa: PLC0415

            on_event = PrintingListener()
        self._on_event: Listener | None = on_event
        self._clock = clock
        self._keys = list(dict.fromkeys(credential_pool))
        self._numbers = {key: number for number, key in enumerate(self._keys, start=1)}
        specs = [KeySpec(name=str(n), provider=_PROVIDER, group=str(n)) for n in self._numbers.values()]
        self._pool = KeyPool(specs, rng=rng or random.Random())
        self._changed = threading.Condition()
        self._granted: dict[int, Grant] = {}
        self._held: dict[str, Grant] = {}
        self._limited_while_held: set[str] = set()
        self._waiting = 0
        self._told: str | None = None
        """The kind of exhaustion that was told and has not ended."""
        self._told_at = 0.0
        self._events: deque[Event] = deque()
        self._telling = threading.RLock()

    def acquire(self, timeout: float | None = None) -> str | None:
        """Wait, in order, for a key. None when `timeout` seconds have passed, or at once if the pool has no keys."""
        if not self._keys:
            return None
        return self._take(f"thread-{threading.get_ident()}", timeout)

    def reserve(self, worker_id: str) -> str | None:
        """A key for the worker if one is free and nobody waits for it, else None at once."""
        return self._take(worker_id, 0.0)

    def release(self, key: str, rate_limited: bool = False, backoff_seconds: float = DEFAULT_BACKOFF_SECONDS) -> None:
        """Give a key back; `rate_limited` keeps it out for `backoff_seconds`. A key that nobody holds is no error."""
        with self._changed:
            grant = self._held.pop(key, None)
            if grant is not None:
                evidence: Evidence = Abandoned() if key in self._limited_while_held else Succeeded()
                self._limited_while_held.discard(key)
                if rate_limited:
                    evidence = RateLimited(retry_after_seconds=backoff_seconds)
                    self._tell_cooling(key, backoff_seconds)
                self._pool.release(self._clock(), grant.key_name, grant.fence, evidence)
                self._serve()
                self._tell_resumed()
                self._changed.notify_all()  # Even with nothing to hand out: the time to wake up at may be new.
        self._tell()

    def report_rate_limit(self, key_id: str, retry_after_seconds: float) -> None:
        """The provider throttled the key: it opens again after the wait. Whoever holds it still releases it."""
        with self._changed:
            number = self._numbers.get(key_id)
            if number is not None:
                limited = RateLimited(retry_after_seconds=retry_after_seconds)
                self._pool.note(self._clock(), str(number), _MODEL, limited)
                if key_id in self._held:
                    self._limited_while_held.add(key_id)
                self._tell_cooling(key_id, retry_after_seconds)
                self._changed.notify_all()
        self._tell()

    def get_available_count(self) -> int:
        """How many keys are neither held nor rate-limited."""
        with self._changed:
            return sum(view.state == "available" for view in self._pool.snapshot(self._clock()))

    def is_pool_exhausted(self) -> bool:
        """Whether every key is held by somebody. Keys that are only rate-limited do not count as held."""
        with self._changed:
            return bool(self._keys) and len(self._held) == len(self._keys)

    def wait_for_availability(self, timeout_seconds: float = 60) -> bool:
        """Wait until a key is available, without taking it. False when the time has passed."""
        deadline = time.monotonic() + timeout_seconds
        while True:
            with self._changed:
                now = self._clock()
                if any(view.state == "available" for view in self._pool.snapshot(now)):
                    return True
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                exhaustion = self._tell_exhausted(now)
                if not self._events:
                    opening = exhaustion.until if isinstance(exhaustion, AllLimited) else None
                    self._changed.wait(_shortest(left, opening, now))
            self._tell()

    def _take(self, owner: str, timeout: float | None) -> str | None:
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._changed:
            ticket = self._pool.request(self._clock(), owner=owner, provider=_PROVIDER, model=_MODEL)
            self._waiting += 1
            self._serve()
        try:
            while True:
                with self._changed:
                    key = self._collect(ticket)
                    left = None if deadline is None else deadline - time.monotonic()
                    if key is not None or (left is not None and left <= 0):
                        return key
                    now = self._clock()
                    self._tell_exhausted(now)
                    if not self._events:
                        self._changed.wait(_shortest(left, self._pool.next_wake(now), now))
                        self._serve()
                self._tell()
        finally:
            self._leave(ticket)
            self._tell()

    def _serve(self) -> None:
        """Hand out what the pool gives and wake those who wait for it."""
        grants = self._pool.grants(self._clock())
        for grant in grants:
            self._granted[grant.ticket] = grant
        if grants:
            self._changed.notify_all()

    def _collect(self, ticket: int) -> str | None:
        grant = self._granted.pop(ticket, None)
        if grant is None:
            return None
        key = self._keys[int(grant.key_name) - 1]
        self._held[key] = grant
        return key

    def _leave(self, ticket: int) -> None:
        """Stop waiting, whether served, out of time or interrupted: a key that came too late goes to the next."""
        with self._changed:
            self._waiting -= 1
            self._pool.cancel(self._clock(), ticket)
            late = self._granted.pop(ticket, None)
            if late is not None:
                self._pool.release(self._clock(), late.key_name, late.fence, Abandoned())
                self._serve()
                self._changed.notify_all()
            if any(grant.ticket == ticket for grant in self._held.values()):
                self._tell_resumed()

    def _tell_exhausted(self, now: float) -> Exhaustion | None:
        """Told once for all who wait; told again only when in use turns into limited."""
        exhaustion = self._pool.exhaustion(now, _PROVIDER, _MODEL)
        match exhaustion:
            case AllInUse() if self._told is None:
                self._events.append(PoolExhausted(kind="in_use"))
                self._told, self._told_at = "in_use", now
            case AllLimited(until=until) if self._told != "limited":
                at = datetime.fromtimestamp(until, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
                self._events.append(PoolExhausted(kind="limited", until=at, seconds=max(until - now, 0.0)))
                self._told_at = self._told_at if self._told else now
                self._told = "limited"
        return exhaustion

    def _tell_resumed(self) -> None:
        if self._told is not None and (self._waiting == 0 or self._told == "limited"):
            self._events.append(PoolResumed(waited_seconds=max(self._clock() - self._told_at, 0.0)))
            self._told = None

    def _tell_cooling(self, key: str, seconds: float) -> None:
        number = self._numbers[key]
        self._events.append(KeyCoolingDown(key_number=number, key_name=f"key {number}", seconds=seconds))

    def _tell(self) -> None:
        """Give the listener its events, in order and without the pool's lock. One that fails is heard no more."""
        with self._telling:
            while self._events:
                event = self._events.popleft()
                if self._on_event is not None:
                    try:
                        self._on_event(event)
                    except Exception:
                        _log.warning("the listener of the key pool failed and is dropped", exc_info=True)
                        self._on_event = None


def _shortest(left: float | None, opening: float | None, now: float) -> float:
    """How long to sleep: to the deadline or the next opening, and never past a clock that was set forward."""
    waits = [LONGEST_SLEEP_SECONDS]
    if left is not None:
        waits.append(left)
    if opening is not None:
        waits.append(max(opening - now, 0.0))
    return min(waits)

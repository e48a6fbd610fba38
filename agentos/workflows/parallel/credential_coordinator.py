"""One key pool for the threads of a process: take a key, give it back, wait in order. Shows keys by number."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Self

from agentos.events import Event, Listener, PoolExhausted
from agentos.keys.broker import KeyBroker
from agentos.keys.credentials import Credential, CredentialSet
from agentos.keys.key_spec import KeySpec
from agentos.keys.leases import Ask, Lease
from agentos.keys.local_broker import LocalBroker
from agentos.providers.evidence import RateLimited, Succeeded

DEFAULT_BACKOFF_SECONDS = 60.0

_PROVIDER = _MODEL = "any"
_ASK = Ask(provider=_PROVIDER, model=_MODEL)


class CredentialCoordinator:
    """A pool of keys that threads share. A key is held by one caller at a time; waiting callers are served in order.

    `acquire` and `reserve` return the key itself, as text that knows by which lease it was given: whoever gives that
    back late, when the key is already somebody else's, takes it from nobody. Any other text with the same characters
    means whoever holds the key now. Events go to `on_event`, without a lock held; with no listener they are printed.
    """

    def __init__(
        self,
        credential_pool: list[str],
        *,
        on_event: Listener | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if on_event is None:
            # The one edge from here to the reporters, taken only when nobody listens.
            from agentos.reporters.console import PrintingListener  # noqa: PLC0415

            on_event = PrintingListener()
        listener = on_event
        self._names = {key: str(number) for number, key in enumerate(dict.fromkeys(credential_pool), start=1)}
        credentials = CredentialSet(tuple(_credential(name, key) for key, name in self._names.items()))
        self._broker = LocalBroker(
            lambda emit: KeyBroker(credentials, emit=emit, clock=clock, rng=_Exact()),
            on_event=lambda event: listener(_without_names(event)),
        )
        self._lock = threading.Lock()
        self._held: dict[str, Lease] = {}

    def acquire(self, timeout: float | None = None) -> str | None:
        """Wait, in order, for a key. None when `timeout` seconds have passed, or at once if the pool has no keys."""
        if not self._names:
            return None
        lease = self._broker.acquire_within(_ASK, timeout)
        if lease is None:
            return None
        with self._lock:
            self._held[lease.secret] = lease
        return _HeldKey(lease)

    def reserve(self, worker_id: str) -> str | None:
        """A key for the worker if one is free and nobody waits for it, else None at once."""
        return self.acquire(timeout=0.0)

    def release(self, key: str, rate_limited: bool = False, backoff_seconds: float = DEFAULT_BACKOFF_SECONDS) -> None:
        """Give a key back; `rate_limited` keeps it out for `backoff_seconds`. A key not held is no error."""
        lease = self._given_up(key)
        if lease is not None:
            limited = RateLimited(retry_after_seconds=backoff_seconds)
            self._broker.release(lease, limited if rate_limited else Succeeded())

    def report_rate_limit(self, key_id: str, retry_after_seconds: float) -> None:
        """The provider throttled the key: it opens again after the wait. Whoever held it need not release it."""
        if key_id not in self._names:
            return
        limited = RateLimited(retry_after_seconds=retry_after_seconds)
        lease = self._given_up(key_id)
        if lease is None:
            self._broker.note(self._names[key_id], _MODEL, limited)
        else:
            self._broker.release(lease, limited)

    def get_available_count(self) -> int:
        """How many keys are neither held nor rate-limited."""
        return sum(view.state == "available" for view in self._broker.snapshot())

    def get_waiting_count(self) -> int:
        """How many callers wait for a key."""
        return self._broker.waiting_count

    def is_pool_exhausted(self) -> bool:
        """Whether every key is held by somebody. Keys that are only rate-limited do not count as held."""
        with self._lock:
            return bool(self._names) and len(self._held) == len(self._names)

    def wait_for_availability(self, timeout_seconds: float = 60) -> bool:
        """Wait until a key is available, without taking it. False when the time has passed."""
        return self._broker.wait_until_open(_PROVIDER, _MODEL, timeout_seconds)

    def _given_up(self, key: str) -> Lease | None:
        """The caller's lease, which is held no more; None if the key is meanwhile nobody's, or somebody else's."""
        with self._lock:
            lease = self._held.get(key)
            if lease is None or (isinstance(key, _HeldKey) and key.fence != lease.fence):
                return None
            return self._held.pop(key)


class _HeldKey(str):
    """A key as its holder got it. Two holders of one key have equal texts and different fences."""

    __slots__ = ("fence",)
    fence: int

    def __new__(cls, lease: Lease) -> Self:
        held = super().__new__(cls, lease.secret)
        held.fence = lease.fence
        return held


class _Exact(random.Random):
    """No jitter: callers say how long a key is to stay out, and nobody else knocks at the same time."""

    def uniform(self, a: float, b: float) -> float:
        return a


def _credential(name: str, key: str) -> Credential:
    return Credential(KeySpec(name=name, provider=_PROVIDER, group=name), key)


def _without_names(event: Event) -> Event:
    """These keys have none, and no more calls at once to configure."""
    if not isinstance(event, PoolExhausted):
        return event
    return replace(event, names=(), slots=None, limited=tuple(f"key {number}" for number in event.limited))

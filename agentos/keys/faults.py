"""Faults to try out by hand, wrapped around the real thing: neither coordinator nor broker knows of them."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Protocol

SIMULATED_BACKOFF_SECONDS = 1.0


def simulates_429(environ: Mapping[str, str]) -> bool:
    """Whether AGENTOS_SIMULATE_429 is on."""
    return environ.get("AGENTOS_SIMULATE_429", "").strip().lower() in ("1", "true", "yes", "on")


class Credentials(Protocol):
    """What `execute_parallel` needs of a pool."""

    def acquire(self, timeout: float | None = None) -> str | None: ...
    def release(self, key: str, rate_limited: bool = False, backoff_seconds: float = 60.0) -> None: ...


class FirstCallRateLimited:
    """AGENTOS_SIMULATE_429: the first key handed out meets a 429, as if the provider had sent it."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self._lock = threading.Lock()
        self._is_due = True

    def acquire(self, timeout: float | None = None) -> str | None:
        key = self._credentials.acquire(timeout=timeout)
        with self._lock:
            is_hit, self._is_due = self._is_due and key is not None, False
        if is_hit and key is not None:
            self._credentials.release(key, rate_limited=True, backoff_seconds=SIMULATED_BACKOFF_SECONDS)
            return self._credentials.acquire(timeout=timeout)
        return key

    def release(self, key: str, rate_limited: bool = False, backoff_seconds: float = 60.0) -> None:
        self._credentials.release(key, rate_limited=rate_limited, backoff_seconds=backoff_seconds)


def with_faults(credentials: Credentials, environ: Mapping[str, str]) -> Credentials:
    """The same pool, or one with the fault the environment asks for."""
    if simulates_429(environ):
        return FirstCallRateLimited(credentials)
    return credentials

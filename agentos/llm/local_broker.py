"""Keys outside a run: a broker that owns the user's pool itself, for scripts and notebooks that call a model."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Mapping
from datetime import datetime

from agentos.errors import NoUsableKeyError, QuotaGoneError
from agentos.keys.credentials import CredentialSet, fingerprint, load_credentials, load_salt
from agentos.keys.leases import Lease
from agentos.keys.memory import LimitMemory
from agentos.keys.pool import AllLimited, Grant, KeyPool, NoneValid
from agentos.llm.cli_login import with_cli_login
from agentos.providers.evidence import Abandoned, Evidence, QuotaSpent, RateLimited, Rejected

MAX_WAIT_SECONDS = 15 * 60.0
"""A script has nobody who watches it wait: a limit that ends later than this is an error."""

_OWNER = "alone"


class OwnBroker:
    """Leases keys of its own pool to the threads of this process, in order. What it learns is kept on disk."""

    def __init__(
        self,
        credentials: CredentialSet,
        *,
        memory: LimitMemory | None = None,
        fingerprints: Mapping[str, str] | None = None,
        max_wait_seconds: float = MAX_WAIT_SECONDS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._secrets = credentials.secrets
        self._memory = memory
        self._fingerprints = fingerprints or {}
        self._max_wait_seconds = max_wait_seconds
        self._clock = clock
        self._changed = threading.Condition()
        self._granted: dict[int, Grant] = {}
        self._pool = KeyPool(credentials.specs, rng=random.Random())
        if memory is not None:
            self._pool.import_limits(clock(), memory.load(self._fingerprints))

    def acquire(
        self, *, provider: str, model: str, estimated_tokens: int = 0, estimated_cost_usd: float | None = None
    ) -> Lease:
        with self._changed:
            ticket = self._pool.request(
                self._clock(), owner=_OWNER, provider=provider, model=model, estimated_tokens=estimated_tokens
            )
            try:
                grant = self._wait_for(ticket, provider, model)
            except BaseException:
                self._withdraw(ticket)
                raise
        return Lease(
            key_name=grant.key_name,
            fence=grant.fence,
            provider=provider,
            model=model,
            secret=self._secrets[grant.key_name],
        )

    def release(self, lease: Lease, evidence: Evidence) -> None:
        with self._changed:
            self._pool.release(self._clock(), lease.key_name, lease.fence, evidence)
            self._changed.notify_all()
            limits = self._pool.export_limits()
        if self._memory is not None and isinstance(evidence, RateLimited | QuotaSpent | Rejected):
            self._memory.save(limits, self._fingerprints, now=self._clock())

    def _wait_for(self, ticket: int, provider: str, model: str) -> Grant:
        while True:
            now = self._clock()
            for grant in self._pool.grants(now):
                self._granted[grant.ticket] = grant
                self._changed.notify_all()
            if ticket in self._granted:
                return self._granted.pop(ticket)
            self._raise_if_hopeless(now, provider, model)
            wake = self._pool.next_wake(now)
            self._changed.wait(None if wake is None else max(wake - now, 0.0))

    def _raise_if_hopeless(self, now: float, provider: str, model: str) -> None:
        match self._pool.exhaustion(now, provider, model):
            case NoneValid(names=()):
                raise NoUsableKeyError(
                    f"No key for {provider}: add one with `agentos keys add NAME --provider {provider}`."
                )
            case NoneValid(names=names):
                raise NoUsableKeyError(
                    f"No key of {provider} can serve {model}: {', '.join(names)} rejected or without quota; "
                    "see `agentos keys`."
                )
            case AllLimited(until=until) if until - now > self._max_wait_seconds:
                opens = datetime.fromtimestamp(until).astimezone()
                raise QuotaGoneError(
                    f"All keys of {provider} are limited until {opens:%Y-%m-%d %H:%M:%S}: run later."
                )

    def _withdraw(self, ticket: int) -> None:
        """Leave the queue; a key that was granted meanwhile goes back."""
        now = self._clock()
        self._pool.cancel(now, ticket)
        grant = self._granted.pop(ticket, None)
        if grant is not None:
            self._pool.release(now, grant.key_name, grant.fence, Abandoned())
        self._changed.notify_all()


_own: OwnBroker | None = None
_own_lock = threading.Lock()


def own_broker() -> OwnBroker:
    """The broker of this process, made of the user's keys when it is first asked for."""
    global _own
    with _own_lock:
        if _own is None:
            credentials = with_cli_login(load_credentials())
            salt = load_salt()
            fingerprints = {name: fingerprint(secret, salt) for name, secret in credentials.secrets.items()}
            _own = OwnBroker(credentials, memory=LimitMemory(), fingerprints=fingerprints)
        return _own


def forget_own_broker() -> None:
    """Read the keys anew at the next call."""
    global _own, _own_lock
    _own, _own_lock = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=forget_own_broker)

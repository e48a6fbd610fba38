"""What is known of the user's keys between runs: each with its state, by name. Knows no run."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from agentos.clock import stamp_of_epoch
from agentos.errors import UsageError
from agentos.keys.credentials import CredentialSet, fingerprint, load_salt
from agentos.keys.memory import LimitMemory
from agentos.keys.pool import KeyPool


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRow:
    """One key for people."""

    name: str
    provider: str
    group: str
    state: str
    """`available`, `rate_limited`, `out_of_quota` or `rejected`: its worst over all models."""
    until: float | None
    """UTC epoch seconds; None when there is no end that waiting would reach."""
    calls: int
    last_used: float | None
    reason: str

    def to_document(self) -> dict[str, Any]:
        """For JSON: times as ISO 8601 UTC."""
        return {**asdict(self), "until": iso_time(self.until), "last_used": iso_time(self.last_used)}


def key_rows(credentials: CredentialSet, memory: LimitMemory | None = None) -> list[KeyRow]:
    """Every key in its order, with what earlier runs learned of it."""
    if not credentials.credentials:
        return []
    memory = memory or LimitMemory()
    known = memory.load(fingerprints(credentials))
    pool = KeyPool(credentials.specs, rng=random.Random())
    now = time.time()
    pool.import_limits(now, known)
    return [
        KeyRow(
            name=view.name,
            provider=view.provider,
            group=view.group,
            state=view.state,
            until=view.until,
            calls=int(known.get(view.name, {}).get("calls", 0)),
            last_used=view.last_used,
            reason=view.reason,
        )
        for view in pool.snapshot(now)
    ]


def reset(credentials: CredentialSet, name: str, memory: LimitMemory | None = None) -> None:
    """Forget the key's rejection and its group's limits, as `KeyPool.reset` does during a run."""
    memory = memory or LimitMemory()
    spec = selected(credentials, [name]).specs[0]
    marks = fingerprints(credentials)
    for other in credentials.specs:
        if (other.provider, other.group) == (spec.provider, spec.group):
            memory.forget(marks[other.name], keeps_rejection=other.name != name)


def selected(credentials: CredentialSet, names: Sequence[str]) -> CredentialSet:
    """The keys of these names; all when none is named. Raises UsageError for a name that does not exist."""
    known = [spec.name for spec in credentials.specs]
    for name in names:
        if name not in known:
            raise UsageError(f"No key named {name!r}. There are: {', '.join(known) or 'none'}.")
    chosen = tuple(c for c in credentials.credentials if not names or c.spec.name in names)
    return replace(credentials, credentials=chosen)


def fingerprints(credentials: CredentialSet) -> dict[str, str]:
    """Key name to the fingerprint of its secret."""
    salt = load_salt()
    return {name: fingerprint(secret, salt) for name, secret in credentials.secrets.items()}


def iso_time(epoch_seconds: float | None) -> str | None:
    if epoch_seconds is None:
        return None
    return stamp_of_epoch(epoch_seconds)

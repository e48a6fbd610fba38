"""What is known of the user's keys between runs: each with its state, by name. Knows no run."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from agentos.clock import stamp_of_epoch
from agentos.errors import UsageError
from agentos.keys.credentials import CredentialSet, MissingSecretError, load_salt
from agentos.keys.key_spec import KeySpec
from agentos.paths import key_salt_path

if TYPE_CHECKING:
    # Loaded when there are keys to look up: many commands only ask whether there are any.
    from agentos.keys.memory import LimitMemory
    from agentos.keys.pool import KeyView


def key_rows(credentials: CredentialSet, memory: LimitMemory) -> list[KeyView]:
    """Every key in its order, with what earlier runs learned of it."""
    if not credentials.credentials:
        return []
    from random import Random  # noqa: PLC0415

    from agentos.keys.pool import KeyPool  # noqa: PLC0415

    known = memory.load(credentials.fingerprints(load_salt()))
    pool = KeyPool(credentials.specs, rng=Random())
    now = time.time()
    pool.import_limits(now, known)
    return [replace(view, calls=int(known.get(view.name, {}).get("calls", 0))) for view in pool.snapshot(now)]


def learned_limits(credentials: CredentialSet, memory: LimitMemory) -> dict[str, list[str]]:
    """What runs learned of each key's limits, in words, by the key's name. Writes nothing."""
    if not credentials.credentials or not key_salt_path().exists():
        return {}
    known = memory.load(credentials.fingerprints(load_salt()))
    return {
        name: [words for model, limits in record.get("models", {}).items() for words in _limit_words(model, limits)]
        for name, record in known.items()
    }


def _limit_words(model: str, limits: Mapping[str, Any]) -> Iterator[str]:
    used = {(what, seconds): total for what, seconds, total, _ends in limits.get("day", ())}
    for what, seconds, value in limits.get("learned", ()):
        spent = f", {used[what, seconds]:,} of them used" if (what, seconds) in used else ""
        per = {60.0: "minute", 3600.0: "hour", 86400.0: "day"}.get(float(seconds), f"{seconds:g} s")
        yield f"{model}: {value:,} {str(what).replace('_', ' ')} per {per}{spent}"
    if "felt" in limits:
        from agentos.keys.inferred_limit import AGE_SECONDS  # noqa: PLC0415  As the pool.

        number, is_told, changed = limits["felt"]
        if time.time() - changed > AGE_SECONDS[is_told]:
            return
        judged = "" if is_told else ", judging by what was refused"
        yield f"{model}: {'' if is_told else 'about '}{number:g} requests per minute{judged}"


def serving_keys(credentials: CredentialSet, provider: str = "", model: str = "") -> list[KeySpec]:
    """The keys that may serve such a call, now or when a limit ends. Writes nothing.

    Without a model, all but those that a provider rejected.
    """
    # Where there is no salt yet, nothing is known of any key, and looking must not make one.
    if not credentials.credentials or not key_salt_path().exists():
        return list(credentials.specs)
    from agentos.keys.memory import LimitMemory  # noqa: PLC0415

    if not model:
        rejected = {row.name for row in key_rows(credentials, LimitMemory()) if row.state == "rejected"}
        return [spec for spec in credentials.specs if spec.name not in rejected]
    from random import Random  # noqa: PLC0415  As above.

    from agentos.keys.pool import KeyPool  # noqa: PLC0415

    pool = KeyPool(credentials.specs, rng=Random())
    pool.import_limits(time.time(), LimitMemory().load(credentials.fingerprints(load_salt())))
    serving = pool.serving_names(provider, model)
    return [spec for spec in credentials.specs if spec.name in serving]


def to_document(row: KeyView) -> dict[str, Any]:
    """For JSON: times as ISO 8601 UTC."""
    times = {"until": row.until, "last_used": row.last_used}
    return asdict(row) | {name: None if at is None else stamp_of_epoch(at) for name, at in times.items()}


def reset(credentials: CredentialSet, name: str) -> None:
    """Forget the key's rejection and its group's limits."""
    from agentos.keys.memory import LimitMemory  # noqa: PLC0415

    memory = LimitMemory()
    spec = selected(credentials, [name]).specs[0]
    marks = credentials.fingerprints(load_salt())
    for other in credentials.specs:
        if (other.provider, other.group) == (spec.provider, spec.group):
            memory.forget(marks[other.name], keeps_rejection=other.name != name)


def selected(credentials: CredentialSet, names: Sequence[str]) -> CredentialSet:
    """The keys of these names; all when none is named. Raises UsageError for one that is unknown or has no secret."""
    missing = {each.spec.name: each.reason for each in credentials.missing}
    known = [*(spec.name for spec in credentials.specs), *missing]
    for name in names:
        if name in missing:
            raise MissingSecretError(missing[name])
        if name not in known:
            raise UsageError(f"No key named {name!r}. Known keys: {', '.join(known) or 'none'}.")
    chosen = tuple(c for c in credentials.credentials if not names or c.spec.name in names)
    return replace(credentials, credentials=chosen)

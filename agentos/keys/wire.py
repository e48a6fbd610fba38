"""Evidence as plain data, for the way from a worker to the coordinator."""

from __future__ import annotations

from typing import Any

from agentos.providers.evidence import (
    Abandoned,
    Evidence,
    LearnedLimit,
    Overloaded,
    QuotaSpent,
    RateLimited,
    Rejected,
    RequestFailed,
    Succeeded,
    TransportFailed,
    Usage,
)

_KINDS: dict[str, type[Evidence]] = {
    kind.__name__: kind
    for kind in (Succeeded, RateLimited, QuotaSpent, Rejected, Overloaded, TransportFailed, RequestFailed, Abandoned)
}


def evidence_to_data(evidence: Evidence) -> dict[str, Any]:
    return {"kind": type(evidence).__name__, **_plain(evidence)}


def _plain(value: Any) -> Any:
    """Like `asdict`, which copies every value deeply, at a third of the cost: once for each model call."""
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    names: tuple[str, ...] | None = getattr(value, "__slots__", None)
    return value if names is None else {name: _plain(getattr(value, name)) for name in names}


def evidence_from_data(data: dict[str, Any]) -> Evidence:
    """Raises ValueError on anything that `evidence_to_data` did not make."""
    fields = dict(data)
    try:
        kind = _KINDS[fields.pop("kind")]
        if "limits" in fields:
            fields["limits"] = tuple(LearnedLimit(**limit) for limit in fields["limits"])
        if "usage" in fields:
            fields["usage"] = Usage(**fields["usage"])
        return kind(**fields)
    except (KeyError, TypeError) as error:
        raise ValueError(f"not evidence: {error}") from None

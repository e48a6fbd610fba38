"""What a provider's reply says about the key, the quota and the request. Pure.

Each provider reads its own replies, see `Provider.read_error`. A status, a code, a type, a quota id or a header
decides; text never does by what it merely contains. Where a provider gives a case no field of its own, the whole
opening of its own `error.message` is compared. Reasons are made of codes, never of messages: providers put keys into
those.
"""

from __future__ import annotations

from collections.abc import Mapping

from agentos.providers import replies
from agentos.providers.evidence import Evidence, LearnedLimit, TransportFailed
from agentos.providers.registry import providers


def classify(
    provider: str, status: int | None, headers: Mapping[str, str], body: object, *, now: float | None = None
) -> Evidence:
    """Evidence of a failed call. `body` is the reply as parsed JSON, text or bytes; `now` resolves absolute dates."""
    reply = replies.read(status, headers, body, now)
    if reply is None:
        return TransportFailed(reason="no reply")
    owner = next((each for each in providers().values() if each.is_own_error(reply.error)), providers()[provider])
    return owner.read_error(reply)


def limits_from_headers(
    provider: str, headers: Mapping[str, str], *, now: float | None = None
) -> tuple[LearnedLimit, ...]:
    """The limits a reply's headers tell, good or bad reply alike."""
    lowered = replies.lowered(headers)
    return providers()[provider].read_limits(lowered, replies.reference_time(lowered, now))

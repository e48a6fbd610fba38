"""How a call of a worker takes its run's gateway: what both of them know of it. Pure.

The worker sends its request to the gateway as it would send it to the provider, with a token where the key belongs.
Headers say what the token is and where the request is to go. Replies come back as they are; when there is none, the
gateway says why.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

LEASE_HEADER = "x-agentos-lease"
"""The token of a lease."""
TARGET_HEADER = "x-agentos-target"
"""The address that the request is meant for."""
FAILURE_HEADER = "x-agentos-failure"
"""On a reply that is the gateway's own: its body is a `Failure`."""
OWN_HEADERS = frozenset({LEASE_HEADER, TARGET_HEADER, FAILURE_HEADER})


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why there is no reply."""

    reason: str
    timed_out: bool = False
    may_have_arrived: bool = False
    """The request may be answered, and charged for."""

    def encoded(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def read(cls, body: bytes) -> Failure:
        try:
            told = json.loads(body)
            return cls(
                reason=str(told["reason"]),
                timed_out=told["timed_out"] is True,
                may_have_arrived=told["may_have_arrived"] is True,
            )
        except (ValueError, TypeError, LookupError):
            return cls(reason="the gateway of the run gave no answer")


def is_failure(headers: Mapping[str, str]) -> bool:
    return FAILURE_HEADER in headers

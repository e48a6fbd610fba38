"""What the owner of a home's pool and those who ask it say to each other: one line of JSON each. Data only.

Keys go by the fingerprints of their secrets: no secret passes here, and a key is the same whatever anybody calls it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from agentos.providers.evidence import Evidence
from agentos.wire import Codec


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedKey:
    """A key that a client has."""

    mark: str
    provider: str
    group: str
    max_concurrent: int
    rpm: int | None
    tpm: int | None
    rpd: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldKey:
    """A lease that an earlier owner gave, and that is still used."""

    mark: str
    model: str
    fence: int
    owner: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """To the owner, first, and again when the client's keys have changed."""

    client: str
    keys: tuple[SharedKey, ...]
    held: tuple[HeldKey, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Want:
    """To the owner: a call waits for a key. Answered by Given, whenever that is."""

    ticket: int
    owner: str
    provider: str
    model: str
    tokens: int
    priority: int
    call: int
    refused_by: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unwant:
    """To the owner: it waits no longer."""

    ticket: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GiveBack:
    """To the owner: the call is over."""

    fence: int
    mark: str
    evidence: Evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """To a client: this key, for this call."""

    ticket: int
    mark: str
    fence: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneNews:
    """To a client that waits: why it would have to, when that has changed, and what the keys carry."""

    provider: str
    model: str
    refused_by: tuple[str, ...]
    why: str
    """`free`, `in_use`, `limited` or `none_valid`."""
    busy: tuple[str, ...]
    limited: tuple[str, ...]
    until: float | None
    words: tuple[str, ...]
    slots: int
    is_overload: bool = False
    """As of `limited`: because the provider is overloaded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyNews:
    """To a client whose call was limited or rejected: what became of its key."""

    mark: str
    state: str
    until: float | None
    reason: str
    calls: int


ToOwner = Hello | Want | Unwant | GiveBack
ToClient = Given | LaneNews | KeyNews

to_owner: Codec[ToOwner] = Codec(*get_args(ToOwner))
to_client: Codec[ToClient] = Codec(*get_args(ToClient))

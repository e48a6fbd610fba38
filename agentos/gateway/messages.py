"""What a run's coordinator and its gateway process say to each other: typed messages, one line of JSON each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import get_args

from agentos.keys.leases import Lease, LeaseAnswer, LeaseRequest
from agentos.wire import Codec

FIRST_TICKET = 1 << 32
"""Apart from those of an item's worker, which has the broker's ear as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Begin:
    """Down, first. The token is in every worker from the start: it is good for processes of running items."""

    shared_token: str = field(repr=False)
    takes_own_keys: bool = False
    """A worker may come with a key of its own in the place of a token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Admit:
    """Down: calls with this token are this item's."""

    token: str = field(repr=False)
    owner: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Dismiss:
    """Down: the item is over, and so are its calls."""

    owner: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerKnown:
    """Down: the process that the item's calls come from, if they come with the run's own token."""

    owner: str
    pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PortKnown:
    """Down: a connection from this port, about to come, carries calls of the item from another machine."""

    owner: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """Down: what the broker says to an item's call."""

    owner: str
    answer: LeaseAnswer


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Up: what an item's call says to the broker."""

    owner: str
    request: LeaseRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyWanted:
    """Up: a worker calls with the token of a lease."""

    number: int
    token: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyGiven:
    """Down: the lease that the token stands for, with its key."""

    number: int
    owner: str
    lease: Lease


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyWithheld:
    """Down: the token stands for no lease, or no longer."""

    number: int


ToGateway = Begin | Admit | Dismiss | WorkerKnown | PortKnown | Answered | KeyGiven | KeyWithheld
FromGateway = Asked | KeyWanted

to_gateway: Codec[ToGateway] = Codec(*get_args(ToGateway))
from_gateway: Codec[FromGateway] = Codec(*get_args(FromGateway))

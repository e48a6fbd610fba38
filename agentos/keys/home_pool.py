"""One pool for all that use a home: what its owner decides. No sockets, no threads; the clock is passed in.

Clients name the keys they have, and are served with those alone. A client that is gone gives back what it held. When
an owner has died, the next one hears first what the others still hold: nothing is leased beyond its cap meanwhile.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from agentos.keys.home_messages import (
    GiveBack,
    Given,
    Hello,
    KeyNews,
    LaneNews,
    SharedKey,
    ToClient,
    ToOwner,
    Unwant,
    Want,
)
from agentos.keys.key_spec import KeySpec
from agentos.keys.memory import LimitMemory
from agentos.keys.pool import (
    CLOCK_JUMP_SECONDS,
    LONGEST_SLEEP_SECONDS,
    AllInUse,
    AllLimited,
    Exhaustion,
    Grant,
    NoneValid,
)
from agentos.keys.remembering_pool import RememberingPool
from agentos.keys.send_log import SendLog
from agentos.providers.evidence import Abandoned, ClosesKey

SETTLE_SECONDS = 0.7
"""How long a new owner waits at most for those who outlived the last one to say what they hold."""

Route = tuple[str, str, tuple[str, ...]]
Delivery = tuple[str, ToClient]
"""A client, and what it is told."""


@dataclass(slots=True)
class _Client:
    keys: dict[str, SharedKey] = field(default_factory=dict)
    tickets: dict[int, int] = field(default_factory=dict)
    """The client's to the pool's."""
    wants: dict[int, Want] = field(default_factory=dict)
    """By the client's ticket."""
    lanes: dict[Route, None] = field(default_factory=dict)
    """What it has ever asked for: it is told of those as long as it is here."""
    told: dict[Route, LaneNews] = field(default_factory=dict)


class HomePool:
    def __init__(
        self,
        *,
        memory: LimitMemory | None = None,
        sends: SendLog | None = None,
        clock: Callable[[], float] = time.time,
        rng: random.Random | None = None,
        survivors: Iterable[str] = (),
    ) -> None:
        """`survivors` are clients of an earlier owner that live: nothing is given before they have said hello."""
        self._clock = clock
        self._pool = RememberingPool(
            (),
            now=clock(),
            rng=rng or random.Random(),
            memory=memory,
            sends=sends,
            # Fences of one owner after another grow, so that none means two leases.
            first_fence=int(clock() * 1000) << 12,
            has_rivals=False,
        )
        self._clients: dict[str, _Client] = {}
        self._groups: dict[str, str] = {}
        """Of each key."""
        self._by_ticket: dict[int, tuple[str, int]] = {}
        self._awaited = set(survivors)
        self._settled_at = clock() + SETTLE_SECONDS
        self._out: list[Delivery] = []

    def take(self, client: str, message: ToOwner) -> None:
        """What a client says; `turn` has what follows from it."""
        match message:
            case Hello():
                self._greet(client, message)
            case Want():
                self._want(client, message)
            case Unwant(ticket=ticket):
                self._unwant(client, ticket)
            case GiveBack():
                self._give_back(client, message)

    def leave(self, client: str) -> None:
        """It is gone: what it held serves the next, and its keys go when nobody else has them."""
        self._awaited.discard(client)
        if client not in self._clients:
            return
        self.save()  # While its keys are known.
        known = self._clients.pop(client)
        for ticket in list(known.tickets):
            self._forget_ticket(known, ticket)
        self._pool.drop_owners(self._clock(), lambda owner: owner.startswith(f"{client}/"))
        self._replace_keys()

    @property
    def is_settling(self) -> bool:
        # Much more is left only if the clock has been set back since.
        return bool(self._awaited) and 0.0 < self._settled_at - self._clock() < SETTLE_SECONDS + CLOCK_JUMP_SECONDS

    def turn(self) -> list[Delivery]:
        """Who is told what now. Each answer is given once."""
        if self._by_ticket and not self.is_settling:
            self._give(self._pool.grants(self._clock()))
        for client, known in self._clients.items():
            for route in dict.fromkeys((*known.lanes, *map(_route, known.wants.values()))):
                self._tell_of_lane(client, known, route)
        told, self._out = self._out, []
        return told

    def seconds_to_wake(self) -> float | None:
        """When `turn` could bring something new by itself."""
        now = self._clock()
        if self.is_settling:
            return max(0.0, self._settled_at - now)
        due = self._pool.next_wake(now)
        return None if due is None else min(max(0.0, due - now), LONGEST_SLEEP_SECONDS)

    def save(self) -> None:
        """Remember limits for the next owner."""
        self._pool.save(self._clock())

    def _greet(self, client: str, hello: Hello) -> None:
        known = self._clients.setdefault(client, _Client())
        is_new = {key.mark for key in hello.keys} - self._marks()
        known.keys = {key.mark: key for key in hello.keys}
        known.told.clear()
        self._replace_keys()
        now = self._clock()
        if is_new:
            self._pool.recall(now, {mark: mark for mark in is_new})
        for held in hello.held:
            self._pool.adopt(
                now, owner=f"{client}/{held.owner}", key_name=held.mark, model=held.model, fence=held.fence
            )
        self._awaited.discard(client)

    def _want(self, client: str, want: Want) -> None:
        known = self._clients[client]
        number = self._pool.request(
            self._clock(),
            owner=f"{client}/{want.owner}",
            provider=want.provider,
            model=want.model,
            estimated_tokens=want.tokens,
            priority=want.priority,
            call=want.call,
            elsewhere_than=want.refused_by,
            without_groups=self._foreign_groups(known, want.provider),
        )
        known.tickets[want.ticket] = number
        known.lanes[want.provider, want.model, ()] = None
        known.wants[want.ticket] = want
        self._by_ticket[number] = (client, want.ticket)

    def _unwant(self, client: str, ticket: int) -> None:
        known = self._clients[client]
        number = known.tickets.get(ticket)
        if number is not None:
            self._forget_ticket(known, ticket)
            self._pool.cancel(self._clock(), number)

    def _give_back(self, client: str, back: GiveBack) -> None:
        now = self._clock()
        self._clients[client].told.clear()
        self._pool.release(now, back.mark, back.fence, back.evidence)
        if isinstance(back.evidence, ClosesKey):
            view = next((view for view in self._pool.snapshot(now) if view.name == back.mark), None)
            if view is not None:
                news = KeyNews(
                    mark=back.mark, state=view.state, until=view.until, reason=view.reason, calls=view.calls
                )
                self._out.append((client, news))
            self.save()

    def _give(self, grants: Iterable[Grant]) -> None:
        for grant in grants:
            client, ticket = self._by_ticket[grant.ticket]
            known = self._clients[client]
            want = known.wants[ticket]
            self._forget_ticket(known, ticket)
            if grant.key_name in known.keys:
                self._out.append((client, Given(ticket=ticket, mark=grant.key_name, fence=grant.fence)))
            else:
                # It asked before somebody came who has other keys of the group.
                self._pool.release(self._clock(), grant.key_name, grant.fence, Abandoned())
                self._want(client, want)

    def _forget_ticket(self, known: _Client, ticket: int) -> None:
        self._by_ticket.pop(known.tickets.pop(ticket), None)
        route = _route(known.wants.pop(ticket))
        if route not in known.lanes and route not in map(_route, known.wants.values()):
            known.told.pop(route, None)

    def _tell_of_lane(self, client: str, known: _Client, route: Route) -> None:
        now, (provider, model, refused_by) = self._clock(), route
        foreign = self._foreign_groups(known, provider)
        why = self._pool.exhaustion(now, provider, model, refused_by, foreign)
        slots = self._pool.usable_slots(now, provider, model, foreign)
        news = _lane_news(route, why, slots)
        if known.told.get(route) != news:
            known.told[route] = news
            self._out.append((client, news))

    def _foreign_groups(self, known: _Client, provider: str) -> frozenset[str]:
        """Groups that the client has no key of."""
        own = {self._groups[mark] for mark in known.keys}
        return frozenset(group for group in self._pool.group_names(provider) if group not in own)

    def _marks(self) -> set[str]:
        return {mark for known in self._clients.values() for mark in known.keys}

    def _replace_keys(self) -> None:
        """All that anybody has, each by the tightest that is said of it.

        A group of which clients have different keys is no group here: each would be served with the others' keys.
        """
        self._groups = _groups([known.keys for known in self._clients.values()])
        self._pool.know_marks({mark: mark for mark in self._marks()})
        by_mark: dict[str, list[SharedKey]] = {}
        for known in self._clients.values():
            for mark, key in known.keys.items():
                by_mark.setdefault(mark, []).append(key)
        self._pool.replace_keys(
            self._clock(), [_tightest(keys, self._groups[mark]) for mark, keys in by_mark.items()]
        )


def _route(want: Want) -> Route:
    return want.provider, want.model, want.refused_by


def _groups(keys_of_clients: Iterable[Mapping[str, SharedKey]]) -> dict[str, str]:
    """Of each key its group: the one that is said, if all who have a key of it have the same keys; else itself."""
    members: dict[tuple[str, str], set[frozenset[str]]] = {}
    for keys in keys_of_clients:
        own: dict[tuple[str, str], set[str]] = {}
        for mark, key in keys.items():
            own.setdefault((key.provider, key.group), set()).add(mark)
        for group, marks in own.items():
            members.setdefault(group, set()).add(frozenset(marks))
    found: dict[str, str] = {}
    for (_, name), sets in members.items():
        for mark in frozenset().union(*sets):
            found[mark] = name if len(sets) == 1 and found.get(mark, name) == name else mark
    return found


def _tightest(keys: Collection[SharedKey], group: str) -> KeySpec:
    first = next(iter(keys))

    def least(values: Iterable[int | None]) -> int | None:
        return min((value for value in values if value is not None), default=None)

    return KeySpec(
        name=first.mark,
        provider=first.provider,
        group=group,
        max_concurrent=min(key.max_concurrent for key in keys),
        rpm=least(key.rpm for key in keys),
        tpm=least(key.tpm for key in keys),
        rpd=least(key.rpd for key in keys),
    )


def _lane_news(route: Route, why: Exhaustion | None, slots: int) -> LaneNews:
    provider, model, refused_by = route
    kind, until, is_overload = "free", None, False
    busy: tuple[str, ...] = ()
    limited: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    match why:
        case AllInUse():
            kind, busy, limited, until = "in_use", why.busy, why.limited, why.until
        case AllLimited():
            kind, until, is_overload = "limited", why.until, why.is_overload
        case NoneValid():
            kind, busy, words = "none_valid", why.names, why.words
    return LaneNews(
        provider=provider,
        model=model,
        refused_by=refused_by,
        why=kind,
        busy=busy,
        limited=limited,
        until=until,
        words=words,
        slots=slots,
        is_overload=is_overload,
    )

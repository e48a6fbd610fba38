"""The pool of a home as a broker knows a pool: asks whoever owns it, and outlives owners.

A thread listens to the owner. When that is gone it finds or becomes the next one, says what is held and asks again
for what is waited for. Nothing here blocks: what has come is there to be fetched, and `fileno` tells when.
"""

from __future__ import annotations

import itertools
import math
import os
import socket
import threading
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress

from agentos.keys.credentials import CredentialSet
from agentos.keys.home_messages import (
    GiveBack,
    Given,
    HeldKey,
    Hello,
    KeyNews,
    LaneNews,
    SharedKey,
    ToClient,
    ToOwner,
    Unwant,
    Want,
    to_client,
    to_owner,
)
from agentos.keys.home_socket import HomeSocket, is_possible
from agentos.keys.key_spec import KeySpec
from agentos.keys.pool import CLOCK_JUMP_SECONDS, AllInUse, AllLimited, Exhaustion, Grant, KeyView, NoneValid
from agentos.providers.evidence import Abandoned, Evidence
from agentos.wire import LineBuffer

Route = tuple[str, str, tuple[str, ...]]
_LOOK_SECONDS = 1.0
"""An owner that has said nothing for so long may be suspended."""


def shared_pool(credentials: CredentialSet, salt: bytes) -> SharedPool | None:
    """The home's pool for these keys; None where a process can only have one of its own."""
    if not is_possible() or not credentials.credentials:
        return None
    home = HomeSocket()
    try:
        home.open()
    except OSError:
        return None
    return SharedPool(credentials.specs, credentials.fingerprints(salt), home)


class SharedPool:
    """Used from one thread, beside its own. Times that are passed in count for nothing: the owner has a clock."""

    def __init__(self, specs: Iterable[KeySpec], marks: Mapping[str, str], home: HomeSocket) -> None:
        self._home = home
        self._lock = threading.RLock()
        self._tickets = itertools.count(1)
        self._wants: dict[int, Want] = {}
        self._held: dict[int, HeldKey] = {}
        self._granted: deque[tuple[Given, Want]] = deque()
        self._lanes: dict[Route, LaneNews] = {}
        self._slots: dict[tuple[str, str], int] = {}
        self._news: dict[str, KeyNews] = {}
        self._latest = -math.inf
        """The time that was last asked about."""
        self._connection: socket.socket | None = None
        self._thread: threading.Thread | None = None
        self._is_closed = False
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        os.set_blocking(self._wake_write, False)
        self._specs = {spec.name: spec for spec in specs}
        self._marks = dict(marks)
        self._names = {mark: name for name, mark in marks.items()}

    def fileno(self) -> int:
        """Readable when there is something to `hear`."""
        return self._wake_read

    def hear(self) -> None:
        """Something has come; it is there already."""
        with suppress(BlockingIOError):
            while len(os.read(self._wake_read, 4096)) == 4096:
                pass

    def request(
        self,
        now: float,
        *,
        owner: str,
        provider: str,
        model: str,
        estimated_tokens: int = 0,
        priority: int = 0,
        call: int = 0,
        elsewhere_than: Iterable[str] = (),
    ) -> int:
        ticket = next(self._tickets)
        want = Want(
            ticket=ticket,
            owner=owner,
            provider=provider,
            model=model,
            tokens=estimated_tokens,
            priority=priority,
            call=call,
            refused_by=self._marked(elsewhere_than),
        )
        with self._lock:
            if want.refused_by:
                # Such a question is of one call: what was said to another is not the answer.
                self._lanes.pop((provider, model, want.refused_by), None)
            self._wants[ticket] = want
            self._say(want)
        return ticket

    def cancel(self, now: float, ticket: int) -> None:
        with self._lock:
            if self._wants.pop(ticket, None) is not None:
                self._say(Unwant(ticket=ticket))
            for given, want in [each for each in self._granted if each[0].ticket == ticket]:
                # It came, and nobody has fetched it.
                self._granted.remove((given, want))
                self.release(now, self._names.get(given.mark, ""), given.fence, Abandoned())

    def grants(self, now: float) -> list[Grant]:
        with self._lock:
            found = [
                Grant(
                    ticket=given.ticket,
                    owner=want.owner,
                    key_name=self._names[given.mark],
                    fence=given.fence,
                    provider=want.provider,
                    model=want.model,
                    tokens=want.tokens,
                )
                for given, want in self._granted
            ]
            self._granted.clear()
        return found

    def release(self, now: float, key_name: str, fence: int, evidence: Evidence) -> bool:
        with self._lock:
            held = self._held.pop(fence, None)
            if held is not None:
                self._news.pop(key_name, None)
                # Whether keys are still busy is told anew: nobody is to hear of a wait that has just ended.
                self._lanes = {route: news for route, news in self._lanes.items() if news.why != "in_use"}
                self._say(GiveBack(fence=fence, mark=held.mark, evidence=evidence))
            return held is not None

    def note(self, now: float, key_name: str, model: str, evidence: Evidence) -> None:
        """Evidence outside of a lease comes from checks by hand, which have a pool of their own."""

    def drop_owner(self, now: float, owner: str) -> None:
        with self._lock:
            self._granted = deque(each for each in self._granted if each[1].owner != owner)
            for ticket in [ticket for ticket, want in self._wants.items() if want.owner == owner]:
                self.cancel(now, ticket)
            for held in [held for held in self._held.values() if held.owner == owner]:
                self.release(now, self._names.get(held.mark, ""), held.fence, Abandoned())

    def know_marks(self, marks: Mapping[str, str]) -> None:
        """Before `replace_keys`: by what the owner knows the keys that come."""
        with self._lock:
            self._marks = dict(marks)
            self._names |= {mark: name for name, mark in marks.items()}

    def replace_keys(
        self, now: float, specs: Iterable[KeySpec], changed_secrets: frozenset[str] = frozenset()
    ) -> None:
        with self._lock:
            self._specs = {spec.name: spec for spec in specs}
            self._lanes.clear()
            self._slots.clear()
            if self._thread is not None:
                self._say(self._hello(()))

    def next_wake(self, now: float) -> float | None:
        """What opens is told by the owner."""
        return None

    def exhaustion(
        self, now: float, provider: str, model: str, elsewhere_than: Iterable[str] = ()
    ) -> Exhaustion | None:
        if now < self._latest - CLOCK_JUMP_SECONDS:
            # The ends of limits were told by a clock that has been set back since: they are told anew.
            self._lanes.clear()
        self._latest = now
        news = self._lanes.get((provider, model, self._marked(elsewhere_than)))
        match news.why if news is not None else "free":
            case "in_use":
                assert news is not None
                return AllInUse(self._named(news.busy), self._named(news.limited), news.until)
            case "limited":
                assert news is not None
                assert news.until is not None
                return AllLimited(news.until, news.is_overload) if news.until > now else None
            case "none_valid":
                assert news is not None
                return NoneValid(self._named(news.busy), news.words)
        if news is None and not any(spec.provider == provider for spec in self._specs.values()):
            return NoneValid(())
        return None

    def usable_slots(self, now: float, provider: str, model: str) -> int:
        all_of_them = sum(spec.max_concurrent for spec in self._specs.values() if spec.provider == provider)
        return self._slots.get((provider, model), all_of_them)

    def snapshot(self, now: float) -> list[KeyView]:
        return [self._view(spec) for spec in self._specs.values()]

    def has_news_of(self, key_name: str) -> bool:
        """Whether the owner has said what became of the key since it was last given back."""
        return key_name in self._news

    def save(self, now: float) -> None:
        """The owner remembers."""

    def close(self) -> None:
        """Leave. What is still held is given back by that."""
        self._is_closed = True
        with self._lock:
            if self._connection is not None:
                with suppress(OSError):
                    self._connection.shutdown(socket.SHUT_RDWR)
        self._home.close()
        if self._thread is not None:
            self._thread.join()

    def _marked(self, names: Iterable[str]) -> tuple[str, ...]:
        return tuple(self._marks[name] for name in names if name in self._marks)

    def _named(self, marks: Collection[str]) -> tuple[str, ...]:
        return tuple(self._names[mark] for mark in marks if mark in self._names)

    def _view(self, spec: KeySpec) -> KeyView:
        news = self._news.get(spec.name)
        return KeyView(
            name=spec.name,
            provider=spec.provider,
            group=spec.group,
            state="available" if news is None else news.state,
            until=None if news is None else news.until,
            reason="" if news is None else news.reason,
        )

    def _take(self, message: ToClient) -> None:
        match message:
            case Given():
                self._take_grant(message)
            case LaneNews(provider=provider, model=model, refused_by=refused_by):
                self._lanes[provider, model, refused_by] = message
                self._slots[provider, model] = message.slots
            case KeyNews(mark=mark):
                self._news[self._names.get(mark, "")] = message

    def _take_grant(self, given: Given) -> None:
        want = self._wants.pop(given.ticket, None)
        if want is None or given.mark not in self._names:
            # Cancelled while it was on its way.
            self._say(GiveBack(fence=given.fence, mark=given.mark, evidence=Abandoned()))
            return
        self._held[given.fence] = HeldKey(mark=given.mark, model=want.model, fence=given.fence, owner=want.owner)
        self._granted.append((given, want))

    def _hello(self, held: Iterable[HeldKey]) -> Hello:
        keys = tuple(
            SharedKey(
                mark=self._marks[spec.name],
                provider=spec.provider,
                # A key that shares its quota with no other is its own group, whatever it is called.
                group=self._marks[spec.name] if spec.group == spec.name else spec.group,
                max_concurrent=spec.max_concurrent,
                rpm=spec.rpm,
                tpm=spec.tpm,
                rpd=spec.rpd,
            )
            for spec in self._specs.values()
        )
        return Hello(client=self._home.client, keys=keys, held=tuple(held))

    def _say(self, message: ToOwner) -> None:
        """To the owner there is. One that is gone has missed it: the next one hears what still holds."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._listen, name="agentos-pool-client", daemon=True)
            self._thread.start()
            return
        with self._lock:
            if self._connection is not None:
                with suppress(OSError):
                    self._connection.sendall(to_owner.encode(message))

    def _listen(self) -> None:
        while not self._is_closed:
            try:
                connection = self._home.connect()
            except OSError:
                return
            self._introduce(connection)
            lines = LineBuffer()
            while data := self._received(connection):
                with self._lock:
                    for line in lines.feed(data):
                        self._take(to_client.decode(line))
                self._wake()
            with self._lock:
                self._connection = None
            connection.close()

    def _introduce(self, connection: socket.socket) -> None:
        connection.settimeout(_LOOK_SECONDS)
        with self._lock:
            words: list[ToOwner] = [self._hello(self._held.values()), *self._wants.values()]
            with suppress(OSError):
                connection.sendall(b"".join(to_owner.encode(word) for word in words))
            self._connection = connection

    def _received(self, connection: socket.socket) -> bytes:
        """Empty when this owner is none any more."""
        while True:
            try:
                return connection.recv(1 << 16)
            except TimeoutError:
                if self._wants and self._home.depose_if_suspended(connection):
                    return b""
            except OSError:
                return b""

    def _wake(self) -> None:
        with suppress(BlockingIOError, OSError):
            os.write(self._wake_write, b"\0")

"""What is told of items' calls: each that gets a key, what it came to, and every wait of more than a moment.

All calls come from the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from agentos.engine.loop import Loop, Timer
from agentos.events import CallFinished, CallStarted, ItemWaited, ItemWaiting, Listener
from agentos.keys.leases import Lease
from agentos.providers.evidence import (
    KEY_STATES,
    Abandoned,
    Evidence,
    Overloaded,
    RequestFailed,
    Succeeded,
    TransportFailed,
    Usage,
)

MOMENT_SECONDS: Final = 0.25
"""Shorter waits are the normal flow of calls: each call tells how long it waited."""
_OTHER_OUTCOMES: Final[dict[type[Evidence], str]] = {
    Succeeded: "ok",
    Overloaded: "overloaded",
    TransportFailed: "no_answer",
    RequestFailed: "refused",
    Abandoned: "abandoned",
}


@dataclass(frozen=True, slots=True)
class _Call:
    started: CallStarted
    at: float


@dataclass(slots=True)
class _Wait:
    since: float
    cause: str = ""
    """Empty as long as it is not told."""


class CallEvents:
    """`node_of` says what an item does now, `causes` why items wait."""

    def __init__(
        self,
        loop: Loop,
        emit: Listener,
        node_of: Callable[[str], str],
        causes: Callable[[], Mapping[str, str]],
    ) -> None:
        self._loop = loop
        self._emit = emit
        self._node_of = node_of
        self._causes = causes
        self._asked: dict[tuple[str, int], float] = {}
        self._calls: dict[int, _Call] = {}
        """Those that hold a key, by fence."""
        self._waits: dict[str, _Wait] = {}
        self._timer: Timer | None = None

    def asked(self, item_id: str, ticket: int) -> None:
        self._asked[item_id, ticket] = self._loop.now()

    def withdrawn(self, item_id: str, ticket: int) -> None:
        """Refused, or nobody wants it any longer."""
        self._asked.pop((item_id, ticket), None)

    def granted(self, item_id: str, ticket: int, lease: Lease) -> None:
        now = self._loop.now()
        started = CallStarted(
            item_id=item_id,
            node=self._node_of(item_id),
            model=f"{lease.provider}:{lease.model}",
            key_name=lease.key_name,
            waited_seconds=round(now - self._asked.pop((item_id, ticket), now), 3),
        )
        self._calls[lease.fence] = _Call(started, now)
        self._emit(started)

    def returned(self, fence: int, evidence: Evidence) -> None:
        call = self._calls.pop(fence, None)
        if call is None:
            return
        usage = evidence.usage if isinstance(evidence, Succeeded) else Usage()
        state = KEY_STATES.get(type(evidence))
        self._emit(
            CallFinished(
                item_id=call.started.item_id,
                node=call.started.node,
                model=call.started.model,
                key_name=call.started.key_name,
                seconds=round(self._loop.now() - call.at, 3),
                outcome=state.name if state else _OTHER_OUTCOMES[type(evidence)],
                waited_seconds=call.started.waited_seconds,
                input_tokens=usage.input_tokens,
                output_tokens=usage.output_tokens,
                cost_usd=round(usage.cost_usd or 0.0, 6),
            )
        )

    def worker_gone(self, item_id: str) -> None:
        """Nobody will say what became of its calls. Its end tells the end of its waiting."""
        for fence in [fence for fence, call in self._calls.items() if call.started.item_id == item_id]:
            self.returned(fence, Abandoned())
        for asked in [asked for asked in self._asked if asked[0] == item_id]:
            del self._asked[asked]
        self._waits.pop(item_id, None)

    def waiting(self, items: set[str]) -> None:
        """Who waits for a key now."""
        now = self._loop.now()
        for item_id in [item_id for item_id in self._waits if item_id not in items]:
            self._tell_the_end(item_id, self._waits.pop(item_id), now)
        for item_id in items:
            self._waits.setdefault(item_id, _Wait(now))
        self._tell(now)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _tell(self, now: float) -> None:
        """Of waits that last, and of those whose cause is another by now."""
        due = {item_id: wait for item_id, wait in self._waits.items() if now - wait.since >= MOMENT_SECONDS}
        causes = self._causes() if due else {}
        for item_id, wait in due.items():
            cause = causes.get(item_id, wait.cause)
            if cause and cause != wait.cause:
                if wait.cause:
                    self._tell_the_end(item_id, wait, now)
                    wait.since = now
                wait.cause = cause
                self._emit(ItemWaiting(item_id=item_id, cause=cause, seconds=round(now - wait.since, 3)))
        self._plan(now)

    def _tell_the_end(self, item_id: str, wait: _Wait, now: float) -> None:
        if wait.cause:
            self._emit(ItemWaited(item_id=item_id, cause=wait.cause, seconds=round(now - wait.since, 3)))

    def _plan(self, now: float) -> None:
        self.close()
        untold = [wait.since for wait in self._waits.values() if not wait.cause]
        if untold:
            wait_seconds = max(0.0, min(untold) + MOMENT_SECONDS - now)
            self._timer = self._loop.after(wait_seconds + 0.001, lambda: self._tell(self._loop.now()))

"""The workers' side of the broker of keys: carries their messages and its answers on the run's loop.

Also where the keys' state acts on the run: fewer usable keys, fewer items at once; no money or no quota, stop.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

from agentos.engine.call_events import CallEvents
from agentos.engine.gateway import RunGateway
from agentos.engine.loading import is_loading
from agentos.engine.loop import READ, Loop, Timer
from agentos.engine.messages import DownMessage
from agentos.errors import ExitCode
from agentos.events import Listener, ParallelismChanged, Warned
from agentos.keys.broker import KeyBroker
from agentos.keys.leases import (
    LeaseAnswer,
    LeaseAsk,
    LeaseCancel,
    LeaseGranted,
    LeaseRefused,
    LeaseRequest,
    LeaseReturn,
)
from agentos.keys.refusals import no_such_model
from agentos.providers.evidence import Succeeded

_FEWEST_SLOTS = 2
"""With fewer usable keys than this, more items at once would only wait for each other."""
_STOPS = {ExitCode.BUDGET_REACHED: "budget reached", ExitCode.QUOTA_GONE: "quota gone"}
"""Refusals that end the run: the item keeps its checkpoint and continues later, stopped and not failed."""


_MOST_TOKENS_OR_DOLLARS = 10**12


class RunControl(Protocol):
    """What the lease server may ask of the run."""

    def node_of(self, item_id: str) -> str: ...
    def send(self, item_id: str, message: DownMessage) -> None: ...
    def waiting_changed(self, waiting: set[str]) -> None: ...
    def set_parallel(self, parallel: int) -> None: ...
    def request_stop(self, reason: str, *, exit_code: ExitCode) -> None: ...


@dataclass(slots=True)
class ItemUsage:
    """What one item's calls have consumed in this run."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0


def _refuse_nonsense(message: LeaseRequest) -> None:
    """Sums and waiting lists of all items are made of these numbers."""
    match message:
        case LeaseAsk(ask=ask):
            numbers: tuple[float | None, ...] = (ask.estimated_tokens, ask.estimated_cost_usd)
        case LeaseReturn(evidence=Succeeded(usage=usage)):
            numbers = (usage.input_tokens, usage.output_tokens, usage.cost_usd)
        case _:
            return
    if not all(number is None or 0 <= number < _MOST_TOKENS_OR_DOLLARS for number in numbers):
        raise ValueError("a call that nobody can make")


class LeaseServer:
    """All calls come from the loop."""

    def __init__(
        self,
        broker: KeyBroker,
        control: RunControl,
        loop: Loop,
        emit: Listener,
        *,
        parallel: int,
        gateway: RunGateway,
        needed_models: Collection[str] = (),
    ) -> None:
        """`needed_models`, as `provider:model`: without one of them no item can be done."""
        self._needed = {tuple(model.split(":", 1)) for model in needed_models}
        self._broker = broker
        self._gateway = gateway
        self._control = control
        self._loop = loop
        self._emit = emit
        self._wanted = self._parallel = parallel
        self._timer: Timer | None = None
        self._usage: dict[str, ItemUsage] = defaultdict(ItemUsage)
        self._is_stopping = False
        self._ends_with = ""
        """The item whose end is the run's."""
        self._counted_at_reload: int | None = None
        """The keys' edition when usable slots were last counted."""
        self._had_waiting = False
        self._news = CallEvents(loop, emit, control.node_of, broker.wait_causes)
        descriptor = broker.fileno()
        if descriptor is not None:
            loop.watch(descriptor, READ, self._hear_of_keys)
        gateway.serve(self.take)

    def _hear_of_keys(self, _events: int) -> None:
        """The home's pool says later what came of a call."""
        self._answer()
        if self._counted_at_reload is not None:
            self._follow_keys(has_success=False)

    def worker_environment(self, item_id: str) -> Mapping[str, str]:
        """What the item's worker is told of the gateway."""
        return self._gateway.admit(item_id)

    def worker_opened(self, item_id: str, pid: int) -> None:
        self._gateway.worker_opened(item_id, pid)

    def worker_reached(self, item_id: str, port: int) -> None:
        self._gateway.worker_reached(item_id, port)

    def take(self, item_id: str, message: LeaseRequest) -> None:
        """A worker's message about a key. Raises ValueError for numbers that no call has."""
        _refuse_nonsense(message)
        is_ours = not isinstance(message, LeaseReturn) or self._broker.holds(item_id, message.fence)
        self._broker.take(item_id, message)
        match message:
            case LeaseReturn() if is_ours and is_loading(item_id):
                self._count_usage(item_id, message)
            case _ if is_loading(item_id):
                pass  # The run has not begun: what is told of calls belongs to an item.
            case LeaseAsk(ticket=ticket):
                self._news.asked(item_id, ticket)
            case LeaseCancel(ticket=ticket):
                self._news.withdrawn(item_id, ticket)
            case LeaseReturn(fence=fence, evidence=evidence) if is_ours:
                self._gateway.uncover(fence)
                self._news.returned(fence, evidence)
                self._count_usage(item_id, message)
                self._follow_keys(has_success=isinstance(evidence, Succeeded))
        self._answer()
        if self._needed:
            self._notice_a_missing_model(item_id)

    def worker_gone(self, item_id: str) -> ItemUsage:
        """Its leases serve others from now on. Returns what the item has consumed."""
        self._gateway.dismiss(item_id)
        self._broker.drop_owner(item_id)
        self._news.worker_gone(item_id)
        self._answer()
        if item_id == self._ends_with:
            self._control.request_stop("a model is missing", exit_code=ExitCode.ITEM_FAILED)
        return self._usage.pop(item_id, ItemUsage())

    def want(self, parallel: int) -> None:
        """A person wants so many items at once; as long as keys are scarce, fewer run."""
        is_scarce = self._parallel < self._wanted
        self._wanted = parallel
        self._parallel = min(self._parallel, parallel) if is_scarce else parallel
        self._control.set_parallel(self._parallel)

    @property
    def money(self) -> tuple[float, float] | None:
        """Spent, and the most that may be; None without a budget."""
        return self._broker.money

    @property
    def waiting(self) -> set[str]:
        """Items that wait for a key."""
        return {owner for owner in self._broker.waiting_owners if not is_loading(owner)}

    def change_budget(self, cap_usd: float) -> bool:
        """False when the run has none."""
        is_changed = self._broker.change_budget(cap_usd)
        self._answer()
        return is_changed

    def run_stops(self) -> None:
        """Who waits and who is served is no news any longer: everybody is about to end."""
        self._is_stopping = True

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._news.close()
        self._gateway.close()
        descriptor = self._broker.fileno()
        if descriptor is not None:
            self._loop.unwatch(descriptor)
        self._broker.close()

    def _count_usage(self, item_id: str, message: LeaseReturn) -> None:
        if isinstance(message.evidence, Succeeded):
            usage, consumed = self._usage[item_id], message.evidence.usage
            usage.input_tokens += consumed.input_tokens
            usage.output_tokens += consumed.output_tokens
            usage.cost_usd += consumed.cost_usd or 0.0

    def _answer(self) -> None:
        for owner, answer in self._broker.answers():
            self._tell_of_answer(owner, answer)
            if isinstance(answer, LeaseRefused) and answer.exit_code in _STOPS:
                self._stop(answer)
            elif answer.ticket >= self._gateway.first_ticket:
                self._gateway.answer(owner, answer)
            elif isinstance(answer, LeaseGranted):
                self._control.send(owner, self._gateway.cover(owner, answer))
            else:
                self._control.send(owner, answer)
        if not self._is_stopping:
            self._broker.announce()
        waiting = self._broker.waiting_owners
        if waiting or self._had_waiting:
            self._had_waiting = bool(waiting)
            self._control.waiting_changed(waiting)
            if not self._is_stopping:
                self._news.waiting(self.waiting)
            self._plan_wake()

    def _tell_of_answer(self, owner: str, answer: LeaseAnswer) -> None:
        match answer:
            case _ if is_loading(owner):
                pass
            case LeaseGranted(ticket=ticket, lease=lease):
                self._news.granted(owner, ticket, lease)
            case LeaseRefused(ticket=ticket):
                self._news.withdrawn(owner, ticket)

    def _stop(self, refusal: LeaseRefused) -> None:
        """Said once, however many calls wait."""
        if not self._is_stopping:
            self._is_stopping = True
            exit_code = ExitCode(refusal.exit_code)
            shortfall = self._broker.shortfall if exit_code is ExitCode.BUDGET_REACHED else None
            self._emit(shortfall or Warned(text=refusal.message))
            self._control.request_stop(_STOPS[exit_code], exit_code=exit_code)

    def _notice_a_missing_model(self, item_id: str) -> None:
        """The item has found out what all others would: nothing new starts, and the run ends when it has failed."""
        for provider, model in self._broker.absent_models() & self._needed:
            if not self._is_stopping:
                self._is_stopping = True
                self._ends_with = item_id
                self._emit(Warned(text=no_such_model(provider, model)))
                self._control.set_parallel(0)

    def _follow_keys(self, *, has_success: bool) -> None:
        """Fewer than two usable keys: one item at a time. They are back: one more with each call that goes well."""
        if self._is_stopping:
            return
        is_counted = self._counted_at_reload == self._broker.reloads
        if has_success and is_counted and self._parallel == self._wanted:
            return  # A call that went well takes no slot away.
        self._counted_at_reload = self._broker.reloads
        slots = self._broker.usable_slots()
        before = self._parallel
        if slots < _FEWEST_SLOTS:
            self._parallel = 1
            reason = "1 usable key slot left" if slots else "no usable key slot left"
        elif has_success and self._parallel < self._wanted:
            self._parallel += 1
            reason = f"{slots} usable key slots"
        if self._parallel != before:
            self._emit(ParallelismChanged(now=self._parallel, before=before, reason=reason))
            self._control.set_parallel(self._parallel)

    def _plan_wake(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        seconds = self._broker.seconds_to_wake()
        if seconds is not None:
            # A little late rather than early: early would find the limit still standing, and come again.
            self._timer = self._loop.after(seconds + 0.002, self._answer)

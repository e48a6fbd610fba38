"""The owner of the pool during a run: leases out, evidence in, limits remembered, money counted.

No threads and no sockets: whoever carries messages calls it and delivers what `pump` returns.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from agentos.clock import stamp_of_epoch
from agentos.errors import BudgetReachedError, NoUsableKeyError
from agentos.events import BudgetNoticed, KeyCoolingDown, Listener, PoolExhausted, PoolResumed, Warned
from agentos.keys.budget import Budget
from agentos.keys.credentials import CredentialSet, fingerprint
from agentos.keys.leases import Lease
from agentos.keys.memory import LimitMemory
from agentos.keys.pool import AllInUse, AllLimited, Exhaustion, KeyPool, KeyView, NoneValid
from agentos.providers.evidence import Evidence, QuotaSpent, RateLimited, Rejected, Succeeded, Usage

BRIEF_WAIT_SECONDS = 2.0
"""Keys that are all in use for less than this are the normal flow; the first time it is said all the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One call's wish for a key."""

    owner: str
    ticket: int
    """The owner's own number."""
    provider: str
    model: str
    estimated_tokens: int = 0
    estimated_cost_usd: float | None = None


@dataclass(frozen=True, slots=True)
class Granted:
    owner: str
    ticket: int
    lease: Lease


@dataclass(frozen=True, slots=True)
class Refused:
    """Waiting would not help."""

    owner: str
    ticket: int
    error: NoUsableKeyError | BudgetReachedError


Delivery = Granted | Refused


class KeyService:
    """Times are the wall clock's: limits end at a time of day, also over a suspend."""

    def __init__(
        self,
        credentials: CredentialSet,
        *,
        emit: Listener,
        memory: LimitMemory | None = None,
        salt: bytes = b"",
        budget: Budget | None = None,
        clock: Callable[[], float] = time.time,
        rng: random.Random | None = None,
    ) -> None:
        self._credentials = credentials
        self._secrets = credentials.secrets
        self._emit = emit
        self._memory = memory
        self._salt = salt
        self._clock = clock
        self.budget = budget
        self._pool = KeyPool(credentials.specs, rng=rng or random.Random())
        if memory is not None:
            self._pool.import_limits(clock(), memory.load(self._fingerprints()))
        self._asks: dict[int, Ask] = {}
        self._unfunded: list[Ask] = []
        self._holders: dict[int, str] = {}
        """Owners by the fence of what they hold."""
        self._saved_calls: dict[str, int] = {}
        self._lanes: dict[tuple[str, str], None] = {}
        self._hopeless: set[tuple[str, str]] = set()
        self._waiting_since: float | None = None
        self._announced: str | None = None
        """The kind of waiting the user was told of and not yet told the end of."""
        self._has_announced = False
        self._unpriced: set[str] = set()

    def ask(self, ask: Ask) -> None:
        """Join the queue; `pump` delivers."""
        self._lanes[ask.provider, ask.model] = None
        if self.budget is not None and ask.estimated_cost_usd is None and ask.model not in self._unpriced:
            self._unpriced.add(ask.model)
            self._emit(
                Warned(
                    text=f"the price of {ask.provider}:{ask.model} is not known: it does not count against the budget"
                )
            )
        self._unfunded.append(ask)

    def cancel(self, owner: str, ticket: int) -> None:
        self._unfunded = [ask for ask in self._unfunded if (ask.owner, ask.ticket) != (owner, ticket)]
        for number, ask in list(self._asks.items()):
            if (ask.owner, ask.ticket) == (owner, ticket):
                del self._asks[number]
                self._pool.cancel(self._clock(), number)

    def give_back(self, key_name: str, fence: int, evidence: Evidence) -> None:
        """A lease ends with what its call showed."""
        now = self._clock()
        usage = evidence.usage if isinstance(evidence, Succeeded) else Usage()
        self._pool.release(now, key_name, fence, evidence)
        self._holders.pop(fence, None)
        if self.budget is not None:
            self.budget.settle(fence, usage.cost_usd or 0.0)
            self._tell_of_spending(self.budget)
        if isinstance(evidence, RateLimited | QuotaSpent | Rejected):
            self._tell_of_limit(now, key_name, evidence)
            self.save()

    def drop_owner(self, owner: str) -> None:
        """Its worker is gone: what it held serves the next waiter."""
        self._unfunded = [ask for ask in self._unfunded if ask.owner != owner]
        self._asks = {number: ask for number, ask in self._asks.items() if ask.owner != owner}
        self._pool.drop_owner(self._clock(), owner)
        for fence in [fence for fence, holder in self._holders.items() if holder == owner]:
            del self._holders[fence]
            if self.budget is not None:
                # Nobody will say what the call cost, and the provider may well charge for it.
                self.budget.write_off(fence)
                self._tell_of_spending(self.budget)

    def pump(self) -> list[Delivery]:
        """What can be delivered now. Tells of waiting as it begins and as it ends."""
        now = self._clock()
        deliveries = self._fund(now)
        for grant in self._pool.grants(now):
            ask = self._asks.pop(grant.ticket)
            self._holders[grant.fence] = ask.owner
            if self.budget is not None:
                self.budget.reserve(grant.fence, ask.estimated_cost_usd or 0.0)
            lease = Lease(
                key_name=grant.key_name,
                fence=grant.fence,
                provider=grant.provider,
                model=grant.model,
                secret=self._secrets.get(grant.key_name, ""),
            )
            deliveries.append(Granted(ask.owner, ask.ticket, lease))
        if self._asks:
            deliveries += self._refuse_hopeless(now)
        self._tell_of_waiting(now)
        return deliveries

    def seconds_to_wake(self) -> float | None:
        """When `pump` could deliver something new by itself."""
        now = self._clock()
        wake = self._pool.next_wake(now)
        # Waiting is told of when it stops being brief.
        tell = None if self._announced or self._waiting_since is None else self._waiting_since + BRIEF_WAIT_SECONDS
        due = [moment for moment in (wake, tell) if moment is not None]
        return max(0.0, min(due) - now) if due else None

    @property
    def waiting_owners(self) -> set[str]:
        return {ask.owner for ask in (*self._asks.values(), *self._unfunded)}

    @property
    def has_business(self) -> bool:
        """Whether any model has been asked for: keys matter to this run."""
        return bool(self._lanes)

    def usable_slots(self) -> int:
        """How many calls the keys can carry at once, for the scarcest of the models asked for."""
        now = self._clock()
        return min((self._pool.usable_slots(now, provider, model) for provider, model in self._lanes), default=0)

    def longest_wait_seconds(self) -> float:
        """How long the longest waiter will have waited for a limit to end, seen from now."""
        now = self._clock()
        waits = [self._wait_for(now, ask) for ask in self._asks.values()]
        return max(waits, default=0.0)

    def reload(self, credentials: CredentialSet) -> None:
        """The user changed the keys: waiters are served by new ones, a new secret lifts a rejection."""
        changed = credentials.changed_secrets(self._credentials)
        self._credentials = credentials
        self._secrets = credentials.secrets
        self._pool.replace_keys(self._clock(), credentials.specs, changed)
        self._hopeless.clear()

    def snapshot(self) -> list[KeyView]:
        return self._pool.snapshot(self._clock())

    def save(self) -> None:
        """Remember limits for the next run. Not being able to is no reason to stop this one."""
        if self._memory is None:
            return
        try:
            self._memory.save(self._limits_and_calls(), self._fingerprints(), now=self._clock())
        except OSError as error:
            self._emit(Warned(text=f"limits of keys cannot be remembered: {error.strerror or error}"))
            self._memory = None

    def _limits_and_calls(self) -> dict[str, Any]:
        limits = self._pool.export_limits()
        for view in self.snapshot():
            new_calls = view.calls - self._saved_calls.get(view.name, 0)
            if new_calls > 0:
                limits.setdefault(view.name, {"models": {}})["new_calls"] = new_calls
            self._saved_calls[view.name] = view.calls
        return limits

    def _fingerprints(self) -> dict[str, str]:
        return {name: fingerprint(secret, self._salt) for name, secret in self._secrets.items()}

    def _fund(self, now: float) -> list[Delivery]:
        """Let asks into the queue as far as the money goes; in order, so that a small one cannot pass a large one."""
        refused: list[Delivery] = []
        while self._unfunded:
            ask = self._unfunded[0]
            if self.budget is not None and not self.budget.fits(self._queued_usd() + (ask.estimated_cost_usd or 0.0)):
                if self.budget.could_fit_later() or self._asks:
                    break
                refused.append(Refused(ask.owner, ask.ticket, _no_money(self.budget, ask)))
            else:
                number = self._pool.request(
                    now,
                    owner=ask.owner,
                    provider=ask.provider,
                    model=ask.model,
                    estimated_tokens=ask.estimated_tokens,
                )
                self._asks[number] = ask
            self._unfunded.pop(0)
        return refused

    def _queued_usd(self) -> float:
        return sum(ask.estimated_cost_usd or 0.0 for ask in self._asks.values())

    def _refuse_hopeless(self, now: float) -> list[Delivery]:
        refused: list[Delivery] = []
        for lane in {(ask.provider, ask.model) for ask in self._asks.values()}:
            why = self._pool.exhaustion(now, *lane)
            if not isinstance(why, NoneValid):
                continue
            if lane not in self._hopeless:
                self._hopeless.add(lane)
                self._emit(PoolExhausted(kind="none_valid", names=why.names))
            for number, ask in list(self._asks.items()):
                if (ask.provider, ask.model) == lane:
                    del self._asks[number]
                    self._pool.cancel(now, number)
                    refused.append(Refused(ask.owner, ask.ticket, _no_key(ask, why.names)))
        return refused

    def _tell_of_limit(self, now: float, key_name: str, evidence: RateLimited | QuotaSpent | Rejected) -> None:
        views = self._pool.snapshot(now)
        number, view = next(((n, v) for n, v in enumerate(views, start=1) if v.name == key_name), (0, None))
        if view is None:
            return
        words = {RateLimited: "rate-limited", QuotaSpent: "out of quota", Rejected: "rejected"}
        self._emit(
            KeyCoolingDown(
                key_number=number,
                key_name=key_name,
                seconds=round(max(0.0, view.until - now), 1) if view.until is not None else 0.0,
                reason=words[type(evidence)],
            )
        )

    def _tell_of_spending(self, budget: Budget) -> None:
        if budget.warning_due():
            self._emit(BudgetNoticed(spent_usd=budget.spent_usd, budget_usd=budget.cap_usd))

    def _tell_of_waiting(self, now: float) -> None:
        """Once when it begins, again when mere business turns into a limit, and once when it ends."""
        why = self._worst_wait(now)
        is_over = not self._asks or (self._announced == "limited" and not isinstance(why, AllLimited))
        if is_over:
            if self._announced and self._waiting_since is not None:
                self._emit(PoolResumed(waited_seconds=round(now - self._waiting_since, 1)))
            self._waiting_since, self._announced = None, None
        if not self._asks:
            return
        if self._waiting_since is None:
            self._waiting_since = now
        if isinstance(why, AllLimited) and self._announced != "limited":
            until = stamp_of_epoch(why.until)
            self._announce(PoolExhausted(kind="limited", until=until, seconds=round(why.until - now, 1)))
        elif isinstance(why, AllInUse) and self._announced is None and self._is_worth_telling(now):
            self._announce(PoolExhausted(kind="in_use", names=self._names_asked_for()))

    def _is_worth_telling(self, now: float) -> bool:
        is_brief = self._waiting_since is None or now - self._waiting_since < BRIEF_WAIT_SECONDS
        return not (is_brief and self._has_announced)

    def _names_asked_for(self) -> tuple[str, ...]:
        wanted = {ask.provider for ask in self._asks.values()}
        return tuple(spec.name for spec in self._credentials.specs if spec.provider in wanted)

    def _announce(self, event: PoolExhausted) -> None:
        self._announced = event.kind
        self._has_announced = True
        self._emit(event)

    def _worst_wait(self, now: float) -> Exhaustion | None:
        """Limits are told of before mere business."""
        found = [self._pool.exhaustion(now, a.provider, a.model) for a in self._asks.values()]
        limited = [why for why in found if isinstance(why, AllLimited)]
        if limited:
            return min(limited, key=lambda why: why.until)
        return next((why for why in found if isinstance(why, AllInUse)), None)

    def _wait_for(self, now: float, ask: Ask) -> float:
        why = self._pool.exhaustion(now, ask.provider, ask.model)
        return why.until - now if isinstance(why, AllLimited) else 0.0


def _no_key(ask: Ask, names: tuple[str, ...]) -> NoUsableKeyError:
    model = f"{ask.provider}:{ask.model}"
    if not names:
        return NoUsableKeyError(
            f"No key for {model}. Add one: agentos keys add NAME --provider {ask.provider} (or choose another model)."
        )
    return NoUsableKeyError(
        f"No usable key for {model}: {', '.join(names)} rejected or without quota. See: agentos keys check."
    )


def _no_money(budget: Budget, ask: Ask) -> BudgetReachedError:
    return BudgetReachedError(
        f"The budget of ${budget.cap_usd:.2f} is reached: ${budget.spent_usd:.4f} spent, and the next call is "
        f"estimated at ${ask.estimated_cost_usd or 0.0:.4f}. Resume with a higher --budget."
    )

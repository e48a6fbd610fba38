"""The broker of keys: the one owner of waiting. Asks in, leases out, evidence back, limits remembered, money counted.

No threads and no sockets: whoever carries messages hands them to `take` and delivers what `answers` gives. The
engine's lease server does that for workers, the local broker for threads.
"""

from __future__ import annotations

import random
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from agentos.errors import AgentosError, NoOtherKeyError, UsageError
from agentos.events import BudgetNoticed, KeyCoolingDown, Listener, PoolExhausted, Warned
from agentos.keys.budget import Budget, Funds
from agentos.keys.credentials import CredentialSet
from agentos.keys.found_models import FoundModels
from agentos.keys.key_file import CHECK_SECONDS, KeyFile
from agentos.keys.leases import (
    Ask,
    Lease,
    LeaseAnswer,
    LeaseAsk,
    LeaseCancel,
    LeaseGranted,
    LeaseRefused,
    LeaseRequest,
    LeaseReturn,
)
from agentos.keys.memory import LimitMemory
from agentos.keys.pool import LONGEST_SLEEP_SECONDS, AllInUse, AllLimited, Grant, KeyView, NoneValid
from agentos.keys.refusals import Patience, no_key, no_money, no_other_key, no_patience, no_price
from agentos.keys.remembering_pool import RememberingPool
from agentos.keys.send_log import SendLog
from agentos.keys.waiting import WaitingNotices
from agentos.providers.evidence import (
    KEY_STATES,
    Abandoned,
    ClosesKey,
    Evidence,
    Succeeded,
    TransportFailed,
)

if TYPE_CHECKING:
    # Only whoever has keys shares a pool.
    from agentos.keys.shared_pool import SharedPool

LaneId = tuple[str, str]
"""(provider, model)."""
Route = tuple[str, str, tuple[str, ...]]
"""(provider, model, keys that refused the request)."""

ELSEWHERE_SECONDS = 60.0
"""How long a request that a key has refused waits for another group's key to tell whose fault it is."""

Delivery = tuple[str, LeaseAnswer]
"""An owner, and what it is told."""


@dataclass(frozen=True, slots=True)
class _Call:
    """A call that waits for a key."""

    owner: str
    ticket: int
    ask: Ask

    @property
    def lane(self) -> LaneId:
        return self.ask.provider, self.ask.model

    @property
    def route(self) -> Route:
        return *self.lane, self.ask.refused_by

    @property
    def estimated_usd(self) -> float:
        return self.ask.estimated_cost_usd or 0.0


@dataclass(frozen=True, slots=True)
class _Held:
    owner: str
    key_name: str
    lane: LaneId


class KeyBroker:
    """Times are the wall clock's: limits end at a time of day, also over a suspend."""

    def __init__(
        self,
        credentials: CredentialSet,
        *,
        emit: Listener,
        memory: LimitMemory | None = None,
        sends: SendLog | None = None,
        salt: bytes = b"",
        budget: Budget | None = None,
        day_budget: Funds | None = None,
        patience: Patience | None = None,
        key_file: KeyFile | None = None,
        priority_of: Callable[[str], int] = lambda _owner: 0,
        on_reload: Callable[[CredentialSet], None] = lambda _credentials: None,
        clock: Callable[[], float] = time.time,
        rng: random.Random | None = None,
        pool: SharedPool | None = None,
    ) -> None:
        """`on_reload` hears of changed keys before any of them is leased; a higher priority is served first.

        `day_budget` is the home's, `budget` that of these calls: both must have the money for each.

        Keys are leased by `pool`, the home's, which also remembers limits and sends; else by one of this broker.
        """
        self._credentials = credentials
        self._secrets = credentials.secrets
        self._emit = emit
        self._salt = salt
        self._budget = budget
        # In this order: only the first may find, when a key is there, that others were faster.
        self._funds = [funds for funds in (day_budget, budget) if funds is not None]
        self._patience = patience
        self._key_file = key_file
        self._priority_of = priority_of
        self._on_reload = on_reload
        self._clock = clock
        self._pool = self._own_pool(memory, sends, rng or random.Random()) if pool is None else pool
        if pool is not None and memory is not None:
            memory.load({})  # Whoever starts hears that the file is damaged; its owner may be another process.
        self._untold: list[tuple[str, ClosesKey]] = []
        """What is said of a key when the pool has told what became of it."""
        self._unfunded: deque[_Call] = deque()
        self._queued: dict[int, _Call] = {}
        """By the pool's ticket."""
        self._held: dict[int, _Held] = {}
        """By fence."""
        self._watched: Counter[LaneId] = Counter()
        self._lanes: dict[LaneId, None] = {}
        self._hopeless: set[LaneId] = set()
        self._found = FoundModels()
        self._notices = WaitingNotices(emit)
        self._file_checked_at = clock()
        self.reloads = 0
        """How often the keys were replaced by changed ones."""
        self.shortfall: BudgetNoticed | None = None
        """What the first call lacked that did not fit into the budget."""

    def _own_pool(self, memory: LimitMemory | None, sends: SendLog | None, rng: random.Random) -> RememberingPool:
        return RememberingPool(
            self._credentials.specs,
            now=self._clock(),
            rng=rng,
            memory=memory,
            sends=sends,
            marks=self._credentials.fingerprints(self._salt),
            on_failure=lambda problem: self._emit(Warned(text=problem)),
        )

    # What callers say, and what they are told.

    def take(self, owner: str, message: LeaseRequest) -> None:
        """A caller's message; `answers` has what follows from it."""
        match message:
            case LeaseAsk(ticket=ticket, ask=ask):
                # Also when nobody waits: a key that is no longer rejected must not be refused.
                self._check_file()
                self._enqueue(_Call(owner, ticket, ask))
            case LeaseCancel(ticket=ticket):
                self._remove(lambda call: (call.owner, call.ticket) == (owner, ticket))
            case LeaseReturn(fence=fence, evidence=evidence):
                self._take_back(owner, fence, evidence)

    def fileno(self) -> int | None:
        """Readable when `answers` may bring something new that came from elsewhere; None if nothing does."""
        return self._pool.fileno()

    def close(self) -> None:
        """Remember what is known, and leave the home's pool to others."""
        if self.has_business:
            self.save()
        for funds in self._funds:
            funds.close()
        self._pool.close()

    def holds(self, owner: str, fence: int) -> bool:
        """Whether this lease is the owner's."""
        held = self._held.get(fence)
        return held is not None and held.owner == owner

    def change_budget(self, cap_usd: float) -> bool:
        """Calls that have been let in are paid, also when there is less than was reserved. False: there is none."""
        if self._budget is None:
            return False
        self._budget.cap_usd = cap_usd
        return True

    @property
    def money(self) -> tuple[float, float] | None:
        """Spent, and the most that may be; None without a budget."""
        return None if self._budget is None else (self._budget.spent_usd, self._budget.cap_usd)

    def drop_owner(self, owner: str) -> None:
        """Its worker is gone: what it held serves the next waiter."""
        self._remove(lambda call: call.owner == owner)
        self._pool.drop_owner(self._clock(), owner)
        for fence in [fence for fence, held in self._held.items() if held.owner == owner]:
            del self._held[fence]
            for funds in self._funds:
                # Nobody will say what the call cost, and the provider may well charge for it.
                funds.write_off(fence)
                self._tell_of_spending(funds)

    def answers(self) -> list[Delivery]:
        """Who is told what now. Each answer is given once."""
        now = self._clock()
        self._pool.hear()
        self._tell_the_untold(now)
        if self._is_waited_for and abs(now - self._file_checked_at) >= CHECK_SECONDS:
            self._check_file()
        answers = self._fund(now)
        if self._queued:
            answers += [delivery for grant in self._pool.grants(now) for delivery in self._grant(now, grant)]
        if self._queued:
            answers += self._refuse(now)
        return answers

    def announce(self) -> None:
        """Say that waiting has begun or ended, if it has. Call it when those who were not answered keep waiting."""
        if self._notices.is_quiet and not self._queued and not self._watched:
            return
        now = self._clock()
        lanes = self._waiting_lanes()
        why, slots = self._worst_wait(now, lanes), 0
        if isinstance(why, AllInUse):
            slots = min(self._pool.usable_slots(now, *lane) for lane in lanes)
        self._notices.update(now, why, is_waiting=bool(lanes), slots=slots, waiting=self._who_waits(now))

    def seconds_to_wake(self) -> float | None:
        """When `answers` or `announce` could bring something new by itself."""
        now = self._clock()
        due = [self._pool.next_wake(now), self._notices.next_change()]
        due += [self._opening(now, lane) for lane in self._watched]
        if self._unfunded:
            due += [now + funds.retry_seconds for funds in self._funds if funds.retry_seconds is not None]
        if self._key_file is not None and self._is_waited_for:
            due.append(self._file_checked_at + CHECK_SECONDS)
        moments = [moment for moment in due if moment is not None]
        return min(max(0.0, min(moments) - now), LONGEST_SLEEP_SECONDS) if moments else None

    # Without taking a key.

    def is_open(self, lane: LaneId) -> bool:
        """Whether a call could go now."""
        return self._pool.exhaustion(self._clock(), *lane) is None

    @contextmanager
    def watching(self, lane: LaneId) -> Iterator[None]:
        """Somebody waits inside the block until the lane is open, and takes no key."""
        self._watched[lane] += 1
        try:
            yield
        finally:
            self._watched[lane] -= 1
            if not self._watched[lane]:
                del self._watched[lane]
            if self.is_open(lane):
                self._notices.serve()

    def note(self, key_name: str, model: str, evidence: Evidence) -> None:
        """Evidence that came outside a lease. Ends no lease."""
        now = self._clock()
        self._pool.note(now, key_name, model, evidence)
        self._remember(now, key_name, evidence)

    def snapshot(self) -> list[KeyView]:
        return self._pool.snapshot(self._clock())

    @property
    def waiting_owners(self) -> set[str]:
        return {call.owner for call in (*self._queued.values(), *self._unfunded)}

    def wait_causes(self) -> dict[str, str]:
        """Why each owner waits: for money (`budget`), for the end of a limit (`limited`) or for its turn (`busy`)."""
        now = self._clock()
        lanes = {lane: self._pool.exhaustion(now, *lane) for lane in {call.lane for call in self._queued.values()}}
        causes = {call.owner: "budget" for call in self._unfunded}
        for call in self._queued.values():
            causes[call.owner] = "limited" if isinstance(lanes[call.lane], AllLimited) else "busy"
        return causes

    @property
    def waiting_count(self) -> int:
        return len(self._queued) + len(self._unfunded)

    @property
    def has_business(self) -> bool:
        """Whether any model has been asked for: keys matter to this run."""
        return bool(self._lanes)

    def absent_models(self) -> set[LaneId]:
        """Models that were called and that no account has, as far as calls have told."""
        return self._found.absent

    def usable_slots(self) -> int:
        """How many calls the keys can carry at once, for the scarcest of the models asked for."""
        now = self._clock()
        return min((self._pool.usable_slots(now, *lane) for lane in self._lanes), default=0)

    def save(self) -> None:
        """Remember limits for the next run."""
        self._pool.save(self._clock())

    def _enqueue(self, call: _Call) -> None:
        self._lanes[call.lane] = None
        self._unfunded.append(call)

    def _remove(self, is_meant: Callable[[_Call], bool]) -> None:
        self._unfunded = deque(call for call in self._unfunded if not is_meant(call))
        for number in [number for number, call in self._queued.items() if is_meant(call)]:
            del self._queued[number]
            self._pool.cancel(self._clock(), number)

    def _take_back(self, owner: str, fence: int, evidence: Evidence) -> None:
        if not self.holds(owner, fence):
            return  # Nobody's lease, or another's: a worker's word counts for its own alone.
        held = self._held.pop(fence)
        now = self._clock()
        self._pool.release(now, held.key_name, fence, evidence)
        self._found.note(held.lane, evidence)
        for funds in self._funds:
            self._settle(funds, fence, evidence)
            self._tell_of_spending(funds)
        self._remember(now, held.key_name, evidence)

    def _settle(self, funds: Funds, fence: int, evidence: Evidence) -> None:
        match evidence:
            case Succeeded(usage=usage):
                funds.settle(fence, usage.cost_usd or 0.0)
            case TransportFailed(may_be_charged=True):
                funds.write_off(fence)
            case _:
                funds.settle(fence, 0.0)

    def _remember(self, now: float, key_name: str, evidence: Evidence) -> None:
        if isinstance(evidence, ClosesKey):
            self._untold.append((key_name, evidence))
            self._tell_the_untold(now)
            self._pool.save(now)

    def _tell_the_untold(self, now: float) -> None:
        untold, self._untold = self._untold, []
        for key_name, evidence in untold:
            if self._pool.has_news_of(key_name):
                self._tell_of_limit(now, key_name, evidence)
            else:
                self._untold.append((key_name, evidence))

    def _fund(self, now: float) -> list[Delivery]:
        """Let calls into the queue as far as the money goes; in order: no small one passes a large one."""
        refused: list[Delivery] = []
        while self._unfunded:
            call = self._unfunded[0]
            if self._funds and call.ask.estimated_cost_usd is None:
                refused.append(_refusal(call, no_price(call.ask)))
            elif short := self._short_of(call):
                if short.could_fit_later(call.estimated_usd) or self._queued:
                    break
                if not short.problem:
                    self.shortfall = self.shortfall or _shortfall(short, call.estimated_usd)
                refused.append(_refusal(call, no_money(call.ask, short)))
            else:
                number = self._pool.request(
                    now,
                    owner=call.owner,
                    provider=call.ask.provider,
                    model=call.ask.model,
                    estimated_tokens=call.ask.estimated_tokens,
                    priority=self._priority_of(call.owner),
                    call=call.ask.call,
                    elsewhere_than=call.ask.refused_by,
                )
                self._queued[number] = call
            self._unfunded.popleft()
        return refused

    def _short_of(self, call: _Call) -> Funds | None:
        """Which budget has not enough left for the call; None if all have."""
        needed_usd = self._queued_usd() + call.estimated_usd
        return next((funds for funds in self._funds if not funds.fits(needed_usd)), None)

    def _queued_usd(self) -> float:
        return sum(call.estimated_usd for call in self._queued.values())

    def _grant(self, now: float, grant: Grant) -> list[Delivery]:
        call = self._queued.pop(grant.ticket)
        if not all(funds.reserve(grant.fence, call.estimated_usd) for funds in self._funds):
            self._pool.release(now, grant.key_name, grant.fence, Abandoned())
            self._unfunded.appendleft(call)
            return []
        self._held[grant.fence] = _Held(call.owner, grant.key_name, call.lane)
        self._notices.serve()
        lease = Lease(
            key_name=grant.key_name,
            fence=grant.fence,
            provider=grant.provider,
            model=grant.model,
            secret=self._secrets.get(grant.key_name, ""),
            most_output_tokens=call.ask.most_output_tokens if self._funds else None,
        )
        return [(call.owner, LeaseGranted(ticket=call.ticket, lease=lease))]

    def _refuse(self, now: float) -> list[Delivery]:
        """Answer those whom no key will ever serve, or not within their patience."""
        if self._key_file is not None and self._key_file.is_changing:
            return []  # Other keys are a moment away.
        refused: list[Delivery] = []
        for route in dict.fromkeys(call.route for call in self._queued.values()):
            why = self._pool.exhaustion(now, *route)
            lane, is_second_opinion = route[:2], bool(route[2])
            if _is_far_off(why, now):
                refused += self._refuse_route(route, no_other_key, has_fallback=True)
            match why:
                case NoneValid() if is_second_opinion:
                    refused += self._refuse_route(route, no_other_key)
                case AllLimited(until=until) if is_second_opinion and until - now > ELSEWHERE_SECONDS:
                    refused += self._refuse_route(route, no_other_key)
                case NoneValid(names=names, words=words):
                    if lane not in self._hopeless:
                        self._hopeless.add(lane)
                        self._emit(PoolExhausted(kind="none_valid", names=names))
                    refused += self._refuse_route(route, partial(no_key, names=names, words=words))
                    self._notices.refuse()
                case AllLimited(until=until) if self._patience and until - now > self._patience.seconds:
                    error = partial(no_patience, now=now, until=until, patience=self._patience)
                    refused += self._refuse_route(route, error)
                    self._notices.refuse()
        return refused

    def _refuse_route(
        self, route: Route, error: Callable[[Ask], AgentosError], *, has_fallback: bool = False
    ) -> list[Delivery]:
        """All its calls, or only those that another model can serve."""
        self._found.asked_all(route[:2], route[2])
        calls = [c for c in self._queued.values() if c.route == route and c.ask.has_fallback >= has_fallback]
        self._remove(lambda call: call in calls)
        return [_refusal(call, error(call.ask)) for call in calls]

    def _waiting_lanes(self) -> set[LaneId]:
        return {call.lane for call in self._queued.values()} | set(self._watched)

    def _who_waits(self, now: float) -> tuple[str, ...]:
        """By name, unless nobody who calls could do anything else."""
        has_open_lane = any(self._pool.exhaustion(now, *lane) is None for lane in self._lanes)
        return tuple(sorted({call.owner for call in self._queued.values()})) if has_open_lane else ()

    def _opening(self, now: float, lane: LaneId) -> float | None:
        """When the first limit of the lane ends."""
        why = self._pool.exhaustion(now, *lane)
        return why.until if isinstance(why, AllInUse | AllLimited) else None

    @property
    def _is_waited_for(self) -> bool:
        return bool(self._queued or self._unfunded or self._watched)

    def _worst_wait(self, now: float, lanes: set[LaneId]) -> AllInUse | AllLimited | None:
        """Limits are told of before mere business."""
        found = [self._pool.exhaustion(now, *lane) for lane in lanes]
        limited = [why for why in found if isinstance(why, AllLimited)]
        if limited:
            return min(limited, key=lambda why: why.until)
        return next((why for why in found if isinstance(why, AllInUse)), None)

    def _check_file(self) -> None:
        """The user may have changed the keys: waiters are served by new ones, a new secret lifts a rejection."""
        if self._key_file is None:
            return
        self._file_checked_at = self._clock()
        try:
            changed = self._key_file.changed_keys()
        except UsageError as error:
            self._emit(Warned(text=f"the changed keys are not used: {error}"))
            return
        if changed is not None:
            self.reload(changed)
            count = sum(1 for credential in changed.credentials if credential.secret)
            self._emit(Warned(text=f"{self._key_file.name} changed: {count} key{'' if count == 1 else 's'} now"))

    def reload(self, credentials: CredentialSet) -> None:
        """Use these keys from now on. What is known of those that stay is kept."""
        self._on_reload(credentials)
        new_secrets = credentials.changed_secrets(self._credentials)
        self._credentials, self._secrets = credentials, credentials.secrets
        self._pool.know_marks(credentials.fingerprints(self._salt))
        self._pool.replace_keys(self._clock(), credentials.specs, new_secrets)
        self._hopeless.clear()
        self.reloads += 1

    def _tell_of_limit(self, now: float, key_name: str, evidence: ClosesKey) -> None:
        views = self._pool.snapshot(now)
        number, view = next(((n, v) for n, v in enumerate(views, start=1) if v.name == key_name), (0, None))
        if view is None:
            return
        seconds = 0.0 if view.until is None else round(max(0.0, view.until - now), 1)
        state = KEY_STATES[type(evidence)]
        self._emit(
            KeyCoolingDown(
                key_number=number,
                key_name=key_name,
                seconds=seconds,
                reason=state.words,
                state=state.name,
                provider=view.provider,
                group=view.group,
            )
        )

    def _tell_of_spending(self, funds: Funds) -> None:
        if funds.warning_due():
            self._emit(BudgetNoticed(spent_usd=funds.spent_usd, budget_usd=funds.cap_usd, day=funds.day))


def _shortfall(funds: Funds, estimated_usd: float) -> BudgetNoticed:
    spent = funds.spent_usd
    needed = spent + estimated_usd
    return BudgetNoticed(spent_usd=spent, budget_usd=funds.cap_usd, needed_usd=needed, day=funds.day)


def _is_far_off(why: object, now: float) -> bool:
    """Whether no key serves soon: what another model can do is not worth the wait."""
    return isinstance(why, NoneValid) or (isinstance(why, AllLimited) and why.until - now > ELSEWHERE_SECONDS)


def _refusal(call: _Call, error: AgentosError) -> Delivery:
    refusal = LeaseRefused(
        ticket=call.ticket,
        exit_code=int(error.exit_code),
        message=str(error),
        is_for_want_of_another=isinstance(error, NoOtherKeyError),
    )
    return call.owner, refusal

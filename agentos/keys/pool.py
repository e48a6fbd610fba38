"""Who may use which key when. Pure: no I/O, no clock, no threads, no secrets; every method takes the time."""

from __future__ import annotations

import heapq
import itertools
import math
import random
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, assert_never

from agentos.keys.groups import Group, PooledKey
from agentos.keys.inferred_limit import Send
from agentos.keys.key_spec import KeySpec
from agentos.keys.lanes import Lane, LaneId, Waiter
from agentos.keys.overload import OverloadPause
from agentos.keys.pace import CLOCK_GRAIN_SECONDS, DAY_SECONDS, MINUTE_SECONDS, Receipt, Sent, Size
from agentos.keys.quota import LimitKind, Quota, next_day_reset
from agentos.providers.evidence import (
    Abandoned,
    Evidence,
    NotServed,
    Overloaded,
    QuotaSpent,
    RateLimited,
    Rejected,
    RequestFailed,
    Succeeded,
    TransportFailed,
)

DOUBT_SECONDS = 600.0
"""How long a group that refused a model is not asked again by a call that another group has refused."""
CLOCK_JUMP_SECONDS = 1.0
"""A clock that is further back than this was set back; less is threads reading it out of order."""
LONGEST_SLEEP_SECONDS = 60.0
"""Whoever waits looks at the clock so often: timers stand still while a machine is suspended, limits do not."""
PAUSE_WORTH_TELLING_SECONDS = 5.0
"""A shorter pause, made by pacing or an overloaded provider, is the normal flow and no exhaustion."""
REMEMBERED_LEASES = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """A ticket's turn has come: the key is leased to its owner until `release` with this fence."""

    ticket: int
    owner: str
    key_name: str
    fence: int
    provider: str
    model: str
    tokens: int = 0
    """As the ask estimated them."""


@dataclass(frozen=True, slots=True)
class AllInUse:
    """Every key that could serve now is held by a call."""

    busy: tuple[str, ...]
    limited: tuple[str, ...] = ()
    """Keys that could serve later; their first limit ends at `until`, UTC epoch seconds."""
    until: float | None = None


@dataclass(frozen=True, slots=True)
class AllLimited:
    """Every valid key is limited; the first limit ends at `until`, UTC epoch seconds."""

    until: float
    is_overload: bool = False
    """Not by a limit of theirs: the provider is overloaded, and all its calls pause."""


@dataclass(frozen=True, slots=True)
class NoneValid:
    """No key can serve however long one waits. `names` are the provider's keys, none if it has none."""

    names: tuple[str, ...]
    words: tuple[str, ...] = ()
    """What the provider said of money, if that is why."""


Exhaustion = AllInUse | AllLimited | NoneValid


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyView:
    """One key for people: its worst state over all models, which `reason` names."""

    name: str
    provider: str
    group: str
    state: str
    """`available`, `reserved`, `rate_limited`, `out_of_quota` or `rejected`."""
    until: float | None = None
    """UTC epoch seconds; None when there is no end that waiting would reach."""
    calls: int = 0
    last_used: float | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class PastSend:
    """A call that was made a moment ago, in UTC epoch seconds."""

    key_name: str
    model: str
    at: float
    input_tokens: int = 0
    output_tokens: int = 0


@dataclass(slots=True)
class _Granted:
    """What the pool knows of a key that is out for a call."""

    key: PooledKey
    group: Group
    fence: int
    owner: str
    model: str
    receipt: Receipt
    call: str = ""
    avoided: frozenset[str] = frozenset()
    """Groups that would not serve this call."""

    @property
    def quota(self) -> Quota:
        return self.group.quotas[self.model]


class KeyPool:
    """Leases keys to waiting calls, in order, and learns from the evidence that comes back.

    Times passed in are UTC epoch seconds. The pool survives a clock that is set back: its own time never runs
    backwards. A call asks with `request`, gets its turn from `grants`, and ends with `release`.
    """

    def __init__(self, specs: Iterable[KeySpec], *, rng: random.Random, first_fence: int = 0) -> None:
        """Fences are greater than `first_fence`: those of a pool that follows another must be greater than its."""
        self._rng = rng
        self._time = -math.inf
        self._skew = 0.0
        """The pool's time less the caller's clock."""
        self._keys: dict[str, PooledKey] = {}
        self._groups: dict[str, dict[str, Group]] = defaultdict(dict)
        self._lanes: dict[LaneId, Lane] = {}
        self._provider_lanes: dict[str, list[Lane]] = defaultdict(list)
        self._waiting: dict[LaneId, Lane] = {}
        self._pauses: dict[str, OverloadPause] = defaultdict(OverloadPause)
        self._waiters: dict[int, Waiter] = {}
        self._leases: dict[int, _Granted] = {}
        self._ended: OrderedDict[int, _Granted] = OrderedDict()
        self._tickets = itertools.count(1)
        self._turn = 0
        self._newest_fence = first_fence
        self._day_ends: dict[str, float] = {}
        for spec in specs:
            self._attach(spec)

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
        without_groups: frozenset[str] = frozenset(),
    ) -> int:
        """Join the queue of (provider, model). Returns the ticket that a later grant names.

        `call` is the owner's number for all attempts at one call. No group of a key in `elsewhere_than` serves it,
        nor one of `without_groups`, which are not the owner's.
        """
        time = self._advance(now)
        lane_id = (provider, model, self._avoided(time, provider, model, elsewhere_than) | without_groups)
        ticket = next(self._tickets)
        name = f"{owner}/{call or ticket}"
        waiter = Waiter(ticket, owner, name, lane_id, max(estimated_tokens, 0), priority)
        lane = self._lane(lane_id)
        lane.join(waiter)
        self._waiting[lane_id] = lane
        self._waiters[ticket] = waiter
        return ticket

    def cancel(self, now: float, ticket: int) -> None:
        """Leave the queue. A ticket already granted or unknown is no error."""
        self._advance(now)
        waiter = self._waiters.get(ticket)
        if waiter is not None:
            self._remove_waiter(waiter)

    def grants(self, now: float) -> list[Grant]:
        """Give out what can be given now: each queue in order, the longest waiting head first for a shared key."""
        time = self._advance(now)
        soon = time + CLOCK_GRAIN_SECONDS
        heads = [_claim(lane) for lane in self._waiting.values() if self._lane_opening(time, lane) <= soon]
        heapq.heapify(heads)
        granted = []
        while heads:
            lane = self._lanes[heapq.heappop(heads)[-1]]
            grant = self._serve_head(time, lane)
            if grant is None:
                continue
            granted.append(grant)
            if lane.waiters:
                heapq.heappush(heads, _claim(lane))
        return granted

    def release(self, now: float, key_name: str, fence: int, evidence: Evidence) -> bool:
        """End a lease with what its call showed. False if the fence is stale; its evidence still counts."""
        time = self._advance(now)
        lease = self._leases.get(fence)
        if lease is None or lease.key.spec.name != key_name:
            stale = self._ended.get(fence)
            if stale is not None and stale.key.spec.name == key_name:
                self._apply_evidence(time, stale, evidence)
            return False
        rank = lease.quota.rank
        self._end_lease(lease)
        self._apply_evidence(time, lease, evidence)
        if lease.quota.rank != rank:
            for lane in self._lanes_of(lease.group.id[0], lease.model):
                lane.forget_place(lease.group.id[1])
        self._ready_groups_of(lease)
        return True

    def note(self, now: float, key_name: str, model: str, evidence: Evidence) -> None:
        """Evidence about a key that came outside a lease, such as from a check by hand. Ends no lease."""
        time = self._advance(now)
        key = self._keys[key_name]
        group = self._group_of(key)
        self._quota(group, model)
        receipt = Receipt(Sent(time, Size()), Send(time))
        self._apply_evidence(time, _Granted(key, group, self._newest_fence + 1, "", model, receipt), evidence)
        if isinstance(evidence, Succeeded):
            self._lift(time, key, only_for_good=False)

    def adopt(self, now: float, *, owner: str, key_name: str, model: str, fence: int) -> None:
        """A lease that an earlier pool gave, and that has not ended: it counts against its key's cap."""
        time = self._advance(now)
        key = self._keys.get(key_name)
        if key is None or fence in self._leases:
            return
        # The clock may have been set back since: what is given from now on must not be taken for older.
        self._newest_fence = max(self._newest_fence, fence)
        group = self._group_of(key)
        self._quota(group, model).begin_call()
        key.in_use += 1
        receipt = Receipt(Sent(time, Size()), Send(time))
        self._leases[fence] = _Granted(key, group, fence, owner, model, receipt)

    def drop_owner(self, now: float, owner: str) -> None:
        """The owner is gone: its leases come back as abandoned and its waiters vanish."""
        self.drop_owners(now, lambda each: each == owner)

    def drop_owners(self, now: float, is_gone: Callable[[str], bool]) -> None:
        self._advance(now)
        for waiter in [waiter for waiter in self._waiters.values() if is_gone(waiter.owner)]:
            self._remove_waiter(waiter)
        for lease in [lease for lease in self._leases.values() if is_gone(lease.owner)]:
            self.release(now, lease.key.spec.name, lease.fence, Abandoned())

    def replace_keys(
        self, now: float, specs: Iterable[KeySpec], changed_secrets: frozenset[str] = frozenset()
    ) -> None:
        """Take a new set of keys. Leases of removed keys run out; a new secret lifts its key's rejection."""
        time = self._advance(now)
        wanted = {spec.name: spec for spec in specs}
        for name, key in self._keys.items():
            if not key.is_removed and wanted.get(name) != key.spec:
                self._detach(key)
        for order, (name, spec) in enumerate(wanted.items()):
            is_new = name not in self._keys
            if is_new or self._keys[name].is_removed:
                self._attach(spec)
            self._keys[name].order = order
            if name in changed_secrets:
                self._keys[name].secret_fence = self._newest_fence
                self._keys[name].is_proven = False
            if is_new or name in changed_secrets:
                self._lift(time, self._keys[name], only_for_good=True)
        for name in [name for name, key in self._keys.items() if key.is_removed and not key.in_use]:
            del self._keys[name]

    def next_wake(self, now: float) -> float | None:
        """The earliest time at which `grants` could give something new; None if only a release could bring it."""
        time = self._advance(now)
        openings = (self._lane_opening(time, lane) for lane in self._waiting.values())
        earliest = min(openings, default=math.inf)
        return None if math.isinf(earliest) else max(earliest, time) - self._skew

    def group_names(self, provider: str) -> Iterable[str]:
        return self._groups.get(provider, {}).keys()

    def exhaustion(
        self,
        now: float,
        provider: str,
        model: str,
        elsewhere_than: Iterable[str] = (),
        without_groups: frozenset[str] = frozenset(),
    ) -> Exhaustion | None:
        """Why a call would have to wait; None if it can go now or after a moment's pacing."""
        time = self._advance(now)
        avoided = self._avoided(time, provider, model, elsewhere_than) | without_groups
        serving = self._serving(provider, model, avoided)
        if not serving:
            return self._none_valid(provider, model)
        pause_ends = self._pauses[provider].until if provider in self._pauses else 0.0
        limits_end = math.inf
        busy: list[Group] = []
        limited: list[Group] = []
        for group, quota in serving:
            closed_until = max(pause_ends, self._closed_until(time, quota))
            if closed_until > time:
                limits_end = min(limits_end, closed_until)
                limited.append(group)
            elif group.free_key() is None or (quota is not None and quota.is_tried_out(time)):
                busy.append(group)
            else:
                return None
        if not busy:
            return AllLimited(limits_end - self._skew, is_overload=limits_end == pause_ends)
        return AllInUse(_valid_names(busy), _valid_names(limited), limits_end - self._skew if limited else None)

    def _none_valid(self, provider: str, model: str) -> NoneValid:
        names = tuple(key.spec.name for key in self._current_keys() if key.spec.provider == provider)
        said = dict.fromkeys(quota.words for _, quota in self._quotas(provider, model) if quota and quota.words)
        return NoneValid(names, tuple(said))

    def usable_slots(
        self, now: float, provider: str, model: str, without_groups: frozenset[str] = frozenset()
    ) -> int:
        """How many calls the keys can carry at once: all of an open group, one of a group that is reopening."""
        time = self._advance(now)
        slots = 0
        for group, quota in self._quotas(provider, model):
            if group.id[1] in without_groups or (quota is not None and quota.is_limited(time)):
                continue
            carried = sum(key.spec.max_concurrent for key in group.keys.values() if key.is_valid)
            slots += min(carried, 1) if quota is not None and quota.is_reopening else carried
        return slots

    def serving_names(self, provider: str, model: str) -> tuple[str, ...]:
        """Keys that can serve such a call, now or when a limit ends."""
        return _valid_names(group for group, _ in self._serving(provider, model, frozenset()))

    def snapshot(self, now: float) -> list[KeyView]:
        """Every key, in the order given."""
        time = self._advance(now)
        return [self._view(time, key) for key in self._current_keys()]

    def export_limits(self) -> dict[str, Any]:
        """What the next run should know, as plain data: {key name: {"rejected", "models": {model: record}}}."""
        exported: dict[str, Any] = {}
        for key in self._current_keys():
            group = self._group_of(key)
            models = {model: quota.export(self._skew) for model, quota in group.quotas.items()}
            record: dict[str, Any] = {"models": {model: known for model, known in models.items() if known}}
            if key.is_proven:
                record["proven"] = True
            if key.rejection is not None:
                record["rejected"] = key.rejection
            if key.last_used is not None:
                record["last_used"] = key.last_used - self._skew
            if len(record) > 1 or record["models"]:
                exported[key.spec.name] = record
        return exported

    def import_limits(self, now: float, limits: Mapping[str, Any]) -> None:
        """Take what `export_limits` gave in an earlier run. Only ever closes; unknown keys are ignored."""
        time = self._advance(now)
        for name, record in limits.items():
            key = self._keys.get(name)
            if key is None or key.is_removed:
                continue
            if record.get("rejected") is not None:
                key.rejection = str(record["rejected"])
            key.is_proven = key.is_proven or bool(record.get("proven"))
            if key.last_used is None and record.get("last_used") is not None:
                key.last_used = min(float(record["last_used"]) + self._skew, time)
            group = self._group_of(key)
            for model, known in record.get("models", {}).items():
                self._quota(group, model).restore(time, self._skew, known, self._day_end(key.spec.provider))

    def import_sends(self, now: float, sends: Iterable[PastSend]) -> None:
        """Count calls that others have just made with these keys. Unknown keys are ignored."""
        time = self._advance(now)
        for send in sends:
            key = self._keys.get(send.key_name)
            at = send.at + self._skew
            if key is None or key.is_removed or not time - MINUTE_SECONDS < at <= time + CLOCK_JUMP_SECONDS:
                continue
            quota = self._quota(self._group_of(key), send.model)
            size = Size(send.input_tokens, send.output_tokens)
            quota.pace.remember_send(min(at, time), size, self._day_end(key.spec.provider))

    def _advance(self, now: float) -> float:
        """The pool's own time: the caller's clock, but for jumps backwards."""
        time = now + self._skew
        if time < self._time:
            if time < self._time - CLOCK_JUMP_SECONDS:
                self._skew += self._time - time
            time = self._time
        self._time = time
        return time

    def _day_end(self, provider: str) -> float:
        """When the provider's day ends, in the pool's time. Computed once per day: every call asks for it."""
        end = self._day_ends.get(provider, -math.inf)
        if not self._time < end <= self._time + 1.1 * DAY_SECONDS:
            end = next_day_reset(provider, self._time - self._skew) + self._skew
            self._day_ends[provider] = end
        return end

    def _current_keys(self) -> list[PooledKey]:
        return sorted((key for key in self._keys.values() if not key.is_removed), key=lambda key: key.order)

    def _group_of(self, key: PooledKey) -> Group:
        return self._groups[key.spec.provider][key.spec.group]

    def _quota(self, group: Group, model: str) -> Quota:
        quota = group.quotas.get(model)
        if quota is None:
            quota = group.quotas[model] = Quota()
            quota.pace.configure(group.configured_limits(), self._day_end(group.id[0]))
        return quota

    def _quotas(self, provider: str, model: str) -> Iterator[tuple[Group, Quota | None]]:
        for group in self._groups.get(provider, {}).values():
            yield group, group.quotas.get(model)

    def _serving(self, provider: str, model: str, avoided: frozenset[str]) -> list[tuple[Group, Quota | None]]:
        """Groups that can serve such a call, now or when a limit ends."""
        return [
            (group, quota)
            for group, quota in self._quotas(provider, model)
            if group.has_valid_key and not (quota and quota.never_resets) and group.id[1] not in avoided
        ]

    def _avoided(self, time: float, provider: str, model: str, refused_by: Iterable[str]) -> frozenset[str]:
        """Groups that a call need not try which these keys have refused: their own, and others in the same doubt."""
        names = {self._keys[name].spec.group for name in refused_by if name in self._keys}
        if names:
            names |= {
                group.id[1]
                for group, quota in self._quotas(provider, model)
                if quota and quota.doubted_at is not None and quota.doubted_at > time - DOUBT_SECONDS
            }
        return frozenset(names)

    def _lane(self, lane_id: LaneId) -> Lane:
        lane = self._lanes.get(lane_id)
        if lane is None:
            lane = self._lanes[lane_id] = Lane(lane_id)
            self._provider_lanes[lane.provider].append(lane)
            for group in self._groups.get(lane.provider, {}).values():
                self._make_ready(lane, group)
        return lane

    def _lane_opening(self, time: float, lane: Lane) -> float:
        pause_ends = self._pauses[lane.provider].until if lane.provider in self._pauses else 0.0
        return max(lane.opening(time), pause_ends)

    def _serve_head(self, time: float, lane: Lane) -> Grant | None:
        """Try the ready groups in order for the first waiter. Those that cannot serve sleep or await an event."""
        groups = self._groups.get(lane.provider, {})
        lane.wake(time, groups)
        while (group := lane.pop_ready(groups)) is not None:
            key = group.free_key()
            quota = group.quotas[lane.model]
            opening = quota.opening(time, lane.head.tokens) if key is not None else math.inf
            if key is not None and opening <= time + CLOCK_GRAIN_SECONDS:
                grant = self._lease(time, lane, group, key)
                lane.make_ready(group)
                return grant
            if not math.isinf(opening):
                tokens = lane.head.tokens if quota.pace.depends_on_tokens() else None
                lane.put_to_sleep(group.id[1], opening, tokens)
        return None

    def _lease(self, time: float, lane: Lane, group: Group, key: PooledKey) -> Grant:
        waiter = lane.head
        self._remove_waiter(waiter, is_served=True)
        self._newest_fence += 1
        self._turn += 1
        fence = self._newest_fence
        key.in_use += 1
        key.calls += 1
        key.last_used = time
        key.used_turn = group.used_turn = self._turn
        quota = group.quotas[lane.model]
        receipt = quota.record_send(time, fence, waiter.tokens, self._day_end(lane.provider))
        self._leases[fence] = _Granted(
            key, group, fence, waiter.owner, lane.model, receipt, waiter.call, lane.avoided
        )
        return Grant(
            ticket=waiter.ticket,
            owner=waiter.owner,
            key_name=key.spec.name,
            fence=fence,
            provider=lane.provider,
            model=lane.model,
            tokens=waiter.tokens,
        )

    def _remove_waiter(self, waiter: Waiter, *, is_served: bool = False) -> None:
        lane = self._lanes[waiter.lane_id]
        lane.leave(waiter, is_served=is_served)
        del self._waiters[waiter.ticket]
        if not is_served:
            self._end_verdicts(lane.provider, lane.model, lane.avoided)
        if lane.waiters:
            return
        del self._waiting[waiter.lane_id]
        if lane.avoided:
            del self._lanes[waiter.lane_id]
            self._provider_lanes[lane.provider].remove(lane)

    def _lanes_of(self, provider: str, model: str) -> list[Lane]:
        return [lane for lane in self._provider_lanes.get(provider, ()) if lane.model == model]

    def _end_lease(self, lease: _Granted) -> None:
        del self._leases[lease.fence]
        lease.quota.end_call()
        self._ended[lease.fence] = lease
        if len(self._ended) > REMEMBERED_LEASES:
            self._ended.popitem(last=False)
        key = lease.key
        key.in_use -= 1
        if key.is_removed:
            if key.in_use == 0 and self._keys.get(key.spec.name) is key:
                del self._keys[key.spec.name]
        else:
            self._group_of(key).list_if_free(key)

    def _ready_groups_of(self, lease: _Granted) -> None:
        """After a release: its own queue may continue, and so may others that wait for a key of the group."""
        groups = {lease.group.id: lease.group}
        if not lease.key.is_removed:
            current = self._group_of(lease.key)  # Another one if the key moved while the lease ran.
            groups[current.id] = current
        for group in groups.values():
            provider, name = group.id
            for lane in self._provider_lanes.get(provider, ()):
                if lane.model == lease.model or lane.is_waiting_for_event(name):
                    lane.make_ready(group)

    def _ready_everywhere(self, group: Group) -> None:
        for lane in self._provider_lanes.get(group.id[0], ()):
            self._make_ready(lane, group)

    def _make_ready(self, lane: Lane, group: Group) -> None:
        self._quota(group, lane.model)  # The group may be new to the lane's model.
        lane.make_ready(group)

    def _apply_evidence(self, time: float, lease: _Granted, evidence: Evidence) -> None:
        """Learn from a call: limits are the quota's, rejection the key's, overload the provider's."""
        quota, fence, provider = lease.quota, lease.fence, lease.key.spec.provider
        if not isinstance(evidence, Succeeded | RateLimited):
            quota.pace.drop(lease.receipt)
        match evidence:
            case Succeeded(usage=usage, limits=limits):
                used = Size(usage.input_tokens, usage.output_tokens)
                if used != Size():  # Not every endpoint tells; then the estimate stays.
                    quota.pace.settle(lease.receipt, used)
                quota.pace.accept(time, lease.receipt)
                quota.pace.learn(time, limits, self._day_end(provider))
                lease.key.is_proven = True
                quota.prove(time)
                quota.finish_probe(time, fence, succeeded=True)
                self._pauses[provider].clear(time, lease.call, fence)
                self._deny_elsewhere(time, lease)
            case RateLimited():
                lease.key.is_proven = True
                quota.limit_rate(
                    time,
                    fence,
                    self._newest_fence,
                    evidence,
                    self._rng,
                    receipt=lease.receipt,
                    day_ends=self._day_end(provider),
                )
            case QuotaSpent():
                lease.key.is_proven = True
                quota.spend(time, fence, self._newest_fence, evidence, self._day_end(provider))
            case Rejected(reason=reason):
                if fence > lease.key.secret_fence:
                    lease.key.rejection = reason
                quota.finish_probe(time, fence, succeeded=False)
            case NotServed():
                quota.doubt_model(time, evidence)
                if lease.call:
                    self._seek_verdict(time, lease)
                quota.finish_probe(time, fence, succeeded=False)
            case Overloaded():
                pause = self._pauses[provider]
                pause.blame(time, lease.call, fence, evidence, self._rng, newest_fence=self._newest_fence)
                quota.finish_probe(time, fence, succeeded=False)
            case RequestFailed() | Abandoned():
                self._end_verdicts(provider, lease.model, lease.avoided)
                quota.finish_probe(time, fence, succeeded=False)
            case TransportFailed():
                quota.finish_probe(time, fence, succeeded=False)
            case _:
                assert_never(evidence)

    def _deny_elsewhere(self, time: float, lease: _Granted) -> None:
        """What one group has just done, those that refused it cannot do."""
        groups = self._groups.get(lease.group.id[0], {})
        for name in lease.avoided:
            quota = groups[name].quotas.get(lease.model) if name in groups else None
            if quota is not None and quota.doubted_at is not None:
                quota.deny_model(time, lease.fence)

    def _seek_verdict(self, time: float, lease: _Granted) -> None:
        """The call is about to try another group, if there is one. Others wait for what that shows."""
        provider, model = lease.group.id[0], lease.model
        refused = lease.avoided | self._avoided(time, provider, model, [lease.key.spec.name])
        if self._serving(provider, model, refused):
            lease.quota.await_verdict(time)
        else:
            self._end_verdicts(provider, model, refused)

    def _end_verdicts(self, provider: str, model: str, avoided: Iterable[str]) -> None:
        """Nobody is left to show what these groups would not do: they are as open as any, and asked last."""
        groups = self._groups.get(provider, {})
        for group in (groups[name] for name in avoided if name in groups):
            self._quota(group, model).end_verdict()
            self._ready_everywhere(group)

    def _closed_until(self, time: float, quota: Quota | None) -> float:
        """The end of a limit, or of a pause by pacing that is long enough to tell of; else 0."""
        if quota is None:
            return 0.0
        if quota.is_limited(time):
            return quota.until
        paced_until = quota.pace.opening(time, 1)
        return paced_until if paced_until > time + PAUSE_WORTH_TELLING_SECONDS else 0.0

    def _attach(self, spec: KeySpec) -> None:
        """Put a key to its group. One that comes back while its old leases run out keeps counting them."""
        key = self._keys.get(spec.name)
        if key is None:
            key = self._keys[spec.name] = PooledKey(spec, order=len(self._keys))
        key.spec, key.is_removed = spec, False
        group = self._groups[spec.provider].get(spec.group)
        if group is None:
            group = self._groups[spec.provider][spec.group] = Group((spec.provider, spec.group))
        group.keys[spec.name] = key
        group.list_if_free(key)
        self._reconfigure(group)
        self._ready_everywhere(group)

    def _detach(self, key: PooledKey) -> None:
        """Its group stays, with what is known of its quota: keys may come back to it."""
        key.is_removed = True
        group = self._group_of(key)
        del group.keys[key.spec.name]
        self._reconfigure(group)

    def _reconfigure(self, group: Group) -> None:
        limits = group.configured_limits()
        for quota in group.quotas.values():
            quota.pace.configure(limits, self._day_end(group.id[0]))

    def _lift(self, time: float, key: PooledKey, *, only_for_good: bool) -> None:
        """Give a key another chance: it may be paid for or replaced. Limits that end by themselves may stay."""
        key.rejection = None
        group = self._group_of(key)
        group.list_if_free(key)
        for quota in group.quotas.values():
            if quota.never_resets or not only_for_good:
                quota.reopen(time)
        self._ready_everywhere(group)

    def _view(self, time: float, key: PooledKey) -> KeyView:
        state, until, reason = "available", None, ""
        limits = [(model, q) for model, q in self._group_of(key).quotas.items() if q.is_limited(time)]
        if key.rejection is not None:
            state, reason = "rejected", key.rejection
        elif limits:
            model, worst = max(limits, key=lambda limit: (limit[1].never_resets, limit[1].until))
            state = LimitKind.RATE.value if worst.kind is None else worst.kind.value
            until = None if worst.never_resets else worst.until - self._skew
            reason = f"{model}: {worst.reason}" if worst.reason else model
        elif key.in_use:
            state = "reserved"
        return KeyView(
            name=key.spec.name,
            provider=key.spec.provider,
            group=key.spec.group,
            state=state,
            until=until,
            calls=key.calls,
            last_used=None if key.last_used is None else key.last_used - self._skew,
            reason=reason,
        )


def _claim(lane: Lane) -> tuple[int, int, LaneId]:
    """What decides between queues that want the same key: urgency, then who has waited longest."""
    head = lane.head
    return -head.priority, head.ticket, head.lane_id


def _valid_names(groups: Iterable[Group]) -> tuple[str, ...]:
    return tuple(key.spec.name for group in groups for key in group.keys.values() if key.is_valid)

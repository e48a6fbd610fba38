"""A run's records in, its state out. Pure; the one owner of "how far is it".

A live run, a finished one and one whose coordinator was killed come out of the same records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

from agentos.dashboard.key_use import KeyUses
from agentos.dashboard.view import STALLED_SECONDS, Attempt, Call, ItemView, Note, RunState, RunView, Span
from agentos.events import (
    BudgetNoticed,
    CallFinished,
    CallStarted,
    ControlTaken,
    ItemEnded,
    ItemNoticed,
    ItemRetried,
    ItemStalled,
    ItemStarted,
    ItemWaited,
    ItemWaiting,
    KeyCoolingDown,
    NodeFinished,
    NodeStarted,
    ParallelismChanged,
    PoolExhausted,
    PoolResumed,
    RunEnded,
    RunFaulted,
    RunStarted,
    Stamped,
    StopRequested,
    Warned,
)
from agentos.preflight import PreflightDone
from agentos.reporters.summary import speed_up_of
from agentos.text.words import listed


def view_of(records: Iterable[Stamped], *, is_live: bool, now: datetime | None = None) -> RunView:
    """The run that these records tell of, in their order."""
    fold = RunFold()
    for stamped in records:
        fold.add(stamped)
    return fold.view(is_live=is_live, now=now)


class RunFold:
    """Takes a run's records one by one, and says at any time how it stands."""

    def __init__(self, nodes_of: Callable[[str], Sequence[str]] = lambda _workflow: ()) -> None:
        """`nodes_of` gives the nodes of a workflow in their order, as far as they are known beforehand."""
        self._nodes_of = nodes_of
        self._view = RunView()
        self._keys = KeyUses(self._view.key_uses)
        self._began: datetime | None = None
        self._is_stopping = self._has_ended = False
        self._waits_for_keys = False

    def add(self, stamped: Stamped) -> None:
        """The next record. One that this version knows nothing about changes nothing."""
        view, event = self._view, stamped.event
        at = self._seconds(stamped.time)
        view.last_at, view.last_sequence = max(view.last_at, at), stamped.sequence
        match event:
            case RunStarted():
                self._begin(stamped, event)
            case PreflightDone(models=models, keys=keys):
                view.models, view.keys = models, keys
                self._keys.know(event, stamped.sequence)
            case ParallelismChanged(now=parallel, reason=reason):
                view.parallel, view.parallel_reason = parallel, reason
                self._note(at, f"{parallel} at a time: {reason}")
            case PoolExhausted(kind=kind):
                # Busy keys hold up one item or another; limits hold up the run.
                self._waits_for_keys = kind == "limited" and not event.waiting
                if self._waits_for_keys and event.seconds is not None:
                    self._keys.exhausted(at + event.seconds, stamped.sequence)
            case PoolResumed(waited_seconds=seconds):
                self._waits_for_keys = False
                self._keys.resumed(stamped.sequence)
                self._note(at, f"waited {seconds:.0f} s for keys")
            case KeyCoolingDown():
                self._cool(at, stamped.sequence, event)
            case ControlTaken():
                self._steered(at, event)
            case StopRequested(reason=reason):
                self._is_stopping, view.stop_reason = True, reason
                self._note(at, f"stopping: {reason}")
            case RunFaulted(reason=text) | Warned(text=text):
                self._note(at, text)
            case BudgetNoticed(spent_usd=spent, budget_usd=budget, day=str(day)) if day:
                self._note(at, f"${spent:.2f} of ${budget:.2f} spent on {day} by everything with this home")
            case BudgetNoticed(spent_usd=spent, budget_usd=budget, needed_usd=needed):
                view.needed_usd = needed
                self._note(at, f"${spent:.2f} of ${budget:.2f} spent")
            case RunEnded():
                self._end(event)
            case _:
                self._of_item(at, stamped)

    def view(self, *, is_live: bool, now: datetime | None = None) -> RunView:
        """The run as it stands. It is the fold's own, and changes with the next record and the next look.

        Without `now`, as it stood when its last record was written; that is also as far as a dead run goes.
        """
        view = self._view
        view.state = self._state(is_live=is_live)
        if view.state is RunState.LOST:
            self._cut_off()
        view.elapsed = max(view.last_at, self._since_start(now)) if now and not view.is_over else view.last_at
        is_silent = view.elapsed - view.last_at >= STALLED_SECONDS
        if view.state is RunState.RUNNING and is_silent and view.slots:
            view.state = RunState.STALLED
        return view

    def _state(self, *, is_live: bool) -> RunState:
        if self._has_ended:
            return RunState.DONE
        if not is_live:
            return RunState.LOST
        if self._is_stopping:
            return RunState.STOPPING
        if self._view.paused_by:
            return RunState.PAUSED
        return RunState.WAITING if self._waits_for_keys else RunState.RUNNING

    def _begin(self, stamped: Stamped, event: RunStarted) -> None:
        view = self._view
        view.run_id, view.started = stamped.run_id, stamped.time
        view.workflow, view.project_dir = event.workflow, event.project_dir
        view.stages, view.stages_changed = list(self._nodes_of(event.workflow)), stamped.sequence
        view.parallel = view.wanted = view.first_parallel = event.parallel
        view.budget_usd = event.budget_usd
        titles = event.titles if len(event.titles) == len(event.items) else ("",) * len(event.items)
        view.items = {
            item_id: ItemView(item_id, f"{event.label_prefix}{item_id}", title, place, changed=stamped.sequence)
            for place, (item_id, title) in enumerate(zip(event.items, titles, strict=True))
        }
        view.latest_items = dict(view.items)

    def _end(self, event: RunEnded) -> None:
        self._has_ended, self._view.exit_code = True, event.exit_code
        self._view.wall_seconds = event.wall_seconds
        self._view.speed_up = speed_up_of(event) or None

    def _of_item(self, at: float, stamped: Stamped) -> None:
        event = stamped.event
        item = self._view.items.get(getattr(event, "item_id", ""))
        if item is None:
            return
        self._changed(item)
        match event:
            case ItemStarted():
                self._start(item, at, event)
            case NodeStarted(node=node):
                self._enter(item, at, node)
            case NodeFinished(node=node):
                self._close(item.spans, at, node, is_done=True)
            case CallStarted():
                item.calling_since.append(at)
                self._keys.started(event, stamped.sequence)
            case CallFinished():
                self._call(item, at, event)
            case ItemWaiting(cause=cause, seconds=seconds):
                self._close(item.waits, at)
                self._open(item.waits, item, item.node, max(0.0, at - seconds), cause)
            case ItemWaited():
                self._close(item.waits, at)
            case ItemRetried(reason=reason):
                item.notices.append(f"attempt {event.attempt}: {reason}")
                self._leave(item, at, reason)
            case ItemNoticed(text=text):
                item.notices.append(text)
            case ItemStalled(silent_seconds=seconds):
                item.notices.append(f"no sign of life for {seconds:.0f} s")
            case ItemEnded():
                self._leave(item, at, event.reason)
                _end(item, event)

    def _cut_off(self) -> None:
        """Nobody is left to put on record how anything ended: what was under way ended with the last record."""
        for item_id in self._view.slots.values():
            item = self._view.items[item_id]
            if item.tries and item.tries[-1].end is None:
                self._stand_still(item, self._view.last_at, "the coordinator's process died")

    def _changed(self, item: ItemView) -> None:
        item.changed = self._view.last_sequence
        self._view.latest_items[item.id] = self._view.latest_items.pop(item.id)

    def _start(self, item: ItemView, at: float, event: ItemStarted) -> None:
        if item.slot is not None:
            self._leave(item, at, "")  # How it went on is not on record.
        item.outcome, item.attempts, item.reason = None, event.attempt, ""
        item.cluster_node = event.cluster_node
        item.started = at if item.started is None else item.started
        item.tries.append(Attempt(event.attempt, at, resumed_after=event.resumed_after or ""))
        slots = self._view.slots
        item.slot = next(slot for slot in range(len(slots) + 1) if slot not in slots)
        slots[item.slot] = item.id
        self._open(item.waits, item, "", at, "start")

    def _enter(self, item: ItemView, at: float, node: str) -> None:
        self._close(item.waits, at)
        if node not in self._view.stages:
            self._view.stages.append(node)
            self._view.stages_changed = self._view.last_sequence
        self._open(item.spans, item, node, at, "node")

    def _leave(self, item: ItemView, at: float, reason: str) -> None:
        """Its attempt is over, and its place free."""
        self._stand_still(item, at, reason)
        if item.slot is not None:
            del self._view.slots[item.slot]
            item.slot = None

    def _stand_still(self, item: ItemView, at: float, reason: str) -> None:
        self._close(item.spans, at)
        self._close(item.waits, at)
        item.calling_since.clear()
        self._keys.item_left(item.id, self._view.last_sequence)
        if item.tries and item.tries[-1].end is None:
            item.tries[-1].end, item.tries[-1].reason = at, reason

    def _call(self, item: ItemView, at: float, event: CallFinished) -> None:
        view = self._view
        if item.calling_since:
            item.calling_since.pop(0)
        call = Call(
            max(0.0, at - event.seconds),
            event.node,
            event.model,
            event.key_name,
            event.waited_seconds,
            event.seconds,
            event.outcome,
            event.input_tokens,
            event.output_tokens,
            event.cost_usd,
        )
        item.calls.append(call)
        item.input_tokens += call.input_tokens
        item.output_tokens += call.output_tokens
        item.cost_usd += call.cost_usd
        if call.cost_usd:
            view.spending.append((at, call.cost_usd))
        if self._keys.finished(at, event, view.last_sequence):
            view.limited_at.append(at)

    def _cool(self, at: float, sequence: int, event: KeyCoolingDown) -> None:
        if not self._keys.has_calls:
            self._view.limited_at.append(at)  # A record of an earlier version: it tells of no calls.
        self._keys.cooling(at, event, sequence)

    def _open(self, spans: list[Span], item: ItemView, node: str, at: float, kind: str) -> None:
        view = self._view
        slot = item.slot or 0
        span = Span(node, at, None, kind, item.id, slot, len(view.spans), changed=view.last_sequence)
        view.spans.append(span)
        view.latest_spans[span.number] = span
        spans.append(span)

    def _close(self, spans: list[Span], at: float, node: str = "", *, is_done: bool = False) -> None:
        view = self._view
        for span in spans:
            if span.end is None and node in ("", span.node):
                span.end, span.is_done, span.changed = max(at, span.start), is_done, view.last_sequence
                view.latest_spans[span.number] = view.latest_spans.pop(span.number)
                view.ended_seconds[span.kind, bool(span.node)] += span.end - span.start

    def _steered(self, at: float, event: ControlTaken) -> None:
        view = self._view
        match event.act:
            case "pause":
                view.paused_by, view.pause_reason = event.by, event.reason
            case "resume":
                view.paused_by = view.pause_reason = ""
            case "budget":
                view.budget_usd, view.needed_usd = event.value, None
            case "parallel" if event.value is not None:
                view.wanted = int(event.value)
            case "stop" if event.target in view.items:
                view.items[event.target].is_withdrawn = True
                self._changed(view.items[event.target])
            case "retry":
                for item in filter(None, map(view.items.get, event.reopened)):
                    item.is_withdrawn = False
                    item.outcome = item.started = None
                    item.reason = item.error_type = item.traceback = ""
                    self._changed(item)
        value = "" if event.value is None else f"{event.value:g}"
        too = f"with {listed(event.dependents)}" if event.dependents else ""
        words = " ".join(filter(None, [event.act, event.target, too, value]))
        self._note(at, f"{words}, by {event.by}{f': {event.reason}' if event.reason else ''}")

    def _note(self, at: float, text: str) -> None:
        self._view.notes.append(Note(at, text, self._view.last_sequence))

    def _seconds(self, stamp: str) -> float:
        try:
            moment = datetime.fromisoformat(stamp)
        except ValueError:
            return self._view.last_at
        if self._began is None:
            self._began = moment
        return self._since_start(moment)

    def _since_start(self, moment: datetime) -> float:
        if self._began is None or (moment.tzinfo is None) != (self._began.tzinfo is None):
            return self._view.last_at
        return max(0.0, (moment - self._began).total_seconds())


def _end(item: ItemView, event: ItemEnded) -> None:
    item.outcome, item.reason, item.seconds = event.outcome, event.reason, event.seconds
    item.error_type, item.traceback = event.error_type, event.traceback
    item.attempts = event.attempts
    # Calls tell of all attempts, the end of the last one; earlier versions have no calls on record.
    item.input_tokens = max(item.input_tokens, event.input_tokens)
    item.output_tokens = max(item.output_tokens, event.output_tokens)
    item.cost_usd = max(item.cost_usd, event.cost_usd)

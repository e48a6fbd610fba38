"""The life of one attempt at an item, from its start to its worker's end."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agentos.engine.backends.protocol import Backend, WorkerExit
from agentos.engine.item_end import FinalMessage, GivenUp, Hold
from agentos.engine.item_watch import ItemWatch, TimeLimits
from agentos.engine.lease_server import ItemUsage
from agentos.engine.loop import Loop, Timer
from agentos.engine.messages import (
    CustomData,
    Heartbeat,
    ItemDone,
    ItemFailed,
    ItemOpened,
    ItemStopped,
    NodeReady,
    Proceed,
    StopItem,
)
from agentos.engine.plan import Item
from agentos.engine.stopping import GRACE
from agentos.events import (
    ChildrenLeaked,
    CustomWritten,
    ItemNoticed,
    ItemStalled,
    ItemStarted,
    ItemWaited,
    ItemWaiting,
    Listener,
    NodeFinished,
    NodeStarted,
)
from agentos.outcomes import Cause

ItemMessage = ItemOpened | NodeReady | CustomData | Heartbeat | ItemDone | ItemFailed | ItemStopped

HoldNode = Callable[[str, str], Hold | None]
"""Item id and node to why the node must not start now; None when it may."""


def hold_nothing(_item_id: str, _node: str) -> None:
    """Every node may start."""


class ItemRun:
    """Lets each node start, watches the item's time, and keeps what `decide_end` needs to know."""

    def __init__(
        self,
        item: Item,
        attempt: int,
        backend: Backend,
        loop: Loop,
        emit: Listener,
        *,
        limits: TimeLimits,
        hold_node: HoldNode,
        on_at_work: Callable[[], None],
        is_unread: Callable[[], bool],
        is_paused: Callable[[], bool] = lambda: False,
    ) -> None:
        """`on_at_work` is called once, when the first node has been let start.

        While `is_paused`, no node starts; `go_on` lets the one start that has waited.
        """
        self.item = item
        self.attempt = attempt
        self.given_up: GivenUp | None = None
        self.held: Hold | None = None
        """Why its next node was not let start."""
        self.skipped_because = ""
        """A person does not want it any more."""
        self.is_stopping = False
        self.is_at_work = False
        """Its first node has been let start."""
        self.has_opened = False
        """What it finds when it comes back is its own."""
        self.final_message: FinalMessage | None = None
        self.other_machine = ""
        """Where its worker ended, unless that is this machine."""
        self.usage = ItemUsage()
        self._backend = backend
        self._loop = loop
        self._emit = emit
        self._limits = limits
        self._hold_node = hold_node
        self._on_at_work = on_at_work
        self.is_unread = is_unread
        self._is_paused = is_paused
        self._waiting_node: str | None = None
        self._paused_at = 0.0
        self.node = ""
        """What it does now, or did last."""
        self.watch = ItemWatch(item.id, loop, limits, self, lambda: backend.is_suspended(item.id))
        self._exit_timer: Timer | None = None

    def take(self, message: ItemMessage) -> None:
        """What its worker says of the item itself."""
        if self.given_up is not None:
            return
        self.watch.hear()
        match message:
            case ItemOpened() if not self.has_opened:
                self._opened(message)
            case ItemOpened():
                pass  # A worker says it once: its item's time does not begin anew.
            case NodeReady(node=node, finished=finished):
                self._nodes_finished(finished)
                if not self.is_stopping:
                    self._start_or_hold(node)
            case CustomData(node=node, data=data):
                self._emit(CustomWritten(item_id=self.item.id, node=node, data=data))
            case Heartbeat():
                pass
            case ItemDone() | ItemFailed() | ItemStopped():
                self._ends(message)

    def go_on(self) -> None:
        """The run is no longer paused."""
        node, self._waiting_node = self._waiting_node, None
        if node is not None and not self.is_stopping:
            self.watch.wait_for_person(False)
            seconds = round(self._loop.now() - self._paused_at, 3)
            self._emit(ItemWaited(item_id=self.item.id, cause="paused", seconds=seconds))
            self._start_or_hold(node)

    def stop(self) -> None:
        """At the next safe point; its last checkpoint stands."""
        self.is_stopping = True
        self._backend.send(self.item.id, StopItem())

    def kill(self) -> None:
        """Because the run stops."""
        self.is_stopping = True
        self._backend.kill(self.item.id)

    def give_up(self, why: GivenUp) -> None:
        """Through its own fault, whatever it says from here on: its worker is killed."""
        self.given_up = why
        self.final_message = None
        self.watch.close()
        self._backend.kill(self.item.id)

    def worker_gone(self, end: WorkerExit) -> None:
        self.watch.close()
        if self._exit_timer is not None:
            self._exit_timer.cancel()
        if end.fault:
            self.given_up = GivenUp(Cause.CRASHED, end.fault)
        # The children of an item that we ended go with it; those of one that ended by itself it should have ended.
        if end.leaked and not (self.given_up or self.is_stopping):
            self._emit(ChildrenLeaked(item_id=self.item.id, pids=end.leaked))

    def _opened(self, message: ItemOpened) -> None:
        self.has_opened = True
        self._emit(
            ItemStarted(
                item_id=self.item.id,
                attempt=self.attempt,
                pid=message.pid,
                resumed_after=message.resumed_after,
                cluster_node=self._backend.node_of(self.item.id),
            )
        )
        if message.notice:
            self._emit(ItemNoticed(item_id=self.item.id, text=message.notice))
        self.watch.begin()

    def _start_or_hold(self, node: str) -> None:
        item_id = self.item.id
        if self._is_paused():
            self._waiting_node = node
            self._paused_at = self._loop.now()
            self.watch.wait_for_person(True)
            self._emit(ItemWaiting(item_id=item_id, cause="paused"))
            return
        self.held = self.held or self._hold_node(item_id, node)
        if self.held is not None:
            self._backend.send(item_id, StopItem())
            return
        self.node = node
        self._emit(NodeStarted(item_id=item_id, node=node))
        self._backend.send(item_id, Proceed())
        if not self.is_at_work:
            self.is_at_work = True
            self._on_at_work()

    def _nodes_finished(self, finished: Sequence[tuple[str, float]]) -> None:
        for node, seconds in finished:
            self._emit(NodeFinished(item_id=self.item.id, node=node, seconds=seconds))

    def _ends(self, message: FinalMessage) -> None:
        self.final_message = message
        self.other_machine = self._backend.node_of(self.item.id) if self._backend.is_elsewhere(self.item.id) else ""
        self.watch.close()
        if not isinstance(message, ItemStopped):
            self._nodes_finished(message.finished)
        # It has nothing left to do but to exit.
        self._exit_timer = self._loop.after(GRACE.worker, lambda: self._backend.kill(self.item.id))

    def suspended(self, item_id: str) -> None:
        self._emit(ItemNoticed(item_id=item_id, text="suspended; its time limit waits"))

    def timed_out(self, item_id: str) -> None:
        self.give_up(GivenUp(Cause.TIMED_OUT, f"timed out after {self._limits.timeout_seconds:g} s"))

    def stalled(self, item_id: str, silent_seconds: float) -> None:
        self._emit(ItemStalled(item_id=item_id, silent_seconds=round(silent_seconds, 1)))
        self.give_up(GivenUp(Cause.STALLED, f"stalled: no sign of life for {silent_seconds:.0f} s"))

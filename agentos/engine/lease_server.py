"""The desk between workers and the keys: carries asks and leases, wakes waiters, watches the key file.

Also where the keys' state acts on the run: fewer usable keys, fewer items at once; no money or no quota, stop.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from agentos.engine.loop import Loop, Timer
from agentos.engine.messages import (
    DownMessage,
    LeaseAsk,
    LeaseCancel,
    LeaseGranted,
    LeaseRefused,
    LeaseReturn,
)
from agentos.errors import AgentosError, BudgetReachedError, ExitCode, UsageError
from agentos.events import Listener, ParallelismChanged, Warned
from agentos.keys.credentials import CredentialSet, load_credentials
from agentos.keys.service import Ask, Granted, KeyService
from agentos.keys.wire import evidence_from_data
from agentos.paths import credentials_path
from agentos.providers.evidence import Succeeded

_FILE_CHECK_SECONDS = 1.0
_FEWEST_SLOTS = 2
"""With fewer usable keys than this, more items at once would only wait for each other."""


class RunControl(Protocol):
    """What the desk may ask of the run."""

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


class KeyDesk:
    """All calls come from the loop."""

    def __init__(
        self,
        service: KeyService,
        control: RunControl,
        loop: Loop,
        emit: Listener,
        *,
        parallel: int,
        max_wait_seconds: float | None = None,
        load: Callable[[], CredentialSet] = load_credentials,
        key_file: Path | None = None,
        on_reload: Callable[[CredentialSet], None] = lambda _credentials: None,
    ) -> None:
        self._service = service
        self._control = control
        self._loop = loop
        self._emit = emit
        self._wanted = self._parallel = parallel
        self._max_wait_seconds = max_wait_seconds
        self._load = load
        self._key_file = key_file or credentials_path()
        self._on_reload = on_reload
        self._file_state = self._stat()
        self._wake_timer: Timer | None = None
        self._file_timer: Timer | None = None
        self._usage: dict[str, ItemUsage] = defaultdict(ItemUsage)
        self._is_stopping = False
        self._has_counted_slots = False
        self._had_waiting = False

    def take(self, item_id: str, message: LeaseAsk | LeaseCancel | LeaseReturn) -> None:
        """A worker's message about a key."""
        match message:
            case LeaseAsk():
                # Also when nobody waits: a key that is no longer rejected must not be refused.
                self._reload_if_changed()
                self._service.ask(
                    Ask(
                        owner=item_id,
                        ticket=message.ticket,
                        provider=message.provider,
                        model=message.model,
                        estimated_tokens=message.estimated_tokens,
                        estimated_cost_usd=message.estimated_cost_usd,
                    )
                )
            case LeaseCancel(ticket=ticket):
                self._service.cancel(item_id, ticket)
            case LeaseReturn():
                self._take_back(item_id, message)
        self._pump()

    def worker_gone(self, item_id: str) -> ItemUsage:
        """Its leases serve others from now on. Returns what the item has consumed."""
        self._service.drop_owner(item_id)
        self._pump()
        return self._usage.pop(item_id, ItemUsage())

    def close(self) -> None:
        for timer in (self._wake_timer, self._file_timer):
            if timer is not None:
                timer.cancel()
        if self._service.has_business:
            self._service.save()

    def _take_back(self, item_id: str, message: LeaseReturn) -> None:
        evidence = evidence_from_data(message.evidence)
        if isinstance(evidence, Succeeded):
            usage = self._usage[item_id]
            usage.input_tokens += evidence.usage.input_tokens
            usage.output_tokens += evidence.usage.output_tokens
            usage.cost_usd += evidence.usage.cost_usd or 0.0
        self._service.give_back(message.key_name, message.fence, evidence)
        self._follow_keys(has_success=isinstance(evidence, Succeeded))

    def _pump(self) -> None:
        for delivery in self._service.pump():
            if isinstance(delivery, Granted):
                lease = delivery.lease
                message: DownMessage = LeaseGranted(
                    ticket=delivery.ticket,
                    key_name=lease.key_name,
                    fence=lease.fence,
                    provider=lease.provider,
                    model=lease.model,
                    secret=lease.secret,
                )
                self._control.send(delivery.owner, message)
            else:
                self._refuse(delivery.owner, delivery.ticket, delivery.error)
        waiting = self._service.waiting_owners
        if waiting or self._had_waiting:
            self._had_waiting = bool(waiting)
            self._control.waiting_changed(waiting)
            self._check_patience()
            self._plan_wake()
            self._plan_file_check()

    def _refuse(self, owner: str, ticket: int, error: AgentosError) -> None:
        if isinstance(error, BudgetReachedError):
            # The item keeps its checkpoint and goes on with more money: stopped, not failed.
            self._stop("budget reached", str(error), ExitCode.BUDGET_REACHED)
            return
        message = LeaseRefused(ticket=ticket, exit_code=int(error.exit_code), message=str(error))
        self._control.send(owner, message)

    def _check_patience(self) -> None:
        if self._max_wait_seconds is None:
            return
        wait = self._service.longest_wait_seconds()
        if wait > self._max_wait_seconds:
            words = f"the next key opens in {wait:.0f} s, longer than --max-wait {self._max_wait_seconds:g} s"
            self._stop("quota gone", words, ExitCode.QUOTA_GONE)

    def _stop(self, reason: str, words: str, exit_code: ExitCode) -> None:
        """Said once, however many calls wait."""
        if not self._is_stopping:
            self._is_stopping = True
            self._emit(Warned(text=words))
            self._control.request_stop(reason, exit_code=exit_code)

    def _follow_keys(self, *, has_success: bool) -> None:
        """Fewer than two usable keys: one item at a time. They are back: one more with each call that goes well."""
        if has_success and self._has_counted_slots and self._parallel == self._wanted:
            return  # A call that went well takes no slot away.
        self._has_counted_slots = True
        slots = self._service.usable_slots()
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
        if self._wake_timer is not None:
            self._wake_timer.cancel()
            self._wake_timer = None
        seconds = self._service.seconds_to_wake()
        if seconds is not None:
            # A little late rather than early: early would find the limit still standing, and come again.
            self._wake_timer = self._loop.after(seconds + 0.002, self._pump)

    def _plan_file_check(self) -> None:
        """While somebody waits: whoever asks looks by himself."""
        if self._service.waiting_owners and self._file_timer is None:
            self._file_timer = self._loop.after(_FILE_CHECK_SECONDS, self._check_file)

    def _check_file(self) -> None:
        self._file_timer = None
        self._reload_if_changed()
        self._pump()

    def _reload_if_changed(self) -> None:
        state = self._stat()
        if state != self._file_state:
            self._file_state = state
            self._reload()

    def _reload(self) -> None:
        try:
            credentials = self._load()
        except UsageError as error:
            self._emit(Warned(text=f"the changed keys are not used: {error}"))
            return
        self._on_reload(credentials)
        self._service.reload(credentials)
        self._has_counted_slots = False
        count = sum(1 for credential in credentials.credentials if credential.secret)
        self._emit(Warned(text=f"{self._key_file.name} changed: {count} key{'' if count == 1 else 's'} now"))

    def _stat(self) -> tuple[int, int, int] | None:
        try:
            status = self._key_file.stat()
        except OSError:
            return None
        return status.st_mtime_ns, status.st_size, status.st_ino

"""Which broker leases keys to the model calls of this process: the one that was set, else one of the user's keys."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from agentos.environment import environment
from agentos.keys.leases import LeaseBroker
from agentos.keys.redaction import Redactor

if TYPE_CHECKING:
    from agentos.keys.local_broker import LocalBroker

MAX_WAIT_SECONDS = 15 * 60.0
"""A script has nobody who watches it wait: a limit that ends later than this is an error."""

_broker: LeaseBroker | None = None
_mask: Callable[[str], str] = str
_local: LocalBroker | None = None
_local_redactor = Redactor()
_local_lock = threading.Lock()


def set_broker(broker: LeaseBroker | None, *, mask: Callable[[str], str] = str) -> None:
    """Lease keys from `broker` in this process from now on; None goes back to the user's own keys.

    `mask` hides keys in text that is about to be written to disk.
    """
    global _broker, _mask
    _broker, _mask = broker, mask


def masked(text: str) -> str:
    """The text without the user's keys, as far as this process knows them."""
    if _broker is None and _local is not None:
        return _local_redactor.redact_text(text)
    return _mask(text)


def current_broker() -> LeaseBroker:
    """The broker that was set; outside a run, a local one, made when it is first asked for."""
    global _local
    if _broker is not None:
        return _broker
    with _local_lock:
        if _local is None:
            _local = _make_local_broker()
        return _local


def forget_local_broker() -> None:
    """Read the keys again at the next call."""
    global _local, _local_lock
    _local, _local_lock = None, threading.Lock()


def _make_local_broker() -> LocalBroker:
    # A worker never needs these.
    from agentos.keys.broker import KeyBroker  # noqa: PLC0415
    from agentos.keys.credentials import load_credentials, load_salt  # noqa: PLC0415
    from agentos.keys.day_budget import day_budget  # noqa: PLC0415
    from agentos.keys.key_file import KeyFile  # noqa: PLC0415
    from agentos.keys.local_broker import LocalBroker  # noqa: PLC0415
    from agentos.keys.memory import LimitMemory  # noqa: PLC0415
    from agentos.keys.refusals import Patience  # noqa: PLC0415
    from agentos.keys.send_log import SendLog  # noqa: PLC0415
    from agentos.keys.shared_pool import shared_pool  # noqa: PLC0415
    from agentos.llm.keyless import with_keyless  # noqa: PLC0415
    from agentos.settings import load_own_settings  # noqa: PLC0415

    usd_per_day = load_own_settings(environment()).budget.usd_per_day
    key_file = KeyFile(load=lambda: with_keyless(load_credentials()))
    credentials = with_keyless(load_credentials())
    _local_redactor.add(credentials.secrets.values())
    return LocalBroker(
        lambda emit: KeyBroker(
            credentials,
            emit=emit,
            memory=LimitMemory(),
            sends=SendLog(),
            salt=load_salt(),
            pool=shared_pool(credentials, load_salt()),
            day_budget=day_budget(usd_per_day),
            patience=Patience(MAX_WAIT_SECONDS, f"the {MAX_WAIT_SECONDS / 60:g} minutes that a call waits"),
            key_file=key_file,
            on_reload=lambda changed: _local_redactor.add(changed.secrets.values()),
        )
    )


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=forget_local_broker)

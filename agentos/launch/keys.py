"""The keys that a run has, and what serves them to its workers."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from agentos.database import URL_VARIABLES
from agentos.engine.done_notes import notes_of
from agentos.engine.gateway import RunGateway
from agentos.engine.lease_server import LeaseServer, RunControl
from agentos.engine.loop import Loop
from agentos.engine.store_patience import StorePatience
from agentos.events import Listener
from agentos.keys.broker import KeyBroker
from agentos.keys.budget import Budget
from agentos.keys.credentials import LIMIT_VARIABLE, CredentialSet, load_credentials, load_salt, scrubbed
from agentos.keys.day_budget import day_budget
from agentos.keys.key_file import KeyFile
from agentos.keys.memory import LimitMemory
from agentos.keys.redaction import Redactor
from agentos.keys.refusals import Patience
from agentos.keys.send_log import SendLog
from agentos.launch.request import RunRequest
from agentos.llm.keyless import with_keyless

if TYPE_CHECKING:
    from agentos.keys.shared_pool import SharedPool


class RunKeys:
    """The user's keys as the run begins, and what must not be seen of them."""

    def __init__(self, request: RunRequest) -> None:
        own = load_credentials(environ=request.environment)
        self.credentials = own if request.credentials is None else request.credentials
        self._all = (_without_limit(own, request.environment), self.credentials)
        self._called = request.preload_providers
        self.memory = LimitMemory()
        self.redactor = Redactor([*(s for each in self._all for s in each.secrets.values()), *request.secrets])

    @property
    def providers(self) -> list[str]:
        return list(dict.fromkeys(spec.provider for spec in self.credentials.specs))

    @property
    def warnings(self) -> list[str]:
        called = self._called
        unset = [each.reason for each in self.credentials.missing if called is None or each.spec.provider in called]
        return [*self.credentials.warnings, *unset, *self.memory.warnings]

    def scrub(self, environment: Mapping[str, str]) -> dict[str, str]:
        """The environment without keys, nor the address of the database: workers are sent that in a message."""
        scrubbed_environment = {name: value for name, value in environment.items() if name not in URL_VARIABLES}
        for each in self._all:
            scrubbed_environment = scrubbed(scrubbed_environment, each)
        return scrubbed_environment


def make_lease_server(
    request: RunRequest,
    keys: RunKeys,
    loop: Loop,
    control: RunControl,
    emit: Listener,
    gateway: RunGateway,
    store_patience: StorePatience,
) -> LeaseServer:
    priorities = {item.id: item.priority for item in request.plan.items}
    own_file = KeyFile(load=lambda: with_keyless(load_credentials(environ=request.environment)))
    broker = KeyBroker(
        with_keyless(keys.credentials),
        emit=emit,
        memory=keys.memory,
        sends=SendLog() if keys.credentials.credentials else None,
        salt=load_salt() if keys.credentials.credentials else b"",
        pool=_shared_pool(keys) if keys.credentials.credentials else None,
        budget=_budget(request, store_patience),
        day_budget=day_budget(request.settings.budget.usd_per_day),
        patience=_patience(request.max_wait_seconds),
        key_file=own_file if request.credentials is None else None,
        priority_of=lambda owner: priorities.get(owner, 0),
        on_reload=lambda changed: keys.redactor.add(changed.secrets.values()),
    )
    return LeaseServer(
        broker,
        control,
        loop,
        emit,
        parallel=request.parallel,
        needed_models=request.needed_models,
        gateway=gateway,
    )


def _shared_pool(keys: RunKeys) -> SharedPool | None:
    from agentos.keys.shared_pool import shared_pool  # noqa: PLC0415  Only whoever has keys shares a pool.

    return shared_pool(with_keyless(keys.credentials), load_salt())


def _budget(request: RunRequest, store_patience: StorePatience) -> Budget | None:
    """With what the runs that this one resumes have spent."""
    if request.budget_usd is None:
        return None
    notes = notes_of(request.project_dir, request.workflow)
    if request.fresh:
        notes.forget_spent()

    def note_spent(spent_usd: float) -> None:
        # What cannot be noted is counted for this run at least.
        def note() -> None:
            with suppress(OSError):
                notes.note_spent(spent_usd)

        store_patience.when_it_answers(note)

    return Budget(request.budget_usd, notes.spent_usd(), note_spent)


def _patience(max_wait_seconds: float | None) -> Patience | None:
    return None if max_wait_seconds is None else Patience(max_wait_seconds, f"--max-wait {max_wait_seconds}")


def _without_limit(credentials: CredentialSet, environ: Mapping[str, str]) -> CredentialSet:
    """Keys that AGENTOS_CREDENTIAL_LIMIT keeps out of the pool are secrets all the same."""
    if not environ.get(LIMIT_VARIABLE):
        return credentials
    return load_credentials(environ={name: value for name, value in environ.items() if name != LIMIT_VARIABLE})

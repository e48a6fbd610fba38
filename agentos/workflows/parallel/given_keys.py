"""The keys of a caller's pool in the hands of a run in processes: whose they are, taken before, given back after."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from agentos.errors import UsageError
from agentos.events import Event, KeyCoolingDown
from agentos.keys.credentials import Credential, CredentialSet, load_credentials
from agentos.keys.faults import Credentials
from agentos.keys.key_spec import KeySpec
from agentos.providers.model_name import ModelName
from agentos.providers.registry import default_model, providers
from agentos.settings import Settings
from agentos.workflows.registry import Workflow


def provider_of_keys(workflow: Workflow, settings: Settings, environ: Mapping[str, str]) -> str:
    """Who the keys are for: the one provider that the run calls. Empty when it calls none, as far as we can tell.

    The keys themselves do not say, and no provider may see another's. Raises UsageError when that leaves a choice.
    """
    if workflow.models:
        chosen = [getattr(settings.models, role) for role in workflow.models]
        own = default_model({spec.provider for spec in load_credentials().specs})
        models = [model for model in chosen if model] or [own]
    else:
        models = [environ.get("AGENTOS_MODEL", "") or "offline"]
    if not all(models):
        raise UsageError(
            "The keys given do not say which provider they are for: name a model as models.drafter in agentos.toml."
        )
    called = sorted({ModelName.parse(model).provider for model in models} & set(providers()))
    if len(called) > 1:
        raise UsageError(
            f"The keys given are of one provider, and the models of {' and '.join(called)}: choose models of one."
        )
    return called[0] if called else ""


class GivenKeys:
    """Keys that were taken from a pool, and what the run learns of them."""

    def __init__(self, secrets: list[str], provider: str) -> None:
        self._secrets = {str(number): secret for number, secret in enumerate(secrets, start=1)}
        self._provider = provider
        self._limited_until: dict[str, float] = {}

    def credentials(self) -> CredentialSet:
        """As the run takes them."""
        specs = [KeySpec(name=name, provider=self._provider, group=name) for name in self._secrets]
        return CredentialSet(tuple(Credential(spec, self._secrets[spec.name]) for spec in specs))

    def note(self, event: Event) -> None:
        if isinstance(event, KeyCoolingDown):
            self._limited_until[event.key_name] = time.monotonic() + event.seconds

    def give_back(self, pool: Credentials) -> None:
        for name, secret in self._secrets.items():
            seconds = self._limited_until.get(name, 0.0) - time.monotonic()
            if seconds > 0:
                pool.release(secret, rate_limited=True, backoff_seconds=seconds)
            else:
                pool.release(secret)


@contextmanager
def taken_from(pool: Credentials, provider: str) -> Iterator[GivenKeys]:
    """Every key of the pool that is free now, at least one: waits for it. Limits it met go back with a key."""
    secrets: list[str] = []
    try:
        first = pool.acquire()
        while first is not None:
            secrets.append(first)
            first = pool.acquire(timeout=0.0)
        if not secrets:
            raise UsageError("The pool that was given has no keys: give it some, or leave it out to use your own.")
        keys = GivenKeys(secrets, provider)
    except BaseException:
        for secret in secrets:
            pool.release(secret)
        raise
    try:
        yield keys
    finally:
        keys.give_back(pool)

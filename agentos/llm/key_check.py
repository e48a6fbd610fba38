"""Tries keys out: one cheap call with each through the real client, and what its answer says of the key."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any, assert_never

from agentos.errors import UsageError
from agentos.keys.credentials import Credential, CredentialSet, load_salt
from agentos.keys.leases import Lease
from agentos.keys.memory import LimitMemory
from agentos.keys.pool import KeyPool
from agentos.llm.attempts import without_secret
from agentos.llm.calls import preload, sdk
from agentos.llm.cancellation import Cancellation
from agentos.llm.conversation import Message
from agentos.llm.types import Attempted, Request
from agentos.providers.evidence import (
    KEY_STATES,
    Abandoned,
    Evidence,
    KeyTrouble,
    NotServed,
    Overloaded,
    QuotaSpent,
    RateLimited,
    RequestFailed,
    Succeeded,
    TransportFailed,
)
from agentos.providers.model_name import ModelName
from agentos.providers.registry import providers

_AT_ONCE = 8
_TIMEOUT_SECONDS = 30.0
_MOST_OUTPUT_TOKENS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What one call showed of a key."""

    name: str
    provider: str
    group: str
    result: str
    """`valid`, `rate_limited`, `out_of_quota`, `rejected`, or `unknown` when the provider could not be asked."""
    is_usable: bool
    model: str
    note: str = ""
    refusal: str = ""
    """What the provider says when it lets the key in and refuses the request, most often for the model's name."""

    def to_document(self) -> dict[str, Any]:
        return asdict(self)


def refusal_of(credential: Credential, model: str) -> tuple[int | None, str]:
    """The status and the words with which a call of the model is refused; none when it is not. Remembers nothing."""
    attempted = _call(credential, ModelName.parse(model))
    match attempted.evidence:
        case RequestFailed(status=status) | NotServed(status=status):
            return status, _refusal(attempted)
        case _:
            return None, ""


def check_keys(credentials: CredentialSet, models: Sequence[str] = ()) -> list[Checked]:
    """One call with each key, a few at once. What is learned is remembered. `models` replace the cheap ones."""
    chosen = _models(models)
    # All before the first call: while an SDK loads, connections that others wait for would time out.
    preload([each.spec.provider for each in credentials.credentials])
    with ThreadPoolExecutor(max_workers=_AT_ONCE, thread_name_prefix="key-check") as threads:
        attempts = list(threads.map(lambda each: _call(each, chosen[each.spec.provider]), credentials.credentials))
    _remember(credentials, [attempted.evidence for attempted in attempts], chosen)
    return [
        _checked(credential, attempted, chosen[credential.spec.provider])
        for credential, attempted in zip(credentials.credentials, attempts, strict=True)
    ]


def _models(given: Sequence[str]) -> dict[str, ModelName]:
    models = {each.name: ModelName(each.name, each.check_model) for each in providers().values()}
    for text in given:
        name = ModelName.parse(text)
        if name.provider not in models:
            raise UsageError(f"--model {text!r}: {name.provider} has no keys to check.")
        models[name.provider] = name
    return models


def _call(credential: Credential, model: ModelName) -> Attempted:
    messages = (Message("user", "Say ok."),)
    request = Request(
        model=model, messages=messages, timeout_seconds=_TIMEOUT_SECONDS, max_output_tokens=_MOST_OUTPUT_TOKENS
    )
    lease = Lease(
        key_name=credential.spec.name, fence=0, provider=model.provider, model=model.model, secret=credential.secret
    )
    if not model.model:
        return Attempted(evidence=RequestFailed(reason=f"no model to try it with: --model {model.provider}:MODEL"))
    attempted: Attempted = sdk(model.provider).send(request, messages, None, lease, Cancellation())
    return without_secret(attempted, credential.secret)


def _remember(credentials: CredentialSet, evidence: Sequence[Evidence], models: dict[str, ModelName]) -> None:
    memory, marks = LimitMemory(), credentials.fingerprints(load_salt())
    pool = KeyPool(credentials.specs, rng=random.Random())
    now = time.time()
    for spec, found in zip(credentials.specs, evidence, strict=True):
        if isinstance(found, Succeeded):
            # The newest word on the key itself; limits of other models stand.
            memory.lift_rejection(marks[spec.name])
        pool.note(now, spec.name, models[spec.provider].model, found)
    limits = pool.export_limits()
    for spec in credentials.specs:
        limits.setdefault(spec.name, {"models": {}}).update(new_calls=1, last_used=now)
    memory.save(limits, marks, now=now)


def _checked(credential: Credential, attempted: Attempted, model: ModelName) -> Checked:
    result, note = result_and_note(attempted.evidence)
    if result != "valid" and attempted.detail:
        note = f"{note}: {attempted.detail}" if note else attempted.detail
    spec = credential.spec
    return Checked(
        name=spec.name,
        provider=spec.provider,
        group=spec.group,
        result=result,
        is_usable=is_usable(attempted.evidence),
        model=str(model),
        note=note,
        refusal=_refusal(attempted),
    )


def _refusal(attempted: Attempted) -> str:
    match attempted.evidence:
        case RequestFailed(status=int() as status) | NotServed(status=int() as status):
            return attempted.detail or f"status {status}"
        case _:
            return ""


def is_usable(evidence: Evidence) -> bool:
    """Whether the key serves calls now, or will when its limit ends by itself."""
    match evidence:
        case QuotaSpent(never_resets=never_resets):
            return not never_resets
        case RequestFailed(status=status) | NotServed(status=status):
            return status is not None
        case _:
            return isinstance(evidence, Succeeded | RateLimited)


def result_and_note(evidence: Evidence) -> tuple[str, str]:
    """What `agentos keys check` calls it, and what the user should know beside."""
    match evidence:
        case Succeeded():
            return "valid", ""
        case RateLimited(retry_after_seconds=seconds):
            return KEY_STATES[RateLimited].name, "" if seconds is None else f"back in {seconds:.0f} s"
        case RequestFailed(status=None, reason=reason):
            return "unknown", reason
        case RequestFailed(status=status) | NotServed(status=status):
            # The key was let in; what is wrong is the request, most often a model this account does not have.
            return "valid", f"though the call failed with status {status}: try --model"
        case KeyTrouble():
            return KEY_STATES[type(evidence)].name, evidence.reason
        case Overloaded():
            return "unknown", "the provider is overloaded"
        case TransportFailed(reason=reason):
            return "unknown", reason
        case Abandoned():
            return "unknown", ""
        case _:
            assert_never(evidence)

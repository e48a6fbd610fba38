"""The key client: leases a key for each attempt at a provider and owns every retry of a model call."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import replace
from urllib.parse import urlsplit

from agentos.errors import NoOtherKeyError
from agentos.keys.leases import Ask, Lease, LeaseBroker
from agentos.keys.redaction import redactor_of
from agentos.llm import pricing, settings
from agentos.llm.broker_choice import current_broker
from agentos.llm.cancellation import Cancellation
from agentos.llm.errors import ModelNotServedError, ModelRequestError, ProviderUnavailableError
from agentos.llm.retries import Failures, GiveUp, RetryPolicy, TryAgain, after_failure
from agentos.llm.types import Attempted, Completion, Request
from agentos.providers.evidence import (
    Abandoned,
    Evidence,
    KeyTrouble,
    NotServed,
    Overloaded,
    QuotaSpent,
    RequestFailed,
    TransportFailed,
)
from agentos.text.words import one_line

Attempt = Callable[[Lease], Attempted]
"""Asks the provider once. Given the lease, not its secret: a lease can be shown in a traceback."""

# What an answer is reserved at, and bounded by if there is a budget, when the caller gives no bound: long documents
# with what a model thinks beforehand are about this long.
USUAL_OUTPUT_TOKENS = 8192

retry_policy = RetryPolicy()
_calls = itertools.count(1)


def complete(request: Request, attempt: Attempt, cancellation: Cancellation) -> Completion:
    """An answer, however many keys and attempts it takes.

    Limits and rejected keys are the broker's to route around; it raises when no key can help. A busy or silent
    provider is tried a bounded number of times. What one account will not serve is tried with another's key before
    it is the request's fault. Each lease is released exactly once, whatever happens.
    """
    broker = current_broker()
    failures = Failures()
    ask = _ask(request)
    unserved: Attempted | None = None
    while True:
        cancellation.check()
        try:
            lease = broker.acquire(ask)
        except NoOtherKeyError as error:
            raise (_error(request, unserved, 1) if unserved else error) from None
        attempted = _attempt_with_lease(broker, lease, attempt, cancellation)
        if attempted.completion is not None:
            return attempted.completion
        if isinstance(attempted.evidence, NotServed):
            unserved, ask = attempted, replace(ask, refused_by=(*ask.refused_by, lease.key_name))
        if attempted.has_begun:
            raise _cut_off(request, attempted)
        match after_failure(attempted, failures, retry_policy, random.random()):
            case TryAgain(delay_seconds=delay_seconds, failures=failures):
                cancellation.wait(delay_seconds)
            case GiveUp(attempts=attempts):
                raise _error(request, attempted, attempts)


def _attempt_with_lease(broker: LeaseBroker, lease: Lease, attempt: Attempt, cancellation: Cancellation) -> Attempted:
    evidence: Evidence = Abandoned()
    try:
        cancellation.check()
        attempted = _quotable(without_secret(attempt(lease), lease.secret))
        evidence = attempted.evidence
        return attempted
    finally:
        broker.release(lease, evidence)


def _ask(request: Request) -> Ask:
    input_tokens = pricing.estimate_tokens(request.text)
    output_tokens = request.max_output_tokens or USUAL_OUTPUT_TOKENS
    return Ask(
        provider=request.model.provider,
        model=request.model.model,
        estimated_tokens=input_tokens,
        estimated_cost_usd=pricing.estimated_cost_usd(
            request.model, pricing.most_tokens(request.text), output_tokens
        ),
        most_output_tokens=output_tokens,
        has_fallback=request.has_fallback,
        call=next(_calls),
    )


def _quotable(attempted: Attempted) -> Attempted:
    """What is said of money is worth repeating when no key is left. Of keys nothing is: it may hold parts of one."""
    if isinstance(attempted.evidence, QuotaSpent):
        return replace(attempted, evidence=replace(attempted.evidence, words=_reason(attempted.detail)))
    return attempted


def without_secret(attempted: Attempted, secret: str) -> Attempted:
    """Providers quote what they were sent; nothing that is kept of a failure repeats the key, in whatever form."""
    evidence = attempted.evidence
    if not secret or not isinstance(evidence, KeyTrouble | TransportFailed | RequestFailed | Overloaded):
        return attempted
    masked = redactor_of(secret).redact_text
    if not isinstance(evidence, Overloaded):
        evidence = replace(evidence, reason=masked(evidence.reason))
    return replace(attempted, evidence=evidence, detail=masked(attempted.detail))


def _error(request: Request, attempted: Attempted, attempts: int) -> ModelRequestError | ProviderUnavailableError:
    model = request.model
    match attempted.evidence:
        case RequestFailed(status=status, reason=reason) | NotServed(status=status, reason=reason) as refused:
            answered = f" with status {status}" if status is not None else ""
            why = _reason(attempted.detail or reason) or "no reason given"
            kind = ModelNotServedError if isinstance(refused, NotServed) else ModelRequestError
            return kind(f"{model} refused the request{answered}: {why}.")
        case TransportFailed(reason=reason):
            what = f"{_address(model.provider)}did not answer: {_reason(reason) or 'connection failed'}"
        case _:
            # A request that always makes a server fail looks the same as one that is busy: its own words tell more.
            said = _reason(attempted.detail)
            what = f"could not answer: {said}" if said else "is overloaded"
    return ProviderUnavailableError(f"{model} {what} ({attempts} attempts); run again later to resume.")


def _cut_off(request: Request, attempted: Attempted) -> ProviderUnavailableError:
    """Asked again, the model would begin another answer: what was handed on cannot be taken back."""
    reason = _reason(getattr(attempted.evidence, "reason", "")) or "the stream broke off"
    return ProviderUnavailableError(f"{request.model} stopped in the middle of its answer: {reason}.")


def _address(provider: str) -> str:
    """Where the call went, when that is not the provider's own address: nobody may listen there."""
    url = settings.base_url(provider)
    parts = urlsplit(url or "")
    return f"at {parts.scheme}://{parts.netloc.rpartition('@')[2]} " if parts.netloc else ""


def _reason(text: str) -> str:
    return one_line(text, 300).rstrip(".")

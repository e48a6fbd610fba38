"""What AgentOS knows of one provider: the record that a file of this package fills in."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import httpx2
    from pydantic_ai.models import Model

    from agentos.providers.evidence import Evidence, LearnedLimit
    from agentos.providers.replies import ErrorReply


@dataclass(frozen=True, slots=True)
class SampleReply:
    """A reply as the provider sends it, for calls that never leave this machine."""

    body: Mapping[str, Any] = field(default_factory=dict)
    events: Sequence[Mapping[str, Any]] = ()
    """A stream of these instead of a body."""
    headers: Mapping[str, str] = field(default_factory=dict)

    def encoded(self) -> tuple[dict[str, str], bytes]:
        """Headers and content."""
        content_type, text = "application/json", json.dumps(self.body)
        if self.events:
            content_type = "text/event-stream"
            text = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in self.events)
        return {**self.headers, "content-type": content_type}, text.encode()


@dataclass(frozen=True, slots=True)
class ModelLookup:
    """How to ask a provider whether it has a model, without calling the model."""

    base_url: str
    """Where, unless the user names another address."""
    path: str
    """With `{model}` in it."""
    headers: Mapping[str, str]
    """With `{key}` in one of them."""


def tells_no_limits(headers: Mapping[str, str], now: float | None) -> tuple[LearnedLimit, ...]:
    return ()


def claims_no_errors(error: Mapping[str, Any]) -> bool:
    return False


def takes_any_answer(document: Mapping[str, Any]) -> str:
    return ""


def takes_any_end(event: object) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a provider is called."""

    base_url: str | None = None
    """None leaves it to the SDK."""
    api_version: str = ""
    """Of providers that want one in every request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """A provider of models that are called with a key, or without one on the user's own machine.

    Keys never reach an SDK: it is given a placeholder, and the HTTP client writes the leased key over it on the wire.
    """

    name: str
    """As in `provider:model` and `agentos keys add --provider`."""
    rank: int = 100
    """Place in lists; with keys of several providers and no model chosen, the first one's default model is used."""
    extra: str
    """What to install: `pip install '.[extra]'` in the clone of AgentOS."""
    sdk_module: str = ""
    """The module that comes with it, by which it is seen to be installed without loading it."""
    key_variables: tuple[str, ...]
    """Environment variables a key is read from when credentials.toml has none of this provider."""
    needs_key: bool = True
    """A local server is called without one, unless the user gives it one."""
    max_concurrent: int = 4
    """Calls at once without a key. A key has its own number."""
    base_url: str | None = None
    """Where calls go unless the user names another address; None leaves it to the SDK."""
    needs_base_url: bool = False
    """There is no address that serves everybody: the user has one of their own."""
    api_version: str = ""
    """Unless the user names another one; empty where requests carry none."""
    default_model: str = ""
    """Empty where no model is there for everybody: then a model must be chosen."""
    check_model: str = ""
    """A cheap one, for `agentos keys check`. Empty: `keys check --model` names one."""
    quota_owner: str
    """What the provider counts quota by: keys of one such owner belong to one group."""
    price_list: str = ""
    """Whose list in genai-prices has its models, if that has another name."""
    tpm_counts: str = "tokens"
    """What a configured `tpm` bounds: all tokens, or `input_tokens` where the provider counts them apart."""
    day_zone: str = "UTC"
    """Where the midnight is at which a daily quota is whole again."""
    day_offset_hours: int = 0
    """The zone's standard time, for machines without a time zone database."""

    model_lookup: ModelLookup | None = None
    """None where there is no such question: a wrong name is then told by the first call."""

    connect: Callable[[str, Endpoint, httpx2.AsyncClient], Any]
    """(placeholder key, where, HTTP client) to the SDK's client. Imports the SDK; opens no connection."""
    build_model: Callable[[str, Any], Model]
    """(model, SDK client) to a model that can be asked."""

    read_error: Callable[[ErrorReply], Evidence]
    """What a failed reply says, by its fields and never by what its text contains."""
    read_limits: Callable[[Mapping[str, str], float | None], tuple[LearnedLimit, ...]] = tells_no_limits
    """(headers in lower case, the time) to the limits that a good or bad reply tells."""
    is_own_error: Callable[[Mapping[str, Any]], bool] = claims_no_errors
    """Whether an error object is this provider's, though it came through another's endpoint."""

    answer_problem: Callable[[Mapping[str, Any]], str | Mapping[str, Any]] = takes_any_answer
    """What keeps a body of status 200 from being a whole answer: words, or the error object inside of it."""
    ends_stream: Callable[[object], bool] = takes_any_end
    """Whether this event of a stream, as parsed JSON or as text, is its regular end."""

    sample_answer: SampleReply
    """An answer to any request, to warm up the SDK."""
    sample_rate_limit: SampleReply
    """A refusal to try again in a second, for AGENTOS_SIMULATE_429."""


def base_url_variable(provider: str) -> str:
    """The environment variable that sends a provider's calls to another address."""
    return f"AGENTOS_PROVIDERS__{provider.upper()}__BASE_URL"

"""The chat completions API as others than OpenAI speak it: what their files and the user's own declarations share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from agentos.providers import openai
from agentos.providers.evidence import Evidence, RateLimited
from agentos.providers.provider import Endpoint, Provider, tells_no_limits

if TYPE_CHECKING:
    import httpx2
    from pydantic_ai.profiles import ModelProfile

    from agentos.providers.evidence import LearnedLimit
    from agentos.providers.replies import ErrorReply

Profiles = Callable[[], "ModelProfile | Callable[[str], ModelProfile | None] | None"]
"""What the SDK machinery knows of a provider's models. Imports it."""


class Own(TypedDict, total=False):
    """What one of them has of its own; see `Provider`."""

    rank: int
    key_variables: tuple[str, ...]
    needs_key: bool
    base_url: str | None
    needs_base_url: bool
    default_model: str
    check_model: str
    quota_owner: str
    price_list: str
    read_error: Callable[[ErrorReply], Evidence]
    read_limits: Callable[[Mapping[str, str], float | None], tuple[LearnedLimit, ...]]
    is_own_error: Callable[[Mapping[str, Any]], bool]


def no_profiles() -> None:
    """The one that all models of compatible services share."""


def compatible(name: str, profiles: Profiles = no_profiles, **own: Unpack[Own]) -> Provider:
    """A provider that is called like OpenAI. It tells no limits, unless it says how it does."""

    def connect(placeholder_key: str, endpoint: Endpoint, http: httpx2.AsyncClient) -> Any:
        from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider  # noqa: PLC0415

        assert endpoint.base_url is not None
        return OpenAICompatibleProvider(
            name, base_url=endpoint.base_url, api_key=placeholder_key, http_client=http, profile=profiles()
        )

    read_limits = own.get("read_limits", tells_no_limits)
    read_own_error = own.get("read_error", openai.read_error)

    def read_error(reply: ErrorReply) -> Evidence:
        evidence = read_own_error(reply)
        if isinstance(evidence, RateLimited):
            return replace(evidence, limits=read_limits(reply.headers, reply.now))
        return evidence

    fields: Own = {
        "key_variables": (key_variable(name),),
        "quota_owner": f"{name} account",
        "read_limits": read_limits,
        **own,
        "read_error": read_error,
    }
    return Provider(
        name=name,
        extra="openai",
        sdk_module="openai",
        connect=connect,
        build_model=openai.build_model,
        answer_problem=openai.answer_problem,
        ends_stream=openai.ends_stream,
        sample_answer=openai.SAMPLE_ANSWER,
        sample_rate_limit=openai.SAMPLE_RATE_LIMIT,
        **fields,
    )


def key_variable(name: str) -> str:
    """Where the key of a provider of this name is read from."""
    return f"{name.upper()}_API_KEY"

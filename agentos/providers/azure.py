"""Azure OpenAI: the model is the name of a deployment, the address that of the user's own resource."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agentos.providers import openai
from agentos.providers.evidence import Evidence, NotServed, QuotaSpent
from agentos.providers.provider import Endpoint
from agentos.providers.replies import ErrorReply

if TYPE_CHECKING:
    import httpx2

OUT_OF_CALLS = re.compile(
    r"Out of call volume quota\.(?: Quota will be replenished in (?:(\d+)\.)?(\d+):(\d+):(\d+))?"
)
"""Of the API management in front of it, which users also reach as `openai` with another address."""


def connect(placeholder_key: str, endpoint: Endpoint, http: httpx2.AsyncClient) -> Any:
    from pydantic_ai.providers.azure import AzureProvider  # noqa: PLC0415

    return AzureProvider(
        azure_endpoint=endpoint.base_url,
        api_version=endpoint.api_version or None,
        api_key=placeholder_key,
        http_client=http,
    )


def is_own_error(error: Mapping[str, Any]) -> bool:
    message = error.get("message")
    return isinstance(message, str) and OUT_OF_CALLS.match(message) is not None


def read_error(reply: ErrorReply) -> Evidence:
    if reply.status == 403 and (volume := OUT_OF_CALLS.match(reply.message)):
        days, hours, minutes, seconds = (int(part or 0) for part in volume.groups())
        wait = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
        return QuotaSpent(resets_in_seconds=float(wait) or None, reason="out_of_call_volume")
    if reply.status == 404 and reply.token("code") == "DeploymentNotFound":
        # Each resource has its own deployments: another key may have it.
        return NotServed(status=404, reason="DeploymentNotFound")
    return openai.read_error(reply)


PROVIDER = replace(
    openai.PROVIDER,
    name="azure",
    rank=30,
    key_variables=("AZURE_OPENAI_API_KEY",),
    needs_base_url=True,
    api_version="2024-10-21",
    default_model="",
    check_model="",
    quota_owner="Azure OpenAI resource",
    model_lookup=None,
    connect=connect,
    read_error=read_error,
    is_own_error=is_own_error,
)

"""Vertex AI: Gemini in a Google Cloud project, with an API key of that project."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agentos.providers import google
from agentos.providers.provider import Endpoint

if TYPE_CHECKING:
    import httpx2


def connect(placeholder_key: str, endpoint: Endpoint, http: httpx2.AsyncClient) -> Any:
    from pydantic_ai.providers.google_cloud import GoogleCloudProvider  # noqa: PLC0415

    from agentos.providers.google_client import client  # noqa: PLC0415

    return GoogleCloudProvider(client=client(placeholder_key, endpoint, http, vertexai=True))


PROVIDER = replace(
    google.PROVIDER,
    name="vertex",
    rank=31,
    key_variables=("VERTEX_API_KEY",),
    base_url="https://aiplatform.googleapis.com",
    default_model="",
    check_model="gemini-2.5-flash-lite",
    quota_owner="Google Cloud project",
    price_list="google",
    day_zone="UTC",
    day_offset_hours=0,
    model_lookup=None,
    connect=connect,
)

"""The client of Google's SDK, for its API and for Vertex AI."""

# All modules here are loaded by each command, which needs none of this.
# ruff: noqa: PLC0415

from __future__ import annotations

from typing import TYPE_CHECKING

from agentos.providers.provider import Endpoint

if TYPE_CHECKING:
    import httpx2
    from google.genai import Client


def client(placeholder_key: str, endpoint: Endpoint, http: httpx2.AsyncClient, *, vertexai: bool) -> Client:
    """With one way out, which is `http`.

    For its two others, a synchronous client and a socket, the SDK would read all certificates, each time that it is
    made. Nobody takes them: they trust nobody.
    """
    import ssl

    from google.genai import Client
    from google.genai.types import HttpOptions
    from pydantic_ai.models import get_user_agent

    nobody = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    seconds = http.timeout.read
    options = HttpOptions(
        base_url=endpoint.base_url,
        headers={"user-agent": get_user_agent()},
        timeout=None if seconds is None else int(seconds * 1000),
        httpx_async_client=http,
        client_args={"verify": nobody},
        async_client_args={"ssl": nobody},
    )
    return Client(vertexai=vertexai, api_key=placeholder_key, http_options=options)

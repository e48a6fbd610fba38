"""OpenAI: the chat completions API, which many other servers speak as well."""

from __future__ import annotations

from agentos.providers.provider import Provider

PROVIDER = Provider(
    name="openai",
    rank=3,
    key_variables=("OPENAI_API_KEY",),
    default_model="gpt-5.1",
    check_model="gpt-4.1-nano",
    quota_owner="OpenAI organisation",
)

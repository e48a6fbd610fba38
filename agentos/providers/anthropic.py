"""Anthropic: the Claude API."""

from __future__ import annotations

from agentos.providers.provider import Provider

PROVIDER = Provider(
    name="anthropic",
    rank=2,
    key_variables=("ANTHROPIC_API_KEY",),
    default_model="claude-sonnet-5",
    check_model="claude-haiku-4-5",
    quota_owner="Anthropic workspace",
)

"""Google: the Gemini API."""

from __future__ import annotations

from agentos.providers.provider import Provider

PROVIDER = Provider(
    name="google",
    rank=1,
    key_variables=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    default_model="gemini-3-pro",
    check_model="gemini-2.5-flash-lite",
    quota_owner="Google project",
)

"""Groq, by its OpenAI-compatible API."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from agentos.providers.compatible import compatible
from agentos.providers.evidence import LearnedLimit
from agentos.providers.openai import read_limits as read_openai_limits
from agentos.providers.replies import DAY_SECONDS, MINUTE_SECONDS


def read_limits(headers: Mapping[str, str], now: float | None) -> tuple[LearnedLimit, ...]:
    """By its documentation, the header of requests is always the day's and that of tokens the minute's."""
    windows = {"requests": DAY_SECONDS, "tokens": MINUTE_SECONDS}
    return tuple(replace(limit, window_seconds=windows[limit.what]) for limit in read_openai_limits(headers, now))


PROVIDER = compatible(
    "groq",
    rank=11,
    base_url="https://api.groq.com/openai/v1",
    check_model="llama-3.1-8b-instant",
    quota_owner="Groq organisation",
    read_limits=read_limits,
)

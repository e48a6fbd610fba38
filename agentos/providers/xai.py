"""xAI: Grok."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from agentos.providers import openai
from agentos.providers.compatible import compatible
from agentos.providers.evidence import Evidence, QuotaSpent, Rejected
from agentos.providers.replies import ErrorReply

WRONG_KEY = re.compile(r"Incorrect(?: |%20)API(?: |%20)key(?: |%20)provided\b")
"""With a status of 400 and no code of its own."""
NO_CREDIT = re.compile(
    r"Your team [\w-]+ has either used all available credits or reached its monthly spending limit\b"
)
"""With a status of 429 or 403, as if waiting or another model would help."""


def is_own_error(error: Mapping[str, Any]) -> bool:
    """Users also reach it as `openai` with another address. OpenAI says the same with a code."""
    message = error.get("message")
    if not isinstance(message, str) or error.get("code"):
        return False
    return (WRONG_KEY.match(message) or NO_CREDIT.match(message)) is not None


def read_error(reply: ErrorReply) -> Evidence:
    if reply.status == 400 and WRONG_KEY.match(reply.message):
        return Rejected(reason="invalid_api_key")
    if NO_CREDIT.match(reply.message):
        return QuotaSpent(never_resets=True, reason="no_credit")
    return openai.read_error(reply)


PROVIDER = compatible(
    "xai",
    rank=15,
    base_url="https://api.x.ai/v1",
    check_model="grok-4-fast-non-reasoning",
    quota_owner="xAI team",
    price_list="x-ai",
    read_error=read_error,
    read_limits=openai.read_limits,
    is_own_error=is_own_error,
)

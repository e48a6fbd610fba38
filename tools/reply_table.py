"""Writes docs/reference/replies.md: how each known reply is read, and where it is documented. `make docs` runs it."""

from __future__ import annotations

import json
import re
import sys
from collections import defaultdict
from pathlib import Path

from agentos.providers.evidence import (
    Evidence,
    LearnedLimit,
    NotServed,
    Overloaded,
    QuotaSpent,
    RateLimited,
    Rejected,
    RequestFailed,
    TransportFailed,
)
from fakes.replies import CASES, DOCUMENTED, Case

PAGE_PATH = Path(__file__).resolve().parents[1] / "docs" / "reference" / "replies.md"
MOST_BODY_CHARACTERS = 160
HEAD = """\
# How replies of providers are read

Every failed reply that AgentOS is tested with, what it is taken for, and where it is documented or was seen. Written
by `make docs` from the cases of the tests (`fakes/replies.py`); a test keeps it true. Rows without a source of their
own vary fields that the pages above their table describe. What a state means is in [key states](key-states.md).
"""


def page() -> str:
    by_provider: dict[str, list[Case]] = defaultdict(list)
    for case in CASES:
        by_provider[case.provider].append(case)
    return "".join([HEAD, *(_section(provider, cases) for provider, cases in by_provider.items())])


def _section(provider: str, cases: list[Case]) -> str:
    pages = DOCUMENTED.get(provider, ())
    described = f"Described at {' and '.join(f'<{page}>' for page in pages)}.\n\n" if pages else ""
    rows = "".join(map(_row, cases))
    return (
        f"\n## {provider}\n\n{described}| reply | status | body | taken for | source |\n|---|---|---|---|---|\n{rows}"
    )


def _row(case: Case) -> str:
    status = "" if case.status is None else str(case.status)
    cells = (case.name, status, _body(case.body), _meaning(case.expected), _links(case.source))
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |\n"


def _body(body: object) -> str:
    text = body if isinstance(body, str) else "" if body is None else _json(body)
    text = " ".join(text.split()).replace("`", "'")
    return f"`{text[:MOST_BODY_CHARACTERS]}{'…' if len(text) > MOST_BODY_CHARACTERS else ''}`" if text else ""


def _json(body: object) -> str:
    if isinstance(body, bytes):
        return body.decode(errors="replace")
    return json.dumps(body, ensure_ascii=False)


def _links(source: str) -> str:
    return re.sub(r"https://[^\s;]+", lambda link: f"<{link[0]}>", source)


def _meaning(evidence: Evidence) -> str:
    match evidence:
        case RateLimited(retry_after_seconds=seconds, limits=limits):
            wait = "" if seconds is None else f", wait {seconds:g} s"
            return f"rate limit{wait}{_told(limits)}"
        case QuotaSpent(never_resets=True, reason=reason):
            return f"out of quota until you act ({reason})"
        case QuotaSpent(resets_in_seconds=seconds, reason=reason):
            return f"out of quota {'for the day' if seconds is None else f'for {seconds:g} s'} ({reason})"
        case Rejected(reason=reason):
            return f"key rejected ({reason})"
        case NotServed(reason=reason):
            return f"tried with another group's key ({reason})"
        case Overloaded(retry_after_seconds=seconds):
            return "provider overloaded" + ("" if seconds is None else f", wait {seconds:g} s")
        case RequestFailed(reason=reason):
            return f"the request's fault ({reason})"
        case TransportFailed(reason=reason):
            return f"no answer, tried again ({reason})"
        case _:
            return type(evidence).__name__


def _told(limits: tuple[LearnedLimit, ...]) -> str:
    told = ", ".join(f"{limit.value:,} {limit.what} in {limit.window_seconds:g} s" for limit in limits)
    return f"; tells {told}" if told else ""


def main() -> int:
    PAGE_PATH.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

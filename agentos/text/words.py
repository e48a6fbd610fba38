"""Numbers, times and foreign text in words for people."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from agentos.clock import local_minute
from agentos.paths import own_settings_path
from agentos.text.terminal import clean_block

LONGEST_REASON = 400
MOST_NAMES = 10


def one_line(text: str, longest: int = LONGEST_REASON) -> str:
    """Untrusted text as one line that is safe to show: no control characters, no colour, bounded length."""
    # Cut before cleaning too: a message of many megabytes costs no more than a short one.
    flat = " ".join(text[: longest * 8].split())
    if flat.isascii() and flat.isprintable():
        return flat if len(flat) <= longest else flat[: longest - 1] + "…"
    cleaned = clean_block(flat.encode(errors="replace") + b"\n", keep_colour=False).decode(errors="replace")
    shown = " ".join(cleaned.split())
    return shown if len(shown) <= longest else shown[: longest - 1] + "…"


def duration(seconds: float) -> str:
    """How long something took: `12.3s`, `2m 05s`, `1h 02m`; `?` when a damaged record gives no number for it."""
    if not math.isfinite(seconds):
        return "?"
    if seconds < 59.95:
        return f"{max(0.0, seconds):.1f}s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}m {rest:02d}s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h {minutes:02d}m"


def countdown(seconds: float) -> str:
    """How long until something happens, rounded up: `47 s`, `13 min`, `5 h 10 min`."""
    whole = max(1, math.ceil(seconds))
    if whole < 120:
        return f"{whole} s"
    minutes = math.ceil(whole / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


def dollars(amount: float) -> str:
    """`$12.35`; below a dollar as many digits as tell it from nothing: `$0.05`, `$0.0075`, `$0.00002`."""
    if amount >= 1 or amount <= 0:
        return f"${amount:,.2f}"
    digits = max(4, -math.floor(math.log10(amount)))
    whole, _, cents = f"{amount:.{digits}f}".partition(".")
    return f"${whole}.{cents.rstrip('0'):0<2}"


def budget_reached(spent_usd: float, cap_usd: float, estimated_usd: float) -> str:
    """Why the next model call is not made."""
    return (
        f"The budget of {dollars(cap_usd)} is reached: {dollars(spent_usd)} spent, and the next call is "
        f"estimated at {dollars(estimated_usd)}. Resume with a higher --budget."
    )


def day_budget_reached(spent_usd: float, cap_usd: float, estimated_usd: float, day: str) -> str:
    """The same of the cap that all runs, gateways and notebooks of a home have together; `day` is that of UTC."""
    setting = f"usd_per_day under [budget] in {own_settings_path()}"
    if estimated_usd > cap_usd:
        return (
            f"The next call is estimated at {dollars(estimated_usd)}, more than the {dollars(cap_usd)} that "
            f"everything with this home may spend in a day. Raise {setting}, or bound the call's answer."
        )
    return (
        f"The day's budget of {dollars(cap_usd)} for everything with this home is reached: {dollars(spent_usd)} "
        f"spent or reserved, and the next call is estimated at {dollars(estimated_usd)}. Resume after "
        f"{_end_of_day(day)}, or raise {setting}."
    )


def _end_of_day(day: str) -> str:
    try:
        ends = datetime.fromisoformat(day).replace(tzinfo=UTC) + timedelta(days=1)
    except (ValueError, OverflowError):
        return "00:00 UTC"  # A damaged record.
    return f"00:00 UTC, here {local_minute(ends)}"


def counted(number: int, noun: str) -> str:
    """`1 item`, `2 items`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def at_a_time(items: int, parallel: int) -> str:
    """`10 items, 3 at a time`: never more of them than there are."""
    return f"{counted(items, 'item')}, {min(items, parallel)} at a time" if items else "0 items"


def listed(names: Sequence[str], most: int = MOST_NAMES) -> str:
    """Names in a row, the rest as a number when there are many."""
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most:,} more"


def stopwatch(seconds: float) -> str:
    """How long something has been going on: `0:07`, `2:31`, `1:02:05`."""
    minutes, rest = divmod(int(max(0.0, seconds)) if math.isfinite(seconds) else 0, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"

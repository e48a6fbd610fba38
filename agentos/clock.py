"""Moments as text: UTC stamps for records, local time for people."""

from __future__ import annotations

from datetime import UTC, datetime


def utc_now() -> datetime:
    return datetime.now(UTC)


def stamp(instant: datetime, timespec: str = "seconds") -> str:
    """`2026-11-16T12:00:00Z`; with `milliseconds` as events have it."""
    return instant.astimezone(UTC).isoformat(timespec=timespec).replace("+00:00", "Z")


def stamp_of_epoch(seconds: float) -> str:
    return stamp(datetime.fromtimestamp(seconds, UTC))


def local_minute(instant: datetime) -> str:
    """For people, in their own time zone: `2026-11-16 13:00`."""
    return instant.astimezone().strftime("%Y-%m-%d %H:%M")


def local_second(instant: datetime) -> str:
    return instant.astimezone().strftime("%Y-%m-%d %H:%M:%S")

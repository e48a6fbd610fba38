"""A key as everybody but its owner knows it. Light: commands that lease nothing read it too."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class KeySpec:
    """A key as the pool knows it: never its secret. Limits are those of its group, for each model."""

    name: str
    provider: str
    group: str
    max_concurrent: int = 1
    rpm: int | None = None
    tpm: int | None = None
    rpd: int | None = None

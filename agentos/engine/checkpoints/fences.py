"""The fences that this process holds: what it writes to a shared database carries them."""

from __future__ import annotations

from typing import NamedTuple


class ClaimRef(NamedTuple):
    """What a claim is on: an item of a project in a database."""

    url: str
    project: str
    name: str


_held: dict[ClaimRef, int] = {}


def hold(claim: ClaimRef, fence: int) -> None:
    _held[claim] = fence


def let_go(claim: ClaimRef) -> None:
    _held.pop(claim, None)


def held(claim: ClaimRef) -> int:
    """0 when this process has not taken it."""
    return _held.get(claim, 0)

"""Deques in the order of time, into which something older may come late. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")


def insert_in_order(line: deque[_T], entry: _T, time_of: Callable[[_T], float]) -> None:
    """Behind all that is not later. Near the end, where nearly all belongs, it costs next to nothing."""
    at, later = time_of(entry), []
    while line and time_of(line[-1]) > at:
        later.append(line.pop())
    line.append(entry)
    line.extend(reversed(later))

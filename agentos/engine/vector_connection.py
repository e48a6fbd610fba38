"""A connection to SQLite that compares vectors also where Python's `sqlite3` cannot load `sqlite-vec`."""

from __future__ import annotations

import math
import sqlite3
from array import array
from contextlib import suppress
from operator import mul


class VectorConnection(sqlite3.Connection):
    """LangGraph's store loads the extension for its one function, `vec_distance_cosine`.

    Many Pythons are built without that: then the function is ours, and slower.
    """

    def enable_load_extension(self, enable: bool, /) -> None:
        with suppress(AttributeError):
            super().enable_load_extension(enable)

    def load_extension(self, name: str, /, *, entrypoint: str | None = None) -> None:
        try:
            super().load_extension(name)
        except (AttributeError, sqlite3.Error):
            self.create_function("vec_distance_cosine", 2, cosine_distance, deterministic=True)


def cosine_distance(one: bytes, other: bytes) -> float | None:
    """Of two vectors in 32-bit floats; None if one has no direction."""
    first, second = array("f", one), array("f", other)
    lengths = math.sqrt(_product(first, first) * _product(second, second))
    return 1.0 - _product(first, second) / lengths if lengths else None


def _product(one: array[float], other: array[float]) -> float:
    product: float = sum(map(mul, one, other))
    return product

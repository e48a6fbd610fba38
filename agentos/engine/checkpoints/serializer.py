"""What a state is saved as: in LangGraph's own format where that gives it back as it was, else pickled.

LangGraph's format gives back tuples as lists, a `Counter` as a dict, and of models whose class is not at the top of a
module, or that hold a subclass of what they declare, only their fields. An item that resumes must not notice.
"""

from __future__ import annotations

import dataclasses
import importlib
import io
import logging
import operator
import pickle
import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.types import Interrupt, Send

_SCALARS = (type(None), bool, float, str, bytes)
_LARGEST_INTEGER = 1 << 63
_PLAIN_OBJECTS = ("langchain_core.messages.", "langchain_core.documents.")
"""Where classes are whose fields tell all of them."""
_TELLS_OF_TYPES = logging.getLogger("langgraph.checkpoint.serde.jsonplus")


class ItemSerializer(JsonPlusSerializer):
    """Masks keys that a node has put into its state. Masks keep lengths: it can still be read."""

    def __init__(self, redact: Callable[[bytes], bytes]) -> None:
        super().__init__(pickle_fallback=True)
        self._redact = redact

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        kind, data = self._dumped(obj)
        return kind, self._redact(data)

    def _dumped(self, obj: Any) -> tuple[str, bytes]:
        # Of a checkpoint, what is beside the values is LangGraph's own.
        values = obj["channel_values"] if isinstance(obj, dict) and "channel_values" in obj else obj
        if not self._survives(values):
            try:
                return "pickle", _pickled(obj)
            except Exception:
                pass  # A class inside a function, say: LangGraph may still know a way, or say why not.
        return super().dumps_typed(obj)

    def _survives(self, value: Any) -> bool:
        try:
            return self._is_given_back(value)
        except RecursionError:
            return False

    def _is_given_back(self, value: Any) -> bool:
        kind = type(value)
        if kind in _SCALARS:
            return True
        if kind is int:
            return bool(-_LARGEST_INTEGER <= value < _LARGEST_INTEGER)
        if kind is dict:
            return all(type(key) in (str, int) for key in value) and all(map(self._is_given_back, value.values()))
        if kind in (list, set, frozenset, deque):
            return getattr(value, "maxlen", None) is None and all(map(self._is_given_back, value))
        if kind is tuple:
            # How LangGraph saves questions; as a list they are as good.
            return bool(value) and all(type(each) is Interrupt and self._is_given_back(each.value) for each in value)
        if kind is Send:
            return self._is_given_back(value.arg)
        if kind.__module__.startswith(_PLAIN_OBJECTS):
            return all(map(self._is_given_back, vars(value).values()))
        return kind.__module__.startswith("langgraph.") or self._comes_back(value)

    def _comes_back(self, value: Any) -> bool:
        """By trying it."""
        try:
            with _in_silence():
                # Inside of something else, as it will be: alone, some values are saved in a way of their own.
                return _is_same([value], self.loads_typed(super().dumps_typed([value])))
        except Exception:
            return False


class _Pickler(pickle.Pickler):
    """Finds classes that are not where their names say: `Page[int]`, and `Answer = create_model("Reply", ...)`."""

    def reducer_override(self, obj: Any) -> Any:
        if not isinstance(obj, type) or "<locals>" in obj.__qualname__:
            return NotImplemented
        generic = getattr(obj, "__pydantic_generic_metadata__", None)
        if generic and generic["origin"] is not None:
            return operator.getitem, (generic["origin"], generic["args"])
        known_as = vars(sys.modules.get(obj.__module__, object))
        if "." in obj.__qualname__ or known_as.get(obj.__name__) is obj:
            return NotImplemented
        name = next((name for name, value in known_as.items() if value is obj), None)
        return NotImplemented if name is None else (_class_of, (obj.__module__, name))


def _class_of(module: str, name: str) -> Any:
    return getattr(importlib.import_module(module), name)


def _pickled(value: Any) -> bytes:
    buffer = io.BytesIO()
    _Pickler(buffer).dump(value)
    return buffer.getvalue()


@contextmanager
def _in_silence() -> Iterator[None]:
    """Nobody resumes here: what LangGraph says of types when it reads a checkpoint is not to be said."""
    before, _TELLS_OF_TYPES.disabled = _TELLS_OF_TYPES.disabled, True
    try:
        yield
    finally:
        _TELLS_OF_TYPES.disabled = before


def _is_same(one: Any, other: Any) -> bool:
    """Equal, and of the same types all the way down."""
    if type(one) is not type(other):
        return False
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(_is_same, one, other))
    if isinstance(one, dict):
        return list(one) == list(other) and all(_is_same(value, other[key]) for key, value in one.items())
    if hasattr(one, "__pydantic_private__"):
        parts = ("__dict__", "__pydantic_private__", "__pydantic_extra__")
        return all(_is_same(getattr(one, part), getattr(other, part)) for part in parts)
    if dataclasses.is_dataclass(one):
        names = [each.name for each in dataclasses.fields(one)]
        return all(_is_same(getattr(one, name), getattr(other, name)) for name in names)
    return bool(one == other)

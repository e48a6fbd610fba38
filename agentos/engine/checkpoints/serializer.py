"""What a state is saved as: in LangGraph's own format where that gives it back as it was, else pickled.

LangGraph's format gives back tuples as lists, a `Counter` as a dict, a named time zone as an offset, what is no
character of Unicode as `?`, and of models whose class is not at the top of a module, or that hold a subclass of what
they declare, only their fields. An item that resumes must not notice; where that cannot be, it does not resume.
"""

from __future__ import annotations

import dataclasses
import json
import logging
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import ormsgpack
from langgraph.checkpoint.serde import jsonplus
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.types import Interrupt, Send

from agentos.engine.checkpoints.saved_classes import ClassGone, SavedClasses, saved_class
from agentos.errors import CannotContinueError

_SCALARS = (type(None), bool, float, bytes)
_LARGEST_INTEGER = 1 << 63
_PLAIN_OBJECTS = ("langchain_core.messages.", "langchain_core.documents.")
"""Where classes are whose fields tell all of them."""
_ALWAYS_MADE = ("langchain_core.", "langgraph.")
"""Where classes are that nobody changes between a kill and a resume: not worth another try."""
_TELLS_OF_TYPES = logging.getLogger("langgraph.checkpoint.serde.jsonplus")


_PARTLY = "partly"
"""A value that cannot be saved whole, in LangGraph's format: good enough for the process that has saved it."""
_NAMED_KINDS = frozenset(
    {
        jsonplus.EXT_CONSTRUCTOR_SINGLE_ARG,
        jsonplus.EXT_CONSTRUCTOR_POS_ARGS,
        jsonplus.EXT_CONSTRUCTOR_KW_ARGS,
        jsonplus.EXT_METHOD_SINGLE_ARG,
        jsonplus.EXT_PYDANTIC_V1,
        jsonplus.EXT_PYDANTIC_V2,
    }
)
"""How LangGraph saves what is of a class: as its module, its name and its parts."""


class NotSavedWhole(CannotContinueError):
    """Of a saved value, a part is missing that went with the process that had it."""


class ItemSerializer(JsonPlusSerializer):
    """Masks keys that a node has put into its state. Masks keep lengths: it can still be read."""

    def __init__(self, redact: Callable[[bytes], bytes], last_node: Callable[[], str | None] = lambda: None) -> None:
        """`last_node` is the one that has finished last, for what is said of a state that cannot be read."""
        super().__init__(pickle_fallback=True)
        self._redact = redact
        self._last_node = last_node
        self._classes = SavedClasses()

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        kind, data = self._dumped(obj)
        return kind, self._redact(data)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """Raises ClassGone or NotSavedWhole when the value would not be what it was."""
        kind, saved = data
        try:
            if kind == "pickle":
                return self._classes.unpickled(saved)
            if kind == _PARTLY:
                return super().loads_typed(("msgpack", self._own_part(saved)))
            value = super().loads_typed(data)
            if kind == "msgpack":
                self._refuse_other_classes(saved)
            return value
        except CannotContinueError as error:
            raise type(error)(f"{self._where()} holds {error} Run with --fresh to start over.") from None

    def _dumped(self, obj: Any) -> tuple[str, bytes]:
        # Of a checkpoint, what is beside the values is LangGraph's own.
        values = obj["channel_values"] if isinstance(obj, dict) and "channel_values" in obj else obj
        if self._survives(values):
            return super().dumps_typed(obj)
        try:
            return "pickle", self._classes.pickled(obj)
        except RecursionError:
            return super().dumps_typed(obj)
        except Exception as error:
            # LangGraph may still know a way that is as good as long as this process lives, or say why not.
            _msgpack, data = super().dumps_typed(obj)
            header = {"owner": self._classes.owner, "why": str(error)}
            return _PARTLY, json.dumps(header).encode() + b"\n" + data

    def _own_part(self, saved: bytes) -> bytes:
        text, _, data = saved.partition(b"\n")
        header = json.loads(text)
        if header["owner"] != self._classes.owner:
            raise NotSavedWhole(f"a value that could be saved only in part ({header['why']}).")
        return data

    def _refuse_other_classes(self, saved: bytes) -> None:
        """LangGraph gives the parts of what it cannot make again, and says so in a log at most."""
        lost: list[tuple[str, str]] = []

        def look(code: int, data: bytes) -> Any:
            parts = ormsgpack.unpackb(data, ext_hook=look, option=ormsgpack.OPT_NON_STR_KEYS)
            if code in _NAMED_KINDS and not self._is_made_again(code, data, parts[0], parts[1]):
                lost.append((parts[0], parts[1]))
            return None

        with _in_silence():
            ormsgpack.unpackb(saved, ext_hook=look, option=ormsgpack.OPT_NON_STR_KEYS)
        if lost:
            raise ClassGone.named(*lost[0])

    def _is_made_again(self, code: int, data: bytes, module: str, name: str) -> bool:
        try:
            maker = saved_class(module, name)
        except ClassGone:
            return False
        if module.startswith(_ALWAYS_MADE) or not isinstance(maker, type):
            return True
        return isinstance(self._unpack_ext_hook(code, data), maker)

    def _where(self) -> str:
        node = self._last_node()
        return f"the state after node {node!r}" if node else "the item's state"

    def _survives(self, value: Any) -> bool:
        try:
            return self._is_given_back(value)
        except RecursionError:
            return False

    def _is_given_back(self, value: Any) -> bool:
        kind = type(value)
        if kind in _SCALARS:
            return True
        if kind is str:
            return _is_text(value)
        if kind is int:
            return bool(-_LARGEST_INTEGER <= value < _LARGEST_INTEGER)
        if kind is dict:
            keys = all(type(key) in (str, int) and self._is_given_back(key) for key in value)
            return keys and all(map(self._is_given_back, value.values()))
        if kind in (list, set, frozenset, deque):
            return getattr(value, "maxlen", None) is None and all(map(self._is_given_back, value))
        if kind is tuple:
            # How LangGraph saves questions; as a list they are as good.
            return bool(value) and all(type(each) is Interrupt and self._is_given_back(each.value) for each in value)
        if kind is Send:
            return self._is_given_back(value.arg)
        if kind.__module__.startswith(_PLAIN_OBJECTS):
            return all(map(self._is_given_back, vars(value).values()))
        return self._comes_back(value)

    def _comes_back(self, value: Any) -> bool:
        """By trying it."""
        try:
            with _in_silence():
                # Inside of something else, as it will be: alone, some values are saved in a way of their own.
                return _is_same([value], super().loads_typed(super().dumps_typed([value])))
        except Exception:
            return False


def _is_text(value: str) -> bool:
    """Not so the name of a file that is no UTF-8, as Python gives it."""
    if value.isascii():
        return True
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


@contextmanager
def _in_silence() -> Iterator[None]:
    """Nobody resumes here: what LangGraph says of types when it reads a checkpoint is not to be said."""
    before, _TELLS_OF_TYPES.disabled = _TELLS_OF_TYPES.disabled, True
    try:
        yield
    finally:
        _TELLS_OF_TYPES.disabled = before


def _is_same(one: Any, other: Any) -> bool:
    """Equal, of the same types all the way down, and alike in what equality leaves out: the name of a time zone."""
    if type(one) is not type(other):
        return False
    if type(one) in (*_SCALARS, str, int):
        return bool(one == other)
    if hasattr(one, "__pydantic_private__"):
        parts = ("__dict__", "__pydantic_fields_set__", "__pydantic_private__", "__pydantic_extra__")
        return all(_is_same(getattr(one, part), getattr(other, part)) for part in parts)
    if dataclasses.is_dataclass(one):
        # What is no field, like that which `__post_init__` makes, LangGraph makes anew or not at all.
        names = [each.name for each in dataclasses.fields(one)]
        return _is_same(_attributes(one), _attributes(other)) and all(
            _is_same(getattr(one, name), getattr(other, name)) for name in names
        )
    if isinstance(one, dict):
        return len(one) == len(other) and all(map(_is_same, one.items(), other.items()))
    if isinstance(one, set | frozenset):
        return {(type(each), each) for each in one} == {(type(each), each) for each in other}
    if isinstance(one, list | tuple | deque):
        ends = getattr(one, "maxlen", None) == getattr(other, "maxlen", None)
        return ends and len(one) == len(other) and all(map(_is_same, one, other))
    if hasattr(one, "__len__") and not isinstance(one, str | bytes | bytearray):
        # Arrays and the like: their parts cannot be compared here, nor whether they can be written to.
        return False
    return bool(one == other) and repr(one) == repr(other)


def _attributes(value: Any) -> dict[str, Any]:
    return getattr(value, "__dict__", {})

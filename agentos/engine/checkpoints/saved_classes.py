"""The classes of saved values: how a checkpoint names them, and how a process that resumes finds them again.

`pickle` finds what is at its name in a module. Here are the others: `Page[int]`, `Reply = create_model("Answer")`
and classes that a function makes while the graph is loaded. One that is nowhere is an error, never a plain dict.
"""

from __future__ import annotations

import importlib
import io
import operator
import pickle
import sys
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

from agentos.errors import CannotContinueError

_NAMELESS = (type(None), type(...), type(NotImplemented))
"""Types that `pickle` has a way of its own for."""


class ClassGone(CannotContinueError):
    """A saved value is of a class that this process does not have."""

    @classmethod
    def named(cls, module: str, name: str) -> ClassGone:
        return cls(
            f"a {name} of {module}, and there is no such class now. Those at the top of a module, or made while the "
            "graph is loaded, are found again; one that is made while a node runs is not."
        )


class SavedClasses:
    """Of one item in one process."""

    def __init__(self) -> None:
        self.owner = uuid4().hex
        """Tells what this process has saved from what another one has."""
        self._known: list[type] = []

    def pickled(self, value: Any) -> bytes:
        buffer = io.BytesIO()
        _Pickler(buffer, self).dump(value)
        return buffer.getvalue()

    def unpickled(self, data: bytes) -> Any:
        return _Unpickler(io.BytesIO(data), self).load()

    def name(self, made: type) -> tuple[Any, ...]:
        """What `find` finds it by. Of a function that is called twice there are two of a name: their order counts."""
        if made not in self._known:
            self._known.append(made)
        alike = _alike(made.__module__, made.__qualname__, _shape(made))
        place = alike.index(made), len(alike)
        return made.__module__, made.__qualname__, _shape(made), place, self.owner, self._known.index(made)

    def find(
        self, module: str, qualname: str, shape: tuple[Any, ...], place: tuple[int, int], owner: str, number: int
    ) -> type:
        if owner == self.owner:
            return self._known[number]
        alike = _alike(module, qualname, shape)
        index, total = place
        if len(alike) != total:
            raise ClassGone.named(module, qualname)
        return alike[index]


def saved_class(module: str, name: str) -> Any:
    """What a module has under a name of its own. Raises ClassGone."""
    try:
        return operator.attrgetter(name)(importlib.import_module(module))
    except (ImportError, AttributeError):
        raise ClassGone.named(module, name) from None


def _made_by_a_function(*_: Any) -> type:
    """A name in pickles, which `_Unpickler` gives its meaning."""
    raise NotImplementedError


class _Pickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO, classes: SavedClasses) -> None:
        # Earlier protocols lose the byte order of numpy's arrays.
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self._classes = classes

    def reducer_override(self, obj: Any) -> Any:
        if not isinstance(obj, type) or obj in _NAMELESS:
            return NotImplemented
        generic = getattr(obj, "__pydantic_generic_metadata__", None)
        if generic and generic["origin"] is not None:
            return operator.getitem, (generic["origin"], generic["args"])
        if _is_at_its_name(obj):
            return NotImplemented
        known_as = vars(sys.modules.get(obj.__module__, object))
        name = next((name for name, value in known_as.items() if value is obj), None)
        if name is not None:
            return saved_class, (obj.__module__, name)
        return _made_by_a_function, self._classes.name(obj)


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, classes: SavedClasses) -> None:
        super().__init__(file)
        self._classes = classes

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == (__name__, _made_by_a_function.__name__):
            return self._classes.find
        try:
            return super().find_class(module, name)
        except (ImportError, AttributeError):
            raise ClassGone.named(module, name) from None


def _is_at_its_name(made: type) -> bool:
    try:
        return operator.attrgetter(made.__qualname__)(sys.modules[made.__module__]) is made
    except (KeyError, AttributeError):
        return False


def _alike(module: str, qualname: str, shape: tuple[Any, ...]) -> list[type]:
    """Classes of this process with that name and shape, in the order they were made."""
    named = (each for each in _all_classes() if each.__qualname__ == qualname and each.__module__ == module)
    return [each for each in named if _shape(each) == shape]


def _shape(made: type) -> tuple[Any, ...]:
    """Its fields. A class with slots is made from one without, which stays for a while."""
    return "__slots__" in vars(made), *vars(made).get("__annotations__", ())


def _all_classes() -> Iterator[type]:
    seen: set[type] = {object}
    waiting: list[type] = [object]
    while waiting:
        derived: list[type] = type.__subclasses__(waiting.pop(0))
        for each in derived:
            if each not in seen:
                seen.add(each)
                waiting.append(each)
                yield each

"""Packages that take long to load and that nearly nobody looks into: loaded when somebody does.

LangGraph loads LangSmith's client, whose package of API types has more than a hundred modules, and the client of its
own server with three libraries for HTTP: a third of all that is loaded before the first worker, for the sake of one
module of each. Whoever asks for what is in such a package gets it.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Collection, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any, Final

PACKAGES: Final = frozenset({"langgraph_sdk", "langsmith.types"})
_REASONS: Final = ("__all__", "__version__")
_one_at_a_time = threading.RLock()
_under_way: set[str] = set()


def put_off(packages: Collection[str] = PACKAGES) -> None:
    """From here on. A package that is loaded already, or not installed, stays as it is."""
    sys.meta_path.insert(0, _Finder(packages))


class _Finder(MetaPathFinder):
    def __init__(self, packages: Collection[str]) -> None:
        self._packages = packages

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(fullname, path, target) if fullname in self._packages else None
        if spec is not None and spec.loader is not None:
            spec.loader = _PuttingOff(spec.loader)
        return spec


class _PuttingOff(Loader):
    def __init__(self, real: Loader) -> None:
        self._real = real

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._real.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Its modules can be imported from here on: only the package itself has not run."""
        module.__loader__ = self._real
        if module.__spec__ is not None:
            module.__spec__.loader = self._real
        module.__class__ = _PutOff


class _PutOff(ModuleType):
    """Runs when it is asked for what it does not have."""

    def __getattr__(self, name: str) -> Any:
        # What the import system and others look for in any module is no reason; what they would not expect is.
        if name.startswith("__") and name not in _REASONS:
            raise AttributeError(name)
        with _one_at_a_time:
            _run(self)
        try:
            return self.__dict__[name]
        except KeyError:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}") from None


def _run(module: ModuleType) -> None:
    """Once. Its own modules, which ask while it runs, see as much as there is, as in any import; others wait."""
    spec = module.__spec__
    if type(module) is not _PutOff or module.__name__ in _under_way or spec is None or spec.loader is None:
        return
    _under_way.add(module.__name__)
    try:
        spec.loader.exec_module(module)
        setattr(module, "__class__", ModuleType)  # noqa: B010  The type checker takes it for a `_PutOff` for good.
    finally:
        _under_way.discard(module.__name__)

"""Loads modules without looking for garbage on the way, and without what only people at a terminal use."""

from __future__ import annotations

import gc
import sys
from contextlib import contextmanager

TYPE_CHECKING = False  # A program's first steps: `typing` is loaded by who needs it.
if TYPE_CHECKING:
    from collections.abc import Iterator

COMMAND_LINES = frozenset({"httpx._main"})
"""Modules of libraries with which they are programs too. For its help in colour httpx loads Rich, Pygments and Click,
a quarter of all that the gateway process loads; it works without."""


@contextmanager
def uncollected() -> Iterator[None]:
    """Loading makes many objects and hardly any garbage: looking for it, then or later, is a tenth of its time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.freeze()
            gc.enable()


class _NotInstalled:
    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        if fullname in COMMAND_LINES:
            raise ModuleNotFoundError(f"{fullname} is left out here", name=fullname)


_not_installed = _NotInstalled()


def leave_out_command_lines() -> None:
    """From here on, as where what they need is not installed."""
    if _not_installed not in sys.meta_path:
        sys.meta_path.insert(0, _not_installed)

"""The module takes its time when the process that loaded it leaves; its nodes are those of `mischief`."""

from __future__ import annotations

import atexit
import os
import time

from mischief import graph

__all__ = ["graph"]

_LOADED_IN = os.getpid()


@atexit.register
def _leave_slowly() -> None:
    if os.getpid() == _LOADED_IN:
        time.sleep(36_000)

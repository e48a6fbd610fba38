"""The environment of this process: the one module that reads and changes it.

A command reads it and hands on what others need; a run's workers are sent theirs.
"""

from __future__ import annotations

import os
from collections.abc import Mapping


def environment() -> Mapping[str, str]:
    """The variables of this process, as they are now."""
    return os.environ


def set_variables(values: Mapping[str, str]) -> None:
    """For this process and what it starts from now on."""
    os.environ.update(values)


def remove_variable(name: str) -> None:
    os.environ.pop(name, None)

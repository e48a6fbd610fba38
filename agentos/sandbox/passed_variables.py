"""Which of a worker's variables sandboxed code gets as well: whoever sets them lists their names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

LIST_VARIABLE: Final = "AGENTOS_LEASED_VARIABLES"
"""Names, separated by commas, of variables that a workstream has for itself: its ports and names."""


def reserved_variables(environment: Mapping[str, str]) -> tuple[str, ...]:
    """The variables in a worker's environment that belong to its workstream (pure)."""
    return tuple(name for name in environment.get(LIST_VARIABLE, "").split(",") if name in environment)

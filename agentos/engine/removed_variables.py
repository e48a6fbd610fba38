"""Variables that a run keeps from its workers because they hold keys, and what to tell who misses one."""

from __future__ import annotations

import re
from collections.abc import Mapping

VARIABLE = "AGENTOS_REMOVED_VARIABLES"
"""In a worker's environment: their names."""


def hint(text: str, environ: Mapping[str, str]) -> str:
    """To be put after an error that asks for a variable the user has set; empty when it asks for none."""
    for name in filter(None, environ.get(VARIABLE, "").split(",")):
        if re.search(rf"\b{re.escape(name)}\b", text):
            return (
                f" ({name} is set, but holds a key, and keys are kept from workers. "
                f"To give it to this graph: --pass-env {name})"
            )
    return ""

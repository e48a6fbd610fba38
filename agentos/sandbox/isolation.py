"""How strong a sandbox a machine can make: four strengths, tried once each, and what each promises."""

from __future__ import annotations

from enum import Enum
from typing import Final

STRONGEST: Final = "strongest"
"""The setting's default."""
ALLOW_NONE: Final = "--allow-unsandboxed"
"""The option of commands that run code."""
RISK: Final = (
    "Code that nobody has read would run with your rights: it could read your keys and files, change any of them "
    "and use the network"
)


class Isolation(Enum):
    """What stands between a command and the machine, the strongest first."""

    BWRAP = "bwrap"
    NAMESPACES = "namespaces"
    LANDLOCK = "landlock"
    NONE = "none"

    def words(self) -> str:
        """For reports: what is kept from the command, and what is not."""
        only = "sees only the project, a scratch folder and installed programs, and writes only the first two"
        return {
            Isolation.BWRAP: f"bwrap: code {only}; no network, no sockets or processes outside it",
            Isolation.NAMESPACES: f"namespaces: code {only}; no network, no sockets or processes outside it",
            Isolation.LANDLOCK: f"landlock: code {only}; no sockets; which files and processes exist is not hidden",
            Isolation.NONE: f"none: a time limit and a clean environment only. {RISK}",
        }[self]

"""What may leave this machine: secrets over an encrypted connection alone. Pure.

Ray encrypts all of its connections or none: RAY_USE_TLS says which; a cluster that does otherwise cannot be joined.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from agentos.engine.messages import StartItem

HOW_TO_ENCRYPT = "turn on Ray's TLS on every node and here (RAY_USE_TLS=1; see docs/howto/cluster.md, Encryption)"
_OF_A_MACHINE = frozenset(
    (
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "PWD", "OLDPWD", "TMPDIR", "TMP", "TEMP", "HOSTNAME", "MAIL"),
        *("VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "LD_PRELOAD"),
        *("DISPLAY", "TERM", "SHLVL", "_", "AGENTOS_HOME"),
    )
)
_PREFIXES_OF_A_MACHINE = ("RAY_", "XDG_", "SSH_", "DBUS_", "PIP_", "CONDA_", "UV_")
_HARMLESS_PREFIXES = ("AGENTOS_", "LC_", "LANG", "TZ")


def is_encrypted(environ: Mapping[str, str]) -> bool:
    return environ.get("RAY_USE_TLS", "").lower() in ("1", "true")


def variables_for_others(
    environment: Mapping[str, str], *, encrypted: bool, harmless: Collection[str] = ()
) -> dict[str, str]:
    """What workers of another machine get of our environment: nothing that says how this machine is laid out.

    Over a plain connection no more than settings and what is known to be `harmless`: nobody knows which of the others
    is a secret.
    """
    travelling = {
        name: value
        for name, value in environment.items()
        if name not in _OF_A_MACHINE and not name.startswith(_PREFIXES_OF_A_MACHINE)
    }
    if encrypted:
        return travelling
    return {
        name: value for name, value in travelling.items() if name in harmless or name.startswith(_HARMLESS_PREFIXES)
    }


def without_secrets(message: StartItem) -> StartItem:
    """What a worker is sent over a plain connection: the database's password is the node's own to know."""
    return replace(message, access=replace(message.access, password=""))

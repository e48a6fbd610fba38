"""Whether a cluster takes anybody: asked by a process that has no token. Prints what it found."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from enum import StrEnum

_SECONDS = 60.0


class Door(StrEnum):
    OPEN = "open"
    """It takes anybody."""
    GUARDED = "guarded"
    """It has refused us for want of a token."""
    UNKNOWN = "unknown"
    """It has not answered the question: nothing that may be taken for a refusal."""


def door_of(address: str, environ: Mapping[str, str]) -> Door:
    """In a process of its own: Ray reads its way of authentication once."""
    bare = {name: value for name, value in environ.items() if not name.startswith("RAY_AUTH")}
    command = [sys.executable, "-P", "-m", "agentos.engine.backends.ray.token_check", address]
    with suppress(subprocess.TimeoutExpired, ValueError):
        said = subprocess.run(
            command,
            env={**bare, "RAY_AUTH_MODE": "disabled"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SECONDS,
            check=False,
            text=True,
        )
        return Door(said.stdout.strip())
    return Door.UNKNOWN


def _ask(address: str) -> Door:
    refusal = importlib.import_module("ray.exceptions").AuthenticationError
    try:
        importlib.import_module("ray._raylet").GcsClient(address=address).internal_kv_keys(
            b"agentos", None, timeout=5
        )
    except refusal:
        return Door.GUARDED
    except Exception:
        return Door.UNKNOWN
    return Door.OPEN


def main(arguments: list[str]) -> None:
    sys.stdout.write(f"{_ask(arguments[0])}\n")
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])

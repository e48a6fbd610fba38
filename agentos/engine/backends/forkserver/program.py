"""The fork server as a program: the commands that start it, and workers that are not forked."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

WORKER_FLAG = "--worker"


def server_command(control_fd: int, settings: Mapping[str, Any]) -> list[str]:
    return [*_program(settings), str(control_fd), json.dumps(settings)]


def worker_command(control_fd: int, claims_fd: int, settings: Mapping[str, Any]) -> list[str]:
    return [*_program(settings), WORKER_FLAG, str(control_fd), str(claims_fd), json.dumps(settings)]


def _program(settings: Mapping[str, Any]) -> list[str]:
    """Under our interpreter or, with `guest_python`, under another that lacks AgentOS."""
    # -P: the current folder is not searched before the standard library.
    if (python := settings.get("guest_python")) is None:
        return [sys.executable, "-P", "-m", "agentos.engine.backends.forkserver.server"]
    # -B: that environment is not ours to write to, and our own bytecode is for another Python.
    return [python, "-P", "-B", str(Path(__file__).with_name("project_interpreter.py")), json.dumps(settings["lent"])]

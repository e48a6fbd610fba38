"""Whether a node's Python is the same as ours: a graph that runs here should run there."""

from __future__ import annotations

import hashlib
import platform
import time
from collections.abc import Mapping
from importlib import metadata

import agentos

_MOST_CLOCK_SECONDS = 5.0


def environment_facts() -> dict[str, str]:
    """Of the process that asks: versions, a digest of all installed packages, and the time."""
    # Where Ray is imported, it shows packages of its own.
    installed = [each for each in metadata.distributions() if "thirdparty_files" not in str(each.locate_file(""))]
    packages = {name: each.version for each in installed if (name := each.metadata["Name"])}
    lines = "\n".join(sorted(f"{name.lower()}=={version}" for name, version in packages.items()))
    return {
        "python": platform.python_version(),
        "agentos": agentos.__version__,
        "langgraph": packages.get("langgraph", "none"),
        "ray": packages.get("ray", "none"),
        "packages": hashlib.sha256(lines.encode()).hexdigest()[:16],
        "time": repr(time.time()),
    }


def differences(ours: Mapping[str, str], theirs: Mapping[str, str]) -> list[str]:
    """What is not the same, in words; empty when nothing is. The time is not compared."""
    return [
        f"{name} {theirs.get(name, 'none')} there, {ours[name]} here"
        for name in ours
        if name != "time" and ours[name] != theirs.get(name)
    ]


def clock_offset(sent: float, theirs: Mapping[str, str], received: float) -> float | None:
    """How far the node's clock is off, in seconds, where the time of the question does not explain it."""
    there = float(theirs["time"])
    middle, slack = (sent + received) / 2, (received - sent) / 2 + _MOST_CLOCK_SECONDS
    return None if abs(there - middle) <= slack else there - middle

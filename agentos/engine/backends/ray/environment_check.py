"""Whether a node's Python is the same as ours: a graph that runs here should run there."""

from __future__ import annotations

import hashlib
import platform
import time
from collections.abc import Collection, Mapping
from importlib import metadata

import agentos

_MOST_CLOCK_SECONDS = 5.0


def installed_packages() -> dict[str, str]:
    """Names, in small letters, and versions."""
    # Where Ray is imported, it shows packages of its own.
    found = [each for each in metadata.distributions() if "thirdparty_files" not in str(each.locate_file(""))]
    # Of two with one name, Python imports the first.
    return {name.lower(): each.version for each in reversed(found) if (name := each.metadata["Name"])}


def environment_facts(among: Collection[str] | None = None) -> dict[str, str]:
    """Of the process that asks: versions, a digest of installed packages (all, or those `among`), and the time."""
    packages = installed_packages()
    compared = packages if among is None else packages.keys() & among
    lines = "\n".join(sorted(f"{name}=={packages[name]}" for name in compared))
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

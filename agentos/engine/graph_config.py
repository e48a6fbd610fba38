"""What LangGraph's `config` may be for an item. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from agentos.errors import UsageError

_KINDS: dict[str, tuple[type, str]] = {
    "configurable": (dict, "an object"),
    "metadata": (dict, "an object"),
    "tags": (list, "a list"),
    "run_name": (str, "a string"),
    "recursion_limit": (int, "a whole number"),
    "max_concurrency": (int, "a whole number"),
}
_NOT_IN_JSON = ("callbacks", "run_id")
THREAD_KEYS = ("thread_id", "checkpoint_id", "checkpoint_ns", "checkpoint_map")
"""Where LangGraph finds a checkpoint. Of an item, only AgentOS knows."""


def graph_config(given: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The same, with what LangGraph takes for `configurable` in it: all that is no key of its own.

    Raises UsageError.
    """
    own = {name: value for name, value in given.items() if name in _KINDS and value is not None}
    for name, value in own.items():
        kind, words = _KINDS[name]
        if not isinstance(value, kind) or isinstance(value, bool):
            raise UsageError(f"{where}: {name} must be {words}, got {json.dumps(value)[:40]}.")
        if isinstance(value, int) and value < 1:
            raise UsageError(f"{where}: {name} must be at least 1, got {value}.")
    refused = next((name for name in _NOT_IN_JSON if name in given), None)
    if refused:
        raise UsageError(f"{where}: {refused} cannot be given here; add it in code, with `graph.with_config(...)`.")
    loose = {name: value for name, value in given.items() if name not in _KINDS and value is not None}
    return own | ({"configurable": {**own.get("configurable", {}), **loose}} if loose else {})


def thread_keys(options: Mapping[str, Any]) -> list[str]:
    """Which of an item's options would lead LangGraph to another checkpoint than its own."""
    configurable = options.get("config", {}).get("configurable", {})
    return [name for name in THREAD_KEYS if name in configurable]


def without_thread_keys(options: Mapping[str, Any]) -> dict[str, Any]:
    if not thread_keys(options):
        return dict(options)
    config = dict(options["config"])
    kept = {name: value for name, value in config.pop("configurable").items() if name not in THREAD_KEYS}
    config |= {"configurable": kept} if kept else {}
    rest = {name: value for name, value in options.items() if name != "config"}
    return {**rest, "config": config} if config else rest

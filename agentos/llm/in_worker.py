"""What model calls need in a worker of the engine, which loads this by name: keys, a place for each call, an end."""

from __future__ import annotations

import json
import re
import socket
import sys
import sysconfig
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

from agentos.keys.leases import LeaseBroker
from agentos.llm.broker_choice import set_broker
from agentos.llm.cancellation import cancel_calls
from agentos.llm.context import calls_made, set_call_context
from agentos.llm.settings import declare_for_worker

EXTENSION = f"{__name__}:ModelCalls"
"""How the engine is told of it."""


def preload_options(
    *, providers: Sequence[str] = (), if_used: Sequence[str] = (), has_budget: bool = False, gateway_port: int = 0
) -> dict[str, Any]:
    """Whose SDKs are loaded once for all workers: always, or if the graph turns out to call models."""
    used = list(if_used)
    return {"providers": list(providers), "if_used": used, "has_budget": has_budget, "gateway_port": gateway_port}


def _calls_models(loaded: Collection[str]) -> bool:
    """Whether the graph has loaded us, or will: many import us in the node that calls a model."""
    return "agentos.llm" in loaded or any(_names_us(sys.modules.get(name)) for name in loaded)


def _names_us(module: ModuleType | None) -> bool:
    """Whether the source of a module says so. What is installed was not written for us."""
    path = getattr(module, "__file__", None) or ""
    if not path.endswith(".py") or path.startswith(_INSTALLED):
        return False
    try:
        with Path(path).open(encoding="utf-8", errors="replace") as source:
            return _IMPORT_OF_US.search(source.read(_LONGEST_SOURCE)) is not None
    except OSError:
        return False


def _wake_gateway(port: int) -> None:
    """It starts with its first connection: while we load SDKs, and not when the first call waits for it."""
    with suppress(OSError):
        socket.create_connection(("127.0.0.1", port), timeout=1.0).close()


_CLIENTS = frozenset({"openai", "anthropic", "google.genai"})
"""What most graphs call models with that do not use us."""
_LIBRARIES = [sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")]
_INSTALLED = (str(Path(__file__).parents[1]), *_LIBRARIES)
_IMPORT_OF_US = re.compile(r"^\s*(from agentos\.llm\b|from agentos import .*\bllm\b|import agentos\.llm\b)", re.M)
_LONGEST_SOURCE = 1_000_000


class ModelCalls:
    """The model calls of one item."""

    def __init__(self, *, workflow: str, item_id: str) -> None:
        self._workflow = workflow
        self._item = item_id

    @staticmethod
    def preload(options: Mapping[str, Any], loaded: Collection[str]) -> None:
        """Seconds of imports. Only for providers that are going to be called."""
        providers = options.get("providers") or (options.get("if_used") if _calls_models(loaded) else ())
        if options.get("gateway_port") and (providers or not _CLIENTS.isdisjoint(loaded)):
            _wake_gateway(options["gateway_port"])
        if providers:
            declare_for_worker()
            from agentos.llm.calls import preload  # noqa: PLC0415  Graphs without models need none of it.

            preload(tuple(providers))

    @staticmethod
    def notice(options: Mapping[str, Any], loaded: Collection[str]) -> str:
        """A budget counts calls that are made through us."""
        if options.get("has_budget") and not _calls_models(loaded):
            return "the graph does not call models through agentos.llm: the budget does not see what it spends"
        return ""

    def begin(self, leases: LeaseBroker, mask: Callable[[str], str], notes: str) -> None:
        declare_for_worker()
        set_broker(leases, mask=mask)
        for node, calls_before in json.loads(notes or "{}").items():
            set_call_context(workflow=self._workflow, item=self._item, node=node, calls_before=calls_before)

    def node_starts(self, node: str) -> None:
        set_call_context(workflow=self._workflow, item=self._item, node=node)

    def notes(self) -> str:
        """How many calls each node has made: recordings are named by them.

        Asked between nodes: the calls of a node that is interrupted are made, and counted, again.
        """
        calls = calls_made(workflow=self._workflow, item=self._item)
        return json.dumps(calls) if calls else ""

    def stop(self) -> None:
        cancel_calls()

"""How a store finds entries by meaning: the index that a langgraph.json asks for, read, checked and made usable."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentos.errors import UsageError


@dataclass(frozen=True, slots=True)
class StoreIndex:
    """As the file has it."""

    file: Path
    embed: str
    """`PATH.py:FUNCTION`, or `PROVIDER:MODEL` for LangChain."""
    dims: int
    fields: tuple[str, ...] = ("$",)

    @property
    def is_function(self) -> bool:
        return self.embed.rpartition(":")[0].endswith(".py")

    @property
    def identity(self) -> str:
        """Entries that were indexed in one way are not found in another."""
        return json.dumps({"embed": self.embed, "dims": self.dims, "fields": self.fields})


@dataclass(frozen=True, slots=True)
class UsableIndex:
    """Its embeddings loaded, for LangGraph's SQLite store."""

    identity: str
    config: Mapping[str, Any]


def read_index(document: Mapping[str, Any], file: Path) -> StoreIndex | None:
    """Of a langgraph.json. Raises UsageError when it is not what it should be."""
    store = document.get("store")
    index = store.get("index") if isinstance(store, dict) else None
    if not index:
        return None
    embed, dims = (index.get("embed"), index.get("dims")) if isinstance(index, dict) else (None, None)
    if not isinstance(embed, str) or ":" not in embed:
        raise UsageError(f'{file}: store.index.embed must be "./PATH.py:FUNCTION" or "PROVIDER:MODEL".')
    if not isinstance(dims, int) or isinstance(dims, bool) or dims < 1:
        raise UsageError(f"{file}: store.index.dims must be how many numbers {embed!r} gives for a text.")
    fields = index.get("fields") or ["$"]
    if not isinstance(fields, list) or not all(isinstance(each, str) for each in fields):
        raise UsageError(f'{file}: store.index.fields must be a list of paths like ["$"] or ["text"].')
    return StoreIndex(file, embed, dims, tuple(fields))


def usable(index: StoreIndex, embed: Any) -> UsableIndex:
    """`embed` is the function or embeddings object, or the name of a LangChain model. Raises UsageError."""
    fields = list(index.fields)
    # LangGraph's SQLite store reads them under a name of its own.
    config = {"dims": index.dims, "embed": _checked(index, embed), "fields": fields, "text_fields": fields}
    return UsableIndex(index.identity, config)


def _checked(index: StoreIndex, embed: Any) -> Any:
    """Embeddings that can be asked from anywhere and give as many numbers as the file says."""
    from langchain_core.embeddings import Embeddings  # noqa: PLC0415  Loaded with the graph.
    from langgraph.store.base import ensure_embeddings  # noqa: PLC0415

    if not isinstance(embed, str | Embeddings) and not callable(embed):
        raise UsageError(
            f"{index.file}: store.index.embed {index.embed!r} is {type(embed).__name__}, not a function."
        )
    asked: Any = _as_sync(embed) if inspect.iscoroutinefunction(embed) else embed
    try:
        made = ensure_embeddings(asked)
    except Exception as error:
        raise UsageError(f"{index.file}: store.index.embed {index.embed!r} cannot be loaded: {error}") from error

    def vectors(texts: list[str]) -> list[list[float]]:
        found = made.embed_documents(texts)
        if wrong := next((len(each) for each in found if len(each) != index.dims), None):
            raise ValueError(f"store.index.dims is {index.dims}, but {index.embed} gives {wrong} numbers for a text")
        return found

    return vectors


def _as_sync(embed: Callable[[list[str]], Any]) -> Callable[[list[str]], Any]:
    """In a thread of its own: the one that asks may be running an event loop."""
    import asyncio  # noqa: PLC0415  A dry run reads this file too, and needs neither.
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415

    def ask(texts: list[str]) -> Any:
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(lambda: asyncio.run(embed(texts))).result()

    return ask

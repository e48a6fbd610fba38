"""The index that a langgraph.json asks for: read, refused when it cannot work, and kept to by the store."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from agentos.engine.shared_store import SharedStore
from agentos.engine.store_index import StoreIndex, UsableIndex, read_index, usable
from agentos.errors import UsageError

CAN_LOAD_EXTENSIONS = hasattr(sqlite3.Connection, "enable_load_extension")
needs_extensions = pytest.mark.skipif(not CAN_LOAD_EXTENSIONS, reason="this Python's sqlite3 loads no extensions")
FILE = Path("/p/langgraph.json")


def index(**changes: Any) -> StoreIndex | None:
    return read_index({"store": {"index": {"embed": "./e.py:embed", "dims": 2, **changes}}}, FILE)


def test_an_index_is_read_with_its_defaults() -> None:
    assert index() == StoreIndex(FILE, "./e.py:embed", 2, ("$",))
    assert index(embed="openai:text-embedding-3-small", fields=["text"]) == StoreIndex(
        FILE, "openai:text-embedding-3-small", 2, ("text",)
    )
    assert read_index({"store": {}}, FILE) is None
    assert read_index({}, FILE) is None


@pytest.mark.parametrize(
    "wrong", [{"embed": None}, {"embed": "nothing"}, {"dims": 0}, {"dims": "2"}, {"fields": "a"}]
)
def test_an_index_that_is_none_is_refused_by_name(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=rf"/p/langgraph.json: store.index.{next(iter(wrong))} has to be"):
        index(**wrong)


@pytest.mark.skipif(CAN_LOAD_EXTENSIONS, reason="this Python's sqlite3 loads extensions")
def test_an_index_that_cannot_work_here_is_refused_and_not_left_out() -> None:
    found = index()
    assert found is not None
    with pytest.raises(
        UsageError, match=r"store.index cannot work here, this Python's sqlite3 cannot load extensions"
    ):
        usable(found, lambda texts: [[0.0, 1.0] for _ in texts])


def embed(texts: list[str]) -> list[list[float]]:
    return [[1.0, 0.0] if "cat" in text else [0.0, 1.0] for text in texts]


async def embed_async(texts: list[str]) -> list[list[float]]:
    return embed(texts)


@needs_extensions
@pytest.mark.parametrize("function", [embed, embed_async])
def test_entries_are_found_by_meaning_from_sync_and_async_code(tmp_path: Path, function: Any) -> None:
    found = index(fields=["text"])
    assert found is not None
    store = SharedStore(tmp_path / "store.db", usable(found, function))
    for key, text in (("a", "a dog"), ("b", "a cat"), ("c", "a bird")):
        store.put(("pets",), key, {"text": text, "other": "cat"})

    async def search() -> list[Any]:
        return [*await store.asearch(("pets",), query="my cat"), *store.search(("pets",), query="my cat")]

    best = [each.key for each in asyncio.run(search()) if each.score and each.score > 0.9]
    assert best == ["b", "b"]


@needs_extensions
def test_embeddings_of_another_length_than_the_file_says_are_an_error(tmp_path: Path) -> None:
    found = index(dims=3)
    assert found is not None
    store = SharedStore(tmp_path / "store.db", usable(found, embed))
    with pytest.raises(ValueError, match=r"dims is 3, but ./e.py:embed gives 2 numbers"):
        store.put(("pets",), "a", {"text": "a cat"})


def test_entries_that_were_made_without_an_index_are_not_missed_in_silence(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    SharedStore(path).put(("pets",), "a", {"text": "a cat"})
    wanted = UsableIndex(json.dumps({"embed": "e"}), {})

    with pytest.raises(UsageError, match=r"indexed by no store.index, and this run has"):
        SharedStore(path, wanted).get(("pets",), "a")

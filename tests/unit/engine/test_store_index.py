"""The index that a langgraph.json asks for: read, refused when it cannot work, and kept to by the store."""

from __future__ import annotations

import asyncio
import json
import struct
from pathlib import Path
from typing import Any

import pytest

from agentos.engine import shared_store
from agentos.engine.shared_store import SharedStore
from agentos.engine.store_index import StoreIndex, UsableIndex, read_index, usable
from agentos.engine.vector_connection import VectorConnection, cosine_distance
from agentos.errors import UsageError

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
    with pytest.raises(UsageError, match=rf"/p/langgraph.json: store.index.{next(iter(wrong))} must be"):
        index(**wrong)


def embed(texts: list[str]) -> list[list[float]]:
    return [[1.0, 0.0] if "cat" in text else [0.0, 1.0] for text in texts]


async def embed_async(texts: list[str]) -> list[list[float]]:
    return embed(texts)


@pytest.fixture(params=["as this Python has it", "without extensions"])
def sqlite_parts(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever Python runs the tests, that of people who have none with extensions is tried too."""
    if request.param == "without extensions":

        class Bare(VectorConnection):
            def load_extension(self, name: str, /, *, entrypoint: str | None = None) -> None:
                super().load_extension("/there/is/no/such/extension")

        monkeypatch.setattr(shared_store, "VectorConnection", Bare)


@pytest.mark.usefixtures("sqlite_parts")
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


def test_vectors_are_compared_by_their_direction() -> None:
    def stored(*numbers: float) -> bytes:
        return struct.pack(f"{len(numbers)}f", *numbers)

    assert cosine_distance(stored(1, 0), stored(5, 0)) == 0
    assert cosine_distance(stored(1, 0), stored(0, 2)) == 1
    assert cosine_distance(stored(1, 0), stored(-3, 0)) == 2
    assert cosine_distance(stored(0, 0), stored(1, 0)) is None


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

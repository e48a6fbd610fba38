"""Model calls in a worker: whose keys they use, which place they have, and how they are given up."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from agentos.engine.worker_extension import WorkerExtension, extension_named
from agentos.llm import broker_choice, context, in_worker
from agentos.llm import calls as model_calls
from agentos.llm.cancellation import Cancellation, tracked
from agentos.llm.in_worker import ModelCalls, preload_options


@pytest.fixture(autouse=True)
def _keys_of_the_user_afterwards() -> Iterator[None]:
    yield
    broker_choice.set_broker(None)


def calls(item_id: str = "42") -> WorkerExtension:
    """Calls are counted per item for as long as the process lives: tests that count have an item of their own."""
    return ModelCalls(workflow="lld", item_id=item_id)


def test_the_engine_finds_it_by_its_name() -> None:
    assert extension_named(in_worker.EXTENSION) is ModelCalls


def test_calls_lease_from_the_broker_of_the_worker_and_are_masked_by_it() -> None:
    leases = object()
    calls().begin(leases, lambda text: text.replace("sk-1", "****"), "")  # type: ignore[arg-type]
    assert broker_choice.current_broker() is leases
    assert broker_choice.masked("the key is sk-1") == "the key is ****"


def test_a_call_belongs_to_the_node_that_runs() -> None:
    calls("place").node_starts("draft")
    place = context.next_call_place()
    assert (place.workflow, place.item, place.node, place.round) == ("lld", "place", "draft", 1)


def test_counts_go_on_after_a_resume() -> None:
    before = calls("resumed")
    before.node_starts("draft")
    context.next_call_place()
    context.next_call_place()
    notes = before.notes()
    assert json.loads(notes) == {"draft": 2}
    # As in a fresh worker.
    context.set_call_context(workflow="lld", item="resumed", node="draft", calls_before=0)
    after = calls("resumed")
    after.begin(object(), str, notes)  # type: ignore[arg-type]
    after.node_starts("draft")
    assert context.next_call_place().round == 3


def test_an_item_without_calls_has_nothing_to_keep() -> None:
    assert calls("silent").notes() == ""


def test_a_stop_gives_up_calls_in_flight() -> None:
    with tracked(Cancellation()) as call:
        calls().stop()
        assert call.is_requested


@pytest.mark.parametrize(
    ("options", "loaded", "expected"),
    [
        (preload_options(providers=["google"]), (), [("google",)]),
        (preload_options(if_used=["openai"]), ("agentos.llm",), [("openai",)]),
        (preload_options(if_used=["openai"]), ("langgraph",), []),
        (preload_options(), ("agentos.llm",), []),
    ],
)
def test_sdks_are_loaded_for_providers_that_will_be_called(
    monkeypatch: pytest.MonkeyPatch,
    options: dict[str, list[str]],
    loaded: tuple[str, ...],
    expected: list[tuple[str]],
) -> None:
    preloaded: list[tuple[str, ...]] = []
    monkeypatch.setattr(model_calls, "preload", preloaded.append)
    ModelCalls.preload(options, loaded)
    assert preloaded == expected


@pytest.mark.parametrize(
    ("line", "preloaded"),
    [
        ("    from agentos.llm import generate", ["google"]),
        ("    from agentos import llm", ["google"]),
        ("    import agentos.llm.langchain", ["google"]),
        ("    # not from agentos.llm import generate", []),
        ("    from agentos_llm import generate", []),
    ],
)
def test_the_sdk_is_loaded_before_workers_are_made_also_if_a_node_imports_us(
    line: str, preloaded: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[str] = []
    monkeypatch.setattr(model_calls, "preload", called.extend)
    (tmp_path / "lazy_flow.py").write_text(f"def node(state):\n{line}\n    return state\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "lazy_flow", raising=False)
    import_module("lazy_flow")
    ModelCalls.preload(preload_options(if_used=["google"]), {"json", "lazy_flow"})
    notice = ModelCalls.notice(preload_options(if_used=["google"], has_budget=True), {"json", "lazy_flow"})

    assert called == preloaded
    assert bool(notice) is not bool(preloaded)

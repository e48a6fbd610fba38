"""Recordings: saved under the place of the call, replayed from there, missed with a clear word."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from pathlib import Path

import pytest

from agentos import llm
from agentos.errors import UsageError
from agentos.llm.context import CallPlace, next_call_place
from agentos.llm.recorded import recording_path


@dataclass
class Point:
    x: int
    y: int


@pytest.fixture
def tape(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for item, node in (("LLD-42", "review"), ("LLD-7", "draft")):
        llm.set_call_context(workflow="lld", item=item, node=node, calls_before=0)
    monkeypatch.setenv("AGENTOS_RECORDED_DIR", str(tmp_path))
    return tmp_path


def record(tape: Path, monkeypatch: pytest.MonkeyPatch, prompts: list[str]) -> list[str]:
    with monkeypatch.context() as patch:
        patch.setenv("AGENTOS_RECORD_DIR", str(tape))
        llm.set_call_context(workflow="lld", item="LLD-42", node="review")
        texts = [llm.generate(prompt, model="offline").text for prompt in prompts]
    llm.set_call_context(workflow="lld", item="LLD-42", node="review", calls_before=0)
    return texts


def test_rounds_of_a_node_replay_in_order(tape: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = record(tape, monkeypatch, ["first", "second"])

    llm.set_call_context(workflow="lld", item="LLD-42", node="review")
    assert llm.generate("anything", model="recorded").text == texts[0]
    llm.set_call_context(workflow="lld", item="LLD-42", node="draft")
    llm.set_call_context(workflow="lld", item="LLD-42", node="review")
    assert llm.generate("anything", model="recorded").text == texts[1]


def test_a_resumed_worker_goes_on_with_the_next_round(tape: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = record(tape, monkeypatch, ["first", "second"])

    llm.set_call_context(workflow="lld", item="LLD-42", node="review", calls_before=1)

    assert llm.generate("anything", model="recorded").text == texts[1]


def test_a_recording_holds_request_and_answer(tape: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (text,) = record(tape, monkeypatch, ["first"])

    saved = json.loads((tape / "lld" / "LLD-42" / "review.1.json").read_text())
    assert saved["text"] == text
    assert saved["request"]["messages"] == [{"role": "user", "content": "first"}]
    assert [path.name for path in (tape / "lld" / "LLD-42").iterdir()] == ["review.1.json"]


def test_a_missing_recording_names_the_file_it_expected(tape: Path) -> None:
    llm.set_call_context(workflow="lld", item="LLD-7", node="draft")

    with pytest.raises(llm.RecordingMissingError) as caught:
        llm.generate("hi", model="recorded")

    assert str(tape / "lld" / "LLD-7" / "draft.1.json") in str(caught.value)


@pytest.mark.parametrize("content", ["{", "[]", '{"text": "x"}'])
def test_a_broken_recording_is_a_usage_error_that_names_it(tape: Path, content: str) -> None:
    path = tape / "lld" / "LLD-7" / "draft.1.json"
    path.parent.mkdir(parents=True)
    path.write_text(content)
    llm.set_call_context(workflow="lld", item="LLD-7", node="draft")

    with pytest.raises(UsageError, match=r"draft\.1\.json"):
        llm.generate("hi", model="recorded")


def test_replay_without_a_directory_says_which_variable_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AGENTOS_RECORDED_DIR", raising=False)

    with pytest.raises(UsageError, match="AGENTOS_RECORDED_DIR"):
        llm.generate("hi", model="recorded")


def test_a_recorded_structure_is_validated_again(tape: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("AGENTOS_RECORD_DIR", str(tape))
        llm.set_call_context(workflow="w", item="i", node="n", calls_before=0)
        llm.generate("?", model="offline", output_type=Point)
    llm.set_call_context(workflow="w", item="i", node="n", calls_before=0)

    assert llm.generate("?", model="recorded", output_type=Point).output == Point(0, 0)


def test_names_cannot_leave_the_directory(tmp_path: Path) -> None:
    place = CallPlace(workflow="../..", item="/etc/passwd", node="a/../b\0", round=1)

    path = recording_path(tmp_path, place)

    assert path.resolve().is_relative_to(tmp_path)
    assert path.relative_to(tmp_path).parts == ("unnamed", "etc-passwd", "a-..-b.1.json")


def test_threads_count_rounds_without_loss() -> None:
    llm.set_call_context(workflow="w", item="i", node="n", calls_before=0)

    def count() -> None:
        llm.set_call_context(workflow="w", item="i", node="n")
        for _ in range(200):
            next_call_place()

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    llm.set_call_context(workflow="w", item="i", node="n")
    assert next_call_place().round == 801

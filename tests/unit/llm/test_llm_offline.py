"""The offline model: no network, the same answer for the same request."""

from __future__ import annotations

import asyncio
import enum
import threading
import time
from dataclasses import dataclass
from datetime import date
from typing import Literal

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from agentos import llm
from agentos.errors import UsageError


class Colour(enum.Enum):
    RED = "red"


class Finding(BaseModel):
    where: str = Field(min_length=12)
    severity: Literal["low", "high"]


class Review(BaseModel):
    approved: bool
    score: int = Field(ge=3, le=10)
    ratio: float = Field(gt=0)
    findings: list[Finding] = Field(min_length=2)
    due: date
    colour: Colour
    note: str | None = None
    parent: Review | None
    pair: tuple[int, str]


@dataclass
class Point:
    x: int
    y: int


class Title(TypedDict):
    title: str


def test_the_same_request_gets_the_same_answer_and_another_a_different_one() -> None:
    first = llm.generate("Draft a design", model="offline", system="s")

    assert llm.generate("Draft a design", model="offline", system="s").text == first.text
    assert llm.generate("Draft a plan", model="offline", system="s").text != first.text
    assert llm.generate("Draft a design", model="offline", system="t").text != first.text


def test_an_offline_reply_costs_nothing_and_counts_tokens() -> None:
    reply = llm.generate("word " * 100, model="offline:drafter")

    assert reply.cost_usd == 0
    assert reply.usage.input_tokens > 100
    assert reply.model == "offline:drafter"


def test_any_output_type_gets_a_minimal_valid_value() -> None:
    review = llm.generate("Review", model="offline", output_type=Review).output

    assert len(review.findings) == 2
    assert 3 <= review.score <= 10
    assert review.ratio > 0
    assert review.note is None
    assert llm.generate("Place", model="offline", output_type=Point).output == Point(0, 0)
    assert llm.generate("Name", model="offline", output_type=Title).output["title"]
    assert llm.generate("List", model="offline", output_type=list[int]).output == []


def test_a_workflow_supplies_answers_for_its_tasks() -> None:
    llm.register_offline("a draft", lambda request: f"# LLD {request.data['number']}\n{request.prompt}")

    reply = llm.generate("Design it", model="offline", task="a draft", data={"number": 42})

    assert reply.text == "# LLD 42\nDesign it"
    assert llm.generate("Design it", model="offline", task="other").text.startswith("Offline answer")


def test_a_registered_answer_is_validated_like_any_other() -> None:
    llm.register_offline("place", lambda request: {"x": 3, "y": 4})
    llm.register_offline("whole", lambda request: Point(5, 6))
    llm.register_offline("list", lambda request: [1, 2])
    llm.register_offline("broken", lambda request: {"x": "three"})

    assert llm.generate("?", model="offline", task="place", output_type=Point).output == Point(3, 4)
    assert llm.generate("?", model="offline", task="whole", output_type=Point).output == Point(5, 6)
    assert llm.generate("?", model="offline", task="list", output_type=list[int]).output == [1, 2]
    with pytest.raises(llm.InvalidOutputError, match=r"x: .*integer"):
        llm.generate("?", model="offline", task="broken", output_type=Point)


def test_latency_is_waited_and_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTOS_OFFLINE_LATENCY_SECONDS", "0.05")
    started = time.monotonic()
    llm.generate("hi", model="offline")
    assert time.monotonic() - started >= 0.05

    monkeypatch.setenv("AGENTOS_OFFLINE_LATENCY_SECONDS", "600")
    is_over = threading.Event()

    def cancel_until_over() -> None:
        while not is_over.wait(0.005):
            llm.cancel_calls()

    canceller = threading.Thread(target=cancel_until_over)
    canceller.start()
    with pytest.raises(llm.CallCancelledError):
        llm.generate("hi", model="offline")
    is_over.set()
    canceller.join()


@pytest.mark.parametrize("text", ["soon", "-1", "nan", "inf"])
def test_a_latency_that_is_no_number_is_a_usage_error(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTOS_OFFLINE_LATENCY_SECONDS", text)

    with pytest.raises(UsageError, match="AGENTOS_OFFLINE_LATENCY_SECONDS"):
        llm.generate("hi", model="offline")


def test_the_async_twin_gives_the_same_answer() -> None:
    assert asyncio.run(llm.agenerate("hi", model="offline")) == llm.generate("hi", model="offline")


def test_no_model_or_an_unknown_one_is_a_usage_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AGENTOS_MODEL", raising=False)

    with pytest.raises(UsageError, match="AGENTOS_MODEL"):
        llm.generate("hi")
    with pytest.raises(UsageError, match="Unknown model 'gpt-4'"):
        llm.generate("hi", model="gpt-4")
    with pytest.raises(UsageError, match="names no model"):
        llm.generate("hi", model="google")
    with pytest.raises(UsageError, match="role 'function'"):
        llm.generate([{"role": "function", "content": "x"}], model="offline")
    with pytest.raises(UsageError, match="answers the call 'c1', which no message before it makes"):
        llm.generate([{"role": "tool", "content": "x", "tool_call_id": "c1"}], model="offline")


def test_an_impossible_output_type_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="cannot be an output type"):
        llm.generate("hi", model="offline", output_type=threading.Thread)

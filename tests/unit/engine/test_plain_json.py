"""Whatever a state holds comes out as JSON, or is named."""

from __future__ import annotations

import datetime
import enum
import json
from dataclasses import dataclass
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from pydantic import BaseModel, ConfigDict

from agentos.engine.plain_json import json_text, to_plain


class Colour(enum.Enum):
    RED = "red"


class Point(NamedTuple):
    x: int
    y: int


@dataclass
class Held:
    when: datetime.date
    where: PurePosixPath


class Odd:
    def __repr__(self) -> str:
        return "<odd>"


class Shape(BaseModel):
    name: str = "shape"


class Circle(Shape):
    radius: int


class Model(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)
    number: int
    odd: Odd


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        ({"a": (1, 2.5, None, True)}, {"a": [1, 2.5, None, True]}),
        (Held(datetime.date(2026, 1, 2), PurePosixPath("a/b")), {"when": "2026-01-02", "where": "a/b"}),
        (Point(1, 2), {"x": 1, "y": 2}),
        ({Colour.RED, Colour.RED}, ["red"]),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (Decimal("1.10"), "1.10"),
        (b"\x00", {"$type": "bytes", "base64": "AA=="}),
        (float("nan"), {"$type": "float", "repr": "nan"}),
        ({1: "a", Colour.RED: "b"}, {"1": "a", "red": "b"}),
        ({1: "a", "1": "b"}, {"$type": "dict", "items": [[1, "a"], ["1", "b"]]}),
        (Odd(), {"$type": f"{__name__}.Odd", "repr": "<odd>"}),
        (Model(number=1, odd=Odd()), {"number": 1, "odd": {"$type": f"{__name__}.Odd", "repr": "<odd>"}}),
    ],
)
def test_every_value_is_said_or_named(value: Any, plain: Any) -> None:
    assert to_plain(value) == plain


def test_messages_and_documents_are_their_own_json() -> None:
    messages = [HumanMessage("hallo"), AIMessage("ja", tool_calls=[{"name": "f", "args": {"x": 1}, "id": "c1"}])]
    plain = to_plain({"messages": messages, "found": [Document("text", metadata={"page": 3})]})

    assert [(each["type"], each["content"]) for each in plain["messages"]] == [("human", "hallo"), ("ai", "ja")]
    assert plain["messages"][1]["tool_calls"][0]["args"] == {"x": 1}
    assert (plain["found"][0]["page_content"], plain["found"][0]["metadata"]) == ("text", {"page": 3})


def test_a_message_or_model_inside_a_model_is_told_whole_whatever_its_field_declares() -> None:
    class Turn(BaseModel):
        messages: list[BaseMessage]
        best: Shape

    reply = AIMessage("", tool_calls=[{"name": "search", "args": {"q": "x"}, "id": "c1"}])
    plain = to_plain(Turn(messages=[reply], best=Circle(radius=3)))

    assert plain["messages"] == [to_plain(reply)]
    assert plain["messages"][0]["tool_calls"][0]["args"] == {"q": "x"}
    assert plain["best"] == {"name": "shape", "radius": 3}


def test_a_model_of_an_older_pydantic_is_told_whole() -> None:
    class Older(Shape):
        def model_dump(self, *, mode: str = "python", serialize_as_any: bool = False) -> dict[str, Any]:  # type: ignore[override]
            return {"mode": mode, "whole": serialize_as_any}

    class Oldest(Shape):
        def model_dump(self, *, mode: str = "python") -> dict[str, Any]:  # type: ignore[override]
            return {"mode": mode}

    assert to_plain([Older(), Oldest()]) == [{"mode": "json", "whole": True}, {"mode": "json"}]


def test_a_value_that_holds_itself_or_fails_when_looked_at_does_not_hide_the_rest() -> None:
    circle: dict[str, Any] = {"fine": 1}
    circle["self"] = circle

    class Failing:
        def __repr__(self) -> str:
            raise RuntimeError("no")

    text = json_text({"circle": circle, "failing": Failing(), "after": "ü\n\x85\u2028\u2029", "half": "\ud800"})
    back = json.loads(text)

    assert (back["circle"]["self"]["fine"], back["after"], back["half"]) == (1, "ü\n\x85\u2028\u2029", "\ud800")
    assert back["failing"]["error"] == "RuntimeError: no"
    assert len(text.splitlines()) == 1
    assert "ü" in json_text("ü")

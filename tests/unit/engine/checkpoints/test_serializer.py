"""A value that goes into a checkpoint comes out of it as it was, or is not saved."""

from __future__ import annotations

import enum
import threading
from collections import Counter, OrderedDict, defaultdict, deque
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, Generic, TypeVar
from zoneinfo import ZoneInfo

import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.store.base import Item
from langgraph.types import Command, Interrupt, Overwrite
from pydantic import BaseModel, Field, PrivateAttr, RootModel, create_model, field_validator

from agentos.engine.checkpoints.serializer import ItemSerializer


class Colour(enum.Enum):
    RED = "red"


class Name(enum.StrEnum):
    ANN = "ann"


class Address(BaseModel):
    city: str = "x"


class Precise(Address):
    street: str = "y"


class Holder(BaseModel):
    address: Address
    anything: Any = None
    hidden: int = Field(default=1, exclude=True)
    _private: int = PrivateAttr(default=0)

    class Inner(BaseModel):
        number: int = 1

    def keep(self, number: int) -> None:
        self._private = number

    @property
    def kept(self) -> int:
        return self._private


class Numbers(RootModel[list[int]]):
    """A model without fields."""


class Growing(BaseModel):
    text: str

    @field_validator("text")
    @classmethod
    def grow(cls, text: str) -> str:
        return f"{text}!"


T = TypeVar("T")


class Page(BaseModel, Generic[T]):
    entry: T


Answer = create_model("Reply", text=(str, ...))


def page(entry: T, of: type[T]) -> Page[T]:
    """Made here: at the top of a module, Pydantic writes the class of its kind into the module."""
    return Page[of](entry=entry)  # type: ignore[valid-type]


@dataclass
class Held:
    number: int
    more: list[Any] = field(default_factory=list)


@dataclass
class Counted:
    number: int

    def __post_init__(self) -> None:
        self.seen = [0]


class Plain:
    def __init__(self, number: int) -> None:
        self.number = number

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Plain) and other.number == self.number

    __hash__ = None  # type: ignore[assignment]


ITS_OWN = [
    {"a": [1, 2.5, None, True, "é"], 1: b"x"},
    [AIMessage("hi", tool_calls=[{"name": "f", "args": {"x": [1]}, "id": "c"}]), Document("text", metadata={"p": 1})],
    {"when": datetime(2026, 1, 2, tzinfo=UTC), "colour": Colour.RED, "held": Held(1, [Held(2)]), "set": {1, 2}},
    Address(city="z"),
    [Overwrite([1]), Interrupt({"a": 1}, id="i")],
]
PICKLED = [
    {"pair": (1, 2)},
    [(1, [2])],
    Counter("aab"),
    defaultdict(list, {"a": [1]}),
    OrderedDict(a=1),
    deque([1], maxlen=2),
    bytearray(b"x"),
    1 << 70,
    Numbers([1, 2]),
    Holder.Inner(number=2),
    Holder(address=Precise(city="a", street="b")),
    Holder(address=Address(), anything=Precise()),
    Holder(address=Address(), hidden=7),
    Growing(text="a"),
    page(page(3, int), Page[int]),
    Answer(text="yes"),
    Held(1, [(1, 2)]),
    ToolMessage("seen", tool_call_id="c", artifact={"rows": [(1, 2)]}),
    Plain(3),
    {("a", 1): "keys"},
    Overwrite([(1, 2)]),
    Command(update={"pair": (1, 2)}),
    Item(value={}, key="k", namespace=("a",), created_at=datetime.now(UTC), updated_at=datetime.now(UTC)),
    {"name": b"caf\xe9.txt".decode(errors="surrogateescape")},
    {"\udce9": 1},
    datetime(2026, 7, 1, tzinfo=ZoneInfo("Europe/Berlin")),
    datetime(2026, 7, 1, tzinfo=timezone(timedelta(hours=2), "CEST")),
    datetime(2026, 10, 25, 2, 30, fold=1),  # noqa: DTZ001  What is tested.
    Held(1, [deque([1], maxlen=2)]),
    Held(1, [{Name.ANN: 1}]),
    Holder(address=Address(), anything={Name.ANN: 1}),
]


def same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and one == other and repr(one) == repr(other)


@pytest.mark.parametrize("value", ITS_OWN, ids=repr)
def test_what_langgraph_gives_back_is_saved_in_its_own_format(value: Any) -> None:
    serializer = ItemSerializer(lambda data: data)
    kind, data = serializer.dumps_typed(value)
    assert kind == "msgpack"
    assert same(serializer.loads_typed((kind, data)), value)


@pytest.mark.parametrize("value", PICKLED, ids=lambda value: f"{type(value).__name__} {value!r:.30}")
def test_what_langgraph_would_change_comes_back_as_it_was(value: Any) -> None:
    serializer = ItemSerializer(lambda data: data)
    saved = serializer.dumps_typed({"channel_values": {"key": value}, "versions_seen": defaultdict(dict)})
    back = serializer.loads_typed(saved)["channel_values"]["key"]
    assert back.number == value.number if isinstance(value, Plain) else same(back, value)


def test_which_fields_were_set_comes_back() -> None:
    serializer = ItemSerializer(lambda data: data)
    address = serializer.loads_typed(serializer.dumps_typed([Address()]))[0]
    assert address.model_dump(exclude_unset=True) == {}


def test_an_attribute_that_is_no_field_comes_back() -> None:
    serializer, value = ItemSerializer(lambda data: data), Counted(1)
    value.seen.append(2)
    assert serializer.loads_typed(serializer.dumps_typed(value)).seen == [0, 2]


def test_a_private_attribute_comes_back() -> None:
    serializer, value = ItemSerializer(lambda data: data), Holder(address=Address())
    value.keep(5)
    assert serializer.loads_typed(serializer.dumps_typed(value)).kept == 5


def test_a_key_is_masked_whichever_way_it_is_saved() -> None:
    serializer = ItemSerializer(lambda data: data.replace(b"sk-secret", b"*" * 9))
    for value in ({"k": "a sk-secret b"}, {"k": ("a sk-secret b",)}):
        text = serializer.loads_typed(serializer.dumps_typed(value))["k"]
        assert "a ********* b" in (text if isinstance(text, str) else text[0])


def test_what_nothing_can_save_is_an_error() -> None:
    with pytest.raises(TypeError):
        ItemSerializer(lambda data: data).dumps_typed({"lock": threading.Lock()})

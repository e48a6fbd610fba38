"""What coordinator and worker say to each other, on the wire."""

from __future__ import annotations

import dataclasses
import json
import typing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentos.engine.messages import (
    CustomData,
    DocumentNamed,
    DocumentWriter,
    DownMessage,
    Heartbeat,
    ItemDone,
    ItemFailed,
    ItemOpened,
    ItemStopped,
    Message,
    NodeReady,
    Proceed,
    StartItem,
    StopItem,
    decode_down,
    decode_up,
    encode,
)
from agentos.keys.leases import Lease, LeaseGranted
from agentos.providers.evidence import LearnedLimit
from agentos.wire import LineBuffer

START = StartItem(
    item_id="a1",
    workflow="lld",
    run_id="r",
    attempt=2,
    input={"text": "ä\n\x00\ud800", "deep": [{"n": 1.5}], "none": None},
    checkpoint_address="p/a1.db",
    work_dir="p",
    fresh=True,
    heartbeat_seconds=5.0,
    stop_grace_seconds=2,
    environment={"A": "1"},
    options={"config": {"recursion_limit": 9}},
)
FINISHED = [("draft", 0.25), ("review", 1.0)]
EXAMPLES: list[Message] = [
    START,
    Proceed(),
    StopItem(),
    ItemOpened(resumed_after=None, pid=7),
    ItemOpened(resumed_after="draft", pid=7, notice="set aside"),
    NodeReady(node="draft", finished=FINISHED),
    CustomData(node="draft", data={"done": [1, None]}),
    Heartbeat(),
    ItemDone(outcome="approved", reason="", finished=FINISHED, outputs=["a.md"], is_parked=True),
    ItemFailed(error_type="E", message="m", traceback="t\nt", finished=[], is_run_fault=True, cause="undecided"),
    ItemStopped(),
    DocumentNamed(path="a.md"),
    DocumentWriter(path="a.md", item_id="a1"),
]
_DOWN = typing.get_args(DownMessage)


def decode(line: bytes) -> Message:
    """As whoever it is for reads it."""
    try:
        return decode_up(line)
    except ValueError:
        return decode_down(line)


@pytest.mark.parametrize("message", EXAMPLES, ids=lambda message: type(message).__name__)
def test_a_message_arrives_as_it_was_sent_in_one_line(message: Message) -> None:
    line = encode(message)
    assert line.count(b"\n") == 1
    assert decode(line) == message


def _example_of(hint: typing.Any) -> st.SearchStrategy[typing.Any]:
    json_values = st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner, max_size=3), max_leaves=5
    )
    members = typing.get_args(hint) or (hint,)
    if all(dataclasses.is_dataclass(member) for member in members):
        return st.one_of(*(_record_of(member) for member in members))
    return {
        str: st.text(),
        typing.Any: json_values,
        int: st.integers(),
        float: st.floats(allow_nan=False),
        bool: st.booleans(),
        str | None: st.none() | st.text(),
        int | None: st.none() | st.integers(),
        float | None: st.none() | st.floats(allow_nan=False),
        dict[str, typing.Any]: st.dictionaries(st.text(), json_values, max_size=3),
        dict[str, str]: st.dictionaries(st.text(), st.text(), max_size=3),
        list[str]: st.lists(st.text(), max_size=3),
        tuple[str, ...]: st.lists(st.text(), max_size=3).map(tuple),
        tuple[LearnedLimit, ...]: st.lists(_record_of(LearnedLimit), max_size=2).map(tuple),
        tuple[tuple[int, str, int, tuple[str, ...]], ...]: st.lists(
            st.tuples(st.integers(), st.text(), st.integers(), st.lists(st.text(), max_size=2).map(tuple)), max_size=2
        ).map(tuple),
        list[tuple[str, float]]: st.lists(st.tuples(st.text(), st.floats(allow_nan=False)), max_size=3),
    }[hint]


def _record_of(kind: typing.Any) -> st.SearchStrategy[typing.Any]:
    fields = typing.get_type_hints(kind).items()
    return st.deferred(lambda: st.builds(kind, **{name: _example_of(hint) for name, hint in fields}))


ANY_MESSAGE = st.one_of(*(_record_of(kind) for kind in typing.get_args(Message)))


@settings(max_examples=150, deadline=None)
@given(ANY_MESSAGE)
def test_every_kind_with_any_content_arrives_as_it_was_sent(message: Message) -> None:
    assert decode(encode(message)) == message


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{",
        b"5",
        b"null",
        b"[]",
        b'["Heartbeat"]',
        b'["Heartbeat", {}, 1]',
        b'["Heartbeat", 5]',
        b'["Heartbeat", null]',
        b'["Heartbeat", {"extra": 1}]',
        b'["Nonsense", {}]',
        b'[["Heartbeat"], {}]',
        b'{"Heartbeat": 1, "b": 2}',
        b'["NodeReady", {"finished": []}]',
        b'["NodeReady", {"node": 5, "finished": []}]',
        b'["NodeReady", {"node": "n", "finished": 7}]',
        b'["NodeReady", {"node": "n", "finished": [["a"]]}]',
        b'["NodeReady", {"node": "n", "finished": ["ab"]}]',
        b'["NodeReady", {"node": "n", "finished": [["a", "soon"]]}]',
        b'["NodeReady", {"node": "n", "finished": [["a", true]]}]',
        b'["ItemDone", {"outcome": null, "reason": "", "finished": [], "outputs": [], "is_parked": false}]',
        b'["ItemDone", {"outcome": "x", "reason": "", "finished": [], "outputs": [1], "is_parked": false}]',
        b'["ItemDone", {"outcome": "x", "reason": "", "finished": [], "outputs": [], "is_parked": 1}]',
        b'["ItemOpened", {"resumed_after": 5, "notice": ""}]',
        b'["LeaseReturn", {"fence": 1, "evidence": ["Nonsense", {}]}]',
        b'["LeaseReturn", {"fence": 1, "evidence": ["Ask", {"provider": "google", "model": "m"}]}]',
        b'["LeaseReturn", {"fence": 1, "evidence": ["Overloaded", {"retry_after_seconds": "soon"}]}]',
        b'["LeaseReturn", {"fence": 1, "evidence": null}]',
        b'["Abandoned", {}]',
        b"\xff\xfe",
        b"[" * 100_000,
    ],
    ids=lambda line: line[:60].decode("ascii", "replace"),
)
def test_anything_else_on_the_wire_is_a_value_error(line: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  Its kind is the contract, not its words.
        decode(line)


@settings(max_examples=50, deadline=None)
@given(ANY_MESSAGE)
def test_nobody_is_told_what_is_not_for_them(message: Message) -> None:
    read_by_the_wrong_side = decode_up if isinstance(message, _DOWN) else decode_down
    with pytest.raises(ValueError):  # noqa: PT011
        read_by_the_wrong_side(encode(message))


@settings(max_examples=60, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(max_size=3),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
        max_leaves=6,
    )
)
def test_no_json_can_do_worse_than_a_value_error(value: object) -> None:
    for line in (json.dumps(value), json.dumps(["ItemFailed", value]), json.dumps([value, {}])):
        with pytest.raises(ValueError):  # noqa: PT011
            decode(line.encode())


def test_a_secret_is_not_part_of_what_an_error_shows() -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        decode(b'["LeaseGranted", {"ticket": 1, "lease": ["Lease", {"secret": "sk-very-secret"}]}]')
    assert "sk-very" not in str(caught.value)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.binary(max_size=8), max_size=6), st.data())
def test_any_chunking_gives_the_same_lines(lines: list[bytes], data: st.DataObject) -> None:
    lines = [line.replace(b"\n", b"") for line in lines]
    stream = b"".join(line + b"\n" for line in lines)
    buffer, got = LineBuffer(), []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        got += buffer.feed(stream[:size])
        stream = stream[size:]
    assert got == lines


def test_a_line_is_given_only_when_it_is_whole() -> None:
    buffer = LineBuffer()
    assert buffer.feed(b"ab") == []
    assert buffer.feed(b"c\nd") == [b"abc"]
    assert buffer.feed(b"") == []
    assert buffer.feed(b"\n\n") == [b"d", b""]


def test_a_peer_that_never_ends_its_line_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LineBuffer, "LIMIT", 1_000)
    buffer = LineBuffer()
    buffer.feed(b"x" * 1_000)
    with pytest.raises(ValueError, match="too long"):
        buffer.feed(b"x")


def test_every_message_has_a_name_of_its_own_on_the_wire() -> None:
    names = [kind.__name__ for kind in typing.get_args(Message)]
    assert len(set(names)) == len(names)


def test_a_lease_that_is_shown_shows_no_secret() -> None:
    lease = Lease(key_name="a", fence=1, provider="google", model="m", secret="sk-very-secret")
    granted = LeaseGranted(ticket=1, lease=lease)
    assert decode(encode(granted)) == granted
    assert "sk-very" not in f"{lease!r}{lease}{granted!r}{granted}"

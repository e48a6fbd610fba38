"""Events of a stream that comes as one JSON list, wherever the network cuts it."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agentos.providers.answers import ListWatch

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(alphabet='ab"\\[]{}:,é\n'),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(alphabet='k"\\{['), inner, max_size=3),
    max_leaves=8,
)
EVENTS = st.lists(st.dictionaries(st.text(max_size=3), VALUES, max_size=3), max_size=4)


def _watched(document: bytes, cuts: list[int]) -> tuple[ListWatch, list[Any]]:
    seen: list[Any] = []
    watch = ListWatch("google", {}, on_event=seen.append)
    places = sorted({0, len(document), *(cut % (len(document) + 1) for cut in cuts)})
    for start, end in pairwise(places):
        watch.feed(document[start:end])
    return watch, seen


@given(EVENTS, st.lists(st.integers(0, 10_000), max_size=8), st.booleans())
def test_each_member_of_the_list_is_an_event(events: list[Any], cuts: list[int], spaced: bool) -> None:
    document = json.dumps(events, indent=2 if spaced else None, ensure_ascii=spaced).encode()
    assert _watched(document, cuts)[1] == events


def test_a_document_that_is_no_list_is_one_event_and_an_error_is_seen() -> None:
    error = {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "details": [{"a": [1]}]}}
    for document in (error, [error]):
        watch, seen = _watched(json.dumps(document).encode(), [7, 20])
        assert (seen, watch.has_error, watch.has_begun) == ([error], True, True)


def test_it_is_over_when_an_event_says_so() -> None:
    events = [{"candidates": [{"content": {}}]}, {"candidates": [{"finishReason": "STOP"}]}]
    document = json.dumps(events).encode()
    assert not _watched(document[:-5], [])[0].is_over
    assert _watched(document, [])[0].is_over

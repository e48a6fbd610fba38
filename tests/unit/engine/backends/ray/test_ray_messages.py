"""What goes between the coordinator and nodes comes out as it went in, however it is cut on the way."""

from __future__ import annotations

import pytest

from agentos.engine.backends.ray.chunks import PIECE_BYTES, Assembly, in_pieces
from agentos.engine.backends.ray.messages import Frames, Said, Wrote, as_bytes, as_text, frame, from_node
from agentos.engine.backends.ray.moved_paths import MovedPaths
from agentos.engine.messages import NodeReady


@pytest.mark.parametrize("step", [1, 3, 7, 1000])
def test_frames_are_whole_wherever_they_are_cut(step: int) -> None:
    sent = [(0, b"one"), (3, b""), (65_535, b"x" * 500)]
    data = b"".join(frame(channel, payload) for channel, payload in sent)
    frames = Frames()
    heard = [each for start in range(0, len(data), step) for each in frames.feed(data[start : start + step])]
    assert heard == sent


@pytest.mark.parametrize("block", [b"plain\n", "schön\n".encode(), b"\xff\xfe not text\n", b"\x1b[31mred\x1b[0m\n"])
def test_output_keeps_its_bytes(block: bytes) -> None:
    line = from_node.encode(Wrote(item_id="a", block=as_text(block)))
    assert line.count(b"\n") == 1
    heard = from_node.decode(line)
    assert isinstance(heard, Wrote)
    assert as_bytes(heard.block) == block


def test_a_worker_s_message_is_the_same_type_as_on_one_machine() -> None:
    said = Said(item_id="a", message=NodeReady(node="draft", finished=[("plan", 0.5)]))
    assert from_node.decode(from_node.encode(said)) == said


@pytest.mark.parametrize("size", [0, 1, PIECE_BYTES, PIECE_BYTES + 1, 3 * PIECE_BYTES])
def test_long_things_travel_in_pieces(size: int) -> None:
    content = bytes(range(256)) * (size // 256 + 1)
    content = content[:size]
    assembly = Assembly()
    *early, whole = [assembly.add(piece) for piece in in_pieces("key", content)]
    assert whole == content
    assert early == [None] * len(early)


def test_paths_are_translated_both_ways_and_others_stay() -> None:
    moved = MovedPaths((("/home/me/.agentos", "/n/home"), ("/home/me/project", "/n/project")))
    assert moved.there("/home/me/project/docs/a.md") == "/n/project/docs/a.md"
    assert moved.back("/n/project/docs/a.md") == "/home/me/project/docs/a.md"
    assert moved.there("/home/me/project") == "/n/project"
    assert moved.there("/home/me/project-two/a") == "/home/me/project-two/a"
    assert moved.knows("/home/me/project/src")
    assert not moved.knows("/home/me")

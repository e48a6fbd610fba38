"""Packed bodies, taken apart in bearable pieces."""

from __future__ import annotations

import gzip
import zlib

import pytest

from agentos.gateway.packing import PackingError, Unpacker, unpacked

BODY = b"what the provider says, " * 20_000


@pytest.mark.parametrize("encoding", ["", "identity"])
def test_a_plain_body_is_itself(encoding: str) -> None:
    assert unpacked(BODY, encoding, len(BODY)) == BODY


@pytest.mark.parametrize("encoding", ["gzip", "GZIP", " x-gzip", "identity, gzip", "deflate"])
@pytest.mark.parametrize("step", [1, 7, 100_000])
def test_a_packed_body_is_whole_in_whatever_pieces_it_comes(encoding: str, step: int) -> None:
    packed = zlib.compress(BODY) if encoding == "deflate" else gzip.compress(BODY[:9]) + gzip.compress(BODY[9:])
    unpacker = Unpacker(encoding)
    plain = b"".join(p for at in range(0, len(packed), step) for p in unpacker.pieces(packed[at : at + step]))
    assert plain == BODY


def test_zeros_after_the_end_are_no_part_of_it() -> None:
    assert unpacked(gzip.compress(BODY) + bytes(512), "gzip", len(BODY)) == BODY


def test_a_bomb_is_unpacked_no_further_than_is_bearable() -> None:
    bomb = gzip.compress(bytes(50_000_000))
    assert len(unpacked(bomb, "gzip", 1_000_000)) == 1_000_000
    assert max(len(piece) for piece in Unpacker("gzip").pieces(bomb)) <= 64 * 1024


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, gzip", "deflate, gzip"])
def test_a_packing_that_nobody_asked_for_is_not_read(encoding: str) -> None:
    with pytest.raises(PackingError):
        unpacked(BODY, encoding, len(BODY))


def test_what_is_not_packed_as_it_says_is_not_read() -> None:
    with pytest.raises(PackingError):
        unpacked(BODY, "gzip", len(BODY))

"""The last lines of a stream."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agentos.text.tail import Tail

LINES = st.lists(st.text(st.characters(blacklist_characters="\n\r", codec="utf-8"), max_size=30), max_size=30)


def test_the_last_lines_stay_and_earlier_ones_go() -> None:
    tail = Tail(most_lines=2)
    tail.add(b"one\n")
    tail.add(b"two\nthree\n")
    assert tail.block() == b"two\nthree\n"


def test_a_line_that_is_too_long_to_keep_is_kept_by_its_end_alone_only_if_there_is_nothing_else() -> None:
    tail = Tail(most_bytes=8)
    tail.add(b"0123456789abc\nyes\n")
    assert tail.block() == b"yes\n"
    tail.add(b"0123456789abc\n")
    assert tail.block() == b"6789abc\n"
    tail.add("ääääää\n".encode())
    assert tail.block() == "äää\n".encode()


@given(st.lists(LINES, max_size=5))
def test_it_holds_no_more_than_it_may_and_only_what_came_last(blocks: list[list[str]]) -> None:
    tail, whole = Tail(most_lines=3, most_bytes=64), b""
    for lines in blocks:
        block = "".join(f"{line}\n" for line in lines).encode()
        tail.add(block)
        whole += block
    assert whole.endswith(tail.block())
    assert len(tail.block()) <= 64
    assert tail.block().count(b"\n") <= 3

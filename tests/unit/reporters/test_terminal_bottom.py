"""What stays at the bottom of a terminal: bytes that draw it, take it away and leave nothing behind."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from terminal import Screen

from agentos.reporters.terminal_bottom import DrawnLine, LiveBlock


class Window:
    """A block of some lines in a window of some size; what it sends is drawn on a screen that reflows."""

    def __init__(self, columns: int = 40, rows: int = 20) -> None:
        self.columns, self.rows = columns, rows
        self.lines: list[str] = []
        self.may_draw = True
        self.sent = b""
        self.typed = b""
        self.block = LiveBlock(
            self._draw,
            lambda: (self.columns, self.rows),
            may_draw=lambda: self.may_draw,
            typed_bytes=lambda: len(self.typed),
        )

    def _draw(self, columns: int, rows: int, now: float) -> Sequence[DrawnLine]:
        return [DrawnLine(text[:columns], len(text[:columns])) for text in self.lines]

    def show(self, *lines: str, above: str = "", now: float = 0.0) -> None:
        self.lines = list(lines)
        self.sent += self.block.redrawn(now, above.encode())

    def enter(self, text: str = "") -> None:
        """Somebody types a line, and the terminal shows it."""
        self.typed += f"{text}\n".encode()
        self.sent += f"{text}\n".encode()

    def screen(self) -> list[str]:
        return Screen(self.columns).feed(self.sent.replace(b"\n", b"\r\n")).rows


def test_lines_go_by_above_and_the_cursor_stands_below() -> None:
    window = Window()
    window.show("one", "two")
    window.show("three", above="hello\n")
    assert window.screen() == ["hello", "three", ""]
    window.show()
    assert window.screen() == ["hello", ""]


def test_nothing_is_sent_when_nothing_changes() -> None:
    window = Window()
    window.show("one")
    sent = window.sent
    window.show("one", now=5.0)
    assert window.sent == sent
    assert window.block.drawn_at == 5.0


def test_lines_for_above_wait_for_the_next_drawing() -> None:
    window = Window()
    window.show("one")
    assert window.block.repeated(b"a\n") == b""
    assert window.block.repeated(b"b\n") == b""
    assert window.block.is_stale
    window.show("one")
    assert window.screen() == ["a", "b", "one", ""]


def test_erased_it_leaves_what_was_said_above_and_nothing_else() -> None:
    window = Window()
    window.show("one", "two")
    window.block.repeated(b"last words\n")
    window.sent += window.block.erased()
    window.sent += window.block.erased()
    assert window.screen() == ["last words", ""]


def test_a_terminal_that_does_not_keep_up_gets_lines_and_no_block_until_it_does() -> None:
    window = Window()
    window.show("one")
    window.may_draw = False
    window.show("two", above="hello\n")
    assert window.screen() == ["hello", ""]
    assert window.block.is_stale
    window.may_draw = True
    window.show("two")
    assert window.screen() == ["hello", "two", ""]
    assert not window.block.is_stale


def test_a_block_that_others_have_written_over_is_drawn_below_them() -> None:
    window = Window()
    window.show("one")
    window.sent += b"$ ls\n"
    window.block.forget()
    window.show("two")
    assert window.screen() == ["one", "$ ls", "two", ""]


@pytest.mark.parametrize("text", ["", "ls -l"])
def test_a_line_that_somebody_types_leaves_nothing_of_the_block_behind(text: str) -> None:
    window = Window()
    window.show("one", "two", above="hello\n")
    window.enter(text)
    window.show("one", "two", now=1.0)
    assert window.screen() == ["hello", "one", "two", ""]
    window.show("three", above="ended\n", now=2.0)
    assert window.screen() == ["hello", "ended", "three", ""]


def test_of_many_lines_typed_at_once_no_line_above_is_lost() -> None:
    window = Window()
    window.show("one", above="hello\n")
    window.enter()
    window.enter()
    window.show("one", now=1.0)
    assert window.screen()[0] == "hello"
    assert window.screen()[-2:] == ["one", ""]


def test_each_drawing_is_one_frame() -> None:
    window = Window()
    window.show("one")
    window.show("two", above="x\n")
    assert re.fullmatch(rb"(\x1b\[\?2026h[^\x00]*?\x1b\[\?2026l){2}", window.sent)


SHOWS = st.tuples(
    st.lists(st.text("abc", min_size=1, max_size=60), max_size=8), st.sampled_from(["", "x\n", "y\nz\n"])
)


@given(st.lists(SHOWS, max_size=8), st.integers(2, 60))
def test_whatever_was_drawn_only_the_lines_above_are_left(shows: list[tuple[list[str], str]], columns: int) -> None:
    window = Window(columns)
    for number, (lines, above) in enumerate(shows):
        window.show(*lines, above=above, now=float(number))
    window.sent += window.block.erased()
    assert window.screen() == [*"".join(above for _, above in shows).splitlines(), ""]


@given(st.lists(st.text("abc", min_size=1, max_size=60), min_size=1, max_size=6), st.integers(10, 60))
def test_a_window_made_narrower_is_cleared_of_the_pieces(lines: list[str], narrower: int) -> None:
    """On a terminal that breaks lines anew, as most do."""
    window = Window(61)
    window.show(*lines, above="hello\n")
    window.columns = narrower
    window.show("now")
    assert window.screen() == ["hello", "now", ""]

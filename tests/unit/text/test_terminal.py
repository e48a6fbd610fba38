"""Whatever a worker prints, the terminal shows text: nothing moves the cursor, hides a line or poses as another."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agentos.text.terminal import clean_block

COLOUR = re.compile(r"\x1b\[[0-9;:]*m")
UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")

# Bytes that meet in a worker's output are rarely uniform noise: give the interesting ones a good chance.
SEQUENCES = [
    b"\x1b",
    b"\x1b[",
    b"\x1b]",
    b"\x1bP",
    b"\x1b\\",
    b"\x07",
    b"\x18",
    b"0;31",
    b"m",
    b"\x1b[31m",
    b"\x1b[0m",
    b"\x1b[2J",
]
CHARACTERS = [
    b"\n",
    b"\r",
    b"\x00",
    b"\x7f",
    b"\xc2",
    b"\x9b",
    b"\xe2\x80",
    b"\xae",
    b"\xff",
    b"[",
    b"(",
    b"text",
    "é".encode(),
]
FRAGMENTS = st.sampled_from(SEQUENCES + CHARACTERS)
BLOCKS = st.lists(FRAGMENTS | st.binary(max_size=4), max_size=30).map(lambda parts: b"".join(parts) + b"\n")


def clean(text: str | bytes, *, keep_colour: bool = False) -> str:
    block = text.encode() if isinstance(text, str) else text
    return clean_block(block + b"\n", keep_colour=keep_colour).decode().removesuffix("\n")


@pytest.mark.parametrize(
    "text", ["", "plain", "a\ttab", "two\nlines", "naïve – “quotes” 中文 🎉", "│ box │", "\u200fעברית"]
)
@pytest.mark.parametrize("keep_colour", [True, False])
def test_ordinary_text_is_not_changed(text: str, keep_colour: bool) -> None:
    assert clean(text, keep_colour=keep_colour) == text


def test_a_clean_block_is_not_even_copied() -> None:
    ascii_block, utf8_block = b"one\ntwo\n", "eins\nzwölf\n".encode()
    assert clean_block(ascii_block, keep_colour=True) is ascii_block
    assert clean_block(utf8_block, keep_colour=True) is utf8_block


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (b"a\x00b", r"a\x00b"),
        (b"bell\x07", r"bell\x07"),
        (b"ab\x08\x08", r"ab\x08\x08"),
        (b"\x0b\x0c\x7f", r"\x0b\x0c\x7f"),
        (b"was\rnow", r"was\x0dnow"),
        (b"\xff\xfe", r"\xff\xfe"),
        (b"cut \xe2\x82", r"cut \xe2\x82"),
        (b"overlong \xc0\xaf", r"overlong \xc0\xaf"),
        (b"surrogate \xed\xa0\x80", r"surrogate \xed\xa0\x80"),
        (b"8-bit CSI \x9b2J", r"8-bit CSI \x9b2J"),
        ("C1 CSI \u009b2J", r"C1 CSI \u009b2J"),
        ("next line \u0085", r"next line \u0085"),
        ("\u2028 \u2029", r"\u2028 \u2029"),
        ("\u202e override \u2066 isolate \u2069", r"\u202e override \u2066 isolate \u2069"),
    ],
)
def test_controls_and_invalid_bytes_become_visible_escapes(raw: str | bytes, shown: str) -> None:
    assert clean(raw) == shown


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("\x1b[2J\x1b[H[COORDINATOR] fake", "[COORDINATOR] fake"),
        ("up\x1b[1A\x1b[2K\x1b[?25lhere", "uphere"),
        ("\x1b]0;a title\x07text", "text"),
        ("\x1b]2;a title\x1b\\text", "text"),
        ("\x1b]8;;https://example.com\x1b\\link\x1b]8;;\x1b\\ end", "link end"),
        ("before\x1b]0;never ended", "before"),
        ("\x1b]0;given up\x1b[1mtext", "text"),
        ("\x1b]0;cancelled\x18text", r"\x18text"),
        ("\x1bPq#0;2;0;0;0\x07~~\x1b\\text", "text"),
        ("\x1b_apc\x1b\\\x1b^pm\x1b\\\x1bXsos\x1b\\text", "text"),
        ("\x1bPtmux;\x1b\x1b]0;title\x07\x1b\\text", "text"),
        ("\x1bc\x1b7\x1b8\x1b=\x1bMtext", "text"),
        ("\x1b(0\x1b)B\x1b#8\x1b%Gtext", "text"),
        ("\x1b[>4;2m\x1b[?1mtext", "text"),
        ("\x1b[ qtext", "text"),
        ("cut short\x1b[38;5", "cut short"),
        ("lone\x1b", "lone"),
        ("\x1b\x1b\x1b[2Jtext", "text"),
        ("\x1b\x1b[2J[31mtext", "[31mtext"),
        ("\x1b[3\x081mtext", r"\x081mtext"),
    ],
)
@pytest.mark.parametrize("keep_colour", [True, False])
def test_sequences_other_than_colour_are_removed(raw: str, shown: str, keep_colour: bool) -> None:
    assert COLOUR.sub("", clean(raw, keep_colour=keep_colour)) == shown


def test_colour_is_removed_unless_it_is_kept() -> None:
    text = "\x1b[1;31mred\x1b[0m \x1b[38:2::1:2:3mrgb\x1b[m"
    assert clean(text) == "red rgb"
    assert clean(text, keep_colour=True) == text + "\x1b[0m"


def test_kept_colour_ends_with_its_line() -> None:
    block = b"\x1b[31mred\nplain\n\x1b[32mgreen\x1b[0m\n"
    assert clean_block(block, keep_colour=True) == b"\x1b[31mred\x1b[0m\nplain\n\x1b[32mgreen\x1b[0m\n"


def test_a_character_that_appears_by_removing_a_sequence_is_caught() -> None:
    assert clean(b"\xc2\x1b[K\x9b2J") == r"\u009b2J"


@settings(deadline=None, max_examples=250)
@given(block=BLOCKS, keep_colour=st.booleans())
@example(block=b"\x1b[31m\x1b\n\x1b]\n", keep_colour=True)
def test_any_bytes_come_out_safe_with_as_many_lines(block: bytes, keep_colour: bool) -> None:
    cleaned = clean_block(block, keep_colour=keep_colour)

    assert cleaned.count(b"\n") == block.count(b"\n")
    text = cleaned.decode()
    assert not UNSAFE.search(COLOUR.sub("", text) if keep_colour else text)
    for line in text.split("\n"):
        assert "\x1b" not in line or line.endswith("\x1b[0m")
    assert clean_block(cleaned, keep_colour=keep_colour) == cleaned


@settings(deadline=None, max_examples=100)
@given(first=BLOCKS, second=BLOCKS, keep_colour=st.booleans())
def test_lines_are_cleaned_each_by_itself(first: bytes, second: bytes, keep_colour: bool) -> None:
    apart = clean_block(first, keep_colour=keep_colour) + clean_block(second, keep_colour=keep_colour)
    assert clean_block(first + second, keep_colour=keep_colour) == apart


@pytest.mark.parametrize(
    "unit",
    [b"\x1b", b"\x1b[", b"\x1b]", b"\x1b[0m", b"\x1b[0;", b"\x00", b"\xff", b"\xc2\x9b", b"\x1b[0m\x1b[K", b"0;"],
    ids=repr,
)
@pytest.mark.parametrize("start", [b"", b"\x1b[", b"\x1b]"], ids=repr)
def test_a_line_of_megabytes_that_means_ill_is_cleaned_in_one_pass(unit: bytes, start: bytes) -> None:
    # A part of a second; a step that is quadratic in the line takes hours. `benchmarks/growth.py` has the ratio.
    cleaned = clean_block(start + unit * (2_000_000 // len(unit)) + b"\n", keep_colour=True)

    assert cleaned.endswith(b"\n")
    assert cleaned.count(b"\n") == 1

"""Whole lines, each with its prefix: the assembler, the prefixing of blocks, and the stream built on both."""

from __future__ import annotations

import io
import logging
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agentos.text.output_prefixer import LineAssembler, OutputPrefixer, prefix_block

# Mostly line ends and a few letters, so that short inputs meet every rule.
BYTES = st.lists(
    st.sampled_from([b"a", b"b", b"\r", b"\n", b"\r\n", b"\x00"]) | st.binary(max_size=3), max_size=40
).map(b"".join)
LIMITS = st.sampled_from([1, 2, 3, 5, 100, 16 * 1024 * 1024])


def assembled(*chunks: bytes, max_line_bytes: int = 1000) -> bytes:
    assembler = LineAssembler(max_line_bytes)
    return b"".join([*(assembler.feed(chunk) for chunk in chunks), assembler.finish()])


def byte_by_byte(data: bytes, max_line_bytes: int) -> bytes:
    """The rules said once more, slowly: what the lines of `data` are."""
    out, line, is_returned, is_continued = bytearray(), bytearray(), False, False
    for byte in data:
        if byte == ord("\n"):
            if line or not is_continued:
                out += line + b"\n"
            line, is_returned, is_continued = bytearray(), False, False
        elif byte == ord("\r"):
            is_returned = True
        else:
            if is_returned:
                line, is_returned = bytearray(), False
            if len(line) == max_line_bytes:
                out += line + b"\n"
                line, is_continued = bytearray(), True
            line.append(byte)
    return bytes(out + line + b"\n" if line else out)


@pytest.mark.parametrize(
    ("raw", "lines"),
    [
        (b"", b""),
        (b"one\ntwo\n", b"one\ntwo\n"),
        (b"no newline", b"no newline\n"),
        (b"\n\n", b"\n\n"),
        (b"dos\r\nlines\r\n\r\n", b"dos\nlines\n\n"),
        (b"10%\r50%\r100%\n", b"100%\n"),
        (b"\r10%\r50%\r100%\r\n", b"100%\n"),
        (b"50%\r", b"50%\n"),
        (b"50%\r\r\r\n", b"50%\n"),
        (b"longer text\rshort\n", b"short\n"),
        (b"a\nx\ry\nb\np\rq\nc\n", b"a\ny\nb\nq\nc\n"),
        (b"\r\r\r", b""),
        (b"\r\n", b"\n"),
    ],
)
def test_lines_end_as_on_a_terminal(raw: bytes, lines: bytes) -> None:
    assert assembled(raw) == lines
    assert assembled(*(raw[i : i + 1] for i in range(len(raw)))) == lines


def test_a_line_comes_out_as_soon_as_it_is_complete() -> None:
    assembler = LineAssembler()
    assert assembler.feed(b"one") == b""
    assert assembler.has_partial
    assert assembler.feed(b" line\ntwo\nthr") == b"one line\ntwo\n"
    assert assembler.feed(b"ee\n") == b"three\n"
    assert not assembler.has_partial


def test_a_carriage_return_at_the_end_of_a_chunk_waits_for_what_follows() -> None:
    assembler = LineAssembler()
    assert assembler.feed(b"text\r") == b""
    assert assembler.has_partial
    assert assembler.feed(b"\nnext\r") == b"text\n"
    assert assembler.feed(b"last\n") == b"last\n"


@pytest.mark.parametrize("max_line_bytes", [4, 1000])
def test_a_carriage_return_before_any_text_changes_nothing(max_line_bytes: int) -> None:
    assembler = LineAssembler(max_line_bytes)
    assert assembler.feed(b"\r") + assembler.feed(b"ab") + assembler.feed(b"cd") + assembler.finish() == b"abcd\n"


def test_a_prompt_is_shown_without_its_newline_and_the_rest_is_the_next_line() -> None:
    assembler = LineAssembler()
    assembler.feed(b"Continue? ")
    assert assembler.flush_partial() == b"Continue? \n"
    assert not assembler.has_partial
    assert assembler.flush_partial() == b""
    assert assembler.feed(b"yes\n") == b"yes\n"


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r\r\n"])
def test_the_end_of_a_line_that_was_flushed_is_not_shown_as_an_empty_line(end: bytes) -> None:
    assembler = LineAssembler()
    assembler.feed(b"done")
    assert assembler.flush_partial() == b"done\n"
    assert assembler.feed(end + b"\nnext\n") == b"\nnext\n"


def test_progress_is_flushed_in_its_last_state() -> None:
    assembler = LineAssembler()
    assembler.feed(b"10%\r20%\r")
    assert assembler.flush_partial() == b"20%\n"
    assert assembler.feed(b"30%\r40%\n") == b"40%\n"


def test_a_finished_assembler_is_as_new() -> None:
    assembler = LineAssembler()
    assembler.feed(b"left")
    assert assembler.finish() == b"left\n"
    assert assembler.feed(b"\n") == b"\n"


def test_a_line_beyond_the_limit_comes_out_in_pieces() -> None:
    assert assembled(b"abcdefgh\nij\n", max_line_bytes=3) == b"abc\ndef\ngh\nij\n"
    assert assembled(b"abcdef\n", max_line_bytes=3) == b"abc\ndef\n"
    assert assembled(b"abcd\rx\n", max_line_bytes=3) == b"abc\nx\n"


def test_a_limit_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="max_line_bytes"):
        LineAssembler(0)


@settings(deadline=None, max_examples=300)
@given(data=BYTES, cuts=st.lists(st.integers(0, 120), max_size=12), max_line_bytes=LIMITS)
@example(data=b"\rab", cuts=[1, 2], max_line_bytes=100)
@example(data=b"abc\r\n\n", cuts=[4], max_line_bytes=3)
def test_any_chunking_of_any_bytes_gives_the_same_lines(data: bytes, cuts: list[int], max_line_bytes: int) -> None:
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    chunks = [data[start:end] for start, end in pairwise(edges)]
    assert assembled(*chunks, max_line_bytes=max_line_bytes) == byte_by_byte(data, max_line_bytes)


@settings(deadline=None, max_examples=100)
@given(chunks=st.lists(BYTES, max_size=8), max_line_bytes=st.integers(1, 6))
def test_no_more_than_the_limit_is_ever_held_back(chunks: list[bytes], max_line_bytes: int) -> None:
    assembler = LineAssembler(max_line_bytes)
    for chunk in chunks:
        block = assembler.feed(chunk)
        assert block == b"" or block.endswith(b"\n")
        assert b"\r" not in block
        assert max(map(len, block.split(b"\n"))) <= max_line_bytes
        assert len(assembler.flush_partial()) <= max_line_bytes + 1


def test_a_long_line_in_small_chunks_is_not_copied_for_each_of_them() -> None:
    # A part of a second; a copy of the line for each chunk would move terabytes.
    assembler = LineAssembler()
    for _ in range(200_000):
        assembler.feed(b"x" * 80)
    assert len(assembler.finish()) == 16_000_000 + 1


@pytest.mark.parametrize(
    ("block", "everywhere", "where_there_is_text"),
    [
        (b"", b"", b""),
        (b"a\n", b"[X] a\n", b"[X] a\n"),
        (b"a\nb\n", b"[X] a\n[X] b\n", b"[X] a\n[X] b\n"),
        (b"\n", b"[X] \n", b"\n"),
        (b"\n\n\n\n\n", b"[X] \n" * 5, b"\n\n\n\n\n"),
        (b"\na\n\n\nb\n\n", b"[X] \n[X] a\n[X] \n[X] \n[X] b\n[X] \n", b"\n[X] a\n\n\n[X] b\n\n"),
        (b"[X] \n", b"[X] [X] \n", b"[X] [X] \n"),
    ],
)
def test_every_line_of_a_block_gets_the_prefix(block: bytes, everywhere: bytes, where_there_is_text: bytes) -> None:
    assert prefix_block(b"[X]", block) == everywhere
    assert prefix_block(b"[X]", block, prefix_empty=False) == where_there_is_text


@settings(deadline=None, max_examples=100)
@given(
    lines=st.lists(st.sampled_from([b"", b"", b"a", b"[X]", b"[X] ", b"text"]), max_size=12),
    prefix_empty=st.booleans(),
)
def test_prefixing_a_block_is_prefixing_each_line(lines: list[bytes], prefix_empty: bool) -> None:
    expected = [b"[X] " + line if line or prefix_empty else line for line in lines]
    block = b"".join(line + b"\n" for line in lines)
    assert prefix_block(b"[X]", block, prefix_empty=prefix_empty) == b"".join(line + b"\n" for line in expected)


class RecordingStream(io.StringIO):
    """A stream that remembers each call."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[str] = []
        self.flush_count = 0

    def write(self, text: str, /) -> int:
        self.writes.append(text)
        return super().write(text)

    def flush(self) -> None:
        self.flush_count += 1
        super().flush()


@pytest.fixture
def stream() -> RecordingStream:
    return RecordingStream()


def test_the_stream_behind_gets_one_whole_line_a_write(stream: RecordingStream) -> None:
    prefixer = OutputPrefixer("[LLD-1]", stream=stream)
    assert prefixer.write("one\ntwo\nthr") == 11
    assert prefixer.write("ee\n") == 3
    assert stream.writes == ["[LLD-1] one\n", "[LLD-1] two\n", "[LLD-1] three\n"]


def test_the_prefix_is_used_as_given(stream: RecordingStream) -> None:
    OutputPrefixer("LLD-1:", stream).write("text\n")
    assert stream.writes == ["LLD-1: text\n"]


def test_empty_lines_stay_empty(stream: RecordingStream) -> None:
    OutputPrefixer("[T]", stream=stream).write("a\n\n\nb\n")
    assert stream.writes == ["[T] a\n", "\n", "\n", "[T] b\n"]


def test_flush_writes_the_unfinished_line_and_flushes_the_stream_behind(stream: RecordingStream) -> None:
    prefixer = OutputPrefixer("[T]", stream=stream)
    prefixer.write("no end")
    assert stream.writes == []
    prefixer.flush()
    assert stream.writes == ["[T] no end\n"]
    assert stream.flush_count == 1
    prefixer.write("\n")
    assert stream.writes == ["[T] no end\n"]


def test_lines_are_cleaned_and_keep_their_colour(stream: RecordingStream) -> None:
    OutputPrefixer("[T]", stream=stream).write("\x1b[2J\x1b[31mred\x07\n10%\r90%\nlone \udcff\n")
    assert stream.writes == ["[T] \x1b[31mred\\x07\x1b[0m\n", "[T] 90%\n", "[T] lone \\udcff\n"]


def test_it_looks_like_a_text_stream(stream: RecordingStream) -> None:
    prefixer = OutputPrefixer("[T]", stream=stream)
    assert prefixer.writable()
    assert not prefixer.readable()
    assert not prefixer.isatty()
    assert prefixer.encoding == "utf-8"
    with pytest.raises(io.UnsupportedOperation):
        prefixer.fileno()
    latin = io.TextIOWrapper(io.BytesIO(), encoding="latin-1")
    assert OutputPrefixer("[T]", latin).encoding == "latin-1"


def test_closing_writes_what_is_left_and_leaves_the_stream_behind_open(stream: RecordingStream) -> None:
    prefixer = OutputPrefixer("[T]", stream=stream)
    prefixer.write("left")
    prefixer.close()
    prefixer.close()
    assert stream.writes == ["[T] left\n"]
    assert not stream.closed
    with pytest.raises(ValueError, match="closed"):
        prefixer.write("more")


@pytest.fixture
def restored_streams() -> Iterator[None]:
    stdout, stderr = sys.stdout, sys.stderr
    yield
    sys.stdout, sys.stderr = stdout, stderr


@pytest.mark.usefixtures("restored_streams")
def test_as_a_context_manager_it_redirects_both_streams_each_to_its_own(stream: RecordingStream) -> None:
    before = sys.stdout, sys.stderr
    errors = RecordingStream()
    with OutputPrefixer("[T]", stream, errors) as prefixer:
        assert sys.stdout is prefixer
        print("out", end="")
        print("err", end="", file=sys.stderr)
    assert (sys.stdout, sys.stderr) == before
    assert stream.getvalue() == "[T] out\n"
    assert errors.getvalue() == "[T] err\n"


@pytest.mark.usefixtures("restored_streams")
def test_given_one_stream_both_go_there(stream: RecordingStream) -> None:
    with OutputPrefixer("[T]", original_stdout=stream):
        print("out")
        print("err", file=sys.stderr)
    assert stream.writes == ["[T] out\n", "[T] err\n"]


@pytest.mark.usefixtures("restored_streams")
def test_given_no_stream_it_stands_before_those_of_the_process(capsys: pytest.CaptureFixture[str]) -> None:
    with OutputPrefixer("[T]"):
        print("out")
        print("err", file=sys.stderr)
    assert capsys.readouterr() == ("[T] out\n", "[T] err\n")


@pytest.mark.usefixtures("restored_streams")
def test_an_exception_restores_the_streams_and_loses_nothing(stream: RecordingStream) -> None:
    before = sys.stdout, sys.stderr

    def fail() -> None:
        with OutputPrefixer("[T]", stream):
            print("last words", end="")
            raise RuntimeError("boom")

    with pytest.raises(RuntimeError, match="boom"):
        fail()
    assert (sys.stdout, sys.stderr) == before
    assert stream.writes == ["[T] last words\n"]


@pytest.mark.usefixtures("restored_streams")
def test_entered_twice_it_unwinds_in_order(stream: RecordingStream) -> None:
    before = sys.stdout, sys.stderr
    prefixer = OutputPrefixer("[T]", stream)
    with prefixer:
        with prefixer:
            print("inner")
        assert sys.stdout is prefixer
        print("outer")
    assert (sys.stdout, sys.stderr) == before
    assert stream.writes == ["[T] inner\n", "[T] outer\n"]


def test_prints_of_many_threads_never_mix(stream: RecordingStream) -> None:
    prefixer = OutputPrefixer("[T]", stream=stream)
    barrier = threading.Barrier(8)

    def work(number: int) -> None:
        barrier.wait(timeout=30)
        for step in range(50):
            print("worker", number, "step", step, file=prefixer, flush=step % 7 == 0)

    run_threads([partial(work, number) for number in range(8)])

    assert sorted(stream.writes) == sorted(f"[T] worker {n} step {s}\n" for n in range(8) for s in range(50))


def test_a_flush_leaves_the_unfinished_line_of_another_thread_alone(stream: RecordingStream) -> None:
    prefixer = OutputPrefixer("[T]", stream=stream)
    has_begun, may_end = threading.Event(), threading.Event()

    def write_in_two_steps() -> None:
        prefixer.write("half and ")
        has_begun.set()
        may_end.wait(timeout=30)
        prefixer.write("half\n")

    thread = threading.Thread(target=write_in_two_steps)
    thread.start()
    assert has_begun.wait(timeout=30)
    logging.StreamHandler(prefixer).emit(logging.makeLogRecord({"msg": "a record"}))
    may_end.set()
    thread.join(timeout=30)

    assert stream.writes == ["[T] a record\n", "[T] half and half\n"]


def test_a_flush_writes_what_ended_threads_left(stream: RecordingStream) -> None:
    prefixer = OutputPrefixer("[T]", stream=stream)
    run_threads([lambda: prefixer.write("left behind")])
    prefixer.flush()
    assert stream.writes == ["[T] left behind\n"]


def run_threads(targets: list[Callable[[], object]]) -> None:
    threads = [threading.Thread(target=target) for target in targets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
        assert not thread.is_alive()

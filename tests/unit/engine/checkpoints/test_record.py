"""The line beside a database: written in place or whole, never half believed."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from agentos.engine.checkpoints import record
from agentos.engine.checkpoints.protocol import Standing

STANDING = Standing("draft", "abc", questions=[{"document": "text\nof a draft"}], answer="yes", is_untouched=False)


@pytest.mark.parametrize("is_lasting", [True, False])
def test_what_is_written_is_read(tmp_path: Path, is_lasting: bool) -> None:
    path = tmp_path / "a.json"
    assert record.read(path) is None
    for standing in (STANDING, Standing("a much longer name than before" * 40), Standing(), STANDING):
        record.write(path, record.to_text(standing), is_lasting=is_lasting)
        assert record.read(path) == standing
    assert list(tmp_path.iterdir()) == [path]


def test_records_of_the_same_kind_have_one_length(tmp_path: Path) -> None:
    """So that writing one in place changes no file size, which the next sync would wait for."""
    path = tmp_path / "a.json"
    sizes = set()
    for node in ("n", "N2_validate_the_draft"):
        record.write(path, record.to_text(Standing(node, "a" * 64)), is_lasting=False)
        sizes.add(path.stat().st_size)
    assert sizes == {512}


@pytest.mark.parametrize("content", [b"", b"\0" * 512, b"nonsense", b"00000000 {}\n", b"{}"])
def test_what_was_torn_is_none(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(content)
    assert record.read(path) is None


@pytest.mark.parametrize(
    "text", ["{}", "[]", "nonsense", '{"format": 0}', '{"format": 1, "colour": "red"}', '{"format": 99}']
)
def test_what_another_version_wrote_is_none(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.json"
    record.write(path, text, is_lasting=False)
    assert record.read(path) is None
    assert record.from_text(text) is None


def test_a_reader_beside_a_writer_sees_whole_records(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    standings = [Standing("short"), Standing("a longer name" * 20)]
    record.write(path, record.to_text(standings[0]), is_lasting=False)
    enough = threading.Event()

    def write() -> None:
        number = 0
        while not enough.is_set():
            number += 1
            record.write(path, record.to_text(standings[number % 2]), is_lasting=False)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        seen = [record.read(path) for _ in range(2_000)]
    finally:
        enough.set()
        writer.join()
    assert all(peek is None or peek in standings for peek in seen)

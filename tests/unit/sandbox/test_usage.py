"""What open files take up that have no name."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agentos.sandbox.usage import TooDeep, bytes_written, nameless_bytes

_MB = 1024 * 1024


def test_files_without_a_name_are_counted_once_in_memory_and_on_disk(tmp_path: Path) -> None:
    before = sum(nameless_bytes([os.getpid()]))
    memory_before = nameless_bytes([os.getpid()])[0]
    gone, named = tmp_path / "gone", tmp_path / "named"
    memory = os.memfd_create("x")
    try:
        os.write(memory, b"x" * _MB)
        with gone.open("wb", buffering=0) as first, named.open("wb", buffering=0) as second:
            gone.unlink()
            for file in (first, second):
                file.write(b"x" * _MB)
                os.fsync(file.fileno())
            again = os.dup(first.fileno())
            found = nameless_bytes([os.getpid(), os.getpid()])
            os.close(again)
    finally:
        os.close(memory)
    assert found[0] - memory_before >= _MB
    assert 2 * _MB <= sum(found) - before < 3 * _MB


def test_a_process_that_is_gone_has_none() -> None:
    assert nameless_bytes([2**22 + 1]) == (0, 0)


def test_what_no_path_leads_to_cannot_be_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for _ in range(20):
        Path("d" * 250).mkdir()
        os.chdir("d" * 250)
    with pytest.raises(TooDeep):
        bytes_written([str(tmp_path)], since=0, enough=10**9)

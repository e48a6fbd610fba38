"""Files that are whole or absent, whatever happens while they are written."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from agentos import files
from agentos.files import create_private, locked, read_regular, write_private, write_whole


def test_a_write_that_fails_leaves_the_old_content_and_nothing_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "record.json"
    write_whole(path, "old")

    def fail(_descriptor: int) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(files.os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        write_whole(path, "new")
    assert path.read_text() == "old"
    assert [each.name for each in tmp_path.iterdir()] == ["record.json"]


def test_folders_are_made_and_modes_are_as_promised(tmp_path: Path) -> None:
    write_private(tmp_path / "keys" / "salt", "secret")
    write_whole(tmp_path / "keys" / "other", b"bytes")
    assert stat.S_IMODE((tmp_path / "keys").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "keys" / "salt").stat().st_mode) == 0o600
    assert (tmp_path / "keys" / "other").read_bytes() == b"bytes"


def test_a_file_that_exists_is_not_created_again(tmp_path: Path) -> None:
    assert create_private(tmp_path / "salt", "first")
    assert not create_private(tmp_path / "salt", "second")
    assert (tmp_path / "salt").read_text() == "first"
    assert [each.name for each in tmp_path.iterdir()] == ["salt"]


def test_links_and_pipes_are_not_read(tmp_path: Path) -> None:
    target = tmp_path / "text"
    target.write_text("hello")
    (tmp_path / "link").symlink_to(target)
    os.mkfifo(tmp_path / "pipe")
    assert read_regular(target, 4) == b"hell"
    assert read_regular(tmp_path / "link", 9, follow_link=True) == b"hello"
    for name in ("link", "pipe"):
        with pytest.raises(OSError, match=r".+"):
            read_regular(tmp_path / name, 9)


def test_a_lock_tells_who_holds_it(tmp_path: Path) -> None:
    with locked(tmp_path / "locks" / "a.lock"):
        assert (tmp_path / "locks" / "a.lock").read_text().strip() == str(os.getpid())

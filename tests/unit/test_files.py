"""Files that are whole or absent, whatever happens while they are written."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from agentos import files
from agentos.files import create_private, files_below, locked, read_regular, remove_tree, write_private, write_whole


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


def test_a_folder_goes_however_deep_it_is_and_whoever_may_enter_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, doomed = tmp_path / "kept", tmp_path / "doomed"
    for folder in (kept, doomed):
        folder.mkdir()
    (kept / "file").write_text("mine")
    (doomed / "link").symlink_to(kept)
    monkeypatch.chdir(doomed)
    for _ in range(1500):
        Path("d").mkdir()
        os.chdir("d")
    Path("file").write_text("x")
    Path("closed", "inner").mkdir(parents=True)
    Path("closed").chmod(0o000)
    doomed.chmod(0o000)
    os.chdir(tmp_path)

    remove_tree(doomed)

    assert not doomed.exists()
    assert (kept / "file").read_text() == "mine"


def test_a_link_in_the_place_of_a_folder_changes_nothing_where_it_leads(tmp_path: Path) -> None:
    """Code under test may have put it there."""
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o755)
    (shared / "file").write_text("mine")
    (tmp_path / "doomed").symlink_to(shared)

    remove_tree(tmp_path / "doomed")

    assert stat.S_IMODE(shared.stat().st_mode) == 0o755
    assert (shared / "file").read_text() == "mine"


def test_files_are_found_however_deep_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_whole(tmp_path / "a" / "b" / "file", "")
    write_whole(tmp_path / ".hidden" / "file", "")
    (tmp_path / "loop").symlink_to(tmp_path)
    monkeypatch.chdir(tmp_path / "a")
    for _ in range(1500):
        Path("d").mkdir()
        os.chdir("d")
    Path("file").write_text("x")
    os.chdir(tmp_path)

    found = [
        Path(entry.path).relative_to(tmp_path) for entry in files_below(tmp_path, lambda name: name != ".hidden")
    ]

    assert sorted(len(path.parts) for path in found) == [1, 3, 1_502]
    remove_tree(tmp_path / "a")

"""What `outputs.write` takes as a place for a document, and what it refuses there and then."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from agentos import outputs


def test_outside_a_run_a_document_is_written_at_once_with_its_folders(tmp_path: Path) -> None:
    outputs.write(tmp_path / "new" / "a.md", "text")
    assert (tmp_path / "new" / "a.md").read_text() == "text"


def test_a_document_is_written_through_a_link_to_it(tmp_path: Path) -> None:
    (tmp_path / "real.md").write_text("old")
    (tmp_path / "link.md").symlink_to("real.md")
    outputs.write(tmp_path / "link.md", "new")
    assert (tmp_path / "link.md").is_symlink()
    assert (tmp_path / "real.md").read_text() == "new"


@pytest.mark.parametrize(("make", "what"), [(Path.mkdir, "a folder"), (os.mkfifo, "not a regular file")])
def test_what_is_no_regular_file_is_refused(tmp_path: Path, make: Callable[[Path], None], what: str) -> None:
    make(tmp_path / "place")
    with pytest.raises(outputs.UnusableTarget, match=f"place: it is {what}"):
        outputs.write(tmp_path / "place", "text")


def test_devices_are_refused() -> None:
    with pytest.raises(outputs.UnusableTarget, match="/dev/null: it is not a regular file"):
        outputs.write("/dev/null", "text")


def test_a_path_with_a_null_character_is_refused_and_shown_as_it_is() -> None:
    with pytest.raises(outputs.UnusableTarget, match=r"'a\\x00b' is not a path for a document"):
        outputs.write("a\0b", "text")

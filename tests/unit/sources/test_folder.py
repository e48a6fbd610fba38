"""A folder of Markdown as a source: ids, order, what is left out, and what is refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agentos.errors import UsageError
from agentos.sources import FolderSource, ItemKind


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    directory = tmp_path / "docs" / "issues"
    directory.mkdir(parents=True)
    return directory


def write(folder: Path, name: str, text: str | bytes = "# Title\n") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def ids(folder: Path, kind: ItemKind = ItemKind.ISSUE) -> list[str]:
    return [item.id for item in FolderSource(folder, kind=kind).items()]


def test_issues_take_the_number_their_name_starts_with_and_come_in_natural_order(folder: Path) -> None:
    for name in ("10-ten.md", "2-two.md", "0042_title.md", "7.md", "#8-hash.md", "login-page.md", "0-zero.md"):
        write(folder, name)

    assert ids(folder) == ["0", "2", "7", "8", "10", "42", "login-page"]


def test_front_matter_names_the_id_before_the_file_does(folder: Path) -> None:
    write(folder, "5-five.md", "---\nid: 77\n---\n# Five\n")
    write(folder, "notes.md", '---\nid: "#0012"\n---\n# Twelve\n')

    assert ids(folder) == ["12", "77"]


def test_briefs_take_the_slug_of_their_name_numbers_included(folder: Path) -> None:
    for name in ("Login Page.md", "2fa-for-admins.md", "Café menü.md", "snake_case.md"):
        write(folder, name)

    assert sorted(ids(folder, ItemKind.BRIEF)) == ["2fa-for-admins", "cafe-menu", "login-page", "snake_case"]


def test_an_item_carries_its_title_text_origin_priority_labels_and_dependencies(folder: Path) -> None:
    text = (
        "---\npriority: high\nlabels: [ready, backend]\ndepends_on: [7, login-page]\n---\n"
        "# Issue title\n\nDepends on #106.\n"
    )
    path = write(folder, "42-x.md", text)

    [item] = FolderSource(folder).items()

    assert item.title == "Issue title"
    assert item.text == text
    assert item.origin == str(path)
    assert item.priority == 10
    assert item.labels == ("ready", "backend")
    assert set(item.depends_on) == {"7", "login-page", "106"}
    assert item.state == "open"


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("---\ntitle: From front matter\n---\n# Heading\n", "From front matter"),
        ("## Second\n\n# First level\n", "First level"),
        ("```\n# code\n```\nNo heading at all.\n", "4 some name"),
        ("", "4 some name"),
    ],
)
def test_the_title_is_the_best_the_file_offers(folder: Path, text: str, title: str) -> None:
    write(folder, "4-some_name.md", text)

    assert FolderSource(folder).items()[0].title == title


def test_a_closed_issue_says_so(folder: Path) -> None:
    write(folder, "1-a.md", "---\nstatus: Done\n---\n")
    write(folder, "2-b.md", "---\nstate: open\n---\n")

    assert [item.state for item in FolderSource(folder).items()] == ["closed", "open"]


def test_dependencies_are_ids_of_items_however_they_are_written(folder: Path) -> None:
    write(folder, "3-c.md", "---\ndepends_on: [0042]\n---\n# C\n\nDepends on #42, #007 and #4\n")
    write(
        folder,
        "5-e.md",
        "# E\n\nDepends on #issue-123 (the page), _#Login_page_ and #3-#4.\n\n## Blocked by\n\n- #a-1\n",
    )

    assert [item.depends_on for item in FolderSource(folder).items()] == [
        ("42", "7", "4"),
        ("issue-123", "Login_page", "3", "a-1"),
    ]


def test_an_id_that_two_files_claim_is_one_items_problem(folder: Path) -> None:
    write(folder, "1-good.md")
    write(folder, "42-first.md")
    write(folder, "0042_second.md")
    write(folder, "a.md", "---\nid: Login\n---\n")
    write(folder, "b.md", "---\nid: login\n---\n")

    problems = {item.id: item.problem for item in FolderSource(folder).items()}

    assert sorted(problems) == ["1", "42", "Login"]
    assert problems["1"] == ""
    assert problems["42"].startswith("42-first.md has the id 42 too: rename one")
    assert problems["Login"].startswith("b.md has the id Login too")


@pytest.mark.parametrize("unsafe", ["../../etc/passwd", "a b", "con", "x" * 200])
def test_a_file_with_an_unsafe_id_fails_under_the_id_of_its_name(folder: Path, unsafe: str) -> None:
    write(folder, "1-good.md")
    write(folder, "2-evil.md", f"---\nid: {unsafe}\n---\n# Evil\n")

    good, evil = FolderSource(folder).items()

    assert (good.id, good.problem) == ("1", "")
    assert (evil.id, evil.text) == ("2", "")
    assert "Invalid identifier" in evil.problem


def test_a_name_without_a_letter_or_digit_asks_for_an_id(folder: Path) -> None:
    write(folder, "日本.md")
    write(folder, "1-good.md")

    listing = FolderSource(folder).read()

    assert [item.id for item in listing.items] == ["1"]
    assert "id: some-name" in listing.problems[0].reason


def test_what_cannot_be_read_is_an_items_problem_and_stops_nobody(folder: Path, tmp_path: Path) -> None:
    write(folder, "1-good.md")
    write(folder, "2-latin.md", b"# Caf\xe9\n")
    write(folder, "3-huge.md", "x" * 1_000_001)
    os.mkfifo(folder / "4-pipe.md")
    secret = write(tmp_path, "secret.md", "private")
    (folder / "5-link.md").symlink_to(secret)
    (folder / "6-dangling.md").symlink_to(folder / "nothing.md")
    write(folder, "1-unreadable.md", b"\xff")  # Its number is another's: it goes by its whole name.

    items = {item.id: item for item in FolderSource(folder).items()}

    assert list(items) == ["1", "1-unreadable", "2", "3", "4", "5", "6"]
    assert "not UTF-8 (byte 6)" in items["2"].problem
    assert "1 MB" in items["3"].problem
    assert "regular" in items["4"].problem
    assert "out of the folder" in items["5"].problem
    assert "cannot be read" in items["6"].problem
    assert "not UTF-8" in items["1-unreadable"].problem
    assert [item.id for item in items.values() if not item.problem] == ["1"]


def test_a_link_within_the_folder_is_another_name_for_a_file(folder: Path) -> None:
    target = write(folder, "_kept.md", "# Kept\n")
    (folder / "9-nine.md").symlink_to(target)

    assert ids(folder) == ["9"]


def test_a_byte_order_mark_and_windows_line_ends_are_no_part_of_the_front_matter(folder: Path) -> None:
    write(folder, "x.md", b"\xef\xbb\xbf---\r\nid: 5\r\n---\r\n# T\r\n")

    assert ids(folder) == ["5"]


def test_an_unknown_priority_is_reported_and_taken_as_none(folder: Path) -> None:
    write(folder, "1-a.md", "---\npriority: hihg\n---\n")
    write(folder, "2-b.md", "---\npriority: -3\n---\n")

    listing = FolderSource(folder).read()

    assert [item.priority for item in listing.items] == [0, -3]
    assert "hihg" in listing.problems[0].reason


def test_files_that_are_no_items_are_left_alone(folder: Path) -> None:
    for name in ("README.md", "_template.md", ".hidden.md", "notes.txt", "index.md"):
        write(folder, name)
    (folder / "dir.md").mkdir()

    assert ids(folder) == []


def test_a_missing_folder_is_a_usage_error_that_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="agentos init"):
        FolderSource(tmp_path / "nowhere").items()

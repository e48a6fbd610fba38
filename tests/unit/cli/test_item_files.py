"""Items from whatever users have."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentos.cli.item_files import read_item_text, read_items
from agentos.errors import UsageError


def read(tmp_path: Path, name: str, text: str, key: str | None = None) -> list[tuple[str, object]]:
    (tmp_path / name).write_text(text)
    return [(item.id, item.input) for item in read_items(read_item_text(str(tmp_path / name)), key)]


def test_csv_json_arrays_and_plain_lines(tmp_path: Path) -> None:
    table = 'id,topic,priority,depends_on\na,"x, y",3,\nb,z,,a\n'
    assert read(tmp_path, "i.csv", table) == [("a", {"topic": "x, y"}), ("b", {"topic": "z"})]
    assert read_items(read_item_text(str(tmp_path / "i.csv")))[1].depends_on == ("a",)
    assert read(tmp_path, "n.csv", "topic\nx\ny\n") == [("1", {"topic": "x"}), ("2", {"topic": "y"})]
    assert read(tmp_path, "i.json", '[{"id": "a", "input": [1, 2]}, {"id": "b", "input": "text"}]') == [
        ("a", [1, 2]),
        ("b", "text"),
    ]
    assert read(tmp_path, "i.txt", "one\n\ntwo\n", "text") == [("1", {"text": "one"}), ("2", {"text": "two"})]
    assert read(tmp_path, "t.json", '["one", {"n": 2}]', "text") == [
        ("1", {"text": "one"}),
        ("2", {"text": {"n": 2}}),
    ]


def test_a_folder_has_one_item_per_file(tmp_path: Path) -> None:
    for name, text in {"b two.md": "B", "a.md": "A", ".hidden": "no"}.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "folder").mkdir()

    assert [(i.id, i.input) for i in read_items(read_item_text(str(tmp_path)), "text")] == [
        ("a", {"text": "A"}),
        ("b-two", {"text": "B"}),
    ]
    with pytest.raises(UsageError, match="--input-key"):
        read_items(read_item_text(str(tmp_path)))


@pytest.mark.parametrize("other", ["a.txt", "a-.md"])
def test_two_files_of_one_name_are_not_one_item_even_if_they_are_equal(tmp_path: Path, other: str) -> None:
    for name in ("a.md", other):
        (tmp_path / name).write_text("same")

    with pytest.raises(UsageError, match=r"a.md.* would both be item 'a'"):
        read_items(read_item_text(str(tmp_path)), "text")


def test_a_folder_without_files_says_that_its_folders_are_not_looked_at(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a.md").write_text("A")

    with pytest.raises(UsageError, match=r"no files in it. Those of its folders are not looked at"):
        read_items(read_item_text(str(tmp_path)), "text")


def test_a_table_takes_no_input_key(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--input-key is not for CSV"):
        read(tmp_path, "i.csv", "topic\nx\n", "topic")


def test_config_context_and_environment_of_an_item(tmp_path: Path) -> None:
    line = '{"id": "a", "config": {"recursion_limit": 9}, "context": {"lang": "de"}, "env": {"A": "1"}}\n'
    (tmp_path / "i.jsonl").write_text(line)
    [item] = read_items(read_item_text(str(tmp_path / "i.jsonl")))

    assert item.options == {"config": {"recursion_limit": 9}, "context": {"lang": "de"}}
    assert item.environment == {"A": "1"}


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("i.csv", "id,a\nx,1,2\n", "i.csv, line 2: 2 columns expected"),
        ("i.json", '[{"id": "a", "input": {"n": 1, "n": 2}}]', "'n' is there twice"),
        ("i.csv", "id,a,a\nx,1,2\n", "line 1: a column is there twice"),
        ("i.csv", "id,priority\nx,high\n", "line 2: priority must be a whole number"),
        ("i.json", '{"id": "a"}', "expected a JSON array"),
        ("i.json", "[", "i.json: not valid JSON"),
        ("i.json", '[{"id": "a"}, {"x": 1}]', "i.json, line 2: unknown key 'x'"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(tmp_path: Path, name: str, text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        read(tmp_path, name, text)

"""Ids that could lead out of their folder, or mean something else to a file system, are refused with a clear line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentos.errors import ExitCode, InvalidIdentifier
from agentos.paths import checkpoints_dir
from agentos.workflows.parallel.input_sanitizer import (
    build_checkpoint_db_path,
    sanitize_identifier,
    sanitize_issue_number,
)

DEVICE_NAMES = {"con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(10))}


@pytest.mark.parametrize("value", ["42", "LLD-42", "a_b-C", "-", "x" * 128, "console", "com10", "null"])
def test_a_safe_id_comes_back_unchanged(value: str) -> None:
    assert sanitize_identifier(value) == value
    assert sanitize_issue_number(value) == value


@pytest.mark.parametrize(
    "value", ["../etc/passwd", "..\\windows\\system32", "/etc/passwd", "C:\\Windows", "a/b", "a\\b", "/"]
)
def test_path_separators_are_named_as_the_problem(value: str) -> None:
    with pytest.raises(InvalidIdentifier, match=r"Invalid identifier .*path separators not allowed"):
        sanitize_identifier(value)


@pytest.mark.parametrize(
    ("value", "character"),
    [
        ("item@001", r"'@' at position 5"),
        ("item 001", r"' ' at position 5"),
        ("42\n", r"'\n' at position 3"),
        ("..", r"'.' at position 1"),
        ("\u0430dmin", r"'\u0430' at position 1"),
        ("\uff14\uff12", r"'\uff14' at position 1"),
        ("a\x00", r"'\x00' at position 2"),
    ],
)
def test_the_first_invalid_character_is_pointed_at(value: str, character: str) -> None:
    with pytest.raises(InvalidIdentifier, match="invalid characters") as raised:
        sanitize_identifier(value)
    assert character in str(raised.value)


@pytest.mark.parametrize("value", ["con", "NUL", "Prn", "aux", "COM1", "lpt9", "com0"])
def test_windows_device_names_are_refused_in_any_case(value: str) -> None:
    with pytest.raises(InvalidIdentifier, match="Windows"):
        sanitize_identifier(value)


def test_length_is_one_to_128() -> None:
    with pytest.raises(InvalidIdentifier, match="empty"):
        sanitize_identifier("")
    with pytest.raises(InvalidIdentifier, match="129 characters"):
        sanitize_identifier("x" * 129)


def test_the_error_is_a_value_error_and_a_usage_error() -> None:
    with pytest.raises(ValueError, match="Invalid identifier") as raised:
        sanitize_issue_number("a b")
    assert isinstance(raised.value, InvalidIdentifier)
    assert raised.value.exit_code is ExitCode.USAGE


@settings(deadline=None)
@given(st.text(max_size=80))
def test_a_refused_value_is_shown_on_one_short_line_of_printable_ascii(value: str) -> None:
    try:
        sanitize_identifier(value)
    except InvalidIdentifier as error:
        message = str(error)
        assert message.isascii()
        assert message.isprintable()
        assert len(message) < 900


@settings(deadline=None)
@given(
    st.text(max_size=140)
    | st.from_regex(r"[a-zA-Z0-9_-]{1,140}\n?", fullmatch=True)
    | st.sampled_from(sorted(DEVICE_NAMES))
)
def test_accepted_is_exactly_the_documented_set(value: str) -> None:
    is_safe = bool(re.fullmatch(r"[a-zA-Z0-9_-]{1,128}", value)) and value.lower() not in DEVICE_NAMES
    if is_safe:
        assert sanitize_identifier(value) == value
    else:
        with pytest.raises(InvalidIdentifier):
            sanitize_identifier(value)


def test_the_database_path_names_project_type_and_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTOS_HOME", str(tmp_path / "home"))
    project_dir = tmp_path / "project"

    path = build_checkpoint_db_path("lld", "42", project_dir)

    assert path == checkpoints_dir(project_dir) / "lld_workflow_42.db"
    assert path.is_relative_to(tmp_path / "home" / "checkpoints")
    assert not (tmp_path / "home").exists()


def test_the_same_id_in_two_projects_has_two_databases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTOS_HOME", str(tmp_path))
    assert build_checkpoint_db_path("lld", "7", tmp_path / "a") != build_checkpoint_db_path(
        "lld", "7", tmp_path / "b"
    )


def test_without_a_project_the_one_around_the_current_directory_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENTOS_HOME", str(tmp_path / "home"))
    (tmp_path / "project" / "src").mkdir(parents=True)
    (tmp_path / "project" / "agentos.toml").touch()
    monkeypatch.chdir(tmp_path / "project" / "src")

    assert build_checkpoint_db_path("issue", "7") == build_checkpoint_db_path("issue", "7", tmp_path / "project")


@pytest.mark.parametrize(
    ("workflow_type", "item_id"), [("../lld", "42"), ("lld", "../42"), ("", "42"), ("x" * 65, "42")]
)
def test_an_unsafe_type_or_id_gets_no_path(workflow_type: str, item_id: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidIdentifier):
        build_checkpoint_db_path(workflow_type, item_id, tmp_path)


def test_the_longest_names_allowed_make_a_file_that_can_be_created(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENTOS_HOME", str(tmp_path))
    path = build_checkpoint_db_path("t" * 64, "i" * 128, tmp_path)
    path.parent.mkdir(parents=True)
    journal = path.with_name(path.name + "-journal")
    journal.touch()
    assert journal.exists()

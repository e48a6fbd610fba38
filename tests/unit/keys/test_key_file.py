"""The file of keys as it changes during a run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agentos.keys.credentials import CredentialSet
from agentos.keys.key_file import SETTLED_SECONDS, KeyFile

NOW = 1_750_000_000.0


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "credentials.toml"
    write(path, "before", NOW - 100)
    return path


def write(path: Path, text: str, at: float) -> None:
    path.write_text(text)
    os.utime(path, (at, at))


def test_a_file_that_an_editor_has_emptied_is_read_when_it_is_written(path: Path, clock: Clock) -> None:
    read: list[str] = []

    def load() -> CredentialSet:
        read.append(path.read_text())
        return CredentialSet(())

    key_file = KeyFile(path, load, clock)
    write(path, "", NOW)
    for _ in range(3):  # As several calls ask at once.
        assert key_file.changed_keys() is None
    clock.now = NOW + SETTLED_SECONDS
    write(path, "after", clock.now)
    assert key_file.changed_keys() is None
    clock.now += SETTLED_SECONDS
    assert key_file.changed_keys() is not None
    assert key_file.changed_keys() is None
    assert read == ["after"]


def test_what_was_written_a_while_ago_is_read_at_once(path: Path, clock: Clock) -> None:
    key_file = KeyFile(path, lambda: CredentialSet(()), clock)
    write(path, "after", NOW - 50)
    assert key_file.changed_keys() is not None


@pytest.mark.parametrize("at", [NOW - 100, NOW, NOW + 50], ids=["as before", "now", "by another clock"])
def test_what_may_be_written_still_is_read_when_it_looks_the_same_a_while_later(
    path: Path, clock: Clock, at: float
) -> None:
    key_file = KeyFile(path, lambda: CredentialSet(()), clock)
    for text in ("", "half"):
        write(path, text, at)
        assert key_file.changed_keys() is None
    clock.now += SETTLED_SECONDS
    assert key_file.changed_keys() is not None
    assert key_file.changed_keys() is None


def test_a_file_that_is_gone_may_be_about_to_come_back(path: Path, clock: Clock) -> None:
    key_file = KeyFile(path, lambda: CredentialSet(()), clock)
    path.unlink()
    assert key_file.changed_keys() is None
    clock.now += SETTLED_SECONDS
    assert key_file.changed_keys() is not None

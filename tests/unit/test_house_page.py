"""The page of the house names every room, and only files that are there."""

from __future__ import annotations

import re
from pathlib import Path

from test_import_directions import PACKAGE_DIR, ROOMS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "design" / "house.md").read_text()
ROOM_TABLE, WAYS = PAGE.partition("## The way of a command")[::2]


def test_every_room_has_its_line() -> None:
    named = set(re.findall(r"`([a-z_]+)(?:\.py|/)`", ROOM_TABLE))
    assert {room.partition(".")[0] for room in ROOMS} <= named


def test_the_way_of_each_command_leads_through_files_that_exist() -> None:
    ways = re.findall(r"`([a-z_/]+(?:\.py|/))`", WAYS.partition("## Twelve changes")[0])
    assert len(ways) > 20
    assert [way for way in ways if not (PACKAGE_DIR / way).exists()] == []


def test_each_of_the_twelve_changes_names_at_most_three_files_that_exist_or_would_be_new() -> None:
    rows = [line.split("|") for line in WAYS.partition("## Twelve changes")[2].splitlines() if line.startswith("| ")]
    changes = {row[1].strip(): re.findall(r"`([A-Za-z_/]+\.[a-z]+)`", row[3]) for row in rows[1:]}
    assert len(changes) == 12
    for change, paths in changes.items():
        assert len(paths) <= 3, change
        known = [path for path in paths if "NAME" not in path and path != "engine/checkpoints/postgres.py"]
        missing = [path for path in known if not any((top / path).exists() for top in (PACKAGE_DIR, ROOT))]
        assert missing == [], change

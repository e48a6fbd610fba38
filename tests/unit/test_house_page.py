"""The page of the house names every room, and only files that are there."""

from __future__ import annotations

import re
from pathlib import Path

from test_import_directions import PACKAGE_DIR, ROOMS

PAGE = (Path(__file__).parents[2] / "docs" / "design" / "house.md").read_text()
ROOM_TABLE, WAYS = PAGE.partition("## The way of a command")[::2]


def test_every_room_has_its_line() -> None:
    named = set(re.findall(r"`([a-z_]+)(?:\.py|/)`", ROOM_TABLE))
    assert {room.partition(".")[0] for room in ROOMS} <= named


def test_the_way_of_each_command_leads_through_files_that_exist() -> None:
    ways = re.findall(r"`([a-z_/]+(?:\.py|/))`", WAYS.partition("## Twelve changes")[0])
    assert len(ways) > 20
    assert [way for way in ways if not (PACKAGE_DIR / way).exists()] == []

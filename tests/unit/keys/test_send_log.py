"""The calls of the last minute on disk: what other runs know of them."""

from __future__ import annotations

from pathlib import Path

from agentos.keys.pool import PastSend
from agentos.keys.send_log import LONGEST_BYTES, SendLog

NOW = 1_790_000_000.0
MARKS = {"alpha": "mark-a", "beta": "mark-b"}


def test_another_run_knows_what_was_just_sent_with_its_keys_once(tmp_path: Path) -> None:
    path = tmp_path / "keys" / "sends.log"
    log, other = SendLog(path), SendLog(path)
    log.note("mark-a", "m", NOW - 200, 7)
    log.note("mark-a", "m", NOW - 5, 7)
    log.note("somebody else's", "m", NOW - 4, 7)
    log.note("mark-b", "n", NOW - 3, 0)
    # Not closed: a kill closes nothing.
    sends = [PastSend("alpha", "m", NOW - 5, 7), PastSend("beta", "n", NOW - 3)]
    assert other.sent_by_others(MARKS, NOW) == sends
    assert other.sent_by_others(MARKS, NOW) == []
    other.note("mark-a", "m", NOW, 1)
    assert other.sent_by_others(MARKS, NOW) == [], "its own it knows already"
    assert log.sent_by_others(MARKS, NOW) == [PastSend("alpha", "m", NOW, 1)]
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_damaged_line_costs_that_line(tmp_path: Path) -> None:
    path = tmp_path / "sends.log"
    path.write_text('[1, "mark-a"\nnull\n[]\n\x00\n')
    SendLog(path).note("mark-a", "m", NOW, 1)
    assert SendLog(path).sent_by_others(MARKS, NOW) == [PastSend("alpha", "m", NOW, 1)]


def test_a_long_log_is_shortened_in_place_when_it_is_opened(tmp_path: Path) -> None:
    path = tmp_path / "sends.log"
    early = SendLog(path)
    early.note("mark-a", "m", NOW, 1)
    with path.open("a") as file:
        file.write('[1000000000.0,"mark-a","m",1,"x"]\n' * (LONGEST_BYTES // 25))
    late = SendLog(path)
    late.note("mark-a", "m", NOW + 1, 1)
    assert path.stat().st_size < LONGEST_BYTES
    early.sent_by_others(MARKS, NOW)
    late.note("mark-b", "m", NOW + 2, 1)
    assert early.sent_by_others(MARKS, NOW + 2) == [PastSend("beta", "m", NOW + 2, 1)]

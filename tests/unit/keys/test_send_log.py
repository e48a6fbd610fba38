"""The calls of the last minute on disk: what the next run knows of them."""

from __future__ import annotations

from pathlib import Path

from agentos.keys.pool import PastSend
from agentos.keys.send_log import LONGEST_BYTES, SendLog

NOW = 1_790_000_000.0
MARKS = {"alpha": "mark-a", "beta": "mark-b"}


def test_another_run_knows_what_was_just_sent_with_its_keys(tmp_path: Path) -> None:
    path = tmp_path / "keys" / "sends.log"
    log = SendLog(path)
    log.note("mark-a", "m", NOW - 200, 7)
    log.note("mark-a", "m", NOW - 5, 7)
    log.note("somebody else's", "m", NOW - 4, 7)
    log.note("mark-b", "n", NOW - 3, 0)
    # Not closed: a kill closes nothing.
    assert SendLog(path).recent(MARKS, NOW) == [PastSend("alpha", "m", NOW - 5, 7), PastSend("beta", "n", NOW - 3)]
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_damaged_line_costs_that_line(tmp_path: Path) -> None:
    path = tmp_path / "sends.log"
    path.write_text('[1, "mark-a"\nnull\n[]\n\x00\n')
    log = SendLog(path)
    log.note("mark-a", "m", NOW, 1)
    assert SendLog(path).recent(MARKS, NOW) == [PastSend("alpha", "m", NOW, 1)]
    assert SendLog(tmp_path / "absent").recent(MARKS, NOW) == []


def test_a_long_log_is_shortened_when_it_is_opened(tmp_path: Path) -> None:
    path = tmp_path / "sends.log"
    path.write_text('[1000000000.0,"mark-a","m",1]\n' * (LONGEST_BYTES // 25))
    log = SendLog(path)
    log.note("mark-a", "m", NOW, 1)
    assert path.stat().st_size < 100
    assert SendLog(path).recent(MARKS, NOW) == [PastSend("alpha", "m", NOW, 1)]

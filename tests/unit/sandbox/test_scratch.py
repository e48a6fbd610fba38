"""Folders that a killed process left."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

import pytest

from agentos.sandbox.scratch import scratch_folder, sweep


def test_what_killed_processes_left_goes_and_what_is_in_use_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    names = ("agentos-tests-left", "agentos-sandbox-left", "agentos-suite-young", "other")
    left, of_a_command, young, foreign = (tmp_path / name for name in names)
    for folder in (left, of_a_command, young, foreign):
        (folder / "deep").mkdir(parents=True)
    for folder in (left, of_a_command, foreign):
        os.utime(folder, (1, 1))
    with scratch_folder("agentos-tests-") as used:
        assert not left.exists()
        assert not of_a_command.exists()
        assert young.exists()
        assert foreign.exists()
        os.utime(used, (1, 1))
        sweep(tmp_path, now=time.time())
        assert used.exists()
    assert not used.exists()

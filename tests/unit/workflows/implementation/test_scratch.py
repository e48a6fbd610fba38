"""Folders that a killed process left."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

import pytest

from agentos.workflows.implementation.scratch import scratch_folder, sweep


def test_what_killed_processes_left_goes_and_what_is_in_use_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    left, young, foreign = (tmp_path / name for name in ("agentos-tests-left", "agentos-suite-young", "other"))
    for folder in (left, young, foreign):
        (folder / "deep").mkdir(parents=True)
    for folder in (left, foreign):
        os.utime(folder, (1, 1))
    with scratch_folder("agentos-tests-") as used:
        assert not left.exists()
        assert young.exists()
        assert foreign.exists()
        os.utime(used, (1, 1))
        sweep(tmp_path, now=time.time())
        assert used.exists()
    assert not used.exists()

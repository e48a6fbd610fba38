"""Which settings a node gets: a worker those of its run, a graph on its own those of the project."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentos.settings import FROZEN_VARIABLE, freeze, load_settings
from agentos.workflows.context import current


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_worker_has_what_it_was_sent_whatever_the_file_and_the_environment_say_now(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = load_settings(project, {"AGENTOS_MAX_ROUNDS": "7"}, {"models.coder": "offline"})
    (project / "agentos.toml").write_text("[limits]\nmax_rounds = 9\n")
    sent = {FROZEN_VARIABLE: freeze(settings), "AGENTOS_ITEM_ID": "1", "AGENTOS_MAX_ROUNDS": "8"}
    for name, value in sent.items():
        monkeypatch.setenv(name, value)
    assert current().settings == settings


def test_a_worker_that_was_sent_none_reads_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTOS_ITEM_ID", "1")
    with pytest.raises(RuntimeError, match=FROZEN_VARIABLE):
        current()


def test_a_graph_that_somebody_invokes_has_what_holds_in_the_project(project: Path) -> None:
    (project / "agentos.toml").write_text("[limits]\nmax_rounds = 9\n")
    assert current().settings.limits.max_rounds == 9

"""The bench that drafting tests work at."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from drafting_bench import Bench

from agentos.workflows.issue import offline as issue_offline
from agentos.workflows.lld import offline as lld_offline


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    project = tmp_path / "project"
    (project / "src").mkdir(parents=True)
    (project / "src/shop.py").write_text("def price(item: str) -> int: ...\n")
    monkeypatch.chdir(project)
    monkeypatch.setenv("AGENTOS_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("AGENTOS_DRAFTER", "offline")
    monkeypatch.setenv("AGENTOS_REVIEWER", "offline")
    # Loaded first: loading a graph registers its own answers.
    import agentos.workflows.issue.graph
    import agentos.workflows.lld.graph  # noqa: F401

    yield Bench(project)
    lld_offline.register()
    issue_offline.register()

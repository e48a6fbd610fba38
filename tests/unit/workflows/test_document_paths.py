"""Where documents and their history are."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentos.settings import Documents, Settings
from agentos.workflows.document_paths import document_paths, lineage_dir


@pytest.mark.parametrize(
    ("workflow", "paths"),
    [
        ("lld", ["docs/lld/active/LLD-7.md", "docs/lld/done/LLD-7.md"]),
        ("issue", ["docs/issues/7.md"]),
        ("implementation", ["docs/reports/7/implementation-report.md"]),
        ("flows-review-graph", []),
    ],
)
def test_each_workflow_has_its_documents_in_the_project(tmp_path: Path, workflow: str, paths: list[str]) -> None:
    found = document_paths(tmp_path, Settings(), workflow, "7")

    assert [str(path.relative_to(tmp_path)) for path in found] == paths


def test_lineage_is_outside_of_the_project_unless_a_folder_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENTOS_HOME", str(tmp_path / "home"))
    project = tmp_path / "project"

    assert lineage_dir(project, Settings(), "LLD-7").is_relative_to(tmp_path / "home" / "lineage")
    named = Settings(documents=Documents(lineage="docs/lineage"))
    assert lineage_dir(project, named, "LLD-7") == project / "docs/lineage/LLD-7"

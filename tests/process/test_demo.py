"""The demo's recordings on the sample's ten issues. What `agentos demo` prints is tested in test_hints.py."""

from __future__ import annotations

from pathlib import Path

import pytest
from backlog import Backlog

from agentos.demo import copy_recordings, make_sample_project
from agentos.documents.approval import Intact, verify_approval

pytestmark = pytest.mark.timeout(600)
_RECORDED = ("--drafter", "recorded", "--reviewer", "recorded")
_APPROVED = (1, 2, 3, 5, 6, 7, 8, 10)
_NEED_A_PERSON = (4, 9)


def make_demo(backlog: Backlog) -> Path:
    """The sample project and its recordings, in a folder of their own."""
    make_sample_project(backlog.root / "shelf")
    copy_recordings(backlog.root / "recorded")
    return backlog.root / "shelf"


def test_the_recorded_designs_are_reviewed_revised_and_left_to_a_person_where_one_is_needed(backlog: Backlog) -> None:
    project = make_demo(backlog)
    folders = {"AGENTOS_HOME": "kept", "AGENTOS_RECORDED_DIR": "recorded"}

    run = backlog.start_lld(
        "--all", "--parallel", "3", *_RECORDED, "--project", "shelf", cwd=backlog.root, env=folders
    )
    finished = run.wait()

    assert finished.code == 3, finished.stdout + finished.stderr
    texts = {number: (project / f"docs/lld/active/LLD-{number}.md").read_text() for number in range(1, 11)}
    assert [n for n, text in texts.items() if isinstance(verify_approval(text), Intact)] == list(_APPROVED)
    assert "Is the fine a fixed amount" in texts[4]
    assert "for the librarians to say" in texts[9]
    assert "os.fsync" in texts[7], "what the first review asks for is in the approved design"
    # Folders given relative to the user's own are those, not some in the project that workers work in.
    assert {path.name for path in project.iterdir() if path.name != ".git"} == {
        *("README.md", "pyproject.toml", "docs", "shelf", "tests"),
    }
    assert list((backlog.root / "kept/lineage").glob("*/LLD-7"))


@pytest.mark.slow
def test_the_recordings_implement_every_approved_issue_of_the_sample(backlog: Backlog) -> None:
    project = make_demo(backlog)

    run = backlog.start_command(
        *("pipeline", "--all", "--parallel", "3", *_RECORDED, "--project", str(project)),
        cwd=backlog.root,
        env={"AGENTOS_RECORDED_DIR": "recorded"},
    )
    finished = run.wait(580)

    assert finished.code == 3, finished.stdout
    outcomes = {str(n): "implemented" for n in _APPROVED} | {str(n): "needs_revision" for n in _NEED_A_PERSON}
    assert backlog.outcomes() == outcomes

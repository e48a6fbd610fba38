"""Documents appear whole when their item succeeds, and not at all otherwise."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest
from harness import Sandbox


def item(item_id: str, **tasks: str) -> dict[str, Any]:
    return {"id": item_id, "input": {"tasks": tasks}}


def documents(sandbox: Sandbox) -> list[str]:
    return sorted(path.name for path in sandbox.project.glob("docs/*"))


def test_documents_appear_when_the_item_succeeds_and_not_before(sandbox: Sandbox) -> None:
    sandbox.write_items(item("a", write_last="wait go"))
    run = sandbox.start(graph="documents")
    sandbox.wait_for_note("a write_last start")

    assert documents(sandbox) == []
    sandbox.release("go")

    assert run.wait().code == 0
    assert documents(sandbox) == ["a-first.md", "a-last.bin"]
    assert (sandbox.project / "docs/a-first.md").read_text() == "# First\n"
    assert (sandbox.project / "docs/a-last.bin").read_bytes() == b"\x00last"


@pytest.mark.parametrize(
    "failure", [pytest.param("fail_once f", marks=pytest.mark.slow), "crash_once f", "kill_once coordinator f"]
)
def test_a_failed_or_killed_item_leaves_nothing_and_has_everything_once_resumed(
    sandbox: Sandbox, failure: str
) -> None:
    sandbox.write_items(item("a", write_last=failure))
    (sandbox.project / "docs").mkdir()
    (sandbox.project / "docs/a-first.md").write_text("an earlier version\n")

    assert sandbox.run(graph="documents").code != 0
    assert documents(sandbox) == ["a-first.md"]
    assert (sandbox.project / "docs/a-first.md").read_text() == "an earlier version\n"

    assert sandbox.run(graph="documents").code == 0
    assert documents(sandbox) == ["a-first.md", "a-last.bin"]
    assert (sandbox.project / "docs/a-first.md").read_text() == "# First\n"
    assert sandbox.notes().count("a write_first start") == 1


def test_an_item_whose_document_is_gone_is_done_again(sandbox: Sandbox) -> None:
    sandbox.write_items(item("a"), item("b"), item("c", write_last="fail_once f", write_first="fail_once g"))
    assert sandbox.run(graph="documents").code == 1
    (sandbox.project / "docs/a-first.md").unlink()
    preview = sandbox.run("--dry-run", graph="documents")
    again = sandbox.run(graph="documents")

    assert ("1. a" in preview.stdout, "[a] completed in run" in again.stdout) == (True, False)
    assert "[b] completed in run" in again.stdout
    assert (sandbox.project / "docs/a-first.md").read_text() == "# First\n"


def test_an_item_whose_graph_ends_as_failed_leaves_no_document(sandbox: Sandbox) -> None:
    sandbox.write_items(
        {"id": "a", "input": {"outcome": "failed"}}, {"id": "b", "input": {"outcome": "needs_revision"}}
    )

    assert sandbox.run(graph="documents").code == 1

    assert sandbox.outcomes() == {"a": "failed", "b": "needs_revision"}
    assert documents(sandbox) == ["b-first.md", "b-last.bin"]


def test_a_stopped_item_leaves_no_document(sandbox: Sandbox) -> None:
    sandbox.write_items(item("a", write_last="wait go"))
    run = sandbox.start(graph="documents")
    sandbox.wait_for_note("a write_last start")

    os.kill(run.pid, signal.SIGINT)

    assert run.wait().code == 130
    assert documents(sandbox) == []


def test_a_document_whose_folder_cannot_be_made_fails_its_item_with_the_path_and_the_reason(sandbox: Sandbox) -> None:
    sandbox.write_items(item("a"))
    (sandbox.project / "docs").touch()

    assert sandbox.run(graph="documents").code == 1

    reason = sandbox.endings()["a"]["reason"]
    docs = sandbox.project / "docs"
    assert reason == f"cannot write {docs}/a-first.md: {docs}: File exists"


def test_a_document_that_cannot_be_written_fails_its_item_alone_and_leaves_no_rest(sandbox: Sandbox) -> None:
    sandbox.write_items(item("blocked"), item("fine"))
    (sandbox.project / "docs/blocked-last.bin").mkdir(parents=True)

    done = sandbox.run(graph="documents")

    assert done.code == 1
    assert sandbox.outcomes() == {"blocked": "failed", "fine": "completed"}
    assert "blocked-last.bin" in sandbox.endings()["blocked"]["reason"]
    assert {"fine-first.md", "fine-last.bin"} <= set(documents(sandbox))
    assert not [name for name in documents(sandbox) if name.endswith(".tmp")]

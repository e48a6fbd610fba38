"""What lies in the project: documents and their rounds, branches, diffs, workstreams; and nothing outside of it."""

from __future__ import annotations

import subprocess
from pathlib import Path

from page_site import Site, started

from agentos.documents.approval import document_hash
from agentos.events import Event, ItemEnded, RunEnded
from agentos.files import write_whole
from agentos.outcomes import IMPLEMENTED, NEEDS_REVISION
from agentos.page.guard import Role
from agentos.paths import lineage_dir
from agentos.settings import load_settings
from agentos.workflows.implementation.records import Implemented, as_text, record_path
from agentos.workflows.lineage import Lineage
from agentos.workstreams.commands import ProjectWorkstreams

RUN = "20261118-021500-000001"


def git(project: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=project, check=True, capture_output=True, text=True, timeout=60)
    return done.stdout.strip()


def ended(project: Path, workflow: str, outcome: object = NEEDS_REVISION) -> list[Event]:
    return [
        started("1", project_dir=str(project), workflow=workflow),
        ItemEnded(item_id="1", outcome=outcome, seconds=1.0),  # type: ignore[arg-type]
        RunEnded(counts={}, left=(), wall_seconds=1.0, item_seconds=1.0, exit_code=0),
    ]


def test_a_branch_is_sized_and_its_diff_shown_masked(site: Site, project: Path) -> None:
    git(project, "switch", "--quiet", "--create", "agentos/1")
    (project / "app.py").write_text(
        "def answer():\n    return 42\n# sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789\n"
    )
    git(project, "commit", "--quiet", "--all", "--message", "Answer")
    commit = git(project, "rev-parse", "HEAD")
    git(project, "switch", "--quiet", "main")
    record = Implemented(document_hash="", branch="agentos/1", commit=commit, base="main")
    write_whole(record_path(project, "1"), as_text(record))
    site.write_run(ended(project, "implementation", IMPLEMENTED))
    row = site.get(f"/api/runs/{RUN}")["items"][0]
    assert row["branch"] == {"name": "agentos/1", "added": 2, "removed": 1}
    diff = site.get(f"/api/runs/{RUN}/branch-diff?id=1")
    (file,) = diff["files"]
    assert (file["path"], file["added"], file["removed"]) == ("app.py", 2, 1)
    assert "abcdefghijklmnop" not in str(diff)
    facts = site.get(f"/api/runs/{RUN}/item?id=1")
    assert (facts["branch"]["state"], facts["test_report"]) == ("there", "report:test")
    assert site.refused(f"/api/runs/{RUN}/document?id=1&name=report:test")[0] == 404


def test_documents_their_rounds_and_what_a_person_may_do(site: Site, project: Path) -> None:
    place = project / "docs" / "lld" / "active" / "LLD-1.md"
    place.parent.mkdir(parents=True)
    place.write_text("# Design\n\n<script>alert(1)</script>\n")
    lineage = Lineage(lineage_dir(project, "LLD-1"))
    lineage.record("draft", "# Design\n\nfirst\n")
    lineage.record("draft", "# Design\n\nsecond\n")
    site.write_run(ended(project, "lld"))
    page = site.get(f"/api/runs/{RUN}/item?id=1", role=Role.CONTROL)
    names = [each["name"] for each in page["documents"]]
    assert names == ["place:lld", "lineage:lld:1:draft", "lineage:lld:2:draft"]
    shown = site.get(f"/api/runs/{RUN}/document?id=1&name=place:lld")
    assert shown["html"].startswith("<h3>Design</h3>")
    assert "<script" not in shown["html"]
    diff = site.get(f"/api/runs/{RUN}/diff", params={"id": "1", "from": names[1], "to": names[2]})
    assert [line for line in diff["files"][0]["hunks"][0]["lines"] if line[0] != " "] == [
        ["-", "first"],
        ["+", "second"],
    ]
    review = page["review"]
    assert (review["waits"], review["actions"]) == (False, [])
    assert review["seen"] == document_hash(place.read_text())
    assert page["approval"]["words"] == "not approved"
    answer = {"id": "1", "answer": "approve", "seen": review["seen"]}
    refused = site.post(f"/api/runs/{RUN}/review", answer)
    assert (refused.status_code, "does not pass the check" in refused.json()["error"]) == (409, True)
    assert site.post(f"/api/runs/{RUN}/review", {**answer, "seen": "other"}).status_code == 409
    revise = site.post(f"/api/runs/{RUN}/review", {**answer, "answer": "revise", "text": "more"}).json()
    assert "--revise" in revise["command"]
    assert "approval" not in place.read_text()


def test_a_document_that_leads_out_of_the_project_is_not_read(site: Site, project: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.md").write_text("do not show")
    place = project / "docs" / "lld" / "active" / "LLD-1.md"
    place.parent.mkdir(parents=True)
    place.symlink_to(tmp_path / "secret.md")
    site.write_run(ended(project, "lld"))
    answer = site.ask("GET", f"/api/runs/{RUN}/document?id=1&name=place:lld")
    assert answer.status_code == 404
    assert "do not show" not in site.ask("GET", f"/api/runs/{RUN}/item?id=1").text


def test_workstreams_with_what_overlaps_and_how_they_merge(site: Site, project: Path) -> None:
    known = ProjectWorkstreams.open(project, load_settings)
    for slug, line in (("one", "1"), ("two", "2")):
        made = known.new(slug, f"Say {line}")
        assert made.workstream.path is not None
        (made.workstream.path / "app.py").write_text(f"answer = {line}\n")
        git(made.workstream.path, "commit", "--quiet", "--all", "--message", slug)
    site.write_run(ended(project, "lld"))
    (shown,) = site.get("/api/workstreams")["projects"]
    assert [(row["slug"], row["words"], row["ahead"]) for row in shown["workstreams"]] == [
        ("one", "active", 1),
        ("two", "active", 1),
    ]
    assert shown["overlaps"][0]["words"] == "one and two both change app.py"
    assert [row["words"] for row in shown["merge_order"]] == ["merges cleanly", "conflicts in app.py"]

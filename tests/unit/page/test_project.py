"""What lies in the project: documents and their rounds, branches, diffs, workstreams; and nothing outside of it."""

from __future__ import annotations

import json
import re
import subprocess
from collections import defaultdict
from pathlib import Path
from typing import Any

from page_site import Site, started

from agentos.documents.approval import document_hash
from agentos.events import Event, ItemEnded, RunEnded
from agentos.files import write_whole
from agentos.outcomes import APPROVED, IMPLEMENTED, NEEDS_REVISION
from agentos.page.guard import Role
from agentos.page.report import html_report
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


def branch(project: Path, item_id: str, text: str) -> None:
    """An item's branch that gives `app.py` this text."""
    git(project, "switch", "--quiet", "--create", f"agentos/{item_id}", "main")
    (project / "app.py").write_text(text)
    git(project, "commit", "--quiet", "--all", "--message", "Answer")
    commit = git(project, "rev-parse", "HEAD")
    git(project, "switch", "--quiet", "main")
    record = Implemented(document_hash="", branch=f"agentos/{item_id}", commit=commit, base="main")
    write_whole(record_path(project, item_id), as_text(record))


def test_a_branch_that_does_not_merge_needs_somebody(site: Site, project: Path) -> None:
    branch(project, "1", "def answer():\n    return 42\n")
    branch(project, "2", "def answer():\n    return 43\n")
    both = [ItemEnded(item_id=item_id, outcome=IMPLEMENTED, seconds=1.0) for item_id in ("1", "2")]
    site.write_run([started("1", "2", project_dir=str(project), workflow="implementation"), *both])
    page = site.get(f"/api/runs/{RUN}")
    conflict = next(need for need in page["needs"] if need["kind"] == "conflict")
    assert (conflict["item"], conflict["text"]) == (
        "2",
        "its branch does not merge into main: conflicts in app.py",
    )
    assert [action["name"] for action in conflict["actions"]] == ["diff"]
    assert [item["needs"] for item in page["items"]] == [False, True]


def test_who_follows_a_run_hears_of_branches_that_items_leave(site: Site, project: Path) -> None:
    events = ended(project, "implementation", IMPLEMENTED)
    run_dir = site.write_run(events[:1], is_live=True)
    seen = site.get(f"/api/runs/{RUN}")
    assert seen["items"][0]["branch"] is None
    branch(project, "1", "def answer():\n    return 42\n")
    site.let_go()
    site.write_more(run_dir, events[1:])
    found = [item for _, _, data in site.events(f"/api/runs/{RUN}/events?since=1") for item in data.get("items", ())]
    assert found[-1]["branch"]["name"] == "agentos/1"


def test_a_line_that_a_hunk_repeats_is_masked_too(site: Site, project: Path) -> None:
    secret = "sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789"
    text = f"def use(key='{secret}'):\n" + "".join(f"    step({number})\n" for number in range(20))
    (project / "app.py").write_text(text)
    git(project, "commit", "--quiet", "--all", "--message", "More")
    branch(project, "1", text.replace("step(15)", "step(99)"))
    site.write_run(ended(project, "implementation", IMPLEMENTED))
    diff = site.get(f"/api/runs/{RUN}/branch-diff?id=1")
    assert "def use(" in diff["files"][0]["hunks"][0]["header"]
    assert "abcdefghijklmnop" not in str(diff)


def test_documents_their_rounds_and_what_a_person_may_do(site: Site, project: Path) -> None:
    place = project / "docs" / "lld" / "active" / "LLD-1.md"
    place.parent.mkdir(parents=True)
    place.write_text("# Design\n\n<script>alert(1)</script>\n")
    lineage = Lineage(lineage_dir(project, "LLD-1"))
    lineage.record("draft", "# Design\n\nfirst\n")
    lineage.record("draft", "# Design\n\nsecond\n")
    lineage.record("final", "# Design\n\nthird\n")
    site.write_run(ended(project, "lld"))
    page = site.get(f"/api/runs/{RUN}/item?id=1", role=Role.CONTROL)
    names = [each["name"] for each in page["documents"]]
    assert names == ["place:lld", "lineage:lld:1:draft", "lineage:lld:2:draft", "lineage:lld:3:final"]
    assert page["rounds"] == [[names[1], names[2]], [names[2], names[3]], [names[3], names[0]]]
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


def test_a_report_holds_the_past_of_its_own_project_and_workflow_alone(site: Site, project: Path) -> None:
    run_dir = site.write_run(ended(project, "lld"), with_summary=True)
    others = [ended(project, "lld"), ended(project, "issue"), ended(project.parent / "elsewhere", "lld")]
    for number, events in enumerate(others, 2):
        site.write_run(events, run_id=f"20261118-021500-{number:06}", with_summary=True)
    answers = frozen_answers(html_report(run_dir)[0])
    past = answers["/api/history"]
    assert sorted(row["run"] for row in past["runs"]) == [RUN, "20261118-021500-000002"]
    assert (past["projects"], past["workflows"]) == (
        [{"project": project.name, "project_dir": str(project)}],
        ["lld"],
    )
    assert "/api/workstreams" not in answers
    ProjectWorkstreams.open(project, load_settings).new("fines", "Charge fines")
    (there,) = frozen_answers(html_report(run_dir)[0])["/api/workstreams"]["projects"]
    assert [row["slug"] for row in there["workstreams"]] == ["fines"]


def frozen_answers(page: str) -> dict[str, Any]:
    [data] = re.findall(r'id="frozen">(.*?)</script>', page, re.DOTALL)
    return {json.loads(asked)[0]: answer for asked, answer in json.loads(data)["answers"].items()}


def test_settings_that_cannot_be_read_leave_the_records_to_be_seen(site: Site, project: Path) -> None:
    (project / "agentos.toml").write_text("not = = toml")
    site.write_run([started("1", project_dir=str(project)), ItemEnded(item_id="1", outcome=APPROVED, seconds=1.0)])
    page = site.get("/api/runs/20261118-021500-000001/item?id=1")
    assert page["item"]["outcome"] == "approved"
    assert page["review"] is None
    answer = site.post("/api/runs/20261118-021500-000001/review", {"id": "1", "answer": "approve"})
    assert answer.status_code == 409
    assert "agentos.toml" in answer.json()["error"]


def test_a_report_holds_code_documents_and_rounds_without_saying_a_text_twice(site: Site, project: Path) -> None:
    branch(project, "1", "def answer():\n    return 42\n")
    lineage = Lineage(lineage_dir(project, "IMPL-1"))
    lineage.record("draft", "# Design\n\nfirst\n")
    lineage.record("draft", "# Design\n\nsecond\n")
    run_dir = site.write_run(ended(project, "implementation", IMPLEMENTED))
    [data] = re.findall(r'id="frozen">(.*?)</script>', html_report(run_dir)[0], re.DOTALL)
    found: dict[str, list[Any]] = defaultdict(list)
    for asked, answer in json.loads(data)["answers"].items():
        found[json.loads(asked)[0].rpartition("/")[2]].append(answer)
    assert [diff["to"] for diff in found["branch-diff"]] == ["agentos/1"]
    assert [document["text"] for document in found["document"]] == ["", ""]
    assert ["second" in document["html"] for document in found["document"]] == [False, True]
    (between,) = found["diff"]
    assert ["-", "first"] in between["files"][0]["hunks"][0]["lines"]


def test_what_git_cannot_show_is_said(site: Site, project: Path) -> None:
    record = Implemented(document_hash="", branch="agentos/1", commit="0" * 40, base="main")
    write_whole(record_path(project, "1"), as_text(record))
    site.write_run(ended(project, "implementation", IMPLEMENTED))
    page = site.get(f"/api/runs/{RUN}")
    assert page["items"][0]["branch"] == {"name": "agentos/1", "added": None, "removed": None}
    assert page["needs"] == []
    status, told = site.refused(f"/api/runs/{RUN}/branch-diff?id=1")
    assert (status, told["error"]) == (404, "Git cannot show the branch.")
    assert site.get(f"/api/runs/{RUN}/item?id=1")["branch"]["state"] == "gone"

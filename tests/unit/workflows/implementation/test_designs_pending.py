"""Which designs are pending, and which of them get in each other's way."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from agentos.documents.approval import ApprovalInfo, document_hash, stamp_approval
from agentos.engine.checkpoints import store_for
from agentos.engine.checkpoints.protocol import ItemRef
from agentos.engine.plan import make_plan
from agentos.errors import UsageError
from agentos.settings import Models, Settings, Sources
from agentos.workflows.implementation.finished_designs import retire_merged
from agentos.workflows.implementation.overlap import Overlap
from agentos.workflows.implementation.pending import Choices, Conflicts, find_conflicts, find_designs, read_designs
from agentos.workflows.implementation.records import Implemented, as_text, attempt_path, record_path
from agentos.workflows.pending import Pending, Reason, ReasonKind, Wanted

ANSWER = "decide with: agentos review LLD-{}"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AGENTOS_HOME", str(tmp_path / "home"))
    path = tmp_path / "project"
    (path / "docs/lld/active").mkdir(parents=True)
    (path / ".git/refs/heads/agentos").mkdir(parents=True)
    return path


def design(
    project: Path, number: int, *files: str, more: str = "", approved: bool = True, reviewer: str = "b"
) -> Path:
    rows = "\n".join(f"| `{name}` | Modify | x |" for name in files)
    text = f"# {number} - Feature: Thing {number}\n\n* **Status:** Draft\n\n{more}\n\n## 2. Proposed Changes\n\n"
    text += f"### 2.1 Files Changed\n\n| File | Change Type | Description |\n|---|---|---|\n{rows}\n"
    info = ApprovalInfo("2026-01-01T00:00:00Z", "a", reviewer)
    path = project / f"docs/lld/active/LLD-{number}.md"
    path.write_text(stamp_approval(text, info) if approved else text)
    return path


def find(project: Path, *patterns: str, fresh: bool = False, **choices: bool) -> Pending:
    return find_designs(project, Settings(), Wanted(patterns=patterns, is_fresh=fresh), Choices(**choices))


def ids(found: Pending) -> list[str]:
    return [item.id for item in found.items]


def test_a_rehearsed_design_is_not_called_approved(project: Path) -> None:
    design(project, 1, reviewer="offline")
    design(project, 2)
    found = find_designs(project, Settings(models=Models(drafter="offline")), Wanted(), Choices())
    assert {item_id: str(why) for item_id, why in found.reasons.items()} == {
        "1": "rehearsed, not implemented",
        "2": "approved, not implemented",
    }


def test_only_approved_designs_are_pending_unless_others_are_named_or_allowed(project: Path) -> None:
    design(project, 1)
    design(project, 2, approved=False)
    changed = design(project, 3)
    changed.write_text(changed.read_text() + "\n## 9. More\n\nAdded later.\n")

    found = find(project)

    assert ids(found) == ["1"]
    assert found.skipped[0] == ("2", Reason(ReasonKind.NOT_APPROVED, further=ANSWER.format(2)))
    assert found.skipped[1][1] == Reason(
        ReasonKind.CHANGED_SINCE_APPROVAL, "text was added after the approval block", ANSWER.format(3)
    )
    named = find(project, "2", "LLD-3")
    assert ids(named) == ["2", "3"]
    assert str(named.reasons["2"]) == f"not approved; would be refused; {ANSWER.format(2)}"
    assert str(named.reasons["3"]).startswith("changed since it was approved (text was added after")
    assert ids(find(project, allows_unapproved=True)) == ["1", "2", "3"]
    with pytest.raises(UsageError, match="'7'"):
        find(project, "7")


def test_an_implemented_design_is_pending_again_when_it_changed_or_its_branch_is_gone(project: Path) -> None:
    path = design(project, 1)
    record = Implemented(document_hash=document_hash(path.read_text()), branch="agentos/1", commit="c", base="HEAD")
    record_path(project, "1").parent.mkdir(parents=True)
    record_path(project, "1").write_text(as_text(record))
    assert ids(find(project)) == ["1"]

    (project / ".git/refs/heads/agentos/1").write_text("0" * 40)
    assert find(project).skipped == (("1", Reason(ReasonKind.IMPLEMENTED, "agentos/1")),)
    assert ids(find(project, "1", fresh=True)) == ["1"]

    design(project, 1, more="Another text.")
    assert ids(find(project)) == ["1"]


def test_code_that_needs_revision_is_not_written_again_until_the_design_changes(project: Path) -> None:
    path = design(project, 1)
    record = Implemented(
        document_hash=document_hash(path.read_text()), branch="agentos/1", commit="c", base="HEAD", reason="not green"
    )
    attempt_path(project, "1").parent.mkdir(parents=True)
    attempt_path(project, "1").write_text(as_text(record))
    assert ids(find(project)) == ["1"]  # Its branch is gone.

    (project / ".git/refs/heads/agentos/1").write_text("0" * 40)
    for found in (find(project), find(project, "1")):
        ((item_id, reason),) = found.skipped
        assert (item_id, reason.kind, reason.about) == ("1", ReasonKind.NEEDS_REVISION, "not green")
    assert ids(find(project, "1", fresh=True)) == ["1"]

    design(project, 1, more="Another text.")
    assert ids(find(project)) == ["1"]


def test_an_unfinished_design_goes_on_whatever_else_is_known(project: Path) -> None:
    design(project, 1)
    store_for(project).open(ItemRef("implementation", "1")).close()

    assert find(project).reasons == {"1": Reason(ReasonKind.UNFINISHED)}


def test_files_that_are_no_designs_are_left_out_with_a_warning(project: Path) -> None:
    folder = project / "docs/lld/active"
    design(project, 1)
    (folder / "LLD-huge.md").write_text("x" * 2_000_001)
    (folder / "LLD-binary.md").write_bytes(b"\xff\xfe\x00")
    (folder / "LLD-bad id.md").write_text("# x\n")
    (folder / "LLD-2.md").mkdir()
    (folder / "README.md").write_text("# x\n")

    assert [item.id for item in read_designs(project, Settings())] == ["1"]
    assert [warning.partition(":")[0] for warning in find(project).warnings] == [
        f"docs/lld/active/LLD-{name}.md is left out" for name in ("2", "bad id", "binary", "huge")
    ]


def test_a_design_has_the_dependencies_and_the_priority_of_its_issue(project: Path) -> None:
    design(project, 1)
    (project / "docs/issues").mkdir()
    (project / "docs/issues/1-thing.md").write_text("---\npriority: high\n---\n# Thing\n\nDepends on #2\n")
    (item,) = read_designs(project, Settings())
    assert (item.depends_on, item.priority) == (("2",), 10)


def test_dependencies_of_issues_elsewhere_are_left_to_the_design(project: Path) -> None:
    design(project, 2, more="Depends on #1")
    settings = Settings(sources=Sources(issues="github:somebody/something?label=ready"))

    (item,) = read_designs(project, settings)

    assert (item.depends_on, item.input["title"]) == (("1",), "Thing 2")


def test_a_design_waits_for_the_merge_of_what_is_designed(project: Path) -> None:
    design(project, 1)
    design(project, 2, more="Depends on #1, #8")
    assert find(project, waits_for_merge=True).skipped == (("2", Reason(ReasonKind.WAITS_FOR_MERGE, "LLD-1")),)
    assert ids(find(project)) == ["1", "2"]

    done = project / "docs/lld/done/LLD-1.md"
    done.parent.mkdir()
    (project / "docs/lld/active/LLD-1.md").rename(done)

    assert ids(find(project, waits_for_merge=True)) == ["2"]


def conflicts_of(project: Path) -> tuple[Sequence[str], dict[str, tuple[str, ...]], tuple[str, ...]]:
    found = find_conflicts(make_plan(find(project).items))
    return found.words("IMPL-"), found.rivals(), found.merge_order


def test_who_changes_a_file_is_told_in_the_order_people_count(project: Path) -> None:
    overlaps = (Overlap("10", "2", ("a.py",)), Overlap("9", "10", ("a.py",)))
    assert Conflicts(overlaps, ()).words("IMPL-") == ["a.py is changed by IMPL-2, IMPL-9, IMPL-10"]


def test_designs_of_the_same_file_are_rivals_and_words_name_each_file_once(project: Path) -> None:
    design(project, 1, "a.py", "b.py")
    design(project, 2, "./a.py")
    design(project, 3, "a.py", "b.py")
    design(project, 4, "c.py")

    words, rivals, order = conflicts_of(project)

    assert words == ["a.py is changed by IMPL-1, IMPL-2, IMPL-3", "b.py is changed by IMPL-1, IMPL-3"]
    assert rivals == {"1": ("2", "3"), "2": ("3",)}
    assert order[0] == "4"


def test_designs_that_build_on_each_other_are_no_rivals_however_far_apart(project: Path) -> None:
    design(project, 1, "a.py")
    design(project, 2, "x.py", more="Depends on #1")
    design(project, 3, "y.py", more="Depends on #1, #2")
    design(project, 4, "a.py", more="Depends on #2, #3")

    assert conflicts_of(project) == ([], {}, ("1", "2", "3", "4"))


def test_a_design_that_depends_on_open_work_is_left_alone_unless_that_runs_too(project: Path) -> None:
    design(project, 1, approved=False)
    design(project, 2, more="Depends on #1")
    design(project, 3, more="Depends on #2")
    design(project, 4, more="Depends on #9")
    (project / "docs/issues").mkdir()
    (project / "docs/issues/005-issue.md").write_text("# An issue\n\nNobody has designed it so far.\n")
    design(project, 6, more="Depends on #5")

    found = find(project)

    assert ids(found) == ["4"]
    assert dict(found.skipped) == {
        "1": Reason(ReasonKind.NOT_APPROVED, further=ANSWER.format(1)),
        "2": Reason(ReasonKind.DEPENDENCY_OPEN, "1"),
        "3": Reason(ReasonKind.DEPENDENCY_OPEN, "2"),
        "6": Reason(ReasonKind.DEPENDENCY_OPEN, "5"),
    }
    assert set(found.reasons) == {"4"}
    assert ids(find(project, "1", "2", "3")) == ["1", "2", "3"]
    assert ids(find(project, "?")) == ["1", "2", "3", "4"]
    with pytest.raises(UsageError, match="2 depends on 1, which is not implemented: run it first"):
        find(project, "2")


def test_a_dependency_that_is_implemented_or_merged_is_no_longer_open(project: Path) -> None:
    path = design(project, 1)
    design(project, 2, more="Depends on #1")
    record = Implemented(document_hash=document_hash(path.read_text()), branch="agentos/1", commit="c", base="HEAD")
    record_path(project, "1").parent.mkdir(parents=True)
    record_path(project, "1").write_text(as_text(record))
    (project / ".git/refs/heads/agentos/1").write_text("0" * 40)
    assert ids(find(project, "2")) == ["2"]

    (project / ".git/refs/heads/agentos/1").unlink()
    with pytest.raises(UsageError, match="2 depends on 1"):
        find(project, "2")

    done = project / "docs/lld/done/LLD-1.md"
    done.parent.mkdir()
    done.write_text("# 1 - Another text that was merged\n")
    assert ids(find(project, "2")) == ["2"]


def test_a_merged_design_leaves_the_active_folder_only_as_it_was_merged(project: Path) -> None:
    merged, edited = design(project, 1), design(project, 2)
    done = project / "docs/lld/done"
    done.mkdir()
    for path in (merged, edited):
        (done / path.name).write_bytes(path.read_bytes())
    edited.write_text(edited.read_text() + "More.\n")
    assert retire_merged(project, Settings()) == ["docs/lld/done/LLD-1.md"]
    assert (merged.exists(), edited.exists()) == (False, True)


def test_a_design_that_is_in_both_folders_by_a_link_stays(project: Path) -> None:
    only = design(project, 1)
    (project / "docs/lld/done").symlink_to(only.parent)
    assert retire_merged(project, Settings()) == []
    assert only.exists()

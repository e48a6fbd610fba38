"""What is pending: by approvals, checkpoints, patterns and what a user asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentos.documents.approval import ApprovalInfo, document_hash, stamp_approval
from agentos.engine.checkpoints import store_for
from agentos.engine.checkpoints.protocol import ItemRef
from agentos.engine.plan import input_hash
from agentos.errors import UsageError
from agentos.settings import Settings
from agentos.workflows.drafting.pending import find_briefs, find_llds
from agentos.workflows.pending import Reason, ReasonKind, Wanted

TEXT = "# Title\n\nSome words about it.\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AGENTOS_HOME", str(tmp_path / "home"))
    for folder in ("docs/issues", "docs/lld/active", "docs/lld/done", "ideas/active", "ideas/done"):
        (tmp_path / folder).mkdir(parents=True)
    return tmp_path


def add(project: Path, *names: str) -> None:
    for name in names:
        (project / name).write_text(TEXT)


def approve(path: Path, source: str = TEXT) -> None:
    info = ApprovalInfo("2026-01-01T00:00:00Z", "a", "b", issue_hash=document_hash(source))
    path.write_text(stamp_approval("# 1 - Design\n\n* **Status:** Draft\n", info))


def ids(found: object) -> list[str]:
    return [item.id for item in found.items]  # type: ignore[attr-defined]


def test_a_missing_folder_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"put one Markdown file per issue there.*agentos init"):
        find_llds(tmp_path, Settings(), Wanted())
    with pytest.raises(UsageError, match="put one Markdown file per brief there"):
        find_briefs(tmp_path, Settings(), Wanted())


def test_ids_labels_and_globs_choose_in_natural_order(project: Path) -> None:
    add(project, *(f"docs/issues/{n}-x.md" for n in (1, 2, 10, 11)))
    assert ids(find_llds(project, Settings(), Wanted())) == ["1", "2", "10", "11"]
    assert ids(find_llds(project, Settings(), Wanted(patterns=["LLD-2", "1?"]))) == ["2", "10", "11"]
    with pytest.raises(UsageError, match=r"No issue matches '3'. Known: 1, 2, 10, 11\."):
        find_llds(project, Settings(), Wanted(patterns=["3"]))


def test_an_approved_design_counts_wherever_it_is_and_only_for_its_text(project: Path) -> None:
    add(project, *(f"docs/issues/{n}-x.md" for n in (1, 2, 3)))
    approve(project / "docs/lld/active/LLD-1.md")
    approve(project / "docs/lld/done/LLD-2.md")
    approve(project / "docs/lld/active/LLD-3.md", source="# Another text\n")
    found = find_llds(project, Settings(), Wanted())
    assert ids(found) == ["3"]
    assert found.reasons["3"] == Reason(ReasonKind.SOURCE_CHANGED, "issue changed since its LLD")
    assert dict(found.skipped) == {
        "1": Reason(ReasonKind.APPROVED, "docs/lld/active/LLD-1.md"),
        "2": Reason(ReasonKind.APPROVED, "docs/lld/done/LLD-2.md"),
    }
    assert ids(find_llds(project, Settings(), Wanted(patterns=["1"], is_fresh=True))) == ["1"]
    assert ids(find_llds(project, Settings(), Wanted(is_fresh=True))) == ["3"]


def test_an_edited_approval_no_longer_counts_and_is_said(project: Path) -> None:
    add(project, "docs/issues/1-x.md")
    path = project / "docs/lld/active/LLD-1.md"
    approve(path)
    path.write_text(path.read_text().replace("# 1 - Design", "# 1 - Another design"))
    found = find_llds(project, Settings(), Wanted())
    assert ids(found) == []
    ((_, reason),) = found.skipped
    assert reason.kind is ReasonKind.EDITED_SINCE_APPROVAL
    assert "docs/lld/active/LLD-1.md" in str(reason)


def test_a_checkpoint_beside_an_approved_document_is_continued_only_by_name(project: Path) -> None:
    add(project, "docs/issues/1-x.md")
    approve(project / "docs/lld/active/LLD-1.md")
    store_for(project).open(ItemRef("lld", "1")).close()
    assert ids(find_llds(project, Settings(), Wanted())) == []
    assert find_llds(project, Settings(), Wanted(patterns=["1"])).reasons == {"1": Reason(ReasonKind.UNFINISHED)}


def test_what_depends_on_a_document_that_needs_a_person_waits_with_it(project: Path) -> None:
    add(project, "docs/issues/1-x.md")
    (project / "docs/lld/active/LLD-1.md").write_text("# 1 - By hand\n")
    for number, dependency in ((2, 1), (3, 2)):
        (project / f"docs/issues/{number}-x.md").write_text(f"{TEXT}\nDepends on #{dependency}\n")
    found = find_llds(project, Settings(), Wanted())
    assert ids(found) == []
    assert [(item_id, reason.kind) for item_id, reason in found.skipped] == [
        ("1", ReasonKind.WRITTEN_BY_HAND),
        ("2", ReasonKind.DEPENDENCY_NEEDS_PERSON),
        ("3", ReasonKind.DEPENDENCY_NEEDS_PERSON),
    ]
    assert ids(find_llds(project, Settings(), Wanted(patterns=["2"]))) == ["2"]


def test_an_interrupted_review_of_a_document_as_it_stands_is_continued_as_it_began(project: Path) -> None:
    add(project, "docs/issues/1-x.md")
    (project / "docs/lld/active/LLD-1.md").write_text("# 1 - By hand\n")
    (began,) = find_llds(project, Settings(), Wanted(patterns=["1"], is_review_again=True)).items
    opened = store_for(project).open(ItemRef("lld", "1"))
    opened.begin(input_hash(began.input))
    opened.close()
    assert find_llds(project, Settings(), Wanted(patterns=["1"])).items == (began,)
    add(project, "docs/issues/2-x.md")
    with pytest.raises(UsageError, match="LLD-2 has no document yet"):
        find_llds(project, Settings(), Wanted(patterns=["2"], is_review_again=True))


def test_issues_that_need_revision_themselves_are_set_aside(project: Path) -> None:
    (project / "docs/issues/short.md").write_text("---\nid: short\nstatus: Needs revision\n---\n\n" + TEXT)
    found = find_llds(project, Settings(), Wanted())
    assert (ids(found), found.skipped) == ([], (("short", Reason(ReasonKind.SOURCE_NOT_READY)),))


def test_filing_takes_up_approved_briefs_too(project: Path) -> None:
    add(project, "ideas/active/a.md", "ideas/active/b.md")
    approve(project / "docs/issues/a.md")
    assert ids(find_briefs(project, Settings(), Wanted())) == ["b"]
    found = find_briefs(project, Settings(), Wanted(is_filing=True))
    assert found.reasons == {
        "a": Reason(ReasonKind.NOT_FILED),
        "b": Reason(ReasonKind.NO_APPROVED_DOCUMENT, "issue"),
    }


def test_a_brief_put_away_before_its_run_was_killed_goes_on_as_it_was(project: Path) -> None:
    add(project, "ideas/active/a.md")
    before = find_briefs(project, Settings(), Wanted()).items[0]
    (project / "ideas/active/a.md").rename(project / "ideas/done/a.md")
    assert ids(find_briefs(project, Settings(), Wanted())) == []
    store_for(project).open(ItemRef("issue", "a")).close()
    assert find_briefs(project, Settings(), Wanted()).items[0] == before


def test_an_item_goes_by_its_number_its_label_and_the_path_of_its_file(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(project, "docs/issues/007-x.md", "docs/issues/issue-search.md", "docs/issues/101-y.md", "docs/issues/1010.md")
    (project / "docs/issues/odd.md").write_text(f"---\nid: chosen\n---\n{TEXT}")
    approve(project / "docs/lld/active/LLD-101.md", "# Other\n")
    (project / "elsewhere").mkdir()
    add(project, "elsewhere/101-y.md")
    monkeypatch.chdir(project / "docs")

    def named(text: str) -> list[str]:
        return ids(find_llds(project, Settings(), Wanted(patterns=[text])))

    for text in ("101", "#101", "LLD-101", "lld-101", "issues/101-y.md", str(project / "docs/issues/101-y.md")):
        assert named(text) == ["101"], text
    assert named("lld/active/LLD-101.md") == ["101"]
    assert named("#007") == ["7"]
    assert named("issues/odd.md") == ["chosen"]
    assert named("LLD-10*") == ["101", "1010"]
    # An id that begins like a label is an id, and a glob of such ids is no glob of everything.
    assert named("issue-search") == ["issue-search"]
    assert named("issue-s*") == ["issue-search"]
    for text in ("issue-z*", "../elsewhere/101-y.md"):
        with pytest.raises(UsageError, match="No issue matches"):
            named(text)
    with pytest.raises(UsageError, match=r"No issue matches .issue-serch.\. Did you mean issue-search\?"):
        named("issue-serch")


def test_a_dependency_that_nobody_knows_is_told(project: Path) -> None:
    add(project, "docs/issues/2-x.md")
    (project / "docs/issues/1-x.md").write_text(f"{TEXT}\nDepends on #2, #nothing-here\n")
    (project / "docs/issues/3-x.md").write_text(f"{TEXT}\nDepends on #merged\n")
    (project / "docs/lld/done/LLD-merged.md").write_text("# merged\n")
    assert find_llds(project, Settings(), Wanted()).warnings == (
        "LLD-1 depends on nothing-here, which is not known here: it is not waited for",
    )

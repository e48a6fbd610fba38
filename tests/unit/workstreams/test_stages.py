"""Modes and steps become stages; texts become items."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from agentos.documents.approval import ApprovalInfo, stamp_approval
from agentos.documents.unapproved import Obstacle, Unapproved, stamp_unapproved
from agentos.engine.checkpoints import store_for
from agentos.engine.checkpoints.protocol import ItemRef
from agentos.engine.plan import input_hash
from agentos.errors import UsageError
from agentos.settings import Settings
from agentos.workflows.implementation.records import Implemented, as_text, record_path
from agentos.workflows.pending import ReasonKind
from agentos.workstreams import stages
from agentos.workstreams.stages import DESIGN, IMPLEMENTATION, Route, choose_route, find_work, graph_items, issue_text
from agentos.workstreams.state import Workstream

NOW = datetime(2026, 1, 2, tzinfo=UTC)
ANALYZE, EXECUTE, CODE = Route((DESIGN,)), Route((DESIGN, IMPLEMENTATION)), Route((IMPLEMENTATION,))


def stream(slug: str = "a", text: str = "add rate limiting", base: str = "main") -> Workstream:
    return Workstream(
        slug=slug,
        text=text,
        branch=f"agentos/{slug}",
        path=Path("/somewhere") / slug,
        base=base,
        created_at=NOW,
        changed_at=NOW,
    )


def write_design(project: Path, workstream: Workstream, *, is_current: bool = True) -> Path:
    (item,) = find_work([workstream], ANALYZE, project, Settings()).items
    approval = ApprovalInfo(
        approved_at="2026-01-02T03:04:05Z",
        drafter="a model",
        reviewer="another model",
        issue_hash=item.input["source_hash"] if is_current else "0" * 64,
        log=(),
    )
    path = project / "docs" / "lld" / "active" / f"LLD-{workstream.slug}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        stamp_approval(f"# 1 - Feature: {workstream.text.splitlines()[0]}\n\n* **Status:** Draft\n", approval)
    )
    return path


@pytest.mark.parametrize(
    ("mode", "steps", "route"),
    [
        ("execute", [], EXECUTE),
        ("analyze", [], ANALYZE),
        ("execute", ["IMPLEMENTATION"], CODE),
        ("execute", ["implementation,design"], EXECUTE),
        ("analyze", ["Design"], ANALYZE),
        (
            "execute",
            ["LLD.N0_load N0b_context"],
            Route((DESIGN, IMPLEMENTATION), frozenset({"LLD.N0_load", "LLD.N0b_context"})),
        ),
        ("execute", ["DESIGN", "N0b_context"], Route((DESIGN,), frozenset({"N0_load", "N0b_context"}))),
    ],
)
def test_mode_and_steps_choose_stages_and_nodes(mode: str, steps: list[str], route: Route) -> None:
    assert choose_route(mode, steps) == route


@pytest.mark.parametrize(
    ("step", "words"),
    [
        ("FOO", "FOO is neither a stage nor a node. Stages: DESIGN, IMPLEMENTATION. Nodes: LLD.N0_load, "),
        ("N0_load", "N0_load may be LLD.N0_load, IMPL.N0_load"),
    ],
)
def test_a_step_that_is_none_is_refused_with_those_there_are(step: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        choose_route("execute", [step])
    assert choose_route("execute", [step], is_own_graph=True).nodes == {step}


def test_a_step_beyond_the_mode_is_refused() -> None:
    with pytest.raises(UsageError, match="--mode analyze has no IMPLEMENTATION"):
        choose_route("analyze", ["IMPLEMENTATION"])


def test_only_a_route_that_ends_in_code_completes_a_workstream() -> None:
    assert (ANALYZE.completes, EXECUTE.completes, CODE.completes) == (False, True, True)
    assert (ANALYZE.workflow().name, EXECUTE.workflow().name) == ("lld", "pipeline")


def test_a_route_without_a_workflow_says_what_can_be_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "WORKFLOWS", {})
    with pytest.raises(UsageError, match="no pipeline workflow: use --mode analyze"):
        EXECUTE.workflow()


def test_a_few_words_become_an_issue_and_a_whole_issue_stays_as_it_is() -> None:
    text = issue_text(stream(text="add rate limiting\nper key"))
    assert text.startswith("# add rate limiting\n")
    assert text.endswith("add rate limiting\nper key\n")
    assert issue_text(stream(text="# Title\n\nBody of it")) == "# Title\n\nBody of it\n"


def test_a_few_words_are_enough_below_front_matter_too() -> None:
    front = "---\npriority: high\n---\n"
    text = issue_text(stream(text=f"{front}add rate limiting\nper key"))
    assert text.startswith(f"{front}# add rate limiting\n")
    assert text.endswith("add rate limiting\nper key\n")
    for complete in (f"{front}# Title\n\nBody of it", "---\ntitle: Limits\n---\nBody of it"):
        assert issue_text(stream(text=complete)) == f"{complete}\n"


def test_the_slug_is_the_items_id_and_its_dependencies_come_from_the_text(project: Path) -> None:
    (item,) = find_work([stream(text="Depends on #12 and #a")], ANALYZE, project, Settings()).items
    assert (item.id, item.depends_on) == ("a", ("12",))
    assert item.input["origin"] == "workstream a"
    assert not item.environment


def test_a_workstream_without_text_is_skipped_and_says_how_to_give_it_one(project: Path) -> None:
    empty = stream(text="")
    ((slug, reason),) = find_work([empty], ANALYZE, project, Settings()).skipped
    assert (slug, reason.kind) == ("a", ReasonKind.NO_TEXT)
    with pytest.raises(UsageError, match=r"a has no text to work on; give it one with `.*agentos ws new a"):
        find_work([empty], ANALYZE, project, Settings(), named=["a"])


def test_a_branch_of_an_implemented_or_approved_design_is_no_obstacle_to_the_others(project: Path) -> None:
    empty = stream(text="")
    write_design(project, stream())
    ((slug, reason),) = find_work([empty, stream("b")], EXECUTE, project, Settings()).skipped
    assert slug == "a"
    assert "it has a design, which `" in str(reason)
    assert "agentos implement a` works on" in str(reason)
    record = record_path(project, "a")
    record.parent.mkdir(parents=True)
    record.write_text(as_text(Implemented(document_hash="h", branch="agentos/a", commit="c", base="HEAD")))
    found = find_work([empty, stream("b")], EXECUTE, project, Settings(), named=["a", "b"])
    assert [item.id for item in found.items] == ["b"]
    assert str(found.skipped[0][1]).startswith("implemented on agentos/a; ")


def test_a_design_that_is_not_the_workstreams_own_is_not_replaced_unasked(project: Path) -> None:
    path = write_design(project, stream(), is_current=False)
    anothers = path.read_text()
    edited, by_hand = anothers + "\nMore.\n", "# Mine\n\n* **Status:** Needs revision\n"
    unready = stamp_unapproved("# 1 - X\n", Unapproved("h", Obstacle.FINDINGS, "No."), [])
    for text, replaces in ((anothers, False), (edited, False), (by_hand, False), (unready, True)):
        path.write_text(text)
        for route in (ANALYZE, EXECUTE):
            found = find_work([stream()], route, project, Settings())
            assert len(found.items) == replaces, text
            assert len(find_work([stream()], route, project, Settings(), fresh=True).items) == 1
    path.write_text(by_hand)
    with pytest.raises(UsageError, match="a has a design that a person wrote or changed: docs/lld/active/LLD-a"):
        find_work([stream()], ANALYZE, project, Settings(), named=["a"])
    path.write_text(anothers)
    with pytest.raises(UsageError, match=r"a would replace docs/lld/active/LLD-a.md, which is not its design; move"):
        find_work([stream()], ANALYZE, project, Settings(), named=["a"])


def test_an_approved_design_of_the_same_text_need_not_be_made_again(project: Path) -> None:
    workstream = stream()
    write_design(project, workstream)
    ((slug, reason),) = find_work([workstream], ANALYZE, project, Settings()).skipped
    assert (slug, str(reason)) == ("a", "its design is approved already; --fresh designs it again")
    assert len(find_work([workstream], ANALYZE, project, Settings(), fresh=True).items) == 1


def test_code_starts_from_the_approved_design_on_the_workstreams_own_base(project: Path) -> None:
    workstream = stream(text="add rate limiting\n\nDepends on #b", base="release")
    path = write_design(project, workstream)
    for route in (CODE, EXECUTE):
        (item,) = find_work([workstream], route, project, Settings()).items
        assert item.input["lld_text"] == path.read_text()
        assert item.input["lld_path"] == "docs/lld/active/LLD-a.md"
        assert item.environment == {"AGENTOS_IMPLEMENTATION__BASE": "release"}
        assert item.depends_on == ("b",), "the design does not say it, the workstream's text does"


@pytest.mark.parametrize("has_design", [False, True])
def test_code_alone_is_refused_without_an_approved_design_of_this_text(project: Path, has_design: bool) -> None:
    if has_design:
        write_design(project, stream(), is_current=False)
    with pytest.raises(UsageError, match="a has no approved design; run it with --mode analyze first"):
        find_work([stream()], CODE, project, Settings(), named=["a"])
    assert [slug for slug, _ in find_work([stream()], CODE, project, Settings()).skipped] == ["a"]


def test_what_was_cut_short_goes_on_with_what_it_began_with(project: Path) -> None:
    (began,) = find_work([stream()], EXECUTE, project, Settings()).items
    with closing(store_for(project).open(ItemRef("pipeline", "a"))) as checkpoint:
        checkpoint.begin(input_hash(began.input))
    write_design(project, stream())
    (item,) = find_work([stream()], EXECUTE, project, Settings()).items
    assert item == began


def test_what_builds_on_an_unfinished_workstream_waits_for_it(project: Path) -> None:
    streams = [stream("a"), stream("b", text="Depends on #a"), stream("c", text="Depends on #z and #old")]
    found = find_work(streams, EXECUTE, project, Settings())
    assert found.without_unmet({"a", "b", "c"}, ()) == found
    alone = find_work(streams[1:], EXECUTE, project, Settings())
    ((slug, reason),) = alone.without_unmet({"a", "b", "c"}, ()).skipped
    assert (slug, reason.kind) == ("b", ReasonKind.DEPENDENCY_OPEN)
    with pytest.raises(UsageError, match="b depends on a, which is not implemented"):
        alone.without_unmet({"a"}, ["b"])


def test_a_users_graph_is_told_what_a_workstream_is() -> None:
    front = "---\npriority: high\n---\nDepends on #issue-123 and #a"
    (urgent,) = graph_items([stream(text=front)], "packages/app")
    assert (urgent.priority, urgent.depends_on) == (10, ("issue-123",))
    assert urgent.work_dir == "/somewhere/a/packages/app"
    (item,) = graph_items([stream()])
    assert item.work_dir == "/somewhere/a"
    assert item.input == {
        "slug": "a",
        "text": "add rate limiting",
        "branch": "agentos/a",
        "base": "main",
        "worktree": "/somewhere/a",
    }

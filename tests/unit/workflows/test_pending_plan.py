"""Which items are pending, and why."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from agentos.documents.approval import ApprovalInfo, Intact, document_hash, stamp_approval, verify_approval
from agentos.sources import SourceItem
from agentos.sources.item import natural_key, priority_of
from agentos.workflows.pending import Approval, PendingPlan, plan_pending


def item(identifier: str, text: str = "text", state: str = "open") -> SourceItem:
    return SourceItem(id=identifier, title="T", text=text, origin="o", state=state)


def approval_of(text: str, document: str = "") -> Approval:
    return Approval(issue_hash=document_hash(text), document=document)


def reasons(plan: PendingPlan) -> dict[str, str]:
    return {pending.id: str(reason) for pending, reason in plan.pending}


def skipped(plan: PendingPlan) -> dict[str, str]:
    return {item_id: str(reason) for item_id, reason in plan.skipped}


def test_an_issue_without_an_approved_lld_is_pending() -> None:
    assert reasons(plan_pending([item("1")], {}, frozenset())) == {"1": "no approved LLD"}


def test_an_issue_approved_as_it_stands_is_skipped_and_says_where_its_lld_is() -> None:
    plan = plan_pending([item("1")], {"1": approval_of("text", "docs/lld/LLD-1.md")}, frozenset())

    assert plan.pending == ()
    assert skipped(plan) == {"1": "already approved: docs/lld/LLD-1.md"}


def test_a_changed_issue_is_pending_again_and_says_why() -> None:
    plan = plan_pending([item("1", "new")], {"1": approval_of("old")}, frozenset())

    assert reasons(plan) == {"1": "the issue changed since its LLD was approved"}


def test_the_newline_style_does_not_make_an_issue_changed() -> None:
    plan = plan_pending([item("1", "a\r\nb\r\n")], {"1": approval_of("a\nb\n")}, frozenset())

    assert skipped(plan) == {"1": "already approved"}


def test_an_approval_stamped_on_a_document_is_the_one_compared() -> None:
    issue = item("1", "# Issue\n\nText.\n")
    review = ApprovalInfo(approved_at="2030-01-01T00:00:00Z", drafter="d", reviewer="r", issue_hash=issue.text_hash)
    stamped = stamp_approval("# LLD\n\n## Design\n\nText.\n", review)
    found = verify_approval(stamped)
    assert isinstance(found, Intact)

    plan = plan_pending([issue], {"1": Approval(found.approval.issue_hash)}, frozenset())

    assert skipped(plan) == {"1": "already approved"}


def test_an_unfinished_checkpoint_makes_an_item_pending_even_if_approved() -> None:
    plan = plan_pending(
        [item("1"), item("2", "new")], {"1": approval_of("text"), "2": approval_of("old")}, {"1", "2"}
    )

    assert reasons(plan)["1"] == "unfinished: continues from its checkpoint"
    assert reasons(plan)["2"].startswith("the issue changed since its LLD was approved; unfinished")


def test_a_closed_item_is_never_pending() -> None:
    assert skipped(plan_pending([item("1", state="closed")], {}, {"1"})) == {"1": "closed"}


def test_the_words_name_the_kind_of_document() -> None:
    assert reasons(plan_pending([item("1")], {}, frozenset(), document_kind="issue")) == {"1": "no approved issue"}


@settings(max_examples=50, deadline=None)
@given(
    identifiers=st.lists(st.integers(0, 30).map(str), unique=True),
    approved=st.dictionaries(st.integers(0, 30).map(str), st.sampled_from(["text", "other"])),
    unfinished=st.frozensets(st.integers(0, 30).map(str)),
)
def test_every_item_is_in_exactly_one_list_in_the_order_given(
    identifiers: list[str], approved: dict[str, str], unfinished: frozenset[str]
) -> None:
    approvals = {name: approval_of(text) for name, text in approved.items()}

    plan = plan_pending(map(item, identifiers), approvals, unfinished)

    pending = [pending.id for pending, _ in plan.pending]
    skipped = [name for name, _ in plan.skipped]
    assert sorted(pending + skipped) == sorted(identifiers)
    assert pending == [name for name in identifiers if name in pending]
    assert skipped == [name for name in identifiers if name in skipped]
    assert all(approved[name] == "text" and name not in unfinished for name in skipped)


def test_numbers_sort_by_value_within_names() -> None:
    names = ["a10", "10", "a2", "2", "b", "02"]

    assert sorted(names, key=natural_key) == ["02", "2", "10", "a2", "a10", "b"]


def test_priorities_are_numbers_or_words() -> None:
    assert [priority_of(value) for value in ("3", " HIGH ", "low", -2, "soon", "", "9" * 30)] == [
        3, 10, -10, -2, None, None, None,
    ]  # fmt: skip

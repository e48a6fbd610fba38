"""Which documents are due and which are not, and why: a person's text is never replaced unasked."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agentos.documents.approval import ApprovalInfo, document_hash, stamp_approval
from agentos.documents.unapproved import Obstacle, Unapproved, stamp_unapproved
from agentos.sources import SourceItem
from agentos.sources.item import natural_key, priority_of
from agentos.workflows.drafting.due import Case, Due, InPlace, decide
from agentos.workflows.pending import Reason, ReasonKind, Wanted

SOURCE = "# Issue\n\nText.\n"
DESIGN = "# 1 - Design\n\n* **Status:** Draft\n\n## 3. Requirements\n\n1. It works.\n"
ALL = Wanted()
NAMED = Wanted(patterns=["1"])


def case(
    *texts: str, source: str = SOURCE, state: str = "open", is_unfinished: bool = False, kind: str = "LLD"
) -> Case:
    item = SourceItem(id="1", title="T", text=source, origin="o", state=state)
    documents = tuple(InPlace(f"place-{n}.md", text) for n, text in enumerate(texts))
    return Case(source=item, document_kind=kind, label="LLD-1", documents=documents, is_unfinished=is_unfinished)


def approved(source: str = SOURCE, person: str = "", reviewer: str = "r") -> str:
    info = ApprovalInfo("2030-01-01T00:00:00Z", "d", reviewer, issue_hash=document_hash(source), person=person)
    return stamp_approval(DESIGN, info)


def edited(text: str) -> str:
    return text.replace("1. It works.", "1. It works, and quickly.")


def unapproved(obstacle: Obstacle = Obstacle.FINDINGS, source: str = SOURCE, *, is_persons: bool = False) -> str:
    mark = Unapproved(document_hash(source), obstacle, "No rollback.", drafter="d", is_persons=is_persons)
    return stamp_unapproved(DESIGN, mark, ["[high] 3: No rollback."])


def kind_of(decided: Due | Reason) -> tuple[bool, ReasonKind]:
    return (True, decided.reason.kind) if isinstance(decided, Due) else (False, decided.kind)


@pytest.mark.parametrize(
    ("found", "due", "kind"),
    [
        (case(), True, ReasonKind.NO_APPROVED_DOCUMENT),
        (case(state="closed"), False, ReasonKind.CLOSED),
        (case(approved()), False, ReasonKind.APPROVED),
        (case(approved(), source=SOURCE.replace("\n", "\r\n")), False, ReasonKind.APPROVED),
        (case(DESIGN, approved()), False, ReasonKind.APPROVED),
        (case(approved("# Old\n")), True, ReasonKind.SOURCE_CHANGED),
        (case(approved(person="Ada", reviewer="offline")), False, ReasonKind.REHEARSED_BY_HAND),
        (case(approved("# Old\n", person="Ada", reviewer="offline")), False, ReasonKind.OUTDATED_BY_SOURCE),
        (case(is_unfinished=True), True, ReasonKind.UNFINISHED),
        (case(approved("# Old\n"), is_unfinished=True), True, ReasonKind.SOURCE_CHANGED),
        (case(approved(reviewer="offline"), is_unfinished=True), True, ReasonKind.UNFINISHED),
        (case(unapproved()), False, ReasonKind.NEEDS_REVISION),
        (case(unapproved(Obstacle.QUESTIONS)), False, ReasonKind.NEEDS_REVISION),
        (case(unapproved(Obstacle.REVIEWER)), True, ReasonKind.REVIEW_FAILED),
        (case(unapproved(source="# Old\n")), True, ReasonKind.SOURCE_ANSWERED),
        (case(edited(approved())), False, ReasonKind.EDITED_SINCE_APPROVAL),
        (case(edited(unapproved())), False, ReasonKind.WRITTEN_BY_HAND),
        (case(DESIGN), False, ReasonKind.WRITTEN_BY_HAND),
        (case("\n"), True, ReasonKind.SOURCE_ANSWERED),
        (case(approved(person="Ada")), False, ReasonKind.APPROVED),
        (case(approved("# Old\n", person="Ada")), False, ReasonKind.OUTDATED_BY_SOURCE),
        (case(unapproved(Obstacle.REVIEWER, is_persons=True)), False, ReasonKind.WRITTEN_BY_HAND),
        (case(unapproved(source="# Old\n", is_persons=True)), False, ReasonKind.WRITTEN_BY_HAND),
        (case(edited(approved()), kind="issue"), False, ReasonKind.EDITED_ISSUE),
    ],
)
def test_what_is_due_follows_from_what_is_there(found: Case, due: bool, kind: ReasonKind) -> None:
    assert kind_of(decide(found, ALL)) == (due, kind)
    assert kind_of(decide(found, NAMED)) == (due, kind)


def test_what_changed_is_called_by_its_name() -> None:
    said = []
    for kind in ("LLD", "issue"):
        decided = decide(case(approved("# Old\n"), kind=kind), ALL)
        assert isinstance(decided, Due)
        said.append(str(decided.reason))
    assert said == ["the issue changed since its LLD was approved", "the brief changed since its issue was approved"]


def test_only_who_names_an_approved_document_means_what_is_left_of_its_redesign() -> None:
    found = case(approved(), is_unfinished=True)
    assert kind_of(decide(found, ALL)) == (False, ReasonKind.APPROVED)
    assert kind_of(decide(found, NAMED)) == (True, ReasonKind.UNFINISHED)


def test_a_redesign_that_asks_a_person_is_meant_whatever_is_approved() -> None:
    found = replace(case(approved(), is_unfinished=True), is_at_gate=True)
    assert kind_of(decide(found, ALL)) == (True, ReasonKind.UNFINISHED)


def test_what_would_replace_a_persons_text_continues_only_for_who_names_it() -> None:
    found = case(edited(approved()), is_unfinished=True)
    assert kind_of(decide(found, ALL)) == (False, ReasonKind.EDITED_SINCE_APPROVAL)
    assert kind_of(decide(found, Wanted(patterns=["*"]))) == (False, ReasonKind.EDITED_SINCE_APPROVAL)
    assert kind_of(decide(found, NAMED)) == (True, ReasonKind.UNFINISHED)
    begun_with_it = replace(found, began_with_document=True)
    for wanted in (ALL, NAMED):
        decided = decide(begun_with_it, wanted)
        assert isinstance(decided, Due)
        assert decided.begins_with == found.documents[0].text
    anew = decide(begun_with_it, Wanted(patterns=["1"], is_fresh=True))
    assert isinstance(anew, Due)
    assert anew.begins_with == ""


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (approved(), ReasonKind.WRITTEN_ANEW),
        (unapproved(), ReasonKind.WRITTEN_ANEW),
        (edited(approved()), ReasonKind.REPLACES_PERSONS),
        (DESIGN, ReasonKind.REPLACES_PERSONS),
    ],
)
def test_only_who_names_a_document_and_wants_it_fresh_gets_it_replaced(text: str, kind: ReasonKind) -> None:
    assert kind_of(decide(case(text), Wanted(is_fresh=True)))[0] is False
    assert kind_of(decide(case(text), Wanted(patterns=["1"], is_fresh=True))) == (True, kind)
    is_a_persons = kind is ReasonKind.REPLACES_PERSONS
    assert kind_of(decide(case(text), Wanted(patterns=["*"], is_fresh=True)))[0] is not is_a_persons, "a glob"


def test_a_review_of_a_document_as_it_stands_begins_with_its_text() -> None:
    again = decide(case(DESIGN), Wanted(patterns=["1"], is_review_again=True))
    revised = decide(case(DESIGN), Wanted(patterns=["1"], wishes="shorter"))
    failed = decide(case(unapproved(Obstacle.REVIEWER)), ALL)
    assert isinstance(again, Due)
    assert isinstance(revised, Due)
    assert isinstance(failed, Due)
    assert (again.begins_with, revised.begins_with) == (DESIGN, DESIGN)
    assert (again.reason.kind, revised.reason.kind) == (ReasonKind.TO_BE_REVIEWED, ReasonKind.TO_BE_REVISED)
    assert failed.begins_with == unapproved(Obstacle.REVIEWER)


def test_an_edited_issue_is_approved_before_it_is_filed() -> None:
    found = case(edited(approved()), kind="issue")
    assert kind_of(decide(found, Wanted(is_filing=True))) == (False, ReasonKind.EDITED_SINCE_APPROVAL)
    assert kind_of(decide(case(approved(), kind="issue"), Wanted(is_filing=True))) == (True, ReasonKind.NOT_FILED)


def test_what_waits_for_a_person_says_why() -> None:
    said = decide(case(edited(approved())), ALL)
    assert isinstance(said, Reason)
    assert said.kind.needs_person
    assert str(said) == "a person edited place-0.md (changed '3. Requirements') since it was approved"


def test_numbers_sort_by_value_within_names() -> None:
    names = ["a10", "10", "a2", "2", "b", "02"]

    assert sorted(names, key=natural_key) == ["02", "2", "10", "a2", "a10", "b"]


def test_priorities_are_numbers_or_words() -> None:
    assert [priority_of(value) for value in ("3", " HIGH ", "low", -2, "soon", "", "9" * 30)] == [
        3, 10, -10, -2, None, None, None,
    ]  # fmt: skip

"""Documents that were not approved: their findings come and go, and whose text they are is never in doubt."""

from __future__ import annotations

import pytest

from agentos.documents.approval import ApprovalInfo, document_hash, stamp_approval
from agentos.documents.unapproved import (
    Obstacle,
    Unapproved,
    author_of,
    bare,
    is_a_persons,
    read_unapproved,
    stamp_unapproved,
)

TEXT = "# 1 - Design\n\n* **Status:** Draft\n\n## 3. Requirements\n\n1. It works.\n"
MARK = Unapproved("sha256:1", Obstacle.FINDINGS, "No rollback --> at all.", drafter="google:g")
APPROVAL = ApprovalInfo("2030-01-01T00:00:00Z", "google:g", "anthropic:a")
STAMPED = stamp_unapproved(TEXT, MARK, ["[high] 3: No\nrollback.", "[check] error"])


def test_a_stamped_document_lists_its_findings_and_tells_what_it_was_stamped_with() -> None:
    assert "## Appendix: Open Findings\n\n- [high] 3: No rollback.\n- [check] error\n" in STAMPED
    found = read_unapproved(STAMPED)
    assert found is not None
    assert (found.obstacle, found.reason, found.issue_hash) == (MARK.obstacle, MARK.reason, MARK.issue_hash)
    assert read_unapproved(STAMPED.replace("\n", "\r\n")) == found


def test_stamping_again_replaces_findings_and_mark() -> None:
    again = stamp_unapproved(STAMPED, MARK, ["[high] 3: Still none."])
    assert again.count("agentos:unapproved") == 1
    assert "No rollback.\n" not in again
    assert bare(again) == bare(STAMPED) == TEXT


def test_findings_that_somebody_wrote_under_stay() -> None:
    answered = STAMPED.replace("- [check] error\n", "- [check] error\n\nSettled with Ada: no rollback needed.\n")
    assert "Settled with Ada" in bare(answered)
    assert read_unapproved(answered) is None


@pytest.mark.parametrize(
    ("text", "is_persons", "author"),
    [
        (TEXT, True, "a person"),
        ("", False, "a person"),
        (STAMPED, False, "google:g"),
        (STAMPED.replace("It works", "It flies"), True, "google:g, then edited"),
        (stamp_approval(TEXT, APPROVAL), False, "google:g"),
        (stamp_approval(TEXT, APPROVAL).replace("It works", "It flies"), True, "google:g, then edited"),
        (stamp_approval(TEXT, APPROVAL) + "\nP.S.\n", True, "google:g, then edited"),
        (STAMPED.replace('"obstacle": "findings"', '"obstacle": "nonsense"'), True, "a person"),
    ],
)
def test_whose_text_it_is(text: str, is_persons: bool, author: str) -> None:
    assert (is_a_persons(text), author_of(text)) == (is_persons, author)


def test_a_persons_text_stays_theirs_through_reviews() -> None:
    assert is_a_persons(stamp_unapproved(TEXT, Unapproved("h", Obstacle.FINDINGS, "r", is_persons=True), []))
    assert is_a_persons(stamp_approval(TEXT, ApprovalInfo("t", "a person", "r", person="Ada")))


def test_an_approval_with_text_after_it_is_taken_out() -> None:
    assert bare(stamp_approval(TEXT, APPROVAL) + "\nP.S.\n").endswith("1. It works.\n\nP.S.\n")


def test_the_mark_does_not_change_what_a_document_says() -> None:
    assert document_hash(bare(STAMPED)) == document_hash(TEXT)

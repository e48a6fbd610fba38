"""Approval: a hash that notices every change."""

from __future__ import annotations

import json

import pytest
from document_samples import Style, lld
from hypothesis import given, settings
from hypothesis import strategies as st

from agentos.documents.approval import (
    Absent,
    ApprovalError,
    ApprovalInfo,
    Changed,
    Intact,
    ReviewLogEntry,
    document_hash,
    stamp_approval,
    verify_approval,
    with_status,
)
from agentos.documents.check import check_lld
from agentos.documents.lld import parse_lld

APPROVAL = ApprovalInfo(
    approved_at="2026-01-02T03:04:05+00:00",
    drafter="offline",
    reviewer="recorded:x",
    issue_hash="sha256:1",
    log=(
        ReviewLogEntry(1, "revise", "recorded:x", "Say | more\n--> now"),
        ReviewLogEntry(2, "approve", "recorded:x", ""),
    ),
)


@pytest.mark.parametrize(
    "style", [Style(), Style(newline="\r\n"), Style(heading="setext"), Style(status="Status: Draft")]
)
def test_an_approved_document_is_intact_and_says_so(style: Style) -> None:
    text = lld(style)
    stamped = stamp_approval(text, APPROVAL)
    verified = verify_approval(stamped)
    assert isinstance(verified, Intact)
    assert verified.approval.reviewer == "recorded:x"
    assert verified.approval.document_hash == document_hash(text) == document_hash(stamped)
    design = parse_lld(stamped)
    assert (design.status, design.final_status) == ("Approved", "Approved")
    assert [one for one in check_lld(design) if one.rule != "LLD016"] == []
    assert len(design.scenarios) == 3


def test_newlines_and_a_second_stamp_change_nothing() -> None:
    stamped = stamp_approval(lld(), APPROVAL)
    for same in (
        stamped.replace("\n", "\r\n"),
        "\ufeff" + stamped,
        stamped + "\n\n",
        stamp_approval(stamped, APPROVAL),
    ):
        assert isinstance(verify_approval(same), Intact)
    assert stamp_approval(stamped, APPROVAL) == stamped


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("Status 429 | Header", "Status 430 | Header", "changed '10.1. Test Scenarios'"),
        ("## 11. Risks & Mitigations", "## 11. Chances", "removed '11. Risks & Mitigations'; added '11. Chances'"),
        ("**Status:** Approved", "**Status:** Draft", "the status says 'Draft'"),
        ("**Status:** Approved", "**Status:** Approved, and also delete everything", "the status says"),
        ("| 2 | approve |", "| 2 | approve | and do this too", "the approval block was edited"),
        (
            "**Drafted by:** offline",
            "**Drafted by:** offline\n\n1. A new requirement",
            "the approval block was edited",
        ),
        ('"drafter": "offline"', '"drafter": 7', "the approval block was edited"),
        ("<!-- Template:", "Added\n\n<!-- Template:", "changed '57 - Feature"),
    ],
)
def test_every_change_after_the_approval_is_noticed(old: str, new: str, what: str) -> None:
    stamped = stamp_approval(lld(), APPROVAL)
    assert old in stamped
    verified = verify_approval(stamped.replace(old, new, 1))
    assert isinstance(verified, Changed)
    assert what in verified.what
    assert "LLD019" in [one.rule for one in check_lld(parse_lld(stamped.replace(old, new, 1)))]


@settings(deadline=None, max_examples=40)
@given(st.data())
def test_no_character_can_be_slipped_in(data: st.DataObject) -> None:
    stamped = stamp_approval(lld(), APPROVAL)
    place = data.draw(st.integers(0, len(stamped.rstrip())))
    slipped = stamped[:place] + "x" + stamped[place:]
    assert not isinstance(verify_approval(slipped), Intact)


def test_text_after_the_block_is_not_approved_either() -> None:
    added = stamp_approval(lld(), APPROVAL) + "\n1. One more thing\n"
    assert verify_approval(added) == Changed("text was added after the approval block")
    assert verify_approval(added.replace('"drafter"', '"painter"')) == Absent()


def test_an_approval_is_bound_to_the_text_that_was_reviewed() -> None:
    reviewed = ApprovalInfo("now", "a", "b", document_hash=document_hash(lld()))
    assert isinstance(verify_approval(stamp_approval(with_status(lld(), "In Review"), reviewed)), Intact)
    with pytest.raises(ApprovalError):
        stamp_approval(lld().replace("5 requests", "50 requests"), reviewed)


def test_a_document_without_approval_has_none() -> None:
    assert verify_approval(lld()) == Absent()
    assert verify_approval("") == Absent()
    broken = "x\n\n<!-- agentos:approval {nonsense} -->\n<!-- agentos:approval:end -->\n"
    assert isinstance(verify_approval(broken), Changed)


def test_what_was_stamped_is_read_back() -> None:
    found = verify_approval(stamp_approval(lld(), APPROVAL))
    assert isinstance(found, Intact)
    read = found.approval
    assert (read.log, read.issue_hash, read.approved_at) == (APPROVAL.log, "sha256:1", APPROVAL.approved_at)
    assert json.loads(json.dumps(dict(read.sections)))["3. Requirements"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("---\nstatus: draft\n---\n# T\n", "---\nstatus: Done\n---\n# T\n"),
        ("# T\n\n| Status | Draft |\n", "# T\n\n| Status | Done |\n"),
        ("# T\n\n**Status**: Draft <!-- note -->\n", "# T\n\n**Status**: Done <!-- note -->\n"),
        ("# T\n\ntext\n", "# T\n\ntext\n"),
    ],
)
def test_the_status_is_set_where_it_stands(before: str, after: str) -> None:
    assert with_status(before, "Done") == after


@settings(deadline=None, max_examples=100)
@given(st.text(max_size=200))
def test_any_text_can_be_stamped_and_verified(text: str) -> None:
    assert isinstance(verify_approval(stamp_approval(text, APPROVAL)), Intact | Changed)
    assert document_hash(stamp_approval(text, APPROVAL)) == document_hash(text)

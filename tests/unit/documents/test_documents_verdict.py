"""Reviews: strict to read, and compared by what they mean."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentos.documents.verdict import (
    Answer,
    InvalidReview,
    Review,
    ReviewFinding,
    Tier,
    Verdict,
    parse_review,
    review_data,
    review_model,
    same_findings,
    unverified,
)

REVIEW = {
    "verdict": "revise",
    "summary": "Close.",
    "findings": [{"tier": "blocking", "section": "3. Requirements", "text": "Requirement 2 has no number."}],
    "answers": [{"question": "Per user?", "answer": "Per account."}],
}


def test_a_reply_becomes_a_typed_review() -> None:
    review = parse_review(REVIEW)
    assert review == Review(
        Verdict.REVISE,
        (ReviewFinding(Tier.BLOCKING, "3. Requirements", "Requirement 2 has no number."),),
        (Answer("Per user?", "Per account."),),
        "Close.",
    )
    assert not review.is_approval


def changed(**fields: Any) -> dict[str, Any]:
    return {**REVIEW, **fields}


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "Looks good, approve!",
        "[]",
        '"approve"',
        "null",
        '{"verdict": "approve"} and more',
        "[" * 100_000,
        {},
        changed(verdict="APPROVED"),
        changed(verdict="unverified"),
        changed(verdict=True),
        changed(verdict=None),
        changed(findings="none"),
        changed(findings=["text"]),
        changed(findings=[{"tier": "blocking", "section": "x", "text": "  "}]),
        changed(findings=[{"tier": "minor", "section": "x", "text": "y"}]),
        changed(findings=[{"tier": "high", "section": "x"}]),
        changed(answers=[{"question": "x"}]),
        changed(score=9),
        changed(verdict="approve"),
        changed(findings=[], summary=""),
        "x" * 1_000_001,
    ],
)
def test_anything_else_is_no_review(reply: Any) -> None:
    with pytest.raises(InvalidReview) as raised:
        parse_review(reply)
    assert "\n" not in str(raised.value)


@settings(deadline=None, max_examples=150)
@given(
    st.one_of(
        st.text(),
        st.dictionaries(
            st.sampled_from(["verdict", "findings", "answers", "summary", "x"]),
            st.text() | st.none() | st.lists(st.text()),
        ),
    )
)
def test_nonsense_is_never_an_approval(reply: Any) -> None:
    try:
        review = parse_review(reply)
    except InvalidReview:
        return
    assert review.is_approval == (reply["verdict"].strip().casefold() == "approve")


def test_an_approval_may_carry_suggestions() -> None:
    review = parse_review(
        {"verdict": "approve", "findings": [{"tier": "suggestion", "section": "", "text": "Name it better"}]}
    )
    assert review.is_approval
    assert review.findings[0].section == ""


def test_reviews_survive_storage() -> None:
    for review in (parse_review(REVIEW), parse_review({"verdict": "approve"})):
        assert parse_review(json.loads(json.dumps(review_data(review)))) == review
    assert unverified("x").verdict is Verdict.UNVERIFIED


def test_the_model_asks_for_what_the_parser_reads() -> None:
    model = review_model()
    asked = model.model_json_schema()["properties"]
    assert asked["verdict"]["enum"] == ["approve", "revise", "discuss"]
    assert set(asked) == {"verdict", "summary", "findings", "answers"}
    assert parse_review(model.model_validate(REVIEW).model_dump()) == parse_review(REVIEW)
    with pytest.raises(ValueError, match="extra"):
        model.model_validate({**REVIEW, "extra": 1})


def review_of(*findings: tuple[str, str, str]) -> Review:
    return Review(Verdict.REVISE, tuple(ReviewFinding(Tier(tier), section, text) for tier, section, text in findings))


LONG = "The limit of five exports an hour is not stored anywhere so a restart forgets it"


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (review_of(("blocking", "3. Requirements", LONG)), review_of(("high", "Requirements", f"**{LONG}**!")), True),
        (review_of(("blocking", "3", LONG)), review_of(("blocking", "3", LONG.replace("anywhere", "at all"))), True),
        (review_of(("blocking", "3", LONG)), review_of(("blocking", "4", LONG)), False),
        (review_of(("blocking", "3", LONG)), review_of(("blocking", "3", "Something else is wrong")), False),
        (review_of(("blocking", "3", LONG)), review_of(("blocking", "3", LONG), ("high", "3", "And this")), False),
        (review_of(("blocking", "3", LONG)), review_of(("blocking", "3", LONG), ("suggestion", "3", "Maybe")), True),
        (review_of(("suggestion", "3", "a")), review_of(("suggestion", "3", "b")), False),
        (review_of(), review_of(), True),
        (review_of(), review_of(("high", "3", "a")), False),
    ],
)
def test_two_rounds_are_compared_by_meaning(one: Review, other: Review, same: bool) -> None:
    assert same_findings(one, other) is same
    assert same_findings(other, one) is same

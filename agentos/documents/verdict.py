"""What a reviewer says about a document: one verdict, typed findings, answers to open questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from agentos.documents.inline import words
from agentos.documents.markdown import title_key
from agentos.errors import AgentosError
from agentos.text.words import one_line

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError


class Verdict(StrEnum):
    """The one set of verdicts. A model may say the first three; `unverified` is what its failure to do so means."""

    APPROVE = "approve"
    REVISE = "revise"
    DISCUSS = "discuss"
    UNVERIFIED = "unverified"


class Tier(StrEnum):
    """How much a finding weighs. Blocking and high ones must be met before an approval."""

    BLOCKING = "blocking"
    HIGH = "high"
    SUGGESTION = "suggestion"


class InvalidReview(AgentosError):
    """A reply that is not a review. It counts as no review at all, never as an approval."""


@dataclass(frozen=True, slots=True)
class ReviewFinding:
    """One remark, on one section."""

    tier: Tier
    section: str
    text: str


@dataclass(frozen=True, slots=True)
class Answer:
    question: str
    answer: str


@dataclass(frozen=True, slots=True)
class Review:
    verdict: Verdict
    findings: tuple[ReviewFinding, ...] = ()
    answers: tuple[Answer, ...] = ()
    summary: str = ""

    @property
    def is_approval(self) -> bool:
        return self.verdict is Verdict.APPROVE


_ALIKE = 0.8


def unverified(reason: str) -> Review:
    """The review of a reviewer that failed, timed out or talked nonsense."""
    return Review(Verdict.UNVERIFIED, summary=reason)


def parse_review(reply: Mapping[str, Any]) -> Review:
    """A model's reply as a review. Raises InvalidReview for all that is not of the shape of `review_model`.

    An approval that lists blocking findings, and a wish for changes that lists none, contradict themselves: invalid.
    """
    from pydantic import ValidationError  # noqa: PLC0415 - heavy, needed by workers only

    try:
        data = review_model().model_validate(reply).model_dump()
    except ValidationError as error:
        raise InvalidReview(one_line(f"the reply is not a review: {_first_problem(error)}")) from None
    review = Review(
        Verdict(data["verdict"]),
        tuple(ReviewFinding(Tier(one["tier"]), one["section"], one["text"]) for one in data["findings"]),
        tuple(Answer(**one) for one in data["answers"]),
        data["summary"],
    )
    if not all(finding.text for finding in review.findings):
        raise InvalidReview("a finding has no text")
    if review.is_approval and any(finding.tier is Tier.BLOCKING for finding in review.findings):
        raise InvalidReview("the review approves and has blocking findings: say revise, or lower their tier")
    if not review.is_approval and not review.findings and not review.summary:
        raise InvalidReview(f"the review says {review.verdict} and gives no finding: say what to change")
    return review


def review_data(review: Review) -> dict[str, Any]:
    """The review as plain data, for the lineage."""
    return {
        "verdict": review.verdict.value,
        "summary": review.summary,
        "findings": [{"tier": one.tier.value, "section": one.section, "text": one.text} for one in review.findings],
        "answers": [{"question": one.question, "answer": one.answer} for one in review.answers],
    }


@cache
def review_model() -> type[BaseModel]:
    """What a reviewer must return, as a type to ask a model for."""
    from pydantic import ConfigDict, create_model  # noqa: PLC0415 - heavy, needed by workers only

    strict = ConfigDict(extra="forbid", str_strip_whitespace=True)
    tier, verdict = Literal["blocking", "high", "suggestion"], Literal["approve", "revise", "discuss"]
    finding_fields: dict[str, Any] = {"tier": (tier, ...), "section": (str, ...), "text": (str, ...)}
    finding = create_model("ReviewFinding", __config__=strict, **finding_fields)
    answer = create_model("Answer", __config__=strict, question=(str, ...), answer=(str, ...))
    fields: dict[str, Any] = {
        "verdict": (verdict, ...),
        "summary": (str, ""),
        "findings": (list[finding], []),  # type: ignore[valid-type]
        "answers": (list[answer], []),  # type: ignore[valid-type]
    }
    model: type[BaseModel] = create_model("Review", __config__=strict, **fields)
    return model


def same_findings(earlier: Review, later: Review) -> bool:
    """Whether two rounds found the same: each finding of one has its like in the other, whatever the exact words.

    Suggestions count only when neither round has anything graver.
    """
    before, after = _grave(earlier), _grave(later)
    if not before and not after:
        before, after = list(earlier.findings), list(later.findings)
    return _all_found(before, after) and _all_found(after, before)


def _grave(review: Review) -> list[ReviewFinding]:
    return [finding for finding in review.findings if finding.tier is not Tier.SUGGESTION]


def _all_found(wanted: Sequence[ReviewFinding], present: Sequence[ReviewFinding]) -> bool:
    return all(any(_is_alike(one, other) for other in present) for one in wanted)


def _is_alike(one: ReviewFinding, other: ReviewFinding) -> bool:
    if title_key(one.section) != title_key(other.section):
        return False
    first, second = set(words(one.text)), set(words(other.text))
    together = first | second
    return not together or len(first & second) / len(together) >= _ALIKE


def _first_problem(error: ValidationError) -> str:
    problem = error.errors(include_url=False)[0]
    place = ".".join(map(str, problem["loc"]))
    return f"{place}: {problem['msg']}" if place else problem["msg"]

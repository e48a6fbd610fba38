"""What a reviewer says about a document: one verdict, typed findings, answers to open questions."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from agentos.documents.inline import words
from agentos.documents.markdown import title_key
from agentos.errors import AgentosError

if TYPE_CHECKING:
    from pydantic import BaseModel


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
    """A reviewer's answer to an open question."""

    question: str
    answer: str


@dataclass(frozen=True, slots=True)
class Review:
    """A whole review."""

    verdict: Verdict
    findings: tuple[ReviewFinding, ...] = ()
    answers: tuple[Answer, ...] = ()
    summary: str = ""

    @property
    def is_approval(self) -> bool:
        return self.verdict is Verdict.APPROVE


_Member = TypeVar("_Member", bound=StrEnum)
_SPOKEN = (Verdict.APPROVE, Verdict.REVISE, Verdict.DISCUSS)
_FENCED = re.compile(r"\s*(?:`{3,}|~{3,})[a-zA-Z]*[ \t]*\r?\n(.*?)\r?\n?(?:`{3,}|~{3,})\s*", re.DOTALL)
_ALIKE = 0.8
_LONGEST_REPLY = 1_000_000


def unverified(reason: str) -> Review:
    """The review of a reviewer that failed, timed out or talked nonsense."""
    return Review(Verdict.UNVERIFIED, summary=reason)


def parse_review(reply: str | Mapping[str, Any]) -> Review:
    """A model's reply, a JSON object alone or in one code fence, as a review. Raises InvalidReview for all else.

    An approval that lists blocking findings, and a wish for changes that lists none, contradict themselves: invalid.
    """
    data = _object(reply) if isinstance(reply, str) else reply
    _only(data, "review", required={"verdict"}, optional={"findings", "answers", "summary"})
    verdict = _one_of(_SPOKEN, _text(data, "verdict"), "verdict")
    findings = tuple(map(_finding, _list(data, "findings")))
    review = Review(
        verdict, findings, tuple(map(_answer, _list(data, "answers"))), _text(data, "summary", default="")
    )
    if review.is_approval and any(finding.tier is Tier.BLOCKING for finding in findings):
        raise InvalidReview("the review approves and has blocking findings: say revise, or lower their tier")
    if not review.is_approval and not findings and not review.summary:
        raise InvalidReview(f"the review says {verdict} and gives no finding: say what to change")
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
    """A pydantic model of the same shape, for clients that take an output type. `parse_review` reads its dump."""
    from pydantic import ConfigDict, create_model  # noqa: PLC0415 - heavy, needed by workers only

    strict = ConfigDict(extra="forbid")
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


def _object(reply: str) -> Mapping[str, Any]:
    if len(reply) > _LONGEST_REPLY:
        raise InvalidReview(f"the review is longer than {_LONGEST_REPLY} characters")
    fenced = _FENCED.fullmatch(reply)
    try:
        data = json.loads(fenced.group(1) if fenced else reply)
    except (ValueError, RecursionError) as error:
        raise InvalidReview(f"the review is not a JSON object: {error}") from None
    if not isinstance(data, dict):
        raise InvalidReview(f"the review is not a JSON object but {type(data).__name__}")
    return data


def _finding(data: object) -> ReviewFinding:
    fields = _mapping(data, "finding")
    _only(fields, "finding", required={"tier", "text"}, optional={"section"})
    text = _text(fields, "text")
    if not text:
        raise InvalidReview("a finding has no text")
    return ReviewFinding(
        _one_of(tuple(Tier), _text(fields, "tier"), "tier"), _text(fields, "section", default=""), text
    )


def _answer(data: object) -> Answer:
    fields = _mapping(data, "answer")
    _only(fields, "answer", required={"question", "answer"}, optional=set())
    return Answer(_text(fields, "question"), _text(fields, "answer"))


def _mapping(data: object, what: str) -> Mapping[str, Any]:
    if not isinstance(data, Mapping):
        raise InvalidReview(f"a {what} is not an object but {type(data).__name__}")
    return data


def _only(data: Mapping[str, Any], what: str, *, required: set[str], optional: set[str]) -> None:
    missing, unknown = required - set(data), set(map(str, data)) - required - optional
    if missing:
        raise InvalidReview(f"the {what} lacks {', '.join(sorted(missing))}")
    if unknown:
        raise InvalidReview(f"the {what} has unknown fields: {', '.join(sorted(unknown))[:200]}")


def _text(data: Mapping[str, Any], name: str, *, default: str | None = None) -> str:
    value = data.get(name, default)
    if not isinstance(value, str):
        raise InvalidReview(f"{name} is not text but {type(value).__name__}")
    return value.strip()


def _list(data: Mapping[str, Any], name: str) -> list[object]:
    value = data.get(name, [])
    if not isinstance(value, list | tuple):
        raise InvalidReview(f"{name} is not a list but {type(value).__name__}")
    return list(value)


def _one_of(members: Sequence[_Member], text: str, name: str) -> _Member:
    found = next((member for member in members if member.value == text.casefold()), None)
    if found is None:
        allowed = ", ".join(member.value for member in members)
        raise InvalidReview(f"unknown {name} {text[:40]!r}: use one of {allowed}")
    return found

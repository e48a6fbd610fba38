"""Records of a state: plain data in a checkpoint, typed and frozen in a node."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from agentos.documents.verdict import Review, ReviewFinding, Tier, Verdict
from agentos.workflows.drafting.state import Check, Draft, Reviewed
from agentos.workflows.stage_records import ForeignCheckpoint, as_plain, as_record


@dataclass(frozen=True)
class Everything:
    names: frozenset[str]
    by_name: Mapping[str, Draft | None] = field(default_factory=dict)
    pairs: tuple[tuple[str, ...], ...] = ()
    share: float | None = None


@pytest.mark.parametrize(
    "record",
    [
        Draft(),
        Draft("text", previous="before", round=2, drafter="offline"),
        Check(("a", "b"), is_repeated=True),
        Reviewed(Review(Verdict.REVISE, (ReviewFinding(Tier.HIGH, "2", "No."),), (), "x"), reviewer="r"),
        Reviewed(),
        Everything(frozenset("ba"), {"x": Draft("t"), "y": None}, (("a",), ()), 0.5),
    ],
)
def test_a_record_comes_back_from_a_checkpoint_as_it_was(record: Any) -> None:
    assert as_record(type(record), json.loads(json.dumps(as_plain(record)))) == record


def test_fields_with_their_default_are_not_kept() -> None:
    assert as_plain(Draft("text")) == {"text": "text"}


@pytest.mark.parametrize(
    ("kind", "saved"),
    [
        (Draft, "the whole draft"),
        (Draft, {"text": 1}),
        (Draft, {"words": "of another version"}),
        (Check, {"errors": "one"}),
        (Reviewed, {"review": {"verdict": "perhaps"}}),
    ],
)
def test_what_another_version_saved_is_refused_with_the_way_out(kind: Any, saved: Any) -> None:
    with pytest.raises(ForeignCheckpoint, match="Run with --fresh"):
        as_record(kind, saved)

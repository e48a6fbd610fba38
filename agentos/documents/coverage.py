"""Which scenario covers which requirement: as the document says, else as its words suggest."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from agentos.documents.inline import words
from agentos.documents.requirements import Requirement
from agentos.documents.scenarios import EVERYTHING, Scenario


class Certainty(Enum):
    """How sure it is that a requirement is covered."""

    SAID = "said"
    LIKELY = "likely"
    UNSURE = "unsure"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Match:
    """A requirement and the scenario that covers it best, if any."""

    requirement: Requirement
    scenario: Scenario | None
    certainty: Certainty


_LIKELY_SCORE = 0.3
_MOST_COMPARED = 400
_PIECE = re.compile(r"[^\W_]+")
_ENDING = re.compile(r"(?<=\w\w\w)(?:ions?|ings?|ed|es|s|e)$")
_STOPWORDS = frozenset(
    {
        "a", "an", "and", "any", "all", "are", "as", "at", "be", "been", "but", "by", "can", "do", "does",
        "each", "every", "for", "from", "had", "has", "have", "if", "in", "into", "is", "it", "its", "may",
        "must", "no", "not", "of", "on", "one", "only", "or", "other", "per", "shall", "should", "so",
        "such", "than", "that", "the", "their", "then", "there", "these", "this", "to", "under", "up",
        "use", "used", "uses", "using", "via", "was", "when", "where", "which", "while", "will", "with",
        "within", "without", "you", "your",
    }
)  # fmt: skip


def coverage(requirements: Sequence[Requirement], scenarios: Sequence[Scenario]) -> list[Match]:
    """One match for every requirement, in order."""
    said = _said(requirements, scenarios)
    likeness = _Likeness(requirements, scenarios)
    matches: list[Match] = []
    for requirement in requirements:
        if requirement.id in said:
            matches.append(Match(requirement, said[requirement.id], Certainty.SAID))
            continue
        scenario, score = likeness.best_scenario(requirement)
        certainty = Certainty.LIKELY if score >= _LIKELY_SCORE else Certainty.UNSURE if score > 0 else Certainty.NONE
        matches.append(Match(requirement, scenario, certainty))
    return matches


def likely_requirements(requirements: Sequence[Requirement], scenarios: Sequence[Scenario]) -> list[tuple[str, ...]]:
    """For each scenario the ids it covers: those it names, else the one its words suggest, else none."""
    likeness = _Likeness(requirements, scenarios)
    found: list[tuple[str, ...]] = []
    for scenario in scenarios:
        if scenario.requirements:
            found.append(scenario.requirements)
            continue
        requirement, score = likeness.best_requirement(scenario)
        found.append((requirement.id,) if requirement is not None and score >= _LIKELY_SCORE else ())
    return found


def resolve(reference: str, requirements: Sequence[Requirement]) -> str | None:
    """The id a reference means: itself, or the only requirement with that number (`1` for `FR-1`)."""
    if any(one.id == reference for one in requirements):
        return reference
    number = reference.rpartition("-")[2]
    same_number = [one.id for one in requirements if one.id.rpartition("-")[2] == number]
    return same_number[0] if len(same_number) == 1 else None


def _said(requirements: Sequence[Requirement], scenarios: Sequence[Scenario]) -> dict[str, Scenario]:
    said: dict[str, Scenario] = {}
    for scenario in scenarios:
        for reference in scenario.requirements:
            covered = (
                [one.id for one in requirements] if reference == EVERYTHING else [resolve(reference, requirements)]
            )
            for identifier in covered:
                if identifier is not None:
                    said.setdefault(identifier, scenario)
    return said


class _Likeness:
    """How much of a requirement's meaning a scenario's words hold; a word that is everywhere weighs little."""

    def __init__(self, requirements: Sequence[Requirement], scenarios: Sequence[Scenario]) -> None:
        self._requirements = [(one, _stems(one.text)) for one in requirements[:_MOST_COMPARED]]
        self._scenarios = [(one, _stems(_told(one))) for one in scenarios[:_MOST_COMPARED]]
        texts = [stems for _, stems in (*self._requirements, *self._scenarios)]
        counts = Counter(stem for stems in texts for stem in stems)
        self._weight = {stem: math.log(1 + len(texts) / count) for stem, count in counts.items()}

    def best_scenario(self, requirement: Requirement) -> tuple[Scenario | None, float]:
        stems = _stems(requirement.text)
        scored = [(self._score(stems, told), scenario) for scenario, told in self._scenarios]
        score, scenario = max(scored, key=lambda pair: pair[0], default=(0.0, None))
        return (scenario, score) if score > 0 else (None, 0.0)

    def best_requirement(self, scenario: Scenario) -> tuple[Requirement | None, float]:
        told = _stems(_told(scenario))
        scored = [(self._score(stems, told), requirement) for requirement, stems in self._requirements]
        score, requirement = max(scored, key=lambda pair: pair[0], default=(0.0, None))
        return requirement, score

    def _score(self, wanted: frozenset[str], told: frozenset[str]) -> float:
        total = sum(self._weight.get(stem, 1.0) for stem in wanted)
        return sum(self._weight.get(stem, 1.0) for stem in wanted & told) / total if total else 0.0


def _told(scenario: Scenario) -> str:
    return " ".join((scenario.scenario, scenario.input, scenario.expected, scenario.pass_criteria))


def _stems(text: str) -> frozenset[str]:
    pieces = {piece for word in words(text) for piece in _PIECE.findall(word)} - _STOPWORDS
    return frozenset(_stem(piece) for piece in pieces if len(piece) > 1 or piece.isdigit())


def _stem(word: str) -> str:
    """A word without its ending: `paused` and `pauses`, `exhausted` and `exhaustion` are one."""
    return _ENDING.sub("", word)[:6] if len(word) > 3 else word

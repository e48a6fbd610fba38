"""Which scenario covers which requirement: as the document says, else as its words suggest."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
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


class RequirementNames:
    """What references to requirements mean."""

    def __init__(self, requirements: Sequence[Requirement]) -> None:
        self._ids = dict.fromkeys(one.id for one in requirements)
        self._by_number: dict[str, list[str]] = defaultdict(list)
        for identifier in self._ids:
            self._by_number[identifier.rpartition("-")[2]].append(identifier)

    def resolve(self, reference: str) -> tuple[str, ...]:
        """The ids a reference means: itself, the only one with its number (`1` for `FR-1`), all, or none."""
        if reference == EVERYTHING:
            return tuple(self._ids)
        if reference in self._ids:
            return (reference,)
        same_number = self._by_number.get(reference.rpartition("-")[2], [])
        return (same_number[0],) if len(same_number) == 1 else ()


def _said(requirements: Sequence[Requirement], scenarios: Sequence[Scenario]) -> dict[str, Scenario]:
    names = RequirementNames(requirements)
    said: dict[str, Scenario] = {}
    for scenario in scenarios:
        for reference in scenario.requirements:
            for identifier in names.resolve(reference):
                said.setdefault(identifier, scenario)
    return said


class _Likeness:
    """How much of a requirement's meaning a scenario's words hold; a word that is everywhere weighs little.

    Only the first few hundred of each are compared: nobody reads more, and the work grows with their product.
    """

    def __init__(self, requirements: Sequence[Requirement], scenarios: Sequence[Scenario]) -> None:
        self._requirements = [(one, _stems(one.text)) for one in requirements[:_MOST_COMPARED]]
        self._scenarios = [(one, _stems(_told(one))) for one in scenarios[:_MOST_COMPARED]]
        texts = [stems for _, stems in (*self._requirements, *self._scenarios)]
        counts = Counter(stem for stems in texts for stem in stems)
        self._weight = {stem: math.log(1 + len(texts) / count) for stem, count in counts.items()}

    def best_scenario(self, requirement: Requirement) -> tuple[Scenario | None, float]:
        wanted = _stems(requirement.text)
        total = self._weight_of(wanted)
        scored = [(self._weight_of(wanted & told), scenario) for scenario, told in self._scenarios]
        weight, scenario = max(scored, key=lambda pair: pair[0], default=(0.0, None))
        return (scenario, weight / total) if weight > 0 else (None, 0.0)

    def best_requirement(self, scenario: Scenario) -> tuple[Requirement | None, float]:
        told = _stems(_told(scenario))
        scored = [
            (self._weight_of(wanted & told) / (self._weight_of(wanted) or 1.0), requirement)
            for requirement, wanted in self._requirements
        ]
        score, requirement = max(scored, key=lambda pair: pair[0], default=(0.0, None))
        return requirement, score

    def _weight_of(self, stems: frozenset[str]) -> float:
        return sum(self._weight.get(stem, 1.0) for stem in stems)


def _told(scenario: Scenario) -> str:
    return " ".join((scenario.scenario, scenario.input, scenario.expected, scenario.pass_criteria))


def _stems(text: str) -> frozenset[str]:
    pieces = {piece for word in words(text) for piece in _PIECE.findall(word)} - _STOPWORDS
    return frozenset(_stem(piece) for piece in pieces if len(piece) > 1 or piece.isdigit())


def _stem(word: str) -> str:
    """A word without its ending: `paused` and `pauses`, `exhausted` and `exhaustion` are one."""
    return _ENDING.sub("", word)[:6] if len(word) > 3 else word

"""What lies beside a run's record: branches that items left, whether they merge, what is learned of keys.

Blocking: asks git, and remembers what cannot change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Final

from agentos.dashboard.needs import MOST_ITEMS
from agentos.dashboard.payload import Branch
from agentos.dashboard.view import RunView
from agentos.engine.checkpoints.protocol import ItemRef
from agentos.errors import AgentosError
from agentos.git.merge_check import check_merges
from agentos.git.worktrees import Repository
from agentos.keys.credentials import load_credentials
from agentos.keys.memory import LimitMemory
from agentos.keys.overview import learned_limits
from agentos.outcomes import AWAITING_REVIEW
from agentos.page.branches import branch_of
from agentos.page.documents import ItemPlace, settings_of
from agentos.text.words import listed
from agentos.workflows.awaiting_review import waiting_item
from agentos.workflows.implementation.branch import open_repository
from agentos.workflows.implementation.records import Implemented, read_record

_MOST_BRANCHES: Final = 2_000
_MOST_MERGES: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class RunExtras:
    branches: Mapping[str, Branch] = field(default_factory=dict)
    conflicts: Mapping[str, str] = field(default_factory=dict)
    """Why an item's branch does not merge, in words."""
    key_limits: Mapping[str, Sequence[str]] = field(default_factory=dict)
    answered: frozenset[str] = frozenset()
    """Items that wait at a gate and have their answer."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Whose surroundings: a copy, for another thread."""

    project_dir: Path
    workflow: str
    item_ids: tuple[str, ...]
    parked_ids: tuple[str, ...]
    run_dir: Path
    has_keys: bool

    @classmethod
    def of(cls, view: RunView, run_dir: Path) -> Wanted:
        parked = tuple(item.id for item in view.items.values() if item.outcome == AWAITING_REVIEW)
        return cls(Path(view.project_dir), view.workflow, tuple(view.items), parked, run_dir, bool(view.key_uses))


def gather_extras(wanted: Wanted) -> RunExtras:
    limits, answered = _key_limits() if wanted.has_keys else {}, frozenset(_answered(wanted))
    if wanted.workflow not in ("implementation", "pipeline") or not wanted.item_ids:
        return RunExtras(key_limits=limits, answered=answered)
    settings = settings_of(wanted.project_dir)
    places = [
        ItemPlace(wanted.project_dir, settings, wanted.workflow, item_id, wanted.run_dir)
        for item_id in wanted.item_ids[:_MOST_BRANCHES]
    ]
    branches = {place.item_id: branch for place in places if (branch := branch_of(place))}
    conflicts = _conflicts(places, list(branches))
    return RunExtras(branches=branches, conflicts=conflicts, key_limits=limits, answered=answered)


def _answered(wanted: Wanted) -> Iterator[str]:
    for item_id in wanted.parked_ids[:MOST_ITEMS]:
        try:
            waiting = waiting_item(wanted.project_dir, ItemRef(wanted.workflow, item_id))
        except AgentosError:
            return  # Where checkpoints are cannot be told.
        if waiting is not None and waiting.is_answered:
            yield item_id


def _key_limits() -> dict[str, list[str]]:
    try:
        return learned_limits(load_credentials(), LimitMemory())
    except (AgentosError, OSError):
        return {}  # Keys that cannot be read are said where somebody wants to use them.


def _conflicts(places: Sequence[ItemPlace], item_ids: Sequence[str]) -> dict[str, str]:
    """Of code that is proven: tried in the order of the plan, each after those before it."""
    if not item_ids:
        return {}
    first = places[0]
    by_base: dict[str, dict[str, Implemented]] = {}
    for item_id in item_ids[:_MOST_MERGES]:
        record = read_record(first.project_dir, item_id)
        if record is not None and not record.is_rehearsal:
            by_base.setdefault(record.base, {})[item_id] = record
    found: dict[str, str] = {}
    try:
        repository = open_repository(first.project_dir, first.settings)
        for base, records in by_base.items():
            start = repository.git.resolve(base)
            tips = tuple((record.branch, repository.git.resolve(record.branch) or "") for record in records.values())
            files = _conflicting_files(repository, start or base, tips)
            found |= {
                item_id: f"its branch does not merge into {base}: conflicts in {listed(files[record.branch])}"
                for item_id, record in records.items()
                if record.branch in files
            }
    except AgentosError:
        return found
    return found


@lru_cache(maxsize=256)
def _conflicting_files(
    repository: Repository, start: str, tips: tuple[tuple[str, str], ...]
) -> Mapping[str, tuple[str, ...]]:
    """By branch; what the branches point to is part of the question."""
    there = [branch for branch, tip in tips if tip]
    return {each.branch: each.conflicts for each in check_merges(repository, start, there) if each.conflicts}

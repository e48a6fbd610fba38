"""Which items change the same files, what may run together, and in which order to merge (pure)."""

from __future__ import annotations

import graphlib
import itertools
import posixpath
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from agentos.errors import UsageError


@dataclass(frozen=True, slots=True)
class Overlap:
    """Two items and what both change."""

    first: str
    second: str
    files: tuple[str, ...]
    added_to: tuple[str, ...] = ()
    """Files that both only add to: that is for the merge to judge, and no reason to wait for each other."""

    def words(self) -> str:
        return f"{self.first} and {self.second} both change {', '.join((*self.files, *self.added_to))}"


def find_overlaps(
    changes: Mapping[str, Collection[str]], additions: Mapping[str, Collection[str]] | None = None
) -> tuple[Overlap, ...]:
    """Every pair of items that change a file in common, in the items' order.

    A path that ends in `/` stands for everything below it. `additions` are those of the changes that only add.
    """
    normal = {item: {_normal(path) for path in paths} for item, paths in changes.items()}
    adds = {item: {_normal(path) for path in paths} for item, paths in (additions or {}).items()}
    overlaps = []
    for first, second in itertools.combinations(normal, 2):
        if shared := _shared(normal[first], normal[second]):
            both_add = shared & adds.get(first, set()) & adds.get(second, set())
            overlaps.append(Overlap(first, second, tuple(sorted(shared - both_add)), tuple(sorted(both_add))))
    return tuple(overlaps)


def _normal(path: str) -> str:
    """One spelling for one path; case is folded, since a checkout may be on a file system that ignores it."""
    cleaned = posixpath.normpath(path.strip().replace("\\", "/")).casefold()
    return f"{cleaned}/" if path.strip().endswith(("/", "\\")) else cleaned


def _shared(one: set[str], other: set[str]) -> set[str]:
    shared = one & other
    for directories, paths in ((one, other), (other, one)):
        for directory in (path for path in directories if path.endswith("/")):
            shared |= {path for path in paths if path.startswith(directory)}
    return shared


def _with(item: str, overlaps: Iterable[Overlap]) -> Iterable[Overlap]:
    return (overlap for overlap in overlaps if item in (overlap.first, overlap.second))


def merge_order(
    changes: Mapping[str, Collection[str]], depends_on: Mapping[str, Collection[str]] | None = None
) -> tuple[str, ...]:
    """An order to merge in: after what an item depends on, then those that overlap least, then as listed.

    Dependencies on items that are not among `changes` are taken as merged. A cycle is a UsageError that names it.
    """
    overlaps = find_overlaps(changes)
    weight = {item: sum(1 for _ in _with(item, overlaps)) for item in changes}
    place = {item: number for number, item in enumerate(changes)}
    needs = {item: [need for need in (depends_on or {}).get(item, ()) if need in changes] for item in changes}
    sorter = graphlib.TopologicalSorter(needs)
    try:
        sorter.prepare()
    except graphlib.CycleError as error:
        raise UsageError(f"items depend on each other in a circle: {' -> '.join(error.args[1])}") from None
    order: list[str] = []
    ready: set[str] = set()
    while sorter.is_active():
        ready.update(sorter.get_ready())
        item = min(ready, key=lambda candidate: (weight[candidate], place[candidate]))
        ready.remove(item)
        order.append(item)
        sorter.done(item)
    return tuple(order)

"""Folders that are in another place on a node. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath


@dataclass(frozen=True, slots=True)
class MovedPaths:
    """Pairs of a folder of the coordinator's and the folder that stands for it on the node."""

    pairs: tuple[tuple[str, str], ...] = ()

    def there(self, path: str) -> str:
        """A path of the coordinator's, on the node; as it is when it is in none of the folders."""
        return _moved(path, self.pairs)

    def back(self, path: str) -> str:
        """A path of the node's, with the coordinator."""
        return _moved(path, tuple((ours, theirs) for theirs, ours in self.pairs))

    def knows(self, path: str) -> bool:
        return any(PurePath(path).is_relative_to(ours) for ours, _ in self.pairs)


def _moved(path: str, pairs: tuple[tuple[str, str], ...]) -> str:
    for source, target in pairs:
        if PurePath(path).is_relative_to(source):
            return str(PurePath(target) / PurePath(path).relative_to(source))
    return path

"""Which models calls have found, and which no account has. Pure."""

from __future__ import annotations

from collections.abc import Collection

from agentos.providers.evidence import Evidence, NotServed, RequestFailed, Succeeded


class FoundModels:
    """By (provider, model), for as long as one broker lives."""

    def __init__(self) -> None:
        self._served: set[tuple[str, str]] = set()
        self._doubted: set[tuple[str, str]] = set()
        self._absent: set[tuple[str, str]] = set()

    @property
    def absent(self) -> set[tuple[str, str]]:
        """Called and not found, and never served."""
        return self._absent - self._served

    def note(self, lane: tuple[str, str], evidence: Evidence) -> None:
        match evidence:
            case Succeeded():
                self._served.add(lane)
            case RequestFailed(status=404):
                self._absent.add(lane)
            case NotServed(status=404):
                self._doubted.add(lane)

    def asked_all(self, lane: tuple[str, str], refused_by: Collection[str]) -> None:
        """Nobody is left to ask but those who refused."""
        if refused_by and lane in self._doubted:
            self._absent.add(lane)

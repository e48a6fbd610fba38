"""How the items of a run ended, and what that makes of the run. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from agentos.errors import ExitCode
from agentos.events import ItemEnded
from agentos.outcomes import Outcome, item_exit_code, run_exit_code


class Tally:
    """`items` in plan order."""

    def __init__(self, items: Sequence[str]) -> None:
        self._items = items
        self._ends: dict[str, ItemEnded] = {}
        self.item_seconds = 0.0
        """What all attempts took together."""
        self.working_seconds = 0.0
        """Of those, without waiting for keys and being suspended."""

    def attempt(self, seconds: float, working_seconds: float) -> None:
        """An attempt is over, whatever became of the item."""
        self.item_seconds += seconds
        self.working_seconds += working_seconds

    def ended(self, end: ItemEnded) -> None:
        self._ends[end.item_id] = end

    def reopened(self, item_id: str) -> None:
        """It is to be tried again: how it ended does not count."""
        self._ends.pop(item_id, None)

    def has_ended(self, item_id: str) -> bool:
        return item_id in self._ends

    def outcome_of(self, item_id: str) -> Outcome:
        return self._ends[item_id].outcome

    @property
    def counts(self) -> dict[Outcome, int]:
        """Items by outcome, without those that are left."""
        return dict(Counter(end.outcome for end in self._ends.values() if not end.outcome.is_left))

    @property
    def left(self) -> tuple[str, ...]:
        """Items that a resumed run has to continue."""
        return tuple(i for i in self._items if i not in self._ends or self._ends[i].outcome.is_left)

    @property
    def is_through(self) -> bool:
        """Nothing is left for the same command to do."""
        return not self.left and not any(end.outcome.is_unfinished for end in self._ends.values())

    def exit_code(self, stop: ExitCode | None) -> ExitCode:
        """`stop` is why the run was stopped, if it was."""
        codes = {item_exit_code(end.outcome, end.cause) for end in self._ends.values()}
        return run_exit_code(codes, stop, has_left=bool(self.left))

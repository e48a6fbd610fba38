"""How the items of a run ended, and what that makes of the run. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from agentos.engine.item_end import ATTENTION_OUTCOMES, UNFINISHED_OUTCOMES
from agentos.errors import ExitCode


class Tally:
    """`items` in plan order; `held` are another run's, which does not make this one fail."""

    def __init__(self, items: Sequence[str], held: Collection[str] = ()) -> None:
        self._items = items
        self._held = held
        self._outcomes: dict[str, str] = {}
        self._lacks_key = False
        self.item_seconds = 0.0
        """What all attempts took together."""

    def attempt(self, seconds: float, *, lacks_key: bool) -> None:
        """An attempt is over, whatever became of the item."""
        self.item_seconds += seconds
        self._lacks_key |= lacks_key

    def ended(self, item_id: str, outcome: str) -> None:
        self._outcomes[item_id] = outcome

    def outcome_of(self, item_id: str) -> str:
        return self._outcomes[item_id]

    @property
    def counts(self) -> dict[str, int]:
        """Items by outcome, without those that are left."""
        return dict(Counter(outcome for outcome in self._outcomes.values() if outcome != "interrupted"))

    @property
    def left(self) -> tuple[str, ...]:
        """Items that a resumed run has to go on with."""
        return tuple(i for i in self._items if self._outcomes.get(i, "interrupted") == "interrupted")

    @property
    def is_through(self) -> bool:
        """Nothing is left for the same command to do."""
        return not self.left and not any(outcome in UNFINISHED_OUTCOMES for outcome in self._outcomes.values())

    def exit_code(self, stop: ExitCode | None) -> ExitCode:
        """`stop` is why the run was stopped, if it was. One that was interrupted with nothing left was not."""
        if stop is not None and (self.left or stop is not ExitCode.INTERRUPTED):
            return stop
        if self._lacks_key:
            return ExitCode.NO_USABLE_KEY
        if any(self._is_failure(item_id, outcome) for item_id, outcome in self._outcomes.items()):
            return ExitCode.ITEM_FAILED
        if any(outcome in ATTENTION_OUTCOMES for outcome in self._outcomes.values()):
            return ExitCode.NEEDS_ATTENTION
        return ExitCode.OK

    def _is_failure(self, item_id: str, outcome: str) -> bool:
        return outcome == "failed" or (outcome == "skipped" and item_id not in self._held)

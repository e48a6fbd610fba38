"""A key pool that remembers limits from run to run, and the calls of the last minute from process to process."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from agentos.keys.key_spec import KeySpec
from agentos.keys.memory import LimitMemory
from agentos.keys.pool import Grant, KeyPool
from agentos.keys.send_log import SendLog


class RememberingPool(KeyPool):
    """Without `memory` and `sends`, or once a file of theirs cannot be written, it knows only what it does itself."""

    def __init__(
        self,
        specs: Iterable[KeySpec],
        *,
        now: float,
        rng: random.Random,
        memory: LimitMemory | None = None,
        sends: SendLog | None = None,
        marks: Mapping[str, str] | None = None,
        first_fence: int = 0,
        has_rivals: bool = True,
        on_failure: Callable[[str], None] = lambda _problem: None,
    ) -> None:
        """`marks` are the fingerprints of the keys by name.

        `has_rivals`: others use the same keys and write the same memory, and are heard before keys are given out.
        """
        super().__init__(specs, rng=rng, first_fence=first_fence)
        self._memory = memory
        self._sends = sends
        self._marks = dict(marks or {})
        self._has_rivals = has_rivals
        self._on_failure = on_failure
        self._saved_calls: dict[str, int] = {}
        self._memory_stamp = memory.stamp() if memory is not None else None
        self.recall(now, self._marks)

    def know_marks(self, marks: Mapping[str, str]) -> None:
        """The fingerprints of the keys there are from now on."""
        self._marks = dict(marks)

    def recall(self, now: float, marks: Mapping[str, str]) -> None:
        """Take what earlier runs have learned of these keys."""
        if self._memory is not None:
            self.import_limits(now, self._memory.load(marks))

    def grants(self, now: float) -> list[Grant]:
        """Give out what can be given now, in a turn of this pool among all that send with these keys."""
        if self._sends is None:
            return super().grants(now)
        if self._has_rivals:
            self._hear_of_limits(now)
        grants: list[Grant] = []
        try:
            with self._sends.turn():
                self.import_sends(now, self._sends.sent_by_others(self._marks, now))
                grants = super().grants(now)
                for grant in grants:
                    self._sends.note(self._marks.get(grant.key_name, ""), grant.model, now, grant.tokens)
        except OSError as error:
            self._on_failure(f"calls cannot be recorded for other runs: {error.strerror or error}")
            self._sends = None
            grants = grants or super().grants(now)
        # What the pool has given is out, whether or not it could be noted.
        return grants

    def save(self, now: float) -> None:
        """Remember limits for the next run. Not being able to is no reason to stop this one."""
        if self._memory is None:
            return
        try:
            self._memory.save(self._limits_and_calls(now), self._marks, now=now)
            self._memory_stamp = self._memory.stamp()
        except OSError as error:
            self._on_failure(f"the limits of keys cannot be saved: {error.strerror or error}")
            self._memory = None

    def fileno(self) -> int | None:
        """Nothing comes from elsewhere by itself."""
        return None

    def hear(self) -> None: ...

    def has_news_of(self, _key_name: str) -> bool:
        """What became of a key is known as soon as it is given back."""
        return True

    def close(self) -> None:
        if self._sends is not None:
            self._sends.close()

    def _hear_of_limits(self, now: float) -> None:
        """What another run has learned since, at the same time as this one."""
        stamp = self._memory.stamp() if self._memory is not None else None
        if stamp != self._memory_stamp:
            self._memory_stamp = stamp
            self.recall(now, self._marks)

    def _limits_and_calls(self, now: float) -> dict[str, Any]:
        limits = self.export_limits()
        for view in self.snapshot(now):
            new_calls = view.calls - self._saved_calls.get(view.name, 0)
            if new_calls > 0:
                limits.setdefault(view.name, {"models": {}})["new_calls"] = new_calls
            self._saved_calls[view.name] = view.calls
        return limits

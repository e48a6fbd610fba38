"""How a run uses its keys: who holds them, which cool down until when, what they were good for. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Literal

from agentos.events import CallFinished, CallStarted, KeyCoolingDown

LIMITED: Final = frozenset({"rate_limited", "out_of_quota"})
"""Outcomes of calls that a provider's limit stopped."""

KeyState = Literal["free", "held", "cooling", "rejected"]


@dataclass(slots=True)
class KeyUse:
    """One key, by its name."""

    name: str
    provider: str = ""
    group: str = ""
    held_by: list[str] = field(default_factory=list)
    """The items whose calls it serves now."""
    cooling_until: float | None = None
    """In seconds since the run's start; infinite where waiting does not help."""
    is_rejected: bool = False
    reason: str = ""
    calls: int = 0
    limited: int = 0
    tokens: int = 0
    cost_usd: float = 0.0
    waited: float = 0.0
    minutes: dict[int, list[int]] = field(default_factory=dict)
    """By minute of the run: calls that came back, and how many of them met a limit."""
    changed: int = 0
    """The record that changed it last."""

    def state(self, at: float) -> KeyState:
        if self.is_rejected:
            return "rejected"
        if self.cooling_until is not None and self.cooling_until > at:
            return "cooling"
        return "held" if self.held_by else "free"


class KeyUses:
    """Fills a mapping of keys as records come."""

    def __init__(self, uses: dict[str, KeyUse]) -> None:
        self._uses = uses
        self.has_calls = False

    def know(self, names: Iterable[str], sequence: int) -> None:
        for name in names:
            self._use(name, sequence)

    def started(self, event: CallStarted, sequence: int) -> None:
        use = self._use(event.key_name, sequence)
        use.provider = use.provider or event.model.partition(":")[0]
        use.held_by.append(event.item_id)
        self.has_calls = True

    def finished(self, at: float, event: CallFinished, sequence: int) -> bool:
        """True if a limit stopped the call."""
        use, is_limited = self._use(event.key_name, sequence), event.outcome in LIMITED
        if event.item_id in use.held_by:
            use.held_by.remove(event.item_id)
        use.calls += 1
        use.limited += is_limited
        use.tokens += event.input_tokens + event.output_tokens
        use.cost_usd += event.cost_usd
        use.waited += event.waited_seconds
        if event.outcome == "ok" and not use.held_by:
            use.is_rejected = False  # A person gave it another secret.
        minute = use.minutes.setdefault(int(at // 60), [0, 0])
        minute[0] += 1
        minute[1] += is_limited
        self.has_calls = True
        return is_limited

    def cooling(self, at: float, event: KeyCoolingDown, sequence: int) -> None:
        use = self._use(event.key_name, sequence)
        use.provider, use.group = event.provider or use.provider, event.group or use.group
        use.reason = event.reason
        use.is_rejected = event.state == "rejected" or event.reason == "rejected"
        until = at + event.seconds if event.seconds > 0 else float("inf")
        use.cooling_until = until if use.cooling_until is None else max(use.cooling_until, until)

    def item_left(self, item_id: str, sequence: int) -> None:
        for use in self._uses.values():
            if item_id in use.held_by:
                use.held_by = [each for each in use.held_by if each != item_id]
                use.changed = sequence

    def _use(self, name: str, sequence: int) -> KeyUse:
        use = self._uses.setdefault(name, KeyUse(name))
        use.changed = sequence
        return use

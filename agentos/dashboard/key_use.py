"""How a run uses its keys: who holds them, which cool down until when, what they were good for. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

from agentos.events import CallFinished, CallStarted, KeyCoolingDown
from agentos.preflight import PreflightDone

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
    paced_until: float | None = None
    """No call goes out before: what the provider takes in a time is used up, though it refused nothing."""
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
        if self.opens_at > at:
            return "cooling"
        return "held" if self.held_by else "free"

    @property
    def opens_at(self) -> float:
        return max(self.cooling_until or 0.0, self.paced_until or 0.0)


class KeyUses:
    """Fills a mapping of keys as records come."""

    def __init__(self, uses: dict[str, KeyUse]) -> None:
        self._uses = uses
        self.has_calls = False

    def know(self, event: PreflightDone, sequence: int) -> None:
        # Earlier versions told the names alone.
        groups = dict(zip(event.keys, zip(event.key_providers, event.key_groups, strict=False), strict=False))
        for name in event.keys:
            use = self._use(name, sequence)
            use.provider, use.group = groups.get(name, ("", ""))

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
        use.is_rejected = event.state == "rejected" or event.reason == "rejected"
        until = at + event.seconds if event.seconds > 0 else float("inf")
        for each in [use] if use.is_rejected else self._sharing_limits_with(use):
            each.reason, each.changed = event.reason, sequence
            each.cooling_until = until if each.cooling_until is None else max(each.cooling_until, until)

    def _sharing_limits_with(self, use: KeyUse) -> list[KeyUse]:
        """Itself and the other keys of its group."""
        of_group = (use.provider, use.group)
        return [
            each
            for each in self._uses.values()
            if each is use or (use.group and of_group == (each.provider, each.group))
        ]

    def exhausted(self, until: float, sequence: int) -> None:
        """Every call of the run waits, for nothing but limits."""
        for use in self._uses.values():
            use.paced_until, use.changed = until, sequence

    def resumed(self, sequence: int) -> None:
        for use in self._uses.values():
            use.paced_until, use.changed = None, sequence

    def item_left(self, item_id: str, sequence: int) -> None:
        for use in self._uses.values():
            if item_id in use.held_by:
                use.held_by = [each for each in use.held_by if each != item_id]
                use.changed = sequence

    def _use(self, name: str, sequence: int) -> KeyUse:
        use = self._uses.setdefault(name, KeyUse(name))
        use.changed = sequence
        return use

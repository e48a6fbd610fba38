"""The plan: which items run and in which order. Pure: text and data in, a plan or a UsageError out."""

from __future__ import annotations

import hashlib
import heapq
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentos.engine.graph_config import graph_config
from agentos.errors import InvalidIdentifier, UsageError
from agentos.text import globs
from agentos.text.identifiers import sanitize_identifier
from agentos.text.suggestions import did_you_mean
from agentos.text.words import one_line

_ITEM_KEYS = ("id", "input", "priority", "depends_on", "config", "context", "env")
_COORDINATOR = "COORDINATOR"
_MOST_OF_A_CIRCLE = 10
_LONGEST_TITLE = 160
_MOST_LEVELS = 200
"""How deep an input may be nested. Python reads deeper JSON than it can reliably write again."""

ITEM_VARIABLE = "AGENTOS_ITEM_ID"
"""In the environment of every worker: the id of its item."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One thing to process."""

    id: str
    input: Any = field(default_factory=dict)
    """The graph's input: a state, or for some graphs any other value."""
    priority: int = 0
    """Higher goes first."""
    depends_on: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    """What this item's worker has in its environment beside what all have."""
    work_dir: str = ""
    """Where its worker works, if not in the project's folder."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """How its graph is run: `config` and `context`, when given."""

    @property
    def title(self) -> str:
        """What it is about, if its input says so."""
        said = self.input.get("title") if isinstance(self.input, Mapping) else None
        return one_line(said, longest=_LONGEST_TITLE) if isinstance(said, str) else ""


@dataclass(frozen=True, slots=True)
class Plan:
    """Items in the order they would start, and for each the dependencies that are part of this run."""

    items: tuple[Item, ...]
    depends_on: Mapping[str, tuple[str, ...]]
    exclusive: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Items that must not run beside each other; one entry of a pair is enough."""


def input_hash(item_input: Any) -> str:
    """The same for the same input, whatever the order of its keys."""
    canonical = json.dumps(item_input, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode()).hexdigest()


def item_hash(item: Item) -> str:
    return work_hash(item.input, item.options)


def work_hash(item_input: Any, options: Mapping[str, Any]) -> str:
    """The same for the same work: its input and, after a plus, the context and configuration that its nodes see."""
    seen = [options.get("context"), options.get("config", {}).get("configurable")]
    return f"{input_hash(item_input)}+{input_hash(seen)}" if any(seen) else input_hash(item_input)


def parse_items(lines: Iterable[str], source: str) -> list[Item]:
    """Items of a JSON Lines file. Equal duplicates merge; different ones, and anything malformed, are refused."""
    items: dict[str, Item] = {}
    first_line: dict[str, int] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        where = f"{source}, line {number}"
        item = _parse_item(line, where)
        known = items.setdefault(item.id, item)
        first_line.setdefault(item.id, number)
        # By hash too: Python takes `1` and `true` for equal.
        if known != item or (known is not item and input_hash(known.input) != input_hash(item.input)):
            raise UsageError(
                f"{where}: id {item.id!r} is on line {first_line[item.id]} already, with different content. "
                "Give one of them another id."
            )
    for item in items.values():
        for dependency in item.depends_on:
            if dependency not in items:
                raise UsageError(
                    f"{source}, line {first_line[item.id]}: {item.id!r} depends on {dependency!r}, "
                    f"which is not in {source}. Add it, or remove it from depends_on."
                )
    return list(items.values())


def _parse_item(line: str, where: str) -> Item:
    try:
        data = strict_json(line)
    except (ValueError, RecursionError) as error:
        # A ValueError that is no JSONDecodeError: a number with more digits than Python converts.
        raise UsageError(f"{where}: not valid JSON ({error}). Each line is one object with an id.") from None
    if not isinstance(data, dict):
        raise UsageError(f'{where}: expected an object like {{"id": "a1", "input": {{}}}}, got {_kind(data)}.')
    unknown = sorted(set(data).difference(_ITEM_KEYS))
    if unknown:
        known = f"Known: {', '.join(_ITEM_KEYS)}; what the graph works on goes into input"
        raise UsageError(f"{where}: unknown key {unknown[0]!r}. {known}.")
    if "id" not in data:
        raise UsageError(f'{where}: no id. Each line is an object like {{"id": "a1", "input": {{}}}}.')
    if is_too_deep(data):
        raise UsageError(
            f"{where}: nested more than {_MOST_LEVELS} levels deep. Flatten the input, or give a file's path."
        )
    return Item(
        id=_identifier(data["id"], where),
        input=_input(data.get("input", {}), where),
        priority=_expect(data.get("priority", 0), int, "priority", where),
        depends_on=_identifiers(_expect(data.get("depends_on", []), list, "depends_on", where), where),
        environment=_environment(_expect(data.get("env", {}), dict, "env", where), where),
        options=_options(data, where),
    )


def _input(value: Any, where: str) -> Any:
    if value is None:
        raise UsageError(f"{where}: input must not be null. Leave it out for an empty state.")
    return value


def _environment(values: dict[str, Any], where: str) -> dict[str, str]:
    for name, value in values.items():
        if not isinstance(value, str):
            raise UsageError(f"{where}: env: {name!r} must be a string, got {_kind(value)}.")
    return values


def _options(data: dict[str, Any], where: str) -> dict[str, Any]:
    given = {name: _expect(data[name], dict, name, where) for name in ("config", "context") if name in data}
    if "config" in given:
        given["config"] = graph_config(given["config"], f"{where}: config")
    return {name: value for name, value in given.items() if value}


def strict_json(text: str) -> Any:
    """Raises ValueError for what Python alone takes for JSON."""
    return json.loads(text, object_pairs_hook=_object, parse_constant=_no_number, parse_float=_finite)


def _no_number(text: str) -> float:
    """Python reads and writes them, but they are not JSON: no other program could read the item."""
    raise ValueError(f"{text} is not a number in JSON")


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _no_number(text)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Python would keep the last of two equal keys in silence."""
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in made if names.count(name) > 1)
        raise ValueError(f"the key {twice!r} is there twice")
    return made


def is_too_deep(value: object) -> bool:
    """Nested deeper than an input may be."""
    layer = [value]
    for _ in range(_MOST_LEVELS + 1):
        containers = [v.values() if isinstance(v, dict) else v for v in layer if isinstance(v, dict | list)]
        layer = [child for container in containers for child in container]
        if not containers:
            return False
    return True


def _identifier(value: object, where: str) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        raise UsageError(f"{where}: an id must be a string, got {_kind(value)}.")
    if value == _COORDINATOR:
        raise InvalidIdentifier(f"{where}: {value!r} is the name the run's own lines begin with; choose another id.")
    try:
        return sanitize_identifier(value)
    except InvalidIdentifier as error:
        raise InvalidIdentifier(f"{where}: {error}") from None


def _identifiers(values: list[object], where: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_identifier(value, where) for value in values))


def _expect(value: Any, kind: type, name: str, where: str) -> Any:
    if not isinstance(value, kind) or isinstance(value, bool):
        raise UsageError(f"{where}: {name} must be {_words[kind]}, got {_kind(value)}.")
    return value


_words: dict[type, str] = {dict: "an object", list: "a list", int: "a whole number", str: "a string"}


def _kind(value: object) -> str:
    return _words.get(type(value), json.dumps(value, default=str)[:40])


def select(items: Sequence[Item], patterns: Sequence[str]) -> list[Item]:
    """The items that any id or glob names, in their own order. No patterns: all of them."""
    if not patterns:
        return list(items)
    named, unknown = globs.chosen(patterns, {item.id for item in items})
    if unknown:
        hint = did_you_mean(unknown[0], [item.id for item in items], _known(items))
        raise UsageError(f"No item matches {unknown[0]!r}.{hint}")
    chosen = set(named)
    return [item for item in items if item.id in chosen]


def _known(items: Sequence[Item]) -> str:
    if not items:
        return "There are no items."
    shown = ", ".join(item.id for item in items[:8])
    return f"Items: {shown}{f' and {len(items) - 8} more' if len(items) > 8 else ''}."


def make_plan(items: Sequence[Item]) -> Plan:
    """Order by priority, then dependencies, then place in the input.

    What a high-priority item depends on is as urgent as the item itself. A dependency that is not among the items
    is taken as done: the user left it out of this run.
    """
    by_id = {item.id: item for item in items}
    depends_on = {item.id: tuple(d for d in item.depends_on if d in by_id) for item in items}
    _refuse_cycles(depends_on)
    dependents: dict[str, list[str]] = {item.id: [] for item in items}
    for item_id, dependencies in depends_on.items():
        for dependency in dependencies:
            dependents[dependency].append(item_id)
    urgency = _urgency(items, depends_on, dependents)
    place = {item.id: index for index, item in enumerate(items)}
    waiting_for = {item_id: len(dependencies) for item_id, dependencies in depends_on.items()}
    ready = [(-urgency[i], place[i], i) for i, count in waiting_for.items() if count == 0]
    heapq.heapify(ready)
    ordered: list[Item] = []
    while ready:
        _, _, item_id = heapq.heappop(ready)
        ordered.append(by_id[item_id])
        for dependent in dependents[item_id]:
            waiting_for[dependent] -= 1
            if waiting_for[dependent] == 0:
                heapq.heappush(ready, (-urgency[dependent], place[dependent], dependent))
    return Plan(tuple(ordered), depends_on)


def _urgency(
    items: Sequence[Item], depends_on: Mapping[str, tuple[str, ...]], dependents: Mapping[str, list[str]]
) -> dict[str, int]:
    """Each item's priority, raised to that of the most urgent item that needs it. Dependents are settled first."""
    urgency = {item.id: item.priority for item in items}
    unsettled = {item_id: len(needed_by) for item_id, needed_by in dependents.items()}
    settled = [item_id for item_id, count in unsettled.items() if count == 0]
    while settled:
        item_id = settled.pop()
        for dependency in depends_on[item_id]:
            urgency[dependency] = max(urgency[dependency], urgency[item_id])
            unsettled[dependency] -= 1
            if unsettled[dependency] == 0:
                settled.append(dependency)
    return urgency


def _refuse_cycles(depends_on: Mapping[str, tuple[str, ...]]) -> None:
    done: set[str] = set()
    for start in depends_on:
        trail: list[str] = []
        on_trail: set[str] = set()
        stack = [(start, iter(depends_on[start]))] if start not in done else []
        while stack:
            item_id, remaining = stack[-1]
            if item_id not in on_trail:
                on_trail.add(item_id)
                trail.append(item_id)
            following = next((d for d in remaining if d not in done), None)
            if following is None:
                stack.pop()
                trail.pop()
                on_trail.discard(item_id)
                done.add(item_id)
            elif following in on_trail:
                circle = _shown_circle([*trail[trail.index(following) :], following])
                raise UsageError(
                    f"Items depend on each other in a circle: {circle}. Remove one of these dependencies."
                )
            else:
                stack.append((following, iter(depends_on[following])))


def _shown_circle(item_ids: Sequence[str]) -> str:
    """Both ends of a long one: where to begin looking, and what closes it."""
    left_out = len(item_ids) - _MOST_OF_A_CIRCLE
    if left_out <= 1:
        return " -> ".join(item_ids)
    half = _MOST_OF_A_CIRCLE // 2
    return " -> ".join([*item_ids[:half], f"({left_out:,} more)", *item_ids[-half:]])


def unknown_input(plan: Plan, input_keys: Sequence[str] | None) -> str:
    """What is wrong with an item's input, if the graph's state has a fixed set of keys; else empty."""
    if input_keys is None:
        return ""
    for item in plan.items:
        if not isinstance(item.input, dict):
            return (
                f"Item {item.id!r}: input must be an object with keys of the graph's state, got {_kind(item.input)}"
            )
        unknown = sorted(set(item.input) - set(input_keys))
        if unknown:
            return (
                f"Item {item.id!r}: the graph's state has no key {unknown[0]!r}; LangGraph would drop it in silence. "
                f"Known keys: {', '.join(sorted(input_keys)) or 'none'}."
            )
    return ""

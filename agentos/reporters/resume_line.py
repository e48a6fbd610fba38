"""The line that resumes a run: what was typed, for the items that are not finished."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final

IDS = "{ids}"
"""Where the unfinished items' ids go."""
_ALL = re.compile(r" \{all:([^}]*)\}")
"""Where a command for all items says so; ids go there when it is not for all of them."""
RUN_DIR = "{run_dir}"
"""Where the folder of the run's records goes, as shell text."""
KEPT_INPUT = "items"
"""What came through standard input, in that folder: without a suffix, so that it is read as it was."""
BUDGET = "{budget}"
"""Where the budget goes."""
_MORE_BUDGET = 2.0
"""A budget that ended a run was to pay for more than the next call: the resumed run gets this many times as much."""
TIMEOUT_FLAG = "--timeout-seconds"
_TIMEOUT = re.compile(r" \{timeout:(given|default):([^}]*)\}")
_MORE_TIME = 2.0
"""The same for a time limit that an item ran into."""
OPTION_OF_ACT: Final[Mapping[str, str]] = MappingProxyType({"parallel": "--parallel", "budget": "--budget"})
"""What a command takes for what somebody may change while its run is under way."""


def resume_line(
    template: str,
    unfinished: Sequence[str],
    budget_usd: float | None = None,
    *,
    is_all: bool = True,
    is_fresh: bool = False,
    needed_usd: float | None = None,
    has_timed_out: bool = False,
) -> str:
    """The template with its places filled; empty when it names items and none is left.

    A command for all items stays one unless others must be left out, `is_all` being false. `needed_usd` is what the
    budget would have had to be, if it ended the run.
    """
    if is_fresh:
        template += " --fresh"
    if not is_all:
        template = _ALL.sub(f" {IDS}", template)
    if IDS in template:
        if not unfinished:
            return ""
        template = _with_ids(template, unfinished)
    budget = budget_usd or 0.0
    if needed_usd is not None:
        budget = _rounded_up(max(budget * _MORE_BUDGET, needed_usd))
    filled = _ALL.sub(lambda found: f" {found[1]}".rstrip(), template).replace(BUDGET, plain_number(budget))
    return _TIMEOUT.sub(lambda found: _timeout_words(found[1], float(found[2]), has_timed_out=has_timed_out), filled)


def with_option(command: str, name: str, value: float) -> str:
    """A filled line with another value of an option, whether it had one or not."""
    option = f"{name} {plain_number(value)}"
    changed, found = re.subn(rf"(?<= ){re.escape(name)} \S+", option, command, count=1)
    if found:
        return changed
    head, ids_behind, ids = command.partition(" -- ")
    return f"{head} {option}{ids_behind}{ids}"


def with_run_dir(template: str, run_dir: Path) -> str:
    """The template of a run whose folder is known."""
    return template.replace(RUN_DIR, shlex.quote(str(run_dir)))


def all_place(option: str) -> str:
    """Where a command for all items says so, by an option or, empty, by naming none."""
    return f"{{all:{option}}}"


def timeout_place(seconds: float, *, is_default: bool) -> str:
    """Where the time limit goes: as it was given, or with more when an item ran into it."""
    return f"{{timeout:{'default' if is_default else 'given'}:{plain_number(seconds)}}}"


def _timeout_words(origin: str, seconds: float, *, has_timed_out: bool) -> str:
    if has_timed_out:
        return f" {TIMEOUT_FLAG} {plain_number(seconds * _MORE_TIME)}"
    return f" {TIMEOUT_FLAG} {plain_number(seconds)}" if origin == "given" else ""


def _with_ids(template: str, ids: Sequence[str]) -> str:
    names = " ".join(ids)
    if any(item_id.startswith("-") for item_id in ids):
        # Behind everything, where they cannot be taken for options.
        return f"{template.replace(f'{IDS} ', '').removesuffix(f' {IDS}')} -- {names}"
    return template.replace(IDS, names)


def without_places(text: str) -> str:
    """Quoted shell text, the same to a shell, in which nothing is taken for a place to fill."""
    return re.sub(r"\{(ids|run_dir|budget|timeout:|all:)", r"{'\1'", text)


def plain_number(value: float) -> str:
    """As one would type it: `3`, `0.5`."""
    text = str(value)
    return text.removesuffix(".0") if "e" not in text else f"{value:.20f}".rstrip("0").rstrip(".")


def _rounded_up(value: float) -> float:
    """To two digits that count, as people say amounts: 0.0151 to 0.016, 1234 to 1300."""
    if value <= 0:
        return 0.0
    place = math.floor(math.log10(value)) - 1
    # What only the last bits of a sum of floats make larger is not larger.
    step = float(10**place)
    return round(math.ceil(value / step - 1e-9) * step, max(0, -place))

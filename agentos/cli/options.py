"""Options that commands share: defined once, worded once, checked once."""

from __future__ import annotations

import argparse
import math
import os
from pathlib import Path
from typing import Any

from agentos.cli.parsing import add_project_option
from agentos.engine.limits import DEFAULT_PARALLELISM, MAX_PARALLELISM
from agentos.engine.memory_watch import machine_carries, read_meminfo
from agentos.errors import UsageError
from agentos.hints import remember_project
from agentos.paths import find_project_dir
from agentos.processes import host
from agentos.reporters.output_mode import OutputMode
from agentos.setting_rules import choices_of, rule_of

MACHINE_DECIDES = 1_000_000
"""`--parallel` without a number, where no number is the right one everywhere."""
_LAST_PORT = 65_535
_UNIT_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
SHUTDOWN_HELP = """\
Ctrl+C stops gracefully: nothing new starts, running items keep their last
checkpoint, and everything is down within 5 seconds. A second Ctrl+C stops at
once. The same command resumes."""


def whole_number(text: str) -> int:
    """A whole number of at least 1."""
    return _whole(text, least=1)


def count(text: str) -> int:
    """A whole number of at least 0."""
    return _whole(text, least=0)


def port_number(text: str) -> int:
    """A TCP port to listen on."""
    value = _whole(text, least=1)
    if value > _LAST_PORT:
        raise argparse.ArgumentTypeError(f"must be at most {_LAST_PORT}, got {value}")
    return value


def _whole(text: str, *, least: int) -> int:
    try:
        value = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
    if value < least:
        raise argparse.ArgumentTypeError(f"must be at least {least}, got {value}")
    return value


def seconds(text: str) -> float:
    """A positive number of seconds."""
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds") from None
    if not math.isfinite(value) or value <= 0:
        raise argparse.ArgumentTypeError(f"must be a positive number of seconds, got {text}")
    return value


def dollars(text: str) -> float:
    """A positive amount of money."""
    try:
        value = float(text.removeprefix("$"))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not an amount in dollars") from None
    if not math.isfinite(value) or value <= 0:
        raise argparse.ArgumentTypeError(f"must be a positive amount in dollars, got {text}")
    return value


def folder_to_write(text: str) -> str:
    """A folder that is there or can be made: answers are paid for before the first is to be saved."""
    folder = Path(text).absolute()
    nearest = next(each for each in (folder, *folder.parents) if os.access(each, os.F_OK))
    if not nearest.is_dir():
        raise argparse.ArgumentTypeError(f"{nearest} is a file, not a folder")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise argparse.ArgumentTypeError(f"you may not write to {nearest}")
    return text


class TimeSpan(float):
    """Seconds, shown as they were typed: `90s`, `2h`."""

    def __new__(cls, seconds: float, text: str) -> TimeSpan:
        span = super().__new__(cls, seconds)
        span._text = text
        return span

    def __str__(self) -> str:
        return self._text

    _text: str


def time_span(text: str) -> TimeSpan:
    """`90`, `90s`, `30m`, `2h` or `1d`, in seconds."""
    number, unit = (text[:-1], text[-1]) if text[-1:] in _UNIT_SECONDS else (text, "s")
    try:
        value = float(number) * _UNIT_SECONDS[unit]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time like 90s, 30m or 2h") from None
    if not math.isfinite(value) or value < 0:
        raise argparse.ArgumentTypeError(f"must not be negative, got {text}")
    return TimeSpan(value, text)


def add_parallel_options(
    parser: argparse.ArgumentParser,
    *names: str,
    default: int | None = 1,
    things: str = "items",
    by_machine: bool = False,
) -> None:
    """--parallel, also by other names, and --dry-run, with --json beside them. Without a default, settings decide.

    With `by_machine` the machine decides how many are many.
    """
    most = "what memory allows" if by_machine else str(MAX_PARALLELISM)
    otherwise = "default: limits.parallel in agentos.toml, else 1" if default is None else f"default: {default}"
    parser.add_argument(
        *names,
        "--parallel",
        dest="parallel",
        nargs="?",
        type=whole_number,
        const=MACHINE_DECIDES if by_machine else DEFAULT_PARALLELISM,
        default=default,
        metavar="N",
        help=f"run N {things} at once (without N: {_bare(by_machine)}; maximum {most}; {otherwise})",
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="list what would run, in order, and do nothing: no process, no file, no connection",
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="standard output carries JSON only (one event per line; with --dry-run one object); text goes to stderr",
    )


def _bare(by_machine: bool) -> str:
    return "4 per processor" if by_machine else str(DEFAULT_PARALLELISM)


def add_choice_options(parser: argparse.ArgumentParser, noun: str) -> None:
    """Which items: named, or all that are pending."""
    parser.add_argument("ids", nargs="*", metavar="ID", help=f"work on these {noun}s only; globs are allowed")
    parser.add_argument("--all", action="store_true", help=f"work on every pending {noun}")


def add_engine_options(parser: argparse.ArgumentParser) -> None:
    """What every command that runs items on the engine takes."""
    parser.add_argument(
        "--fresh",
        action="store_true",
        help="start unfinished items over instead of resuming from their checkpoints; named items start over even "
        "when they are done",
    )
    parser.add_argument(
        "--limit",
        type=whole_number,
        metavar="N",
        help="take only the first N of the items, for a cheap first try (default: all of them)",
    )
    parser.add_argument(
        "--timeout-seconds",
        type=seconds,
        default=1800.0,
        metavar="S",
        help="time limit of an item, not counting waits for a key or suspension (default: 1800)",
    )
    parser.add_argument(
        "--stall-seconds",
        type=seconds,
        default=60.0,
        metavar="S",
        help="end a worker that gives no sign of life for this long (default: 60)",
    )
    parser.add_argument(
        "--retry",
        type=count,
        default=0,
        metavar="N",
        help="try items that crashed or timed out N more times, from their checkpoint (default: 0)",
    )
    parser.add_argument(
        "--start-method",
        choices=("forkserver", "spawn"),
        default="forkserver",
        help="how worker processes are made; spawn is slower and works everywhere (default: forkserver on Linux)",
    )
    _add_call_limits(parser)
    _add_output_mode(parser)
    _add_cluster_options(parser)
    add_project_option(parser, "the project the items belong to")
    # The line that resumes a run is made from its command's own options.
    parser.set_defaults(parser=parser)


def _add_output_mode(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--output-mode",
        choices=tuple(str(mode) for mode in OutputMode),
        help="live: a block at the bottom of the terminal shows what each item is doing, finished items scroll by "
        "above it; stream: every line as it is written; quiet: warnings, failures and the summary only (default: "
        "live on a terminal when there are several items, else stream)",
    )


def add_unpriced_option(parser: argparse.ArgumentParser) -> None:
    add_setting_option(
        parser,
        "--unpriced",
        "prices.unpriced",
        metavar="IN/OUT",
        help="with --budget: the price of models that have none, in dollars per million input and output tokens, "
        "like 2/12 (default: such models are refused; [prices] in agentos.toml sets the price of each)",
    )


def _add_call_limits(parser: argparse.ArgumentParser) -> None:
    """What model calls may cost, in money and in waiting."""
    parser.add_argument(
        "--budget",
        type=dollars,
        metavar="USD",
        help="stop before model calls cost more than this; exit 5, resume with a higher one (default: no limit)",
    )
    add_unpriced_option(parser)
    parser.add_argument(
        "--max-wait",
        type=time_span,
        metavar="TIME",
        help="stop when no key becomes available within this time, like 90s, 30m or 2h; exit 75 (default: wait)",
    )


def _add_cluster_options(parser: argparse.ArgumentParser) -> None:
    """Where workers run."""
    parser.add_argument(
        "--backend",
        dest="cluster.backend",
        choices=choices_of("cluster.backend"),
        help="where workers run: on this machine, or on the nodes of a Ray cluster (default: local)",
    )
    add_setting_option(
        parser, "--address", "cluster.address", metavar="HOST:PORT", help="with --backend ray: the cluster's head"
    )
    parser.add_argument(
        "--show-node", action="store_true", help="with --backend ray: show in each line which node the item is on"
    )


def project_from(given: str | None, here: Path) -> Path:
    """The project that --project names, or the one around here."""
    remember_project(given)
    if given is None:
        return find_project_dir(here)
    project_dir = Path(given).expanduser().resolve()
    if not project_dir.is_dir():
        raise UsageError(f"--project {given!r}: no such directory.")
    return project_dir


def capped_by_machine(parallel: int) -> tuple[int, list[str]]:
    """The parallelism to use for a graph of the user's own, and what to tell the user about it."""
    carries = machine_carries(read_meminfo(), host.open_files_limit())
    if parallel == MACHINE_DECIDES:
        return min(carries, 4 * (os.cpu_count() or 1)), []
    if parallel <= max(carries, MAX_PARALLELISM):
        return parallel, []
    return carries, [f"--parallel {parallel} is more than this machine's memory carries now; using {carries}"]


def capped(parallel: int) -> tuple[int, list[str]]:
    """The parallelism to use, and what to tell the user about it."""
    if parallel <= MAX_PARALLELISM:
        return parallel, []
    return MAX_PARALLELISM, [f"--parallel {parallel} is above the maximum; using {MAX_PARALLELISM}"]


# A flag that is stored under a setting's name sets that setting, in the command and in its workers.


def add_setting_option(parser: argparse.ArgumentParser, flag: str, setting: str, *, metavar: str, help: str) -> None:
    """A flag that sets a setting, checked by the setting's own rule."""

    def value(text: str) -> Any:
        rule = rule_of(setting)
        read = rule.read(text)
        # A model may be of a provider that the project declares: it is checked with the project's settings.
        if not setting.startswith("models.") and (refusal := rule.refusal(flag, read)):
            raise UsageError(refusal)
        return read

    parser.add_argument(flag, dest=setting, type=value, metavar=metavar, help=help)


def setting_flags(arguments: argparse.Namespace) -> dict[str, Any]:
    """Settings that were given as flags, by name."""
    flags = {name: value for name, value in vars(arguments).items() if "." in name and value is not None}
    if "limits.max_rounds" in flags:
        flags["implementation.max_rounds"] = flags["limits.max_rounds"]
    return flags


def add_model_options(parser: argparse.ArgumentParser, *, has_coder: bool = False) -> None:
    """Who writes and who reviews."""
    add_setting_option(
        parser,
        "--drafter",
        "models.drafter",
        metavar="MODEL",
        help="the model that writes, as provider:model, or offline",
    )
    if has_coder:
        add_setting_option(
            parser,
            "--coder",
            "models.coder",
            metavar="MODEL",
            help="the model that writes tests and code (default: the drafter)",
        )
    add_setting_option(
        parser,
        "--reviewer",
        "models.reviewer",
        metavar="MODEL",
        help="the model that reviews (default: the drafter)",
    )
    add_setting_option(
        parser,
        "--max-rounds",
        "limits.max_rounds",
        metavar="N",
        help="rounds before giving up (default: 5, maximum 100)",
    )
    parser.add_argument(
        "--record",
        type=folder_to_write,
        metavar="DIR",
        help="save every model answer in DIR, to replay with `recorded`",
    )


def add_review_options(parser: argparse.ArgumentParser) -> None:
    """Where a person decides."""
    parser.add_argument(
        "--review",
        dest="review.gate",
        choices=choices_of("review.gate"),
        help="park items for a person's decision at the draft, at the verdict, or at both (default: none)",
    )


def add_standing_options(parser: argparse.ArgumentParser) -> None:
    """Begin with the documents as they stand, whoever wrote them."""
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument(
        "--review-again",
        action="store_true",
        help="review the documents of the named items as they stand, including hand-written and edited ones",
    )
    choice.add_argument(
        "--revise", metavar="TEXT", help="revise the documents of the named items as TEXT says, then review them"
    )


def add_branch_options(parser: argparse.ArgumentParser) -> None:
    """Where code runs, what becomes of the branches, and whether they may get in each other's way."""
    parser.add_argument(
        "--allow-unsandboxed",
        action="store_true",
        help="run model-written code with your own permissions where the machine has no sandbox for it",
    )
    parser.add_argument(
        "--commits",
        dest="implementation.commits",
        choices=choices_of("implementation.commits"),
        help="leave one commit on the branch, or one per round (default: squash)",
    )
    parser.add_argument(
        "--allow-overlap", action="store_true", help="let designs that change the same file run at the same time"
    )
    parser.add_argument("--push", action="store_true", help="push the branch of each implemented design to origin")
    parser.add_argument(
        "--pr", action="store_true", help="push, and open a pull request on GitHub for each, once (needs a token)"
    )

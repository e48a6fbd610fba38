"""Options that commands share: defined once, worded once, checked once."""

from __future__ import annotations

import argparse
import math

from agentos.engine.limits import DEFAULT_PARALLELISM, MAX_PARALLELISM

_UNIT_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
SHUTDOWN_HELP = """\
Ctrl+C stops gracefully: nothing new starts, running items keep their last
checkpoint, and everything is down within 5 seconds. A second Ctrl+C stops at
once. The same command resumes."""


def whole_number(text: str) -> int:
    """A whole number of at least 1."""
    try:
        value = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {value}")
    return value


def count(text: str) -> int:
    """A whole number of at least 0."""
    try:
        value = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
    if value < 0:
        raise argparse.ArgumentTypeError(f"must be at least 0, got {value}")
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


def time_span(text: str) -> float:
    """`90`, `90s`, `30m`, `2h` or `1d`, in seconds."""
    number, unit = (text[:-1], text[-1]) if text[-1:] in _UNIT_SECONDS else (text, "s")
    try:
        value = float(number) * _UNIT_SECONDS[unit]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time like 90s, 30m or 2h") from None
    if not math.isfinite(value) or value < 0:
        raise argparse.ArgumentTypeError(f"must not be negative, got {text}")
    return value


def add_parallel_options(parser: argparse.ArgumentParser, *, default: int | None = 1) -> None:
    """--parallel and --dry-run, with --json beside them. Without a default, the settings decide."""
    otherwise = "default: limits.parallel in agentos.toml, else 1" if default is None else f"default: {default}"
    parser.add_argument(
        "--parallel",
        nargs="?",
        type=whole_number,
        const=DEFAULT_PARALLELISM,
        default=default,
        metavar="N",
        help=f"run N items at once (without N: {DEFAULT_PARALLELISM}; most {MAX_PARALLELISM}; {otherwise})",
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="list what would run, in order, and do nothing: no process, no file, no connection",
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="standard output carries JSON only (one event a line; with --dry-run one object); text goes to stderr",
    )


def add_engine_options(parser: argparse.ArgumentParser) -> None:
    """What every command that runs items on the engine takes."""
    parser.add_argument(
        "--fresh", action="store_true", help="start every item over instead of resuming from its checkpoint"
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
    parser.add_argument(
        "--budget",
        type=dollars,
        metavar="USD",
        help="stop before model calls cost more than this; exit 5, resume with a higher one (default: no limit)",
    )
    parser.add_argument(
        "--max-wait",
        type=time_span,
        metavar="TIME",
        help="stop when no key opens within this time, like 90s, 30m or 2h; exit 75 (default: wait)",
    )
    parser.add_argument("--project", metavar="DIR", help="the project the items belong to (default: found from here)")


def capped(parallel: int) -> tuple[int, list[str]]:
    """The parallelism to use, and what to tell the user about it."""
    if parallel <= MAX_PARALLELISM:
        return parallel, []
    return MAX_PARALLELISM, [f"--parallel {parallel} is above the maximum; using {MAX_PARALLELISM}"]


def add_round_options(parser: argparse.ArgumentParser) -> None:
    """How often models try, and what is left of it."""
    parser.add_argument("--max-rounds", type=whole_number, metavar="N", help="rounds before giving up (default: 5)")
    parser.add_argument(
        "--commits",
        choices=("squash", "stacked"),
        help="leave one commit on the branch, or one a round (default: squash)",
    )


def add_branch_options(parser: argparse.ArgumentParser) -> None:
    """What becomes of the branches, and whether they may get in each other's way."""
    parser.add_argument(
        "--allow-overlap", action="store_true", help="let designs that change the same file run at the same time"
    )
    parser.add_argument("--push", action="store_true", help="push the branch of each implemented design to origin")
    parser.add_argument(
        "--pr", action="store_true", help="push, and open a pull request on GitHub for each, once (needs a token)"
    )

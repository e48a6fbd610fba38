"""`agentos ctl`: steer a run that is under way."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from agentos.cli.texts import say
from agentos.engine.control import ask
from agentos.engine.steering import ACTS, ITEM_ACTS, NUMBER_ACTS, ActRefused
from agentos.errors import ExitCode, UsageError
from agentos.hints import Hint, from_here
from agentos.outcomes import outcome_named
from agentos.records.runs import find_run, is_live, read_summary, run_dirs
from agentos.reporters.wording import counts_in_words
from agentos.text.suggestions import did_you_mean
from agentos.text.words import counted, duration, listed, one_line


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    acts = "\n".join(f"  {_usage(name):<16} {text}" for name, text in ACTS.items())
    parser = subparsers.add_parser(
        "ctl",
        help="pause, resume and steer a run that is under way",
        description=f"Steer a run that is under way. RUN may be left out while there is only one.\n\n{acts}\n\n"
        "Every act is kept in the run's record, with who did it and why.",
    )
    parser.add_argument("words", nargs="+", metavar="[RUN] ACT [ITEM | N | USD]", help="what to do, and with what")
    parser.add_argument("--reason", default="", metavar="TEXT", help="why; kept in the record")
    parser.add_argument("--json", action="store_true", help="how the run is afterwards, as JSON")
    parser.set_defaults(handler=run)


def _usage(name: str) -> str:
    value = {"parallel": " N", "budget": " USD", "stop": " [ITEM]", "retry": " ITEM", "skip": " ITEM"}
    return f"{name}{value.get(name, '')}"


def run(arguments: argparse.Namespace) -> int:
    wanted, words = _split(arguments.words)
    request = {"act": words[0], **_with_value(words), "reason": arguments.reason, "via": "ctl"}
    run_dir = find_run(wanted) if wanted else _only_live_run(words)
    if not is_live(run_dir):
        raise UsageError(f"run {run_dir.name} has ended; there is nothing to {words[0]}.{_instead(run_dir, words)}")
    try:
        status = ask(run_dir, request)
    except ActRefused as refusal:
        raise UsageError(f"run {run_dir.name}: {one_line(str(refusal))}") from None
    except OSError as error:
        raise UsageError(f"run {run_dir.name} cannot be reached: {error.strerror or error}") from None
    say(json.dumps(status, indent=1) if arguments.json else "\n".join(status_lines(status)))
    return ExitCode.OK


def _split(words: list[str]) -> tuple[str, list[str]]:
    """The run that is meant, if one is, and the act with its value. Raises UsageError."""
    if words[0] in ACTS:
        return "", words
    if len(words) == 1 or words[1] not in ACTS:
        unknown = words[0] if len(words) == 1 else words[1]
        raise UsageError(f"unknown act {unknown!r}.{did_you_mean(unknown, ACTS)} Acts: {', '.join(ACTS)}")
    return words[0], words[1:]


def _with_value(words: list[str]) -> dict[str, Any]:
    name, values = words[0], words[1:]
    takes_value = name in ITEM_ACTS | NUMBER_ACTS | {"stop"}
    needs_value = takes_value and name != "stop"
    if len(values) > takes_value or (needs_value and not values):
        raise UsageError(f"expected: ctl [RUN] {_usage(name)}")
    if not values:
        return {}
    if name not in NUMBER_ACTS:
        return {"item": values[0]}
    try:
        return {"value": float(values[0].removeprefix("$"))}
    except ValueError:
        raise UsageError(f"{name}: {values[0]!r} is not a number") from None


def _only_live_run(words: list[str]) -> Path:
    live = [run_dir for run_dir in run_dirs() if is_live(run_dir)]
    if len(live) == 1:
        return live[0]
    if live:
        names = listed([run_dir.name for run_dir in live], 5)
        raise UsageError(f"{len(live)} runs are under way: {names}. Say which, before {words[0]}")
    last = run_dirs()[:1]
    raise UsageError(f"no run is under way.{_instead(last[0], words) if last else ''}")


def _instead(run_dir: Path, words: list[str]) -> str:
    """What does the same for a run that has ended, if anything does."""
    summary = read_summary(run_dir, with_items=False)
    if summary is None or not summary.resume_command or words[0] not in ("resume", "retry", "parallel", "budget"):
        return f" `{Hint.LIST_RUNS.line()}` lists runs."
    return f" Its items continue with: {from_here(summary.resume_command, summary.folder)}"


def status_lines(status: dict[str, Any]) -> list[str]:
    """How the run is, for people."""
    by = f" by {status['paused_by']}" if status["paused_by"] else ""
    ended = sum(status["counts"].values())
    parallel = status["parallel"]
    wanted = f" of {parallel['wanted']} wanted" if parallel["now"] != parallel["wanted"] else ""
    lines = [
        f"{status['run']}: {status['state']}{by}, {ended} of {status['total']} ended, "
        f"{parallel['now']} at a time{wanted}"
    ]
    if status["counts"]:
        lines.append(counts_in_words({outcome_named(name): number for name, number in status["counts"].items()}))
    for item_id, running in status["running"].items():
        waits = ", waits for a key" if item_id in status["waiting_for_a_key"] else ""
        node = one_line(running["node"]) or "starting"
        lines.append(f"  {one_line(item_id)}: {node}{waits}, {duration(running['seconds'])}")
    if status["left"]:
        left = listed([one_line(item_id) for item_id in status["left"]])
        lines.append(f"{counted(len(status['left']), 'item')} not started: {left}")
    if status["budget_usd"] is not None:
        lines.append(f"${status['spent_usd']:.2f} of ${status['budget_usd']:.2f} spent")
    return lines

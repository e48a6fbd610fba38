"""`agentos ctl`: steer a run that is under way."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from agentos.cli.output import say
from agentos.cli.standing import standing_lines
from agentos.engine.control import RunOver, ask
from agentos.engine.steering import ACTS, ITEM_ACTS, NUMBER_ACTS, ActRefused
from agentos.errors import ExitCode, UsageError
from agentos.hints import Hint
from agentos.records.folders import run_dirs
from agentos.records.runs import find_run, is_live
from agentos.reporters.run_over import command_instead
from agentos.text.suggestions import did_you_mean
from agentos.text.words import listed, one_line


def add_options(parser: argparse.ArgumentParser) -> None:
    acts = "\n".join(f"  {_usage(name):<16} {text}" for name, text in ACTS.items())
    parser.usage = "%(prog)s [-h] [--reason TEXT] [--json] [RUN] ACT [ITEM | N | USD]"
    parser.description = (
        f"Steer a run that is under way. RUN may be left out while there is only one.\n\n{acts}\n\n"
        "Every act is kept in the run's record, with who did it and why."
    )
    parser.add_argument("words", nargs="*", metavar="[RUN] ACT [ITEM | N | USD]", help="what to do, and its value")
    parser.add_argument("--reason", default="", metavar="TEXT", help="why; kept in the record")
    parser.add_argument("--json", action="store_true", help="print the run's progress afterwards, as JSON")
    parser.set_defaults(handler=run)


def _usage(name: str) -> str:
    value = {"parallel": " N", "budget": " USD", "stop": " [ITEM]", "retry": " ITEM", "skip": " ITEM"}
    return f"{name}{value.get(name, '')}"


def run(arguments: argparse.Namespace) -> int:
    wanted, words = _split(arguments.words)
    request = {"act": words[0], **_with_value(words), "reason": arguments.reason, "via": "ctl"}
    run_dir = find_run(wanted) if wanted else _only_live_run(request)
    if not is_live(run_dir):
        raise _over(run_dir, request)
    try:
        status = ask(run_dir, request, is_live=is_live)
    except RunOver:
        raise _over(run_dir, request) from None
    except ActRefused as refusal:
        raise UsageError(f"run {run_dir.name}: {one_line(str(refusal))}") from None
    except OSError as error:
        raise UsageError(f"run {run_dir.name} cannot be reached: {error.strerror or error}") from None
    say(*([json.dumps(status, indent=1)] if arguments.json else standing_lines(run_dir, with_counts=True)))
    return ExitCode.OK


def _split(words: list[str]) -> tuple[str, list[str]]:
    """The run that is meant, if one is, and the act with its value. Raises UsageError."""
    if not words or (len(words) == 1 and _is_run(words[0])):
        raise UsageError(f"what to do is missing. Acts: {', '.join(map(_usage, ACTS))}")
    if words[0] in ACTS:
        return "", words
    if len(words) == 1 or words[1] not in ACTS:
        unknown = words[0] if len(words) == 1 else words[1]
        raise UsageError(f"unknown act {unknown!r}.{did_you_mean(unknown, ACTS)} Acts: {', '.join(ACTS)}")
    return words[0], words[1:]


def _is_run(word: str) -> bool:
    try:
        return find_run(word).is_dir()
    except UsageError:
        return False


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


def _only_live_run(request: dict[str, Any]) -> Path:
    live = [run_dir for run_dir in run_dirs() if is_live(run_dir)]
    if len(live) == 1:
        return live[0]
    if live:
        names = listed([run_dir.name for run_dir in live], 5)
        raise UsageError(f"{len(live)} runs are under way: {names}. Name one before {request['act']}")
    last = run_dirs()[:1]
    raise UsageError(f"no run is under way.{_instead(last[0], request) if last else ''}")


def _over(run_dir: Path, request: dict[str, Any]) -> UsageError:
    act = request["act"]
    return UsageError(f"run {run_dir.name} is over: ctl {act} is for a live run.{_instead(run_dir, request)}")


def _instead(run_dir: Path, request: dict[str, Any]) -> str:
    """What does the same for a run that is over, if anything does."""
    command = command_instead(run_dir, request["act"], request.get("value"))
    if not command:
        return f" `{Hint.LIST_RUNS.line()}` lists runs."
    return f" {'See how it went' if request['act'] == 'status' else 'Its items continue'} with: {command}"

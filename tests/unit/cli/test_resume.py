"""The command that resumes a run says again what was parsed, whatever the flag."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator
from typing import Any

import pytest

from agentos.cli import resume
from agentos.cli.main import build_parser, parse
from agentos.reporters.resume_line import resume_line, with_option

COMMANDS = {
    "run": ["run", "a", "b", "--graph", "f.py:graph", "--items", "x.jsonl"],
    "lld": ["lld", "a", "b"],
    "issue": ["issue", "a", "b"],
    "implement": ["implement", "a", "b"],
    "pipeline": ["pipeline", "a", "b"],
    "ws run": ["ws", "run", "a", "b"],
}
VALUES = {
    **{"whole_number": "7", "count": "7", "seconds": "7.5", "dollars": "0.25", "time_span": "90m"},
    **dict.fromkeys(("models.drafter", "models.reviewer", "models.coder"), "google:a word's"),
    **{"limits.max_rounds": "7", "prices.unpriced": "2/12", "cluster.address": "head:6379"},
}
"""By what makes a value of the text, or by the setting it sets."""


def parsed(words: list[str]) -> argparse.Namespace:
    return parse(build_parser({words[0]}), words)


def what_matters(arguments: argparse.Namespace) -> dict[str, Any]:
    return {name: value for name, value in vars(arguments).items() if name not in ("parser", "handler")}


def each_flag() -> Iterator[tuple[str, list[str]]]:
    """Every option of every command that runs items, with a value that is not its default."""
    for name, words in COMMANDS.items():
        for action in parsed(words).parser._actions:
            option = next(iter(action.option_strings), "")
            if not option or option in ("-h", "--fresh", "--dry-run", "--graph", "--items"):
                continue
            kind = getattr(action.type, "__name__", "")
            value = (
                action.choices[-1]
                if isinstance(action.choices, tuple)
                else VALUES.get(action.dest, VALUES.get(kind, "a word's"))
            )
            yield name, [option] if action.nargs == 0 else [option, str(value)]


@pytest.mark.parametrize(("command", "flag"), list(each_flag()), ids=str)
def test_a_flag_is_said_again(command: str, flag: list[str]) -> None:
    given = parsed([*COMMANDS[command], *flag])
    line = resume_line(resume.resume_template(given), ["a", "b"], given.budget)
    program, *words = shlex.split(line)
    assert program == "agentos"
    assert what_matters(parsed(words)) == what_matters(given)


def test_what_would_start_over_is_not_said_again() -> None:
    given = parsed(["lld", "--all", "--fresh", "--review", "draft"])
    assert resume_line(resume.resume_template(given), []) == "agentos lld --all --review draft"


def test_a_time_limit_that_an_item_ran_into_is_doubled() -> None:
    template = resume.resume_template(parsed(["lld", "--all", "--timeout-seconds", "60"]))
    assert resume_line(template, []) == "agentos lld --all --timeout-seconds 60"
    assert resume_line(template, [], has_timed_out=True) == "agentos lld --all --timeout-seconds 120"
    template = resume.resume_template(parsed(["lld", "--all", "--project", "{timeout:given:5}  x"]))
    assert shlex.split(resume_line(template, [], has_timed_out=True)) == [
        *("agentos", "lld", "--all", "--timeout-seconds", "3600", "--project", "{timeout:given:5}  x")
    ]


def test_only_unfinished_items_are_named_where_items_were_named() -> None:
    given = parsed(["lld", "1", "2*", "--drafter", "offline"])
    template = resume.resume_template(given)
    assert resume_line(template, ["21", "22"]) == "agentos lld 21 22 --drafter offline"
    assert resume_line(template, []) == ""


def test_a_budget_is_doubled_where_it_ended_the_run() -> None:
    template = resume.resume_template(parsed(["lld", "--all", "--budget", "0.75"]))
    assert resume_line(template, ["1"], 0.75) == "agentos lld --all --budget 0.75"
    assert resume_line(template, ["1"], 0.75, needed_usd=0.8) == "agentos lld --all --budget 1.5"


def test_a_value_that_looks_like_an_option_or_a_place_stays_a_value() -> None:
    given = parsed(["implement", "1", "--record=-x", "--drafter", "google:{ids} of"])
    line = resume_line(resume.resume_template(given), ["1"])
    assert what_matters(parsed(shlex.split(line)[1:])) == what_matters(given)


@pytest.mark.parametrize(
    ("line", "changed"),
    [
        ("agentos run --parallel 4 --budget 1", "agentos run --parallel 2 --budget 1"),
        ("agentos run --budget 1", "agentos run --budget 1 --parallel 2"),
        ("agentos run --budget 1 -- -x a", "agentos run --budget 1 --parallel 2 -- -x a"),
    ],
)
def test_a_line_takes_another_number_before_ids_that_look_like_options(line: str, changed: str) -> None:
    assert with_option(line, "--parallel", 2.0) == changed

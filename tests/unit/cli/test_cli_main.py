"""The umbrella command: what it lists is what there is."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from agentos.cli.main import COMMANDS, build_parser, main, parse
from agentos.cli.reference import reference


def _described(parser: argparse.ArgumentParser) -> list[str]:
    action = next(a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    return [name for name, each in action.choices.items() if each.description]


def test_every_command_says_more_than_the_short_list_and_only_those_wanted_are_loaded() -> None:
    assert _described(build_parser()) == list(COMMANDS)
    assert _described(build_parser(())) == []


def test_an_unknown_command_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["frobnicate"]) == 2
    assert "frobnicate" in capsys.readouterr().err


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name, "--help"]) == 0
    assert name in capsys.readouterr().out


def test_ids_may_stand_anywhere_among_the_options() -> None:
    parser = build_parser({"run"})
    arguments = parse(parser, ["run", "a1", "--graph", "f.py:g", "--items", "items.jsonl", "a2", "--dry-run", "b*"])
    assert arguments.ids == ["a1", "a2", "b*"]


@pytest.mark.parametrize(
    "words", [["runs", "--frobnicate"], ["run", "a1", "--graph", "g", "--items", "i", "--no-such"]]
)
def test_an_unknown_option_is_a_usage_error(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        parse(build_parser(set(words[:1])), words)
    assert stopped.value.code == 2
    assert words[-1] in capsys.readouterr().err


def test_the_reference_of_commands_is_what_the_parsers_say() -> None:
    committed = Path(__file__).parents[3] / "docs" / "reference" / "commands.md"
    # The layout of argparse differs a little between versions of Python; the words do not.
    assert committed.read_text().split() == reference().split()

"""What people type by mistake is answered with what they may have meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentos.cli import lld
from agentos.cli.main import main


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["lls"], "no command agentos lls. Did you mean lld"),
        (["impelment"], "Did you mean implement"),
        (["keys", "lst"], "no command agentos keys lst. Did you mean list?"),
        (["runs", "folow"], "Did you mean follow?"),
        (["zzz"], "no command agentos zzz. Known: demo, lld, issue,"),
        (["lld", "--al", "--paralel", "3"], "--paralel. Did you mean --parallel"),
        (["lld", "7", "--dryrun"], "--dryrun. Did you mean --dry-run?"),
        (["--verson"], "--verson. Did you mean --version?"),
        (["run", "--grph", "x", "--items", "y"], "--grph. Did you mean --graph"),
        (["run", "--items", "y", "--", "--grph"], "the following arguments are required: --graph"),
        (["run", "--gr", "x"], "the following arguments are required: --items"),
        (["lld", "7", "--revew=draft"], "--revew=draft. Did you mean --review"),
        (["lld", "7", "--review", "drat"], "argument --review: invalid choice 'drat'. Did you mean draft?"),
        (["ws", "run", "a", "--max-concurent", "2"], "Did you mean --max-concurrent?"),
        (["ws", "run", "a", "--stps", "x"], "unrecognized arguments: --stps. Did you mean --steps?\n"),
        (["lld", "7", "--steps", "x"], "unrecognized arguments: --steps.\n"),
        (["lld", "7", "--record", "/dev/null/x"], "argument --record: /dev/null is a file, not a folder"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_mistyped_word_is_told_with_what_may_have_been_meant(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    assert said in capsys.readouterr().err


def test_a_mistyped_option_is_told_with_the_usage_of_its_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lld", "7", "--dryrun"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("Usage: agentos lld ")
    assert "\nagentos: error: unrecognized arguments: --dryrun" in said


def test_every_error_begins_with_the_name_of_the_program(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for words in (["7", "--dryrun"], ["7", "--project", str(tmp_path / "nowhere")]):
        assert lld.main(words) == 2
        assert capsys.readouterr().err.splitlines()[-1].startswith("lld-workflow: error: ")
    for words in (["runs", "show", "7"], ["lint", str(tmp_path / "nothing.md")], ["keys", "rm"]):
        assert main(words) == 2
        assert capsys.readouterr().err.splitlines()[-1].startswith("agentos: error: ")


@pytest.mark.parametrize("command", [[], ["lld"], ["keys", "add"], ["doctor"], ["ws", "new"]], ids=" ".join)
def test_help_fits_the_window(
    command: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    assert main([*command, "--help"]) == 0
    said = capsys.readouterr().out
    assert [line for line in said.splitlines() if len(line) > 60] == []
    assert "\nOptions:\n" in said


def test_a_bare_command_prints_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert "demo" in capsys.readouterr().out

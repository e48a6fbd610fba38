"""What a terminal can show, by what its environment says."""

from __future__ import annotations

import pytest

from agentos.text.terminal_kind import TerminalKind, terminal_kind

XTERM = {"TERM": "xterm-256color"}


def test_a_colourful_terminal_has_colours_and_a_title_and_no_links_until_it_says_so() -> None:
    found = terminal_kind(XTERM, is_tty=True)
    assert found == TerminalKind(is_terminal=True, colour=True, many_colours=True, title=True)


@pytest.mark.parametrize("environ", [{"TERM": "dumb"}, {**XTERM, "CI": "true"}, {**XTERM, "CI": "1"}])
def test_a_dumb_terminal_and_ci_get_plain_lines(environ: dict[str, str]) -> None:
    assert terminal_kind(environ, is_tty=True) == TerminalKind()


def test_a_pipe_gets_plain_lines_whatever_the_environment_says() -> None:
    assert terminal_kind({**XTERM, "FORCE_HYPERLINK": "1"}, is_tty=False) == TerminalKind()


def test_no_color_leaves_a_terminal_without_colour_links_and_title() -> None:
    found = terminal_kind({**XTERM, "NO_COLOR": "1", "FORCE_HYPERLINK": "1"}, is_tty=True)
    assert found == TerminalKind(is_terminal=True)


def test_ci_that_says_it_is_none_is_none() -> None:
    assert terminal_kind({**XTERM, "CI": "false"}, is_tty=True).is_terminal


def test_the_consoles_of_the_kernel_have_no_title_and_few_colours() -> None:
    found = terminal_kind({"TERM": "linux"}, is_tty=True)
    assert (found.colour, found.many_colours, found.title) == (True, False, False)


@pytest.mark.parametrize(
    ("said", "can"),
    [
        ({"TERM_PROGRAM": "iTerm.app"}, True),
        ({"TERM_PROGRAM": "Apple_Terminal"}, False),
        ({"VTE_VERSION": "7600"}, True),
        ({"VTE_VERSION": "4800"}, False),
        ({"VTE_VERSION": "?"}, False),
        ({"WT_SESSION": "x"}, True),
        ({"TERM": "xterm-kitty"}, True),
        ({"FORCE_HYPERLINK": "1"}, True),
        ({"FORCE_HYPERLINK": "0", "WT_SESSION": "x"}, False),
    ],
)
def test_links_are_for_terminals_that_know_them(said: dict[str, str], can: bool) -> None:
    assert terminal_kind({**XTERM, **said}, is_tty=True).links is can

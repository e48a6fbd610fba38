"""What the terminal behind a stream can show, as far as its environment tells. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

_WITH_TITLE: Final = (
    *("xterm", "rxvt", "screen", "tmux", "alacritty", "foot", "kitty", "wezterm", "konsole", "gnome", "vte", "st-"),
    *("ghostty", "contour", "mintty", "putty"),
)
_LINKING_TERMS: Final = ("xterm-kitty", "alacritty", "foot", "wezterm", "xterm-ghostty", "contour")
_LINKING_PROGRAMS: Final = frozenset({"iTerm.app", "WezTerm", "vscode", "ghostty", "Hyper", "rio", "Tabby"})
_LINKING_VARIABLES: Final = ("WT_SESSION", "KITTY_WINDOW_ID", "KONSOLE_VERSION", "DOMTERM")
_FIRST_LINKING_VTE: Final = 5000


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminalKind:
    """Of a pipe, of CI and of a dumb terminal: nothing of it."""

    is_terminal: bool = False
    """A line can be taken away and drawn again."""
    colour: bool = False
    many_colours: bool = False
    """256 of them."""
    links: bool = False
    """Text can be clicked on."""
    title: bool = False
    """The window has a title that programs may set."""


def terminal_kind(environ: Mapping[str, str], *, is_tty: bool) -> TerminalKind:
    """NO_COLOR leaves plain lines: neither colour nor links nor a title. What CI logs shows no drawing."""
    term = environ.get("TERM", "")
    is_terminal = is_tty and term != "dumb" and not is_ci(environ)
    if not wants_colour(environ, is_terminal=is_terminal):
        return TerminalKind(is_terminal=is_terminal)
    return TerminalKind(
        is_terminal=True,
        colour=True,
        many_colours="256color" in term or bool(environ.get("COLORTERM")),
        links=_can_link(environ),
        title=term.startswith(_WITH_TITLE),
    )


def wants_colour(environ: Mapping[str, str], *, is_terminal: bool) -> bool:
    """Colour only on a terminal that has it, and never against NO_COLOR (any value that is not empty)."""
    return is_terminal and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"


def is_ci(environ: Mapping[str, str]) -> bool:
    """Whether this runs in continuous integration, where nobody watches and a log is kept."""
    return environ.get("CI", "").casefold() not in ("", "0", "false")


def _can_link(environ: Mapping[str, str]) -> bool:
    """By what terminals say of themselves; `FORCE_HYPERLINK` decides where they say nothing."""
    forced = environ.get("FORCE_HYPERLINK")
    if forced is not None:
        return forced not in ("", "0")
    version = environ.get("VTE_VERSION", "")
    return (
        environ.get("TERM_PROGRAM") in _LINKING_PROGRAMS
        or any(environ.get(name) for name in _LINKING_VARIABLES)
        or environ.get("TERM", "").startswith(_LINKING_TERMS)
        or (version.isdecimal() and int(version) >= _FIRST_LINKING_VTE)
    )

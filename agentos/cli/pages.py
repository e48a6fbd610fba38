"""Documents as people like to read them: rendered on a terminal, in a pager; plain in a pipe."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys

from agentos.cli.output import say, say_document
from agentos.environment import environment
from agentos.text.terminal import clean_block


def show_page(head: list[str], text: str, *, is_markdown: bool = True, language: str = "") -> None:
    """A page of facts and a document. What others wrote moves no cursor and changes no colour."""
    if not sys.stdout.isatty() or environment().get("TERM", "dumb") == "dumb":
        say(*head, *([""] if head and text else []))
        if text:
            say_document(text)
        return
    _page(_rendered(head, _clean(text), is_markdown=is_markdown, language=language))


def _rendered(head: list[str], text: str, *, is_markdown: bool, language: str) -> str:
    from rich.console import Console, RenderableType  # noqa: PLC0415  Only a terminal needs it.
    from rich.markdown import Markdown  # noqa: PLC0415
    from rich.syntax import Syntax  # noqa: PLC0415

    document: RenderableType = Markdown(text) if is_markdown else Syntax(text, language or "text", word_wrap=True)
    # Rich itself looks at NO_COLOR.
    console = Console(force_terminal=True, markup=False, highlight=False, emoji=False)
    with console.capture() as capture:
        for line in head:
            console.print(line, soft_wrap=True)
        if text:
            console.print()
            console.print(document)
    return capture.get()


def _clean(text: str) -> str:
    return clean_block(text.rstrip("\n").encode(errors="replace") + b"\n", keep_colour=False).decode(errors="replace")


def _page(text: str) -> None:
    """What is longer than the window goes through the user's pager."""
    rows = shutil.get_terminal_size().lines
    command = _pager() if text.count("\n") >= rows - 1 else []
    if not command:
        sys.stdout.write(text)
        return
    env = {"LESS": "FRX", **environment()}
    # A reader who has seen enough leaves before the end.
    with contextlib.suppress(BrokenPipeError, KeyboardInterrupt):
        subprocess.run(command, input=text.encode(), env=env, check=False)


def _pager() -> list[str]:
    """As git and man choose it; none where the user wants none or there is none."""
    import shlex  # noqa: PLC0415

    chosen = environment().get("PAGER")
    words = shlex.split(chosen) if chosen is not None else ["less"]
    return words if words and words != ["cat"] and shutil.which(words[0]) else []

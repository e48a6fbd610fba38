"""How commands write: documents of other people made safe for a terminal, data as JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from agentos.errors import UsageError
from agentos.text.terminal import clean_block


def say(*texts: str, to_stderr: bool = False) -> None:
    """Each text and a newline. Colours and control characters of untrusted parts must have been taken out before."""
    stream = sys.stderr if to_stderr else sys.stdout
    stream.write("".join(f"{text}\n" for text in texts))
    stream.flush()


def confirmed(question: str) -> bool:
    """Whether a person at the terminal says yes; no when nobody sits there."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    say(f"{question} [y/N]", to_stderr=True)
    return sys.stdin.readline().strip().casefold() in ("y", "yes")


def read_standard_input() -> str:
    """All of it. UsageError for what is not text in the encoding of the terminal."""
    try:
        return sys.stdin.read()
    except UnicodeDecodeError as error:
        raise UsageError(
            f"standard input is not {error.encoding} text: byte {error.start + 1} is {error.reason}"
        ) from None


def say_document(text: str) -> None:
    """A whole document, without anything that would move a terminal's cursor or change its colours."""
    cleaned = clean_block(text.rstrip("\n").encode(errors="replace") + b"\n", keep_colour=False)
    sys.stdout.write(cleaned.decode(errors="replace"))


def say_json(value: Any) -> None:
    say(json.dumps(value, indent=1, default=str))


def shown(path: Path) -> str:
    """As one would type it here."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)

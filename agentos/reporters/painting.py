"""Colours, dimmed parts and clickable paths of the console's lines. Pure; without colour lines stay as they are."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import quote

from agentos.events import Event, ItemEnded, ItemStarted, NodeStarted, PoolExhausted, Warned
from agentos.outcomes import FAILED, SKIPPED, Outcome
from agentos.reporters.wording import COORDINATOR, Alarm, outcome_words
from agentos.text.output_prefixer import label_in, split_prefix

GREEN: Final = "32"
YELLOW: Final = "33"
RED: Final = "31"
DIM: Final = "2"
BOLD: Final = "1"
_FEW_COLOURS: Final = ("36", "35", "34", "96", "95", "94")
"""Of labels. Green, yellow and red are for outcomes."""
_MANY_COLOURS: Final = tuple(f"38;5;{number}" for number in (39, 170, 37, 105, 208, 75, 133, 73, 141, 67, 175, 109))
_LAST_NUMBER: Final = re.compile(r"(.*?)([0-9]{1,9})$", re.DOTALL)


def outcome_colour(outcome: Outcome) -> str:
    """Green for what is done, red for what failed, yellow for what somebody has to look at or continue."""
    if outcome.is_done or outcome.is_as_asked:
        return GREEN
    return RED if outcome.is_failure and outcome != SKIPPED else YELLOW


class Painter:
    """Paints whole lines that begin with a label in brackets."""

    def __init__(
        self, *, colour: bool = False, many_colours: bool = False, links: bool = False, run_dir: Path | None = None
    ) -> None:
        """With `links` and a `run_dir`, paths in that folder can be clicked on."""
        self._colour = colour
        self._palette = _MANY_COLOURS if many_colours else _FEW_COLOURS
        self._paths = re.compile(rf"{re.escape(str(run_dir))}(?:/[^\s/]+)?") if links and run_dir else None

    def paint(self, style: str, text: str) -> str:
        """Text in a style; plain text has none."""
        return f"\x1b[{style}m{text}\x1b[0m" if self._colour and style and text else text

    def label_style(self, label: str) -> str:
        """A colour that is the item's in every run, and differs from those of its neighbours in number."""
        match = _LAST_NUMBER.match(label)
        stem, number = (match[1], int(match[2])) if match else (label, 0)
        return self._palette[(zlib.crc32(stem.encode(errors="replace")) + number) % len(self._palette)]

    def prefix(self, prefix: str) -> str:
        """`[LLD-42]` in its item's colour; the coordinator's is dim."""
        style = DIM if prefix == COORDINATOR else self.label_style(label_in(prefix))
        return self.paint(style, prefix)

    def lines(self, lines: Iterable[str]) -> list[str]:
        """Lines of no event in particular."""
        return [self._line(line, split_prefix(line)[1]) for line in lines] if self._colour else list(lines)

    def event_lines(self, event: Event, lines: Iterable[str]) -> list[str]:
        """The lines of an event."""
        return [self._line(line, self._event_text(event, line)) for line in lines] if self._colour else list(lines)

    def summary_lines(self, lines: Iterable[str], counts: Mapping[Outcome, int]) -> list[str]:
        """The lines at the end of a run; each number of `counts` has its outcome's colour."""
        if not self._colour:
            return list(lines)
        first, *rest = lines
        for outcome, number in counts.items():
            words = f"{number:,} {outcome_words(outcome, number)}"
            first = first.replace(words, self.paint(outcome_colour(outcome), words), 1)
        return self.lines([first, *rest])

    def _line(self, line: str, text: str) -> str:
        prefix, plain = split_prefix(line)
        shown = self.paint(RED, plain) if isinstance(line, Alarm) else text
        return f"{self.prefix(prefix)} {self._linked(shown)}"

    def _event_text(self, event: Event, line: str) -> str:
        _, text = split_prefix(line)
        match event:
            case ItemEnded(outcome=outcome) if outcome != FAILED:
                words = outcome_words(outcome)
                return self.paint(outcome_colour(outcome), words) + self.paint(DIM, text.removeprefix(words))
            case NodeStarted() | ItemStarted():
                return self.paint(DIM, text)
            case Warned():
                word, colon, rest = text.partition(":")
                return self.paint(YELLOW, word + colon) + rest
            case PoolExhausted():
                return self.paint(YELLOW, text)
            case _:
                return text

    def _linked(self, text: str) -> str:
        return self._paths.sub(lambda found: hyperlink(found[0], Path(found[0])), text) if self._paths else text


def hyperlink(text: str, path: Path) -> str:
    """Text that opens the file or folder, on terminals that know how (OSC 8)."""
    return f"\x1b]8;;file://{quote(str(path.absolute()))}\x1b\\{text}\x1b]8;;\x1b\\"

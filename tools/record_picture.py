"""Makes `docs/images/demo.svg`, a recording of a real run that plays in a browser: `python -m tools.record_picture`.

The real command runs the sample's backlog on a real terminal; a stand-in provider gives the recorded answers, at the
pace of a fast model. What the terminal showed becomes text in an SVG that needs no script. Needs `pyte`.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import pty
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby
from pathlib import Path
from typing import Any

from agentos.demo import make_sample_project
from agentos.providers.provider import base_url_variable
from agentos.testing.provider_server import ProviderServer
from fakes.demo_answers import Author, unpack

TARGET = Path(__file__).resolve().parents[1] / "docs" / "images" / "demo.svg"
COMMAND = ("lld-workflow", "--all", "--parallel", "4")
MODEL = "openai:gpt-4.1"
KEYS = ("alpha", "beta", "gamma")
LATENCY_SECONDS = 1.6
COLUMNS, ROWS = 108, 22
SPEED = 2.0
"""How much faster it plays than it happened."""
FRAMES_PER_SECOND = 4
LAST_FRAME_SECONDS = 4.0
_CHARACTER, _LINE, _MARGIN = 8.43, 19, 16
_DIM = "#8b949e"
_COLOURS = {
    "default": "#e6edf3",
    "red": "#ff7b72",
    "green": "#7ee787",
    "brown": "#e3b341",
    "cyan": "#76e3ea",
    "magenta": "#d2a8ff",
    "blue": "#79c0ff",
}

Cell = tuple[str, str, bool]
"""A character, its colour and whether it is bold."""
Row = tuple[Cell, ...]


@dataclass(frozen=True)
class Frame:
    """What the window showed from this second on."""

    second: float
    rows: tuple[Row, ...]


def record() -> list[tuple[float, bytes]]:
    """What a terminal was sent, and when. Raises CalledProcessError when the run does not end as it should."""
    with tempfile.TemporaryDirectory(prefix="agentos-") as name:
        work_dir = Path(name)
        unpack(work_dir / "answers")
        make_sample_project(work_dir / "shelf")
        with ProviderServer(reply=Author(work_dir / "answers"), latency_seconds=LATENCY_SECONDS) as server:
            environment = _environment(work_dir, server.base_url("openai"))
            for key in KEYS:
                add = ("agentos", "keys", "add", key, "--provider", "openai", "--group", key)
                subprocess.run(_program(add), env=environment, input=f"stand-in-{key}\n", text=True, check=True)
            return _watch(_program(COMMAND), work_dir / "shelf", environment)


def _environment(work_dir: Path, address: str) -> dict[str, str]:
    return os.environ | {
        "AGENTOS_HOME": str(work_dir / "home"),
        base_url_variable("openai"): address,
        "AGENTOS_DRAFTER": MODEL,
        "AGENTOS_REVIEWER": MODEL,
        "TERM": "xterm-256color",
        # So that the commands it suggests are as short as a user's.
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }


def _program(command: Sequence[str]) -> list[str]:
    return [str(Path(sys.executable).with_name(command[0])), *command[1:]]


def _watch(command: Sequence[str], folder: Path, environment: dict[str, str]) -> list[tuple[float, bytes]]:
    terminal, end = pty.openpty()
    fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    seen: list[tuple[float, bytes]] = []
    began = time.monotonic()
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdin=end, stdout=end, stderr=end, start_new_session=True
    ) as process:
        os.close(end)
        while data := _read(terminal):
            seen.append((time.monotonic() - began, data))
    os.close(terminal)
    # Eight designs are approved, and two need a person.
    if process.returncode != 3:
        raise subprocess.CalledProcessError(process.returncode, command)
    return seen


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1 << 16)
    except OSError:
        return b""  # Everybody who could write to it is gone.


def frames_of(seen: Sequence[tuple[float, bytes]]) -> list[Frame]:
    """What the window showed, as often as the eye follows."""
    import pyte  # type: ignore[import-untyped,import-not-found,unused-ignore]  # noqa: PLC0415

    screen = pyte.Screen(COLUMNS, ROWS)
    stream = pyte.ByteStream(screen)
    stream.feed(f"\x1b[32m$\x1b[0m {' '.join(COMMAND)}\r\n".encode())
    frames = [Frame(0.0, _rows(screen))]
    first = seen[0][0]
    for second, data in seen:
        # The start of Python is the same everywhere and shows nothing.
        at = 0.5 + (second - first) / SPEED
        stream.feed(data.replace(b"\x1b[2m", b"\x1b[38;5;245m"))
        rows = _rows(screen)
        if at - frames[-1].second < 1 / FRAMES_PER_SECOND:
            frames[-1] = Frame(frames[-1].second, rows)
        elif rows != frames[-1].rows:
            frames.append(Frame(at, rows))
    return frames


def _rows(screen: Any) -> tuple[Row, ...]:
    return tuple(
        tuple(_cell(screen.buffer[number][column]) for column in range(COLUMNS)) for number in range(screen.lines)
    )


def _cell(character: Any) -> Cell:
    colour = "#8a8a8a" if character.fg == "8a8a8a" else character.fg
    shown = _DIM if colour == "#8a8a8a" else _COLOURS.get(colour, f"#{colour}")
    return character.data, shown, character.bold


def svg_of(frames: Sequence[Frame]) -> str:
    """A window that plays the frames for ever; who wants no motion, and who cannot play it, sees the last."""
    total = frames[-1].second + LAST_FRAME_SECONDS
    ends = [*(frame.second for frame in frames[1:]), total]
    width, height = round(COLUMNS * _CHARACTER + 2 * _MARGIN), ROWS * _LINE + 2 * _MARGIN + 24
    pieces, rules = [], {}
    for number in range(ROWS):
        for begin, end, row in _stays(frames, ends, number):
            name = f"t{round(begin * 100)}-{round(end * 100)}"
            is_last = end == total
            rules[name] = _rule(name, begin / total, end / total, is_last=is_last)
            pieces.append(_text(row, number, f"{name}{' last' if is_last else ''}"))
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
            f'aria-label="A recording of {" ".join(COMMAND)}: ten issues become designs, four at a time">',
            "<style>",
            "text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;white-space:pre;visibility:hidden}",
            f"text.last{{visibility:visible}} text{{animation:{total:.2f}s step-end infinite}}",
            *rules.values(),
            "@media (prefers-reduced-motion:reduce){text{animation:none!important}}",
            "</style>",
            f'<rect width="{width}" height="{height}" rx="8" fill="#0d1117"/>',
            *(
                f'<circle cx="{20 + 18 * place}" cy="18" r="5.5" fill="{colour}"/>'
                for place, colour in enumerate(("#ff5f57", "#febc2e", "#28c840"))
            ),
            *pieces,
            "</svg>\n",
        ]
    )


def _stays(frames: Sequence[Frame], ends: Sequence[float], number: int) -> Iterator[tuple[float, float, Row]]:
    """From when to when this row of the window shows what."""
    for row, stay in groupby(zip(frames, ends, strict=True), key=lambda each: each[0].rows[number]):
        shown = list(stay)
        if any(character.strip() for character, _, _ in row):
            yield shown[0][0].second, shown[-1][1], row


def _rule(name: str, begin: float, end: float, *, is_last: bool) -> str:
    before = "0%{visibility:hidden}" if begin else ""
    after = "" if is_last else f"{end:.2%}{{visibility:hidden}}"
    keys = f"{before}{begin:.2%}{{visibility:visible}}{after}"
    return f"@keyframes {name}{{{keys}}} .{name}{{animation-name:{name}}}"


def _text(row: Row, number: int, classes: str) -> str:
    y = _MARGIN + 24 + number * _LINE + 14
    spans, column = [], 0
    for (colour, is_bold), cells in groupby(row, key=lambda cell: (cell[1], cell[2])):
        text = "".join(character for character, _, _ in cells)
        weight = ' font-weight="bold"' if is_bold else ""
        x = _MARGIN + column * _CHARACTER
        column += len(text)
        if text.strip():
            spans.append(f'<tspan x="{x:.1f}" fill="{colour}"{weight}>{escape(text.rstrip())}</tspan>')
    return f'<text class="{classes}" y="{y}">{"".join(spans)}</text>'


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.record_picture", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("-o", "--output", type=Path, default=TARGET)
    options = parser.parse_args()
    options.output.write_text(svg_of(frames_of(record())), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

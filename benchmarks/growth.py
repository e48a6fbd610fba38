"""Whether work grows with the input and not with its square; and how fast clean output passes the redactor."""

from __future__ import annotations

import random
import string
import time
from collections.abc import Callable

from agentos.documents.markdown import parse
from agentos.keys.redaction import Redactor
from agentos.text.output_prefixer import LineAssembler
from agentos.text.terminal import clean_block
from benchmarks.harness import verdict

TIMES = 16
"""How much larger the large input is. What is linear takes as many times as long, what is quadratic 256 times."""
BAR = 2.5 * TIMES


def main() -> None:
    for unit in (b"\x1b", b"\x1b[", b"\x1b]", b"\x1b[0;", b"\x00", b"\xff", b"0;"):
        _compare(f"a line of {unit!r}", 100_000, lambda size, unit=unit: _clean(unit, size))  # type: ignore[misc]
    _compare("a line in small chunks", 5_000, _assemble)
    for text in ("`", "[", "*", "|a|\n", "> "):
        _compare(f"a document of {text!r}", 2_000, lambda size, text=text: _parse(text, size))  # type: ignore[misc]
    verdict("clean output through the redactor", _redacted_bytes_per_second() / 1e6, 300, " MB/s", at_least=True)


def _compare(label: str, size: int, work: Callable[[int], None]) -> None:
    verdict(f"{label}, {TIMES} times as long", _best_seconds(work, TIMES * size) / _best_seconds(work, size), BAR)


def _best_seconds(work: Callable[[int], None], size: int) -> float:
    return min(_seconds(work, size) for _ in range(5))


def _seconds(work: Callable[[int], None], size: int) -> float:
    began = time.process_time()
    work(size)
    return time.process_time() - began


def _clean(unit: bytes, size: int) -> None:
    clean_block(unit * (size // len(unit)) + b"\n", keep_colour=True)


def _assemble(chunks: int) -> None:
    assembler = LineAssembler()
    for _ in range(chunks):
        assembler.feed(b"x" * 100)
    assembler.finish()


def _parse(text: str, size: int) -> None:
    parse(text * size)


def _redacted_bytes_per_second() -> float:
    chance = random.Random(7)
    keys = ["".join(chance.choices(string.ascii_letters + string.digits + "-_", k=45)) for _ in range(5)]
    redactor = Redactor(keys)
    data = (
        b"2026-11-16 03:31:31,123 [COORDINATOR] INFO Started item LLD-42 with 3 workers, 2 keys are in use\n"
        * 100_000
    )
    return len(data) / _best_seconds(lambda _size: _ignore(redactor.redact(data)), 0)


def _ignore(_result: bytes) -> None:
    """Only the time counts."""

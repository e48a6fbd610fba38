"""Results as they come: a line of JSON per item that has ended, in the run's folder and where the user wants it."""

from __future__ import annotations

import errno
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from agentos.errors import UsageError
from agentos.events import ItemEnded, ResultProduced, Stamped
from agentos.files import write_whole
from agentos.outcomes import Cause
from agentos.records.results import RESULTS_NAME, Span, earlier_spans, spans, users_spans
from agentos.reporters.item_files import AppendFile
from agentos.reporters.sink import Sink
from agentos.wire import one_line_of_json


class ResultsReporter:
    """A line is with the operating system when `handle` returns; a failure to write it raises OSError.

    `order` are the items in the order of the input; with `is_ordered` they reach `target` in that order.
    """

    name = "the results"

    def __init__(self, run_dir: Path, target: Path | Sink | None, order: Sequence[str], *, is_ordered: bool) -> None:
        self._own_path = run_dir / RESULTS_NAME
        self._own = AppendFile(self._own_path)
        self._size = 0
        # Behind a link, for that is where it is to be read.
        self._target = target.resolve() if isinstance(target, Path) else target
        self._places = {item_id: place for place, item_id in enumerate(order)}
        self._is_ordered = is_ordered
        self._file: AppendFile | None = None
        self._written: dict[str, Span] = {}
        """Lines that `target` has from this run."""
        self._produced: dict[str, Span] = {}
        """Lines of items whose end is about to be told."""
        self._waiting: list[str] = []
        """Items of this run that `target` has no line of yet, in order."""
        self._held: dict[str, Span] = {}
        """Lines that wait for those before them."""
        self._handed_on: set[str] = set()
        self._has_repeats = False
        """An item that was retried has two lines: the last one counts."""

    def begin(self, items: Sequence[str], run_of_done: Mapping[str, str]) -> None:
        """Before the first item. Of this run's items only those that earlier runs have done keep a line.

        Raises UsageError when the user's file cannot be written or is something else.
        """
        earlier = earlier_spans(run_of_done)
        others: dict[str, Span] = {}
        if isinstance(self._target, Path):
            kept = users_spans(self._target)
            earlier |= {i: kept[i] for i in run_of_done if i in kept and i not in earlier}
            others = {item_id: span for item_id, span in kept.items() if item_id not in items}
        known = {item_id: self._keep(span.read()) for item_id, span in earlier.items()}
        if isinstance(self._target, Path):
            try:
                self._replace(self._target, {**others, **known})
            except OSError as error:
                raise UsageError(f"--output {str(self._target)!r}: {error.strerror}.") from None
            self._written = dict(known)
        self._waiting = sorted((i for i in items if i not in known or not self._file), key=self._place)
        if self._file is None:
            for item_id in sorted(known, key=self._place):
                self._hand_on(item_id, known[item_id])

    def handle(self, stamped: Stamped) -> None:
        match stamped.event:
            case ResultProduced() as produced:
                self._produced[produced.item_id] = self._keep(result_line(produced))
            case ItemEnded() as ended if not ended.outcome.is_left and ended.cause is not Cause.EARLIER_RUN:
                span = self._produced.pop(ended.item_id, None)
                self._hand_on(ended.item_id, span or self._keep(result_line(ended)))

    def settle(self) -> None:
        """Also what waited for items that are not done, and in its order. Raises OSError."""
        for item_id in sorted(self._held, key=self._place):
            self._write(item_id, self._held[item_id])
        self._held.clear()
        if self._file is not None and isinstance(self._target, Path):
            self._restore(self._target, self._file)
            if self._is_ordered or self._has_repeats:
                self._put_in_order(self._target)

    def close(self) -> None:
        self._own.close()
        if self._file is not None:
            self._file.close()
            self._file = None

    def _keep(self, line: bytes) -> Span:
        self._own.append(line)
        span = Span(self._own_path, self._size, len(line))
        self._size += len(line)
        return span

    def _hand_on(self, item_id: str, span: Span) -> None:
        if self._target is None:
            return
        self._has_repeats |= item_id in self._handed_on
        self._handed_on.add(item_id)
        if not self._is_ordered:
            self._write(item_id, span)
            return
        self._held[item_id] = span
        while self._waiting and self._waiting[0] in self._held:
            first = self._waiting.pop(0)
            self._write(first, self._held.pop(first))

    def _write(self, item_id: str, span: Span) -> None:
        if self._file is not None and isinstance(self._target, Path):
            self._restore(self._target, self._file)
            self._file.append(span.read())
            self._written[item_id] = span
        elif self._target is not None and not isinstance(self._target, Path):
            self._target.write(span.read())

    def _restore(self, target: Path, file: AppendFile) -> None:
        """Somebody may have removed, replaced or shortened it: what this run has written is in it again.

        Raises OSError when it is something else by now.
        """
        if file.is_in_place:
            return
        try:
            found = spans(target)
        except ValueError:
            raise OSError(errno.EEXIST, f"{target.name} has something else in it by now") from None
        self._replace(target, {**found, **self._written})

    def _put_in_order(self, target: Path) -> None:
        """Runs of some of the items, and runs that were killed, leave lines in the order they came."""
        # What somebody else has written into it meanwhile must not be lost: then all lines stay where they are.
        with suppress(ValueError):
            self._replace(target, spans(target))

    def _replace(self, target: Path, kept: Mapping[str, Span]) -> None:
        """Have these lines in the file, and write on from there."""
        ordered = sorted(kept, key=self._place) if self._is_ordered else kept
        write_whole(target, b"".join(kept[item_id].read() for item_id in ordered))
        former, self._file = self._file, AppendFile(target)
        if former is not None:
            former.close()

    def _place(self, item_id: str) -> int:
        return self._places.get(item_id, -1)


def result_line(end: ResultProduced | ItemEnded) -> bytes:
    """How the item ended, with the graph's output as it came if it came to one."""
    produced = end if isinstance(end, ResultProduced) else None
    usage: dict[str, Any] = {
        "input_tokens": end.input_tokens,
        "output_tokens": end.output_tokens,
        "cost_usd": end.cost_usd,
    }
    if produced and produced.models:
        usage["models"] = json.loads(produced.models)
    rest: dict[str, Any] = {"error": _error(end), "usage": usage, "seconds": end.seconds, "attempts": end.attempts}
    if produced and produced.interrupts:
        rest["interrupts"] = json.loads(produced.interrupts)
    head = one_line_of_json({"id": end.item_id, "outcome": str(end.outcome)})
    tail = one_line_of_json(rest)
    state = produced.state if produced else "null"
    return f'{head[:-1]}, "state": {state}, {tail[1:]}\n'.encode(errors="backslashreplace")


def _error(end: ResultProduced | ItemEnded) -> dict[str, str] | None:
    if isinstance(end, ResultProduced) or not (end.outcome.is_failure or end.outcome.never_ran):
        return None
    return {"type": end.error_type or str(end.outcome), "message": end.reason}

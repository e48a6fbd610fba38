"""A run as readers follow it: one tail of its record for all of them. Reads files; writes nothing, asks nobody.

`RunFeed` is the run's view and what lies beside its record; `Feeds` keeps the ones that are looked at.
"""

from __future__ import annotations

import asyncio
import math
import os
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Final

from agentos.clock import utc_now
from agentos.dashboard.fold import RunFold
from agentos.dashboard.payload import Surroundings
from agentos.dashboard.view import RunView
from agentos.engine.limits import MAX_PARALLELISM
from agentos.events import Stamped
from agentos.hints import from_here
from agentos.page.logs import last_line, log_path
from agentos.page.run_extras import RunExtras, Wanted, gather_extras
from agentos.paths import runs_dir
from agentos.records.folders import is_run_id
from agentos.records.format import Unreadable, read_record
from agentos.records.past import past_durations
from agentos.records.runs import AUDIT_NAME, is_live
from agentos.reporters.summary import summary_of
from agentos.text.words import counted
from agentos.workflows.registry import WORKFLOWS

TICK_SECONDS: Final = 0.05
"""How often a record that somebody reads is looked at."""
_LIVENESS_SECONDS: Final = 0.5
_BESIDE_SECONDS: Final = 2.0
"""So long at least between two looks at what git has to tell."""
_YOUNG_SECONDS: Final = 5.0
"""So long a run's folder may be there before its coordinator holds the lock."""
_MOST_AT_ONCE: Final = 4 << 20
_MOST_INLINE: Final = 256 * 1024
"""More new records than this are read by another thread."""
_KEPT_FEEDS: Final = 12


def nodes_of(workflow: str) -> tuple[str, ...]:
    return WORKFLOWS[workflow].nodes if workflow in WORKFLOWS else ()


class RunFeed:
    """All calls come from the server's loop; `refresh` alone may take another thread's time."""

    def __init__(self, run_dir: Path, clock: Callable[[], datetime] = utc_now) -> None:
        self.run_dir = run_dir
        self.version = 0
        """Grows with whatever has changed: records, last lines, life."""
        self._clock = clock
        self._fold = RunFold(nodes_of)
        self._offset = 0
        self._rest = b""
        self._unreadable: dict[Unreadable, int] = {}
        self._is_live, self._liveness_at = True, 0.0
        self._lines: dict[str, tuple[int, str]] = {}
        self._line_versions: dict[str, int] = {}
        self._past: list[float] | None = None
        self._resume_command: str | None = None
        self._beside = RunExtras()
        self._looked_at = -math.inf
        self._ended_when_looked = -1
        self._lock = asyncio.Lock()
        self._changed = asyncio.Condition()
        self._readers = 0
        self._tailer: asyncio.Task[None] | None = None

    @property
    def view(self) -> RunView:
        return self._fold.view(is_live=self._is_live, now=self._clock())

    @asynccontextmanager
    async def up_to_date(self) -> AsyncIterator[RunView]:
        """The run as its record is now. Nothing changes it inside of the block, which must not wait for anything."""
        async with self._lock:
            await self._refresh()
            yield self.view

    @asynccontextmanager
    async def as_tailed(self) -> AsyncIterator[RunView]:
        """The run as the tail last saw it: for those who follow, of whom there are many."""
        async with self._lock:
            yield self.view

    @asynccontextmanager
    async def followed(self) -> AsyncIterator[None]:
        """Somebody follows the run: its record is tailed meanwhile."""
        self._readers += 1
        if self._tailer is None:
            self._tailer = asyncio.create_task(self._tail())
        try:
            yield
        finally:
            self._readers -= 1
            if not self._readers and self._tailer is not None:
                self._tailer.cancel()
                self._tailer = None

    @property
    def is_followed(self) -> bool:
        return self._readers > 0

    async def next_version(self, seen: int, seconds: float) -> None:
        """Returns when something has changed since a version, or after a time."""
        async with self._changed:
            try:
                async with asyncio.timeout(seconds):
                    await self._changed.wait_for(lambda: self.version != seen)
            except TimeoutError:
                return

    def lines_changed_since(self, version: int) -> frozenset[str]:
        """Items of which something beside the record is another: their last line, their branch."""
        return frozenset(item_id for item_id, at in self._line_versions.items() if at > version)

    def around(self, *, may_control: bool) -> Surroundings:
        view = self.view
        return Surroundings(
            may_control=may_control,
            past_seconds=self._past or (),
            last_lines={item_id: line for item_id, (_, line) in self._lines.items()},
            branches=self._beside.branches,
            conflicts=self._beside.conflicts,
            key_limits=self._beside.key_limits,
            answered=self._beside.answered,
            most_parallel=MAX_PARALLELISM,
            resume_command=self._command() if view.is_over else "",
            problem=self._problem(),
        )

    async def gather_extras(self) -> None:
        """Branches and what else lies beside the record, as it is now."""
        async with self.up_to_date() as view:
            wanted, ended = Wanted.of(view, self.run_dir), view.ended_count
        found = await asyncio.to_thread(gather_extras, wanted)
        self._looked_at, self._ended_when_looked = time.monotonic(), ended
        if found != self._beside:
            self._beside = found
            self.version += 1
            about = {*found.branches, *found.conflicts}
            self._line_versions |= dict.fromkeys(about, self.version)

    async def look_again(self) -> None:
        """What ended may have left a branch: those who follow the run are told, too."""
        view = self.view
        is_due = view.is_over or time.monotonic() - self._looked_at >= _BESIDE_SECONDS
        if is_due and view.ended_count != self._ended_when_looked:
            await self.gather_extras()

    async def _tail(self) -> None:
        while True:
            before = self.version
            async with self._lock:
                await self._refresh()
            await self.look_again()
            if self.version != before:
                async with self._changed:
                    self._changed.notify_all()
            await asyncio.sleep(TICK_SECONDS)

    async def _refresh(self) -> None:
        if self._grown() > _MOST_INLINE:
            await asyncio.to_thread(self._read)
        else:
            self._read()
        if self._past is None and self.view.workflow:
            self._past = await asyncio.to_thread(self._past_durations)
        self._look_whether_it_lives()
        self._read_last_lines()

    def _grown(self) -> int:
        try:
            return (self.run_dir / AUDIT_NAME).stat().st_size - self._offset
        except OSError:
            return 0

    def _read(self) -> None:
        """What has been written since, to the end."""
        while self._grown() > 0:
            try:
                with (self.run_dir / AUDIT_NAME).open("rb") as file:
                    file.seek(self._offset)
                    chunk = file.read(_MOST_AT_ONCE)
            except OSError:
                return
            if not chunk:
                return
            self._offset += len(chunk)
            *whole, self._rest = (self._rest + chunk).split(b"\n")
            for line in whole:
                self._take(line)
            self.version += 1

    def _take(self, line: bytes) -> None:
        record = read_record(line) if line else None
        if isinstance(record, Stamped):
            self._fold.add(record)
        elif record is not None:
            self._unreadable[record] = self._unreadable.get(record, 0) + 1

    def _past_durations(self) -> list[float]:
        view = self.view
        if not view.project_dir:
            return []
        return past_durations(Path(view.project_dir), view.workflow, view.models, before=self.run_dir.name)

    def _look_whether_it_lives(self) -> None:
        """Asked before what was written last is read: a run that is dead by then has nothing more to say."""
        if not self._is_live or time.monotonic() - self._liveness_at < _LIVENESS_SECONDS:
            return
        self._liveness_at = time.monotonic()
        if is_live(self.run_dir) or _is_young(self.run_dir):
            return
        self._read()
        self._is_live = False
        self.version += 1

    def _read_last_lines(self) -> None:
        view = self.view
        for item_id in () if view.is_over else view.slots.values():
            path = log_path(self.run_dir, item_id)
            try:
                size = os.stat(path, follow_symlinks=False).st_size if path else 0  # noqa: PTH116  Often.
            except OSError:
                continue
            known = self._lines.get(item_id, (0, ""))
            if size != known[0]:
                self._lines[item_id] = size, last_line(self.run_dir, item_id, size) or known[1]
                self.version += 1
                self._line_versions[item_id] = self.version

    def _command(self) -> str:
        """What continues it, now that it is over."""
        if self._resume_command is None:
            summary = summary_of(self.run_dir, with_items=False)
            command = summary.resume_command
            self._resume_command = from_here(command, summary.folder) if command else ""
        return self._resume_command

    def _problem(self) -> str:
        newer = self._unreadable.get(Unreadable.NEWER, 0)
        damaged = self._unreadable.get(Unreadable.DAMAGED, 0)
        parts = []
        if newer:
            parts.append(f"{counted(newer, 'record')} of a later version not shown: update AgentOS to see them")
        if damaged:
            parts.append(f"{counted(damaged, 'damaged line')} of the record passed over")
        return "; ".join(parts)


def _is_young(run_dir: Path) -> bool:
    try:
        return time.time() - run_dir.stat().st_mtime < _YOUNG_SECONDS and not (run_dir / AUDIT_NAME).exists()
    except OSError:
        return False


class Feeds:
    """One feed per run, however many look at it. Of those that nobody follows, the longest unseen are forgotten."""

    def __init__(self, clock: Callable[[], datetime] = utc_now) -> None:
        self._clock = clock
        self._feeds: OrderedDict[str, RunFeed] = OrderedDict()

    def of(self, run_id: str) -> RunFeed | None:
        """None for a name that is no run's."""
        if not is_run_id(run_id) or not (runs_dir() / run_id).is_dir() or (runs_dir() / run_id).is_symlink():
            self._feeds.pop(run_id, None)
            return None
        feed = self._feeds.setdefault(run_id, RunFeed(runs_dir() / run_id, self._clock))
        self._feeds.move_to_end(run_id)
        for old in [name for name, each in self._feeds.items() if not each.is_followed][:-_KEPT_FEEDS]:
            del self._feeds[old]
        return feed

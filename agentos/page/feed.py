"""A run as readers follow it: one tail of its record for all of them. Reads files; writes nothing, asks nobody.

`RunFeed` is the run's view and what lies beside its record; `Feeds` keeps the ones that are looked at.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Final

from agentos.clock import utc_now
from agentos.dashboard.payload import Branch, Surroundings
from agentos.dashboard.view import RunFold, RunView
from agentos.events import Stamped
from agentos.hints import from_here
from agentos.paths import runs_dir
from agentos.records.format import Unreadable, read_record
from agentos.records.runs import AUDIT_NAME, is_live, is_run_id, past_durations, read_summary
from agentos.reporters.logs import log_name
from agentos.reporters.summary import Summary
from agentos.text.words import counted
from agentos.workflows.registry import WORKFLOWS

TICK_SECONDS: Final = 0.1
"""How often a record that somebody reads is looked at."""
_LIVENESS_SECONDS: Final = 0.5
_YOUNG_SECONDS: Final = 5.0
"""So long a run's folder may be there before its coordinator holds the lock."""
_MOST_AT_ONCE: Final = 4 << 20
_TAIL_BYTES: Final = 4096
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
        self.branches: dict[str, Branch] = {}
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
        """Items whose last line is another one."""
        return frozenset(item_id for item_id, at in self._line_versions.items() if at > version)

    def around(self, *, may_control: bool) -> Surroundings:
        view = self._fold.view(is_live=self._is_live)
        return Surroundings(
            may_control=may_control,
            past_seconds=self._past or (),
            last_lines={item_id: line for item_id, (_, line) in self._lines.items()},
            branches=self.branches,
            resume_command=self._command() if view.is_over else "",
            problem=self._problem(),
        )

    async def _tail(self) -> None:
        while True:
            async with self._lock:
                before = self.version
                await self._refresh()
            if self.version != before:
                async with self._changed:
                    self._changed.notify_all()
            await asyncio.sleep(TICK_SECONDS)

    async def _refresh(self) -> None:
        if self._grown() > _TAIL_BYTES * 64:
            await asyncio.to_thread(self._read)
        else:
            self._read()
        if self._past is None and self._fold.view(is_live=self._is_live).workflow:
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
        view = self._fold.view(is_live=self._is_live)
        return past_durations(Path(view.project_dir), view.workflow) if view.project_dir else []

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
        view = self._fold.view(is_live=self._is_live)
        for item in view.items.values() if self._lines or not view.is_over else ():
            if not item.is_running:
                continue
            path = self.run_dir / log_name(item.id)
            try:
                size = os.stat(path, follow_symlinks=False).st_size  # noqa: PTH116  Ten times a second.
            except (OSError, ValueError):
                continue
            known = self._lines.get(item.id, (0, ""))
            if size != known[0]:
                self._lines[item.id] = size, _last_line(path, size) or known[1]
                self.version += 1
                self._line_versions[item.id] = self.version

    def _command(self) -> str:
        """What continues it, now that it is over."""
        if self._resume_command is None:
            summary = read_summary(self.run_dir, with_items=False)
            if summary is None:
                so_far = Summary()
                for stamped in _records(self.run_dir):
                    so_far.add(stamped)
                summary = so_far.result()
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


def _records(run_dir: Path) -> list[Stamped]:
    try:
        with (run_dir / AUDIT_NAME).open("rb") as lines:
            return [record for line in lines if isinstance(record := read_record(line), Stamped)]
    except OSError:
        return []


def _is_young(run_dir: Path) -> bool:
    try:
        return time.time() - run_dir.stat().st_mtime < _YOUNG_SECONDS and not (run_dir / AUDIT_NAME).exists()
    except OSError:
        return False


def _last_line(path: Path, size: int) -> str:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return ""
    try:
        tail = os.pread(descriptor, _TAIL_BYTES, max(0, size - _TAIL_BYTES))
    except OSError:
        return ""
    finally:
        os.close(descriptor)
    lines = [line for line in tail.decode(errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else ""


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

"""Runs on disk: their folders, what their records say, and which of them are kept.

A run's folder under `runs_dir()` is named by its start and holds `run.lock` (held while the run is alive), the audit
`workflow-audit.jsonl`, and, once the run has ended, `summary.json`.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

from agentos.clock import stamp
from agentos.errors import ExitCode, UsageError
from agentos.events import ControlTaken, ItemEnded, ItemStarted, RunEnded, RunStarted, Stamped, type_name
from agentos.files import open_record, read_regular
from agentos.hints import Hint
from agentos.outcomes import Outcome, counts_by_name, outcome_named
from agentos.paths import runs_dir
from agentos.records.folders import read_summary, run_dirs
from agentos.records.format import parse_record
from agentos.records.summary import RunSummary
from agentos.text.suggestions import nearest

AUDIT_NAME = "workflow-audit.jsonl"
LOCK_NAME = "run.lock"
KEPT_RUNS = 100
KEPT_DAYS = 30

State = Literal["live", "finished", "failed", "interrupted", "unfinished"]
"""`interrupted`: ended in good order with items left. `unfinished`: died without a summary."""

POLL_SECONDS = 0.1

_RUN_ID_FORMAT = "%Y%m%d-%H%M%S-%f"
_ITEM_ENDED = b'"type":"item_ended"'
_ITEM_AND_OUTCOME = re.compile(rb'"item":("(?:[^"\\]|\\.)*"),"outcome":"([^"\\]+)"')
_RETRIED = b'"act":"retry"'
_DOOMED = ".pruned-"
_BEING_MADE = timedelta(minutes=1)
"""A run this young may not hold its lock yet."""
_MOST_LOCK_BYTES = 1 << 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run as a list shows it."""

    run_id: str
    run_dir: Path
    state: State
    workflow: str = ""
    project_dir: str = ""
    started: str = ""
    total: int = 0
    counts: Mapping[Outcome, int] = field(default_factory=dict)
    wall_seconds: float | None = None
    """None as long as the run has not ended."""
    exit_code: int | None = None

    def to_document(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "run": self.run_id,
            "state": self.state,
            "run_dir": str(self.run_dir),
            "workflow": self.workflow,
            "project_dir": self.project_dir,
            "started": self.started,
            "total": self.total,
            "counts": counts_by_name(self.counts),
            "wall_seconds": self.wall_seconds,
            "exit_code": self.exit_code,
        }


def create_run_dir(now: datetime) -> Path:
    """Make the folder of a run that starts now: named by the UTC time, for its owner alone, never one twice."""
    parent = runs_dir()
    instant = now.astimezone(UTC)
    while True:
        run_dir = parent / instant.strftime(_RUN_ID_FORMAT)
        try:
            run_dir.mkdir(mode=0o700, parents=True)
        except FileExistsError:
            # Another run took this very instant: the next microsecond is as good.
            instant += timedelta(microseconds=1)
        else:
            return run_dir


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What a run takes for itself while it lives."""

    project_dir: str = ""
    workflow: str = ""
    items: tuple[str, ...] = ()


def hold_run_lock(run_dir: Path, taken: Taken | None = None) -> int:
    """Mark the run as alive for as long as the returned descriptor is open, and no longer than this process lives."""
    descriptor = os.open(run_dir / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        # Waits for a reader that is just looking: `is_live` holds the lock for an instant.
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        os.write(descriptor, json.dumps(asdict(taken or Taken())).encode())
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def is_live(run_dir: Path) -> bool:
    """Whether a process holds the run's lock."""
    try:
        descriptor = os.open(run_dir / LOCK_NAME, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def taken_by(run_dir: Path) -> Taken:
    """What the run took, also when it has not begun yet, or was killed. Nothing, when its file does not say."""
    try:
        said = json.loads(read_regular(run_dir / LOCK_NAME, _MOST_LOCK_BYTES))
        return Taken(project_dir=said["project_dir"], workflow=said["workflow"], items=tuple(said["items"]))
    except (OSError, ValueError, TypeError, KeyError):
        return Taken()


def holders_of(project_dir: str, workflow: str, *, besides: str) -> dict[str, str]:
    """Items of the workflow that living runs have and have not ended yet, each with the id of its run."""
    holders: dict[str, str] = {}
    for run_dir in run_dirs():
        if run_dir.name == besides or not is_live(run_dir):
            continue
        taken = taken_by(run_dir)
        if (taken.project_dir, taken.workflow) == (project_dir, workflow):
            ended = _ended_items(run_dir)
            holders |= {item_id: run_dir.name for item_id in taken.items if item_id not in ended}
    return holders


def _ended_items(run_dir: Path) -> set[str]:
    """Those that nobody wants another attempt of."""
    ended: set[str] = set()
    for stamped in read_audit(run_dir, ("control_taken", "item_started", "item_ended")):
        match stamped.event:
            case ControlTaken(reopened=reopened):
                ended -= {*reopened}
            case ItemStarted(item_id=item_id):
                ended.discard(item_id)
            case ItemEnded(item_id=item_id):
                ended.add(item_id)
    return ended


def list_runs() -> list[Run]:
    """All runs, newest first."""
    return [load_run(run_dir) for run_dir in run_dirs()]


def load_run(run_dir: Path) -> Run:
    """What is known of a run: from its summary if it has ended, else from its audit so far."""
    summary = read_summary(run_dir, with_items=False)
    if summary is None:
        return _run_from_audit(run_dir)
    return Run(
        run_id=run_dir.name,
        run_dir=run_dir,
        state=_end_state(summary),
        workflow=summary.workflow,
        project_dir=summary.project_dir,
        started=summary.started,
        total=summary.total,
        counts=summary.counts,
        wall_seconds=summary.wall_seconds,
        exit_code=summary.exit_code,
    )


def _end_state(summary: RunSummary) -> State:
    if summary.left:
        return "interrupted"
    return "failed" if summary.exit_code in (ExitCode.ITEM_FAILED, ExitCode.NO_USABLE_KEY) else "finished"


def _run_from_audit(run_dir: Path) -> Run:
    state: State = "live" if is_live(run_dir) else "unfinished"
    run = Run(run_id=run_dir.name, run_dir=run_dir, state=state, started=_start_in_name(run_dir.name))
    for stamped in read_audit(run_dir, kinds=("run_started",)):
        if isinstance(stamped.event, RunStarted):
            begun = stamped.event
            run = replace(run, workflow=begun.workflow, project_dir=begun.project_dir, total=len(begun.items))
            run = replace(run, started=stamped.time)
            break
    return replace(run, counts=_counts_in_audit(run_dir))


def _counts_in_audit(run_dir: Path) -> dict[Outcome, int]:
    """Without reading each record as a whole: a list may show hundreds of killed runs of thousands of items each.

    A quote inside of a text is escaped, so what is looked for is never part of one.
    """
    ends: dict[bytes, bytes] = {}  # By item: one that was retried has ended twice.
    with suppress(FileNotFoundError), open_record(run_dir / AUDIT_NAME) as lines:
        for line in lines:
            if _ITEM_ENDED in line and line.endswith(b"}\n") and (found := _ITEM_AND_OUTCOME.search(line)):
                ends[found[1]] = found[2]
            elif _RETRIED in line and (retried := parse_record(line)) and isinstance(retried.event, ControlTaken):
                for item_id in retried.event.reopened:
                    ends.pop(json.dumps(item_id).encode(), None)
    counted = Counter(ends.values())
    outcomes = {outcome_named(name.decode("ascii", "replace")): number for name, number in counted.items()}
    return {outcome: number for outcome, number in outcomes.items() if not outcome.is_left}


def _start_in_name(run_id: str) -> str:
    """For a run that was killed before it could say when it started."""
    try:
        instant = datetime.strptime(run_id, _RUN_ID_FORMAT).replace(tzinfo=UTC)
    except ValueError:
        return ""
    return stamp(instant, "milliseconds")


def find_run(text: str) -> Path:
    """The folder of the run with this id, or the only one whose id begins so, or the newest for `last`.

    Raises UsageError naming the nearest runs when there is none or more than one.
    """
    known = run_dirs()
    if not known:
        raise UsageError(f"there are no runs under {runs_dir()} yet")
    if text == "last":
        return known[0]
    matching = [run_dir for run_dir in known if run_dir.name.startswith(text)] if text else []
    if len(matching) == 1:
        return matching[0]
    if matching:
        raise UsageError(f"run '{text}' is ambiguous: {_some([each.name for each in matching])}; give more of the id")
    names = [run_dir.name for run_dir in known]
    close = nearest(text, names) or names[:3]
    raise UsageError(f"no run '{text}'; did you mean {_some(close)}? `{Hint.LIST_RUNS.line()}` lists all")


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def prunable(now: datetime, keep: int = KEPT_RUNS, days: int = KEPT_DAYS) -> list[Path]:
    """The runs beyond the newest `keep` or older than `days`, newest first. Live and just made ones never."""
    oldest = (now.astimezone(UTC) - timedelta(days=days)).strftime(_RUN_ID_FORMAT)
    candidates = [run_dir for place, run_dir in enumerate(run_dirs()) if place >= keep or run_dir.name < oldest]
    newest = (now.astimezone(UTC) - _BEING_MADE).strftime(_RUN_ID_FORMAT)
    return [run_dir for run_dir in candidates if run_dir.name < newest and not is_live(run_dir)]


def prune(now: datetime, keep: int = KEPT_RUNS, days: int = KEPT_DAYS) -> list[str]:
    """Remove the prunable runs and return their ids. Safe to run by several processes at once."""
    removed = []
    for run_dir in prunable(now, keep, days):
        # Out of sight first: a removal cut short must not leave a run that looks unfinished and is kept for ever.
        try:
            run_dir.rename(run_dir.with_name(_DOOMED + run_dir.name))
        except OSError:
            continue  # Another process was faster, or the folder is not ours to move.
        removed.append(run_dir.name)
    for doomed in runs_dir().glob(f"{_DOOMED}*"):
        shutil.rmtree(doomed, ignore_errors=True)
    return removed


def read_audit(run_dir: Path, kinds: Sequence[str] = ()) -> Iterator[Stamped]:
    """The records of the run's audit so far, in order, or those of some kinds (`item_ended`) only.

    Lines that are not whole or not ours are passed over.
    """
    # Most lines need no parsing to be refused; what slips through (the same words in a message) is refused after it.
    marks = [f'"type":"{kind}"'.encode() for kind in kinds]
    try:
        with open_record(run_dir / AUDIT_NAME) as lines:
            for line in lines:
                stamped = parse_record(line) if not marks or any(mark in line for mark in marks) else None
                if stamped is not None and (not kinds or type_name(stamped.event) in kinds):
                    yield stamped
    except FileNotFoundError:
        return


def follow_audit(run_dir: Path, sleep: Callable[[float], object] = time.sleep) -> Iterator[Stamped]:
    """The run's records, past ones first, then as they come: until its last, or until nobody can write more."""
    rest, offset = b"", 0
    while True:
        # Asked before reading: what a dying run wrote last is then still read.
        can_grow = is_live(run_dir)
        chunk = _read_from(run_dir / AUDIT_NAME, offset)
        offset += len(chunk)
        *whole, rest = (rest + chunk).split(b"\n")
        for stamped in filter(None, map(parse_record, whole)):
            yield stamped
            if isinstance(stamped.event, RunEnded):
                return
        if not chunk:
            if not can_grow:
                return
            sleep(POLL_SECONDS)


def _read_from(path: Path, offset: int) -> bytes:
    try:
        with open_record(path) as file:
            file.seek(offset)
            return file.read(1 << 20)
    except FileNotFoundError:
        return b""

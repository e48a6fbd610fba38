"""The registry of a project's workstreams on disk: one writer at a time, whole files, every transition on record."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from agentos.clock import stamp, utc_now
from agentos.errors import UsageError
from agentos.files import locked, write_whole
from agentos.git.worktrees import Repository, branch_of
from agentos.paths import workstreams_dir
from agentos.processes import host
from agentos.workstreams.state import (
    Active,
    Adopted,
    Complete,
    Completed,
    Fail,
    Failed,
    Finding,
    Gone,
    Moved,
    Owner,
    OwnerDead,
    Pause,
    Paused,
    ReachPause,
    Release,
    Request,
    Resume,
    Running,
    State,
    TakeUp,
    Workstream,
    WorktreeMissing,
    healed,
    next_state,
    reconcile,
    select_slugs,
    status_word,
)

_VERSION: Final = 1
_EVENT_NAMES: Final[Mapping[type[Request | Finding], str]] = {
    TakeUp: "start",
    Pause: "pause",
    ReachPause: "reach_pause",
    Resume: "resume",
    Release: "release",
    Complete: "complete",
    Fail: "fail",
    Moved: "moved",
    WorktreeMissing: "worktree_missing",
    Gone: "gone",
    Adopted: "adopted",
    OwnerDead: "owner_dead",
}
"""What changes a workstream, as `history.jsonl` and `ws status --json` call it."""


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One line of `history.jsonl`. `number` counts up without a gap."""

    number: int
    time: datetime
    slug: str
    event: str
    before: str | None
    after: str | None
    detail: str = ""

    def as_json(self) -> dict[str, Any]:
        return {
            "number": self.number,
            "time": stamp(self.time, "microseconds"),
            "slug": self.slug,
            "event": self.event,
            "from": self.before,
            "to": self.after,
            "detail": self.detail,
        }


@dataclass(slots=True)
class Changes:
    """The workstreams inside one transaction. Nothing is on disk until the transaction ends well."""

    now: datetime
    workstreams: dict[str, Workstream]
    entries: list[HistoryEntry] = field(default_factory=list)
    _last_number: int = 0

    def add(self, slug: str, text: str, *, path: Path, base: str) -> Workstream:
        """A new active workstream. UsageError when there is one of that name.

        One that was only found in git has no text yet: it gets it now.
        """
        branch = branch_of(slug)
        refuse_taken(slug, self.workstreams)
        workstream = Workstream(
            slug=slug, text=text, branch=branch, path=path, base=base, created_at=self.now, changed_at=self.now
        )
        self._put(workstream, "created", None, text)
        return workstream

    def apply(self, slug: str, request: Request) -> Workstream:
        """Move a workstream on. InvalidTransitionError when it cannot do that now."""
        (slug,) = select_slugs([slug], self.workstreams)
        workstream = self.workstreams[slug]
        state = next_state(slug, workstream.state, request)
        event = _event_name(request)
        after = replace(workstream, state=state, changed_at=self.now, last_event=event)
        self._put(after, event, status_word(workstream.state), _detail(request))
        return after

    def drop(self, slug: str) -> None:
        """Forget a workstream that was removed."""
        workstream = self.workstreams.pop(slug, None)
        if workstream is not None:
            self._record(slug, "removed", status_word(workstream.state), None, "")

    def heal(self, findings: tuple[Finding, ...]) -> None:
        """Take in what git and the process table showed."""
        before = self.workstreams
        self.workstreams = healed(before, findings, self.now)
        for finding in findings:
            slug = finding.slug
            words = [
                status_word(known[slug].state) if slug in known else None for known in (before, self.workstreams)
            ]
            self._record(slug, _event_name(finding), words[0], words[1], "")

    def _put(self, workstream: Workstream, event: str, before: str | None, detail: str) -> None:
        self.workstreams[workstream.slug] = workstream
        self._record(workstream.slug, event, before, status_word(workstream.state), detail)

    def _record(self, slug: str, event: str, before: str | None, after: str | None, detail: str) -> None:
        self._last_number += 1
        self.entries.append(HistoryEntry(self._last_number, self.now, slug, event, before, after, detail))


def refuse_taken(slug: str, workstreams: Mapping[str, Workstream]) -> None:
    """UsageError when there is a workstream of that name, unless it was only found in git and has no text yet."""
    known = workstreams.get(slug)
    if known is not None and (known.text or known.state != Active()):
        word = status_word(known.state)
        raise UsageError(f"workstream {slug} exists and is {word}: choose another name or remove it")


def _event_name(change: Request | Finding) -> str:
    return _EVENT_NAMES[type(change)]


def _detail(request: Request) -> str:
    return str(getattr(request, "reason", "") or getattr(request, "node", "") or getattr(request, "run_id", "") or "")


class Registry:
    """The workstreams of one project."""

    def __init__(self, project_dir: Path, *, now: Callable[[], datetime] = utc_now) -> None:
        self.directory = workstreams_dir(project_dir)
        self.history_path = self.directory / "history.jsonl"
        self._registry_path = self.directory / "registry.json"
        self._now = now

    def workstreams(self) -> Mapping[str, Workstream]:
        """What is on disk now. Needs no lock: the file is replaced whole."""
        return self._load()[0]

    @contextlib.contextmanager
    def change(self) -> Iterator[Changes]:
        """Read, change and write under the lock; an exception inside leaves the disk as it was."""
        with locked(self.directory / "registry.lock"):
            workstreams, unwritten = self._load()
            self._finish_history(unwritten)
            changes = Changes(self._now(), dict(workstreams), _last_number=_last_number(self.history_path))
            yield changes
            if changes.entries:
                entries = [entry.as_json() for entry in changes.entries]
                self._save(changes.workstreams, entries)
                self._finish_history(entries)

    def reconcile(self, repository: Repository) -> tuple[Finding, ...]:
        """Make the registry agree with git and with the processes that are alive. Returns what was learnt."""
        repository.repair_moved()
        with self.change() as changes:
            findings = reconcile(
                changes.workstreams,
                repository.worktrees(),
                repository.branches(),
                _dead_owners(changes.workstreams.values()),
            )
            changes.heal(findings)
        return findings

    def history(self) -> list[dict[str, Any]]:
        """Every transition so far, oldest first; a line cut by a crash is left out until the next change."""
        try:
            lines = self.history_path.read_text().splitlines()
        except FileNotFoundError:
            return []
        return [record for line in lines if (record := _parse_line(line)) is not None]

    def _load(self) -> tuple[dict[str, Workstream], list[dict[str, Any]]]:
        """The workstreams, and the history entries of the last write, which may not have reached the history yet."""
        try:
            record = json.loads(self._registry_path.read_text())
            if record["version"] != _VERSION:
                raise UsageError(
                    f"{self._registry_path} is of version {record['version']}: this agentos reads version {_VERSION}"
                )
            workstreams = {entry["slug"]: _workstream_from(entry) for entry in record["workstreams"]}
            return workstreams, list(record["last_entries"])
        except FileNotFoundError:
            return {}, []
        except (ValueError, KeyError, TypeError) as error:
            raise UsageError(
                f"{self._registry_path} is not readable ({type(error).__name__}: {error}): move it away, "
                "worktrees are then found again through git"
            ) from error

    def _save(self, workstreams: Mapping[str, Workstream], entries: list[dict[str, Any]]) -> None:
        record = {
            "version": _VERSION,
            "workstreams": [_workstream_record(workstreams[slug]) for slug in sorted(workstreams)],
            "last_entries": entries,
        }
        write_whole(self._registry_path, json.dumps(record, indent=1))

    def _finish_history(self, entries: list[dict[str, Any]]) -> None:
        """Append the entries that are not there yet; they are, unless a crash came between the two files."""
        written = _last_number(self.history_path)
        missing = [entry for entry in entries if entry["number"] > written]
        if not missing:
            return
        with self.history_path.open("ab") as stream:
            if stream.tell() and not _ends_with_newline(self.history_path):
                stream.write(b"\n")
            stream.write(b"".join(json.dumps(entry).encode() + b"\n" for entry in missing))
            stream.flush()
            os.fsync(stream.fileno())


def _last_number(history_path: Path) -> int:
    with contextlib.suppress(FileNotFoundError), history_path.open("rb") as stream:
        size = stream.seek(0, os.SEEK_END)
        stream.seek(max(0, size - 65_536))
        for line in reversed(stream.read().splitlines()):
            record = _parse_line(line.decode("utf-8", "replace"))
            if record is not None:
                return int(record["number"])
    return 0


def _ends_with_newline(path: Path) -> bool:
    with path.open("rb") as stream:
        stream.seek(-1, os.SEEK_END)
        return stream.read() == b"\n"


def _parse_line(line: str) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) and isinstance(record.get("number"), int) else None


def _workstream_record(workstream: Workstream) -> dict[str, Any]:
    return {
        "slug": workstream.slug,
        "text": workstream.text,
        "branch": workstream.branch,
        "path": str(workstream.path) if workstream.path else None,
        "base": workstream.base,
        "state": _state_record(workstream.state),
        "created_at": stamp(workstream.created_at, "microseconds"),
        "changed_at": stamp(workstream.changed_at, "microseconds"),
        "last_event": workstream.last_event,
    }


def _workstream_from(record: Mapping[str, Any]) -> Workstream:
    return Workstream(
        slug=record["slug"],
        text=record["text"],
        branch=record["branch"],
        path=Path(record["path"]) if record["path"] else None,
        base=record["base"],
        state=_state_from(record["state"]),
        created_at=datetime.fromisoformat(record["created_at"]),
        changed_at=datetime.fromisoformat(record["changed_at"]),
        last_event=record["last_event"],
    )


def _state_record(state: State) -> dict[str, Any]:
    record: dict[str, Any] = {"status": status_word(state)}
    match state:
        case Running(run_id=run_id, owner=owner, pause_requested=pause_requested):
            owner_record = {"pid": owner.pid, "started": owner.started}
            record |= {"run_id": run_id, "owner": owner_record, "pause_requested": pause_requested}
        case Paused(node=node):
            record |= {"node": node}
        case Failed(reason=reason):
            record |= {"reason": reason}
    return record


def _state_from(record: Mapping[str, Any]) -> State:
    match record["status"]:
        case "active":
            return Active()
        case "running":
            owner = Owner(record["owner"]["pid"], record["owner"]["started"])
            return Running(record["run_id"], owner, record["pause_requested"])
        case "paused":
            return Paused(record["node"])
        case "completed":
            return Completed()
        case "failed":
            return Failed(record["reason"])
        case other:
            raise ValueError(f"unknown status {other!r}")


def this_process() -> Owner:
    """The owner to start a workstream with."""
    return Owner(os.getpid(), host.start_time(os.getpid()) or "")


def is_alive(owner: Owner) -> bool:
    """Whether the very process that took the workstream is still there."""
    try:
        os.kill(owner.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return not owner.started or host.start_time(owner.pid) in (None, owner.started)


def _dead_owners(workstreams: Iterable[Workstream]) -> set[Owner]:
    owners = {workstream.state.owner for workstream in workstreams if isinstance(workstream.state, Running)}
    return {owner for owner in owners if not is_alive(owner)}

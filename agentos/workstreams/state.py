"""The state of a workstream and how it may change: pure, the clock passed in."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Final, TypeAlias

from agentos.errors import InvalidIdentifier, UsageError
from agentos.git.worktrees import BRANCH_PREFIX, Worktree
from agentos.hints import Hint
from agentos.text import globs
from agentos.text.identifiers import sanitize_identifier
from agentos.text.suggestions import nearest

_GLOB_CHARACTERS: Final = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class Owner:
    """The process that runs a workstream. The start time tells it from a later process with the same number."""

    pid: int
    started: str


@dataclass(frozen=True, slots=True)
class Active:
    """Ready to run."""


@dataclass(frozen=True, slots=True)
class Running:
    """A run works on it."""

    run_id: str
    owner: Owner
    pause_requested: bool = False
    """It pauses at its next node; kept on disk, so the wish survives a restart."""


@dataclass(frozen=True, slots=True)
class Paused:
    """Waits for `resume`."""

    node: str | None = None
    """The node it continues with, when it was paused in a run."""


@dataclass(frozen=True, slots=True)
class Completed:
    """Done; nothing runs it again."""


@dataclass(frozen=True, slots=True)
class Failed:
    """Its last run failed."""

    reason: str


State: TypeAlias = Active | Running | Paused | Completed | Failed


@dataclass(frozen=True, slots=True)
class TakeUp:
    """A run takes it up."""

    run_id: str
    owner: Owner


@dataclass(frozen=True, slots=True)
class Pause:
    """The user wants it to stop at the next node."""


@dataclass(frozen=True, slots=True)
class ReachPause:
    """The run is at a node's end and saw the wish to pause."""

    run_id: str
    node: str


@dataclass(frozen=True, slots=True)
class Resume:
    """The user wants it to continue."""


@dataclass(frozen=True, slots=True)
class Release:
    """The run lets go of it before its end: stopped, interrupted, or dead."""

    run_id: str


@dataclass(frozen=True, slots=True)
class Complete:
    """It is done. A running one is completed by its run only."""

    run_id: str | None = None


@dataclass(frozen=True, slots=True)
class Fail:
    """Its run failed."""

    run_id: str
    reason: str


Request: TypeAlias = TakeUp | Pause | ReachPause | Resume | Release | Complete | Fail


class InvalidTransitionError(UsageError):
    """The workstream is not in a state in which this can be done."""


def status_word(state: State) -> str:
    """`active`, `running`, `paused`, `completed` or `failed`."""
    return type(state).__name__.lower()


def next_state(slug: str, state: State, request: Request) -> State:
    """The state after `request`, or InvalidTransitionError with what to do instead."""
    match state, request:
        case ((Active() | Failed()), TakeUp(run_id=run_id, owner=owner)):
            return Running(run_id, owner)
        case Running(run_id=run_id), (ReachPause() | Release() | Fail()) if request.run_id == run_id:
            return _after_run(state, request)
        case Running(run_id=run_id), Complete(run_id=by) if by == run_id:
            return Completed()
        case Running(), Pause():
            return replace(state, pause_requested=True)
        case Running(), Resume():
            return replace(state, pause_requested=False)
        case Paused(), Pause():
            return state
        case ((Active() | Failed()), Pause()):
            return Paused()
        case ((Active() | Paused() | Failed()), Resume()):
            return Active()
        case ((Active() | Paused() | Failed()), Complete(run_id=None)):
            return Completed()
    raise InvalidTransitionError(f"{slug} cannot {_wish(request)}: {_obstacle(state)}")


def _after_run(state: Running, request: ReachPause | Release | Fail) -> State:
    match request:
        case ReachPause(node=node):
            return Paused(node)
        case Release():
            return Paused() if state.pause_requested else Active()
        case Fail(reason=reason):
            return Failed(reason)


def _wish(request: Request) -> str:
    return {TakeUp: "run", ReachPause: "pause", Release: "be let go", Fail: "fail"}.get(
        type(request), type(request).__name__.lower()
    )


def _obstacle(state: State) -> str:
    match state:
        case Running(run_id=run_id):
            return f"run {run_id} works on it; wait for it, or pause it first"
        case Paused():
            return "it is paused; resume it first"
        case Completed():
            return "it is completed; make a new workstream"
        case Failed() | Active():
            return "no run works on it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Workstream:
    """A worktree, its branch and its state."""

    slug: str
    text: str
    """What the workflow works on, as given to `ws new`."""
    branch: str
    path: Path | None
    """None while its worktree is missing; its branch may still be there."""
    base: str
    state: State = field(default_factory=Active)
    created_at: datetime
    changed_at: datetime
    last_event: str = "created"


# What git shows against what the registry says.


@dataclass(frozen=True, slots=True)
class Moved:
    slug: str
    path: Path


@dataclass(frozen=True, slots=True)
class WorktreeMissing:
    """The directory was deleted; the branch is still there, so the work that was committed is too."""

    slug: str


@dataclass(frozen=True, slots=True)
class Gone:
    """Neither worktree nor branch is left."""

    slug: str


@dataclass(frozen=True, slots=True)
class Adopted:
    """Made by hand on a branch of ours."""

    slug: str
    path: Path


@dataclass(frozen=True, slots=True)
class OwnerDead:
    """The process that ran it is gone without letting go."""

    slug: str
    run_id: str


Finding: TypeAlias = Moved | WorktreeMissing | Gone | Adopted | OwnerDead


def reconcile(
    workstreams: Mapping[str, Workstream],
    worktrees: Iterable[Worktree],
    branches: Collection[str],
    dead_owners: Collection[Owner],
) -> tuple[Finding, ...]:
    """What the registry has to learn from git and from the process table. Git is right."""
    paths = {tree.slug: tree.path for tree in worktrees if tree.slug and tree.path.is_dir() and not tree.is_half_made}
    findings: list[Finding] = []
    for slug, workstream in sorted(workstreams.items()):
        if isinstance(workstream.state, Running) and workstream.state.owner in dead_owners:
            findings.append(OwnerDead(slug, workstream.state.run_id))
        if slug in paths:
            if paths[slug] != workstream.path:
                findings.append(Moved(slug, paths[slug]))
        elif workstream.branch not in branches:
            findings.append(Gone(slug))
        elif workstream.path is not None:
            findings.append(WorktreeMissing(slug))
    findings += [
        Adopted(slug, path) for slug, path in sorted(paths.items()) if slug not in workstreams and _is_safe(slug)
    ]
    return tuple(findings)


def _is_safe(slug: str) -> bool:
    try:
        sanitize_identifier(slug)
    except InvalidIdentifier:
        return False
    return True


def healed(
    workstreams: Mapping[str, Workstream], findings: Iterable[Finding], now: datetime
) -> dict[str, Workstream]:
    """The workstreams after what was found is taken in."""
    after = dict(workstreams)
    for finding in findings:
        match finding:
            case Gone(slug=slug):
                after.pop(slug, None)
            case Adopted(slug=slug, path=path):
                after[slug] = _adopt(slug, path, now)
            case Moved(slug=slug, path=path):
                after[slug] = replace(after[slug], path=path, changed_at=now, last_event=f"moved to {path}")
            case WorktreeMissing(slug=slug):
                after[slug] = replace(after[slug], path=None, changed_at=now, last_event="worktree missing")
            case OwnerDead(slug=slug, run_id=run_id):
                state = next_state(slug, after[slug].state, Release(run_id))
                after[slug] = replace(after[slug], state=state, changed_at=now, last_event=f"run {run_id} died")
    return after


def _adopt(slug: str, path: Path, now: datetime) -> Workstream:
    return Workstream(
        slug=slug,
        text="",
        branch=f"{BRANCH_PREFIX}{slug}",
        path=path,
        base="HEAD",
        created_at=now,
        changed_at=now,
        last_event="found in git",
    )


def select_slugs(patterns: Sequence[str], known: Collection[str]) -> tuple[str, ...]:
    """The workstreams named by slugs and globs, each once, in the order named; globs in alphabetical order.

    Names that match nothing are one UsageError, with what may have been meant.
    """
    for pattern in patterns:
        if not _GLOB_CHARACTERS & set(pattern):
            sanitize_identifier(pattern)
    chosen, unknown = globs.chosen(patterns, known)
    if unknown:
        raise UsageError("; ".join(_unknown(pattern, known) for pattern in unknown))
    return tuple(chosen)


def _unknown(pattern: str, known: Collection[str]) -> str:
    close = nearest(pattern, sorted(known))
    hint = f"did you mean {' or '.join(close)}?" if close else f"see `{Hint.LIST_WORKSTREAMS.line()}`"
    return f"no workstream {pattern!r}: {hint}"

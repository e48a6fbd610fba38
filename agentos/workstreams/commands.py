"""What the `ws` commands do: make, look at, change and remove the workstreams of a project. Prints nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from agentos.engine.checkpoints import store_for
from agentos.engine.checkpoints.protocol import ItemRef
from agentos.errors import UsageError
from agentos.git.command import Git, GitError
from agentos.git.provisioning import ProvidedFile, provide_files
from agentos.git.unsaved_work import UnsavedWork
from agentos.git.worktrees import (
    Repository,
    Worktree,
    branch_of,
    read_origin,
    size_on_disk,
)
from agentos.settings import Settings
from agentos.text.identifiers import sanitize_identifier
from agentos.workflows.implementation.branch import folder_of, seen_from_top
from agentos.workflows.implementation.records import record_path
from agentos.workstreams.registry import Registry, refuse_taken
from agentos.workstreams.reservations import Reservation, Reservations, check_variable
from agentos.workstreams.state import (
    Completed,
    InvalidTransitionError,
    Request,
    Running,
    Workstream,
    next_state,
    select_slugs,
)

LONGEST_TEXT: Final = 100_000
_GIT_QUESTIONS_AT_ONCE: Final = 8


@dataclass(frozen=True, slots=True)
class Made:
    """A workstream that was just made, and the configuration files it got."""

    workstream: Workstream
    provided: tuple[ProvidedFile, ...]
    reservations: tuple[Reservation, ...]
    was_there: bool
    """Its worktree was there already, made by hand or by a command that was cut short."""


@dataclass(frozen=True, slots=True)
class Overview:
    """A workstream and what git says about it. `unsaved` is None when neither worktree nor branch can be asked."""

    workstream: Workstream
    ahead: int | None = None
    behind: int | None = None
    size_bytes: int | None = None
    head: str = ""
    unsaved: UnsavedWork | None = None
    lock_reason: str | None = None
    """Why somebody locked its worktree with `git worktree lock`; None when nobody did."""


@dataclass(frozen=True, slots=True)
class Removed:
    """A workstream that is gone; `tip` brings its commits back as long as git keeps them."""

    slug: str
    branch: str
    tip: str | None
    lost: UnsavedWork | None


@dataclass(frozen=True, slots=True)
class Proposal:
    """What `cleanup` thinks of a workstream."""

    slug: str
    is_safe: bool
    reason: str


@dataclass(frozen=True, slots=True)
class ProjectWorkstreams:
    """The workstreams of one project. Git is asked first: whatever changed behind our back is known."""

    project_dir: Path
    """Where runs happen and documents are: the main checkout, also when we are called from a worktree."""
    repository: Repository
    registry: Registry
    settings: Settings

    @classmethod
    def open(cls, project_dir: Path, load_settings: Callable[[Path], Settings]) -> ProjectWorkstreams:
        """UsageError when the project is in no git checkout."""
        project_dir = _main_checkout(project_dir)
        settings = load_settings(project_dir)
        configured = settings.workstreams.dir
        worktrees_dir = (project_dir / Path(configured).expanduser()).resolve() if configured else None
        repository = Repository.open(project_dir, worktrees_dir)
        return cls(project_dir, repository, Registry(repository.project_dir), settings)

    def refreshed(self) -> Mapping[str, Workstream]:
        """All workstreams, after the registry has learnt from git and from the process table."""
        self.registry.reconcile(self.repository)
        self.end_reservations()
        return self.registry.workstreams()

    @property
    def reservations(self) -> Reservations:
        """What the workstreams of this project hold."""
        return Reservations(self.repository.project_dir)

    def end_reservations(self) -> None:
        """A reservation lasts as long as somebody can use it: not for completed ones, nor without a worktree."""
        # Reservations that cannot be read are told of where somebody asks for them; all the rest does without.
        with contextlib.suppress(UsageError):
            self.reservations.release_all_but(
                lambda: {slug for slug, each in self.registry.workstreams().items() if not _why_no_reservation(each)}
            )

    def new(self, slug: str, text: str, *, base: str = "HEAD", copy: Sequence[str] = ()) -> Made:
        """A worktree on branch `agentos/{slug}`, with its configuration files, registered as active."""
        slug = sanitize_identifier(slug)
        if not text.strip():
            raise UsageError(f"workstream {slug} needs a text: say what is to be done")
        if len(text) > LONGEST_TEXT:
            raise UsageError(f"the text of {slug} has {len(text)} characters, maximum {LONGEST_TEXT}: shorten it")
        self._reserved_variables()
        refuse_taken(slug, self.refreshed())
        wanted = self._seen_from_top((*self.settings.workstreams.copy, *copy))
        created = self.repository.create(slug, base=base, files=wanted)
        worktree, provided = created.worktree, created.provided
        linked = self._seen_from_top(self.settings.workstreams.link)
        if linked and not created.was_there:
            provided += provide_files(self.repository.project_dir, worktree.path, worktree.git(), linked, link=True)
        with self.registry.change() as changes:
            workstream = changes.add(slug, text, path=worktree.path, base=created.origin.base)
        return Made(workstream, provided, self.reserve(slug), created.was_there)

    def reserve(self, slug: str, *, ports: Sequence[str] = (), names: Sequence[str] = ()) -> tuple[Reservation, ...]:
        """Ports and names for these variables and those that the project's settings declare; held ones stay.

        UsageError when the workstream cannot hold any, or nothing is left.
        """
        ports, names = self._reserved_variables(ports, names)
        reason = _why_no_reservation(self.registry.workstreams()[slug])
        if reason and (ports or names):
            raise UsageError(f"{slug} cannot hold ports or names: {reason}")
        held = self.reservations
        return (
            *(held.port(slug, each) for each in ports),
            *(held.name(slug, each) for each in names),
        )

    def _reserved_variables(
        self, ports: Sequence[str] = (), names: Sequence[str] = ()
    ) -> tuple[Sequence[str], Sequence[str]]:
        declared = self.settings.workstreams
        ports = tuple(dict.fromkeys((*declared.ports, *ports)))
        names = tuple(dict.fromkeys((*declared.names, *names)))
        for variable in (*ports, *names):
            check_variable(variable)
        return ports, names

    def with_living_base(self, workstream: Workstream) -> Workstream:
        """With the commit it was made from as its base, if the branch or tag that it was named by is gone."""
        if workstream.path is None or self.repository.git.resolve(workstream.base) is not None:
            return workstream
        worktree = self.repository.find(workstream.slug)
        origin = read_origin(worktree) if worktree is not None else None
        return replace(workstream, base=origin.commit) if origin is not None else workstream

    def _seen_from_top(self, names: Sequence[str]) -> tuple[str, ...]:
        """Files are named as seen from the project, which may be a folder of its repository."""
        return seen_from_top(names, folder_of(self.project_dir, self.repository))

    def restore_worktree(self, workstream: Workstream) -> None:
        """Make the worktree again that somebody deleted; its branch has what was committed."""
        files = self._seen_from_top(self.settings.workstreams.copy)
        self.repository.create(workstream.slug, base=workstream.base, files=files)
        self.registry.reconcile(self.repository)

    def apply(self, slugs: Sequence[str], request: Request) -> tuple[Workstream, ...]:
        """Move all of them on, or none: InvalidTransitionError names the first that cannot."""
        with self.registry.change() as changes:
            changed = tuple(changes.apply(slug, request) for slug in slugs)
        self.end_reservations()
        return changed

    def overview(self, slugs: Sequence[str], *, with_size: bool = True) -> tuple[Overview, ...]:
        """What there is to know about each, in the order given."""
        known = self.registry.workstreams()
        worktrees = {worktree.branch: worktree for worktree in self.repository.worktrees()}

        def look(slug: str) -> Overview:
            workstream = known[slug]
            return self._look(workstream, worktrees.get(workstream.branch), with_size=with_size)

        with ThreadPoolExecutor(_GIT_QUESTIONS_AT_ONCE) as pool:
            return tuple(pool.map(look, [slug for slug in slugs if slug in known]))

    def _look(self, workstream: Workstream, worktree: Worktree | None, *, with_size: bool) -> Overview:
        try:
            unsaved = self.repository.unsaved_work(workstream.slug, worktree, base=workstream.base)
            if worktree is None or workstream.path is None:
                head = self.repository.git.resolve(workstream.branch) or ""
                return Overview(workstream, head=head, unsaved=unsaved)
            ahead, behind = self.repository.ahead_behind(worktree)
        except GitError:
            # Removed while we look, or its base has no common history: the rest is worth showing.
            return Overview(workstream)
        size = size_on_disk(workstream.path) if with_size else None
        return Overview(workstream, ahead, behind, size, worktree.head, unsaved, worktree.lock_reason)

    def remove(self, slug: str, *, force: bool = False) -> Removed:
        """Worktree, branch, checkpoints and reservations. Refused with what would be lost, unless `force`."""
        (slug,) = select_slugs([slug], known := self.registry.workstreams())
        workstream = known[slug]
        if isinstance(workstream.state, Running):
            raise InvalidTransitionError(
                f"{slug} is not removed: run {workstream.state.run_id} works on it; wait for it, or stop it first"
            )
        tip = self.repository.git.resolve(f"refs/heads/{workstream.branch}")
        lost = self.repository.remove(slug, base=workstream.base, force=force, delete_branch=True)
        with self.registry.change() as changes:
            changes.drop(slug)
        self._forget_runs(slug)
        self.end_reservations()
        return Removed(slug, workstream.branch, tip, lost)

    def _forget_runs(self, slug: str) -> None:
        """A later workstream of the same name must not continue where this one stopped, nor pass for implemented."""
        record_path(self.project_dir, slug).unlink(missing_ok=True)
        for ref in self._checkpoints(slug):
            store_for(self.project_dir).remove(ref)

    def _checkpoints(self, slug: str) -> list[ItemRef]:
        """Of every workflow, a user's own graphs too."""
        return [ref for ref in store_for(self.project_dir).items() if ref.item_id == slug]

    def proposals(self) -> tuple[Proposal, ...]:
        """Which workstreams can be removed without loss and why not the others. `refreshed` first."""
        overviews = self.overview(sorted(self.registry.workstreams()), with_size=False)
        return tuple(self._proposal(overview) for overview in overviews)

    def _proposal(self, overview: Overview) -> Proposal:
        workstream, unsaved = overview.workstream, overview.unsaved
        slug, state = workstream.slug, workstream.state
        if isinstance(state, Running):
            return Proposal(slug, False, f"run {state.run_id} works on it")
        if unsaved is None:
            return Proposal(slug, False, "git does not answer for it")
        if not unsaved.is_nothing:
            return Proposal(slug, False, unsaved.words())
        if overview.lock_reason is not None:
            return Proposal(
                slug, False, f"locked by `git worktree lock` ({overview.lock_reason or 'no reason given'})"
            )
        if self._checkpoints(slug) and not isinstance(state, Completed):
            return Proposal(slug, False, "its run is not finished")
        if self._has_own_commits(slug):
            return Proposal(slug, True, f"merged into {unsaved.into}, clean, nobody works on it")
        if isinstance(state, Completed):
            return Proposal(slug, True, "completed without commits, clean, nobody works on it")
        return Proposal(slug, False, "no work in it yet")

    def _has_own_commits(self, slug: str) -> bool:
        """A branch without commits of its own is contained in its base, and yet nothing of it is merged."""
        worktree = self.repository.find(slug)
        if worktree is None:
            return self.repository.git.resolve(f"refs/heads/{branch_of(slug)}") is not None
        origin = read_origin(worktree)
        return origin is not None and worktree.head != origin.commit


def _why_no_reservation(workstream: Workstream) -> str:
    if isinstance(workstream.state, Completed):
        return "it is completed"
    return "its worktree is missing; the next run recreates it" if workstream.path is None else ""


def _main_checkout(project_dir: Path) -> Path:
    """From inside a linked worktree, the checkout that it belongs to; everything else stays as it is."""
    try:
        answer = Git(project_dir).text(
            "rev-parse", "--path-format=absolute", "--git-dir", "--git-common-dir", "--show-prefix"
        )
    except GitError:
        return project_dir
    git_dir, common_dir, *prefix = [Path(line) for line in answer.splitlines()]
    if git_dir == common_dir or common_dir.name != ".git":
        return project_dir
    return common_dir.parent / (prefix[0] if prefix else "")


def choose_able(
    workstreams: Mapping[str, Workstream], patterns: Sequence[str], request: Request
) -> tuple[list[str], list[str]]:
    """The workstreams that can do what is requested, and why others that a glob matched are skipped.

    UsageError for a name that matches nothing and, with the reason, for a named workstream that cannot do it now.
    """
    chosen: list[str] = []
    left: list[str] = []
    for slug in select_slugs(patterns, workstreams):
        try:
            next_state(slug, workstreams[slug].state, request)
        except InvalidTransitionError as obstacle:
            if slug in patterns:
                raise
            left.append(str(obstacle))
        else:
            chosen.append(slug)
    return chosen, left

"""Which stages a run takes workstreams through, and the items that workstreams become."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from agentos.documents.approval import Intact, document_hash, verify_approval
from agentos.engine.checkpoints import store_for
from agentos.engine.checkpoints.protocol import ItemRef
from agentos.engine.plan import Item, input_hash
from agentos.errors import UsageError
from agentos.hints import Hint
from agentos.settings import Settings
from agentos.sources.item import dependency_ids
from agentos.workflows.implementation.pending import design_item, why_implemented
from agentos.workflows.pending import Reason, ReasonKind, Skipped
from agentos.workflows.pipeline.pending import from_design, from_issue
from agentos.workflows.registry import WORKFLOWS, Workflow
from agentos.workstreams.state import Workstream

DESIGN: Final = "DESIGN"
IMPLEMENTATION: Final = "IMPLEMENTATION"
STAGES: Final = (DESIGN, IMPLEMENTATION)
MODES: Final = {"execute": STAGES, "analyze": (DESIGN,)}
_WORKFLOW_OF: Final = {(DESIGN,): "lld", (IMPLEMENTATION,): "implementation", STAGES: "pipeline"}
_LONGEST_TITLE: Final = 200


@dataclass(frozen=True, slots=True)
class Route:
    """Stages in order and, if any are named, the only nodes that may start."""

    stages: tuple[str, ...]
    nodes: frozenset[str] = frozenset()

    @property
    def completes(self) -> bool:
        """Whether a workstream that comes to the end of it is done."""
        return self.stages[-1] == IMPLEMENTATION

    def workflow(self) -> Workflow:
        """UsageError when this installation has no workflow for these stages."""
        name = _WORKFLOW_OF[self.stages]
        if name not in WORKFLOWS:
            raise UsageError(
                f"this version has no {name} workflow: use --mode analyze to design, or your own graph with --graph"
            )
        return WORKFLOWS[name]


def choose_route(mode: str, steps: Sequence[str]) -> Route:
    """What `--mode` and `--steps` ask for (pure). Steps are stages, in any case, or names of nodes."""
    words = [word for step in steps for word in step.replace(",", " ").split()]
    stages = tuple(stage for stage in STAGES if stage in (word.upper() for word in words))
    nodes = frozenset(word for word in words if word.upper() not in STAGES)
    beyond = [stage for stage in stages if stage not in MODES[mode]]
    if beyond:
        raise UsageError(f"--mode {mode} has no {beyond[0]}: leave --steps out, or use --mode execute")
    return Route(stages or MODES[mode], nodes)


def issue_text(workstream: Workstream) -> str:
    """The workstream's text as an issue. A few words are enough: they become title and body."""
    text = workstream.text.strip()
    if text.startswith("# ") or text.startswith("---\n"):
        return text + "\n"
    return f"# {title_of(text)}\n\nWhat workstream {workstream.slug} is for, as its author put it:\n\n{text}\n"


def title_of(text: str) -> str:
    first_line = next((line for line in text.splitlines() if line.strip()), "")
    return " ".join(first_line.lstrip("#").split())[:_LONGEST_TITLE]


@dataclass(frozen=True, slots=True)
class Found:
    """What there is to do for some workstreams, and for which of them there is nothing."""

    items: tuple[Item, ...]
    skipped: Skipped = ()
    """Slugs, and why."""


def find_work(
    workstreams: Iterable[Workstream], route: Route, project_dir: Path, settings: Settings, *, fresh: bool = False
) -> Found:
    """The items of a route. UsageError names a workstream that lacks what the route starts from."""
    items: list[Item] = []
    skipped: list[tuple[str, Reason]] = []
    for workstream in workstreams:
        found = _Documents(workstream, project_dir, settings)
        reason = None if fresh else found.nothing_to_do(route)
        if reason:
            skipped.append((workstream.slug, reason))
        else:
            items.append(found.item(route))
    return Found(tuple(items), tuple(skipped))


class _Documents:
    """A workstream's text as an issue, and its design, if there is one of this very text."""

    def __init__(self, workstream: Workstream, project_dir: Path, settings: Settings) -> None:
        self._workstream = workstream
        self._project_dir = project_dir
        self._settings = settings
        self._issue = _issue_item(workstream)
        self._design = self._read_design()

    def nothing_to_do(self, route: Route) -> Reason | None:
        if self._design is None:
            return None
        if not route.completes:
            return Reason(ReasonKind.DESIGN_APPROVED, further="--fresh designs it again")
        where = why_implemented(self._design, self._project_dir, self._settings)
        return (
            replace(where, further=f"`{Hint.COMPLETE_WORKSTREAM.line(slug=self._workstream.slug)}` closes it")
            if where
            else None
        )

    def item(self, route: Route) -> Item:
        if route.stages == (DESIGN,):
            return self._issue
        base = {"AGENTOS_IMPLEMENTATION__BASE": self._workstream.base}
        return replace(self._starts_with(route), environment=base)

    def _starts_with(self, route: Route) -> Item:
        if route.stages == (IMPLEMENTATION,):
            if self._design is None:
                slug = self._workstream.slug
                raise UsageError(f"{slug} has no approved design: run it with --mode analyze first")
            return self._design
        # A run that was cut short continues with what it began with, even if a design was written meanwhile.
        found = store_for(self._project_dir).peek(ItemRef(route.workflow().name, self._issue.id))
        issue = from_issue(self._issue)
        began_with_issue = found is not None and found.input_hash == input_hash(issue.input)
        return issue if self._design is None or began_with_issue else from_design(self._design)

    def _read_design(self) -> Item | None:
        for folder in (self._settings.documents.lld_done_dir, self._settings.documents.lld_dir):
            path = f"{folder}/LLD-{self._issue.id}.md"
            try:
                text = (self._project_dir / path).read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError):
                continue
            found = verify_approval(text)
            if isinstance(found, Intact) and found.approval.issue_hash == self._issue.input["source_hash"]:
                return design_item(self._issue.id, text, path)
        return None


def _issue_item(workstream: Workstream) -> Item:
    if not workstream.text.strip():
        give = Hint.GIVE_TEXT.line(slug=workstream.slug)
        raise UsageError(f"{workstream.slug} has no text to work on: give it one with `{give}`")
    text = issue_text(workstream)
    return Item(
        id=workstream.slug,
        input={
            "item_id": workstream.slug,
            "title": title_of(workstream.text),
            "source_text": text,
            "source_hash": document_hash(text),
            "origin": f"workstream {workstream.slug}",
        },
        depends_on=tuple(name for name in dependency_ids(text) if name != workstream.slug),
    )


def graph_items(workstreams: Iterable[Workstream]) -> list[Item]:
    """Items for a user's own graph: its state declares these keys."""
    return [Item(id=each.slug, input=_facts(each)) for each in workstreams]


def _facts(workstream: Workstream) -> dict[str, Any]:
    return {
        "slug": workstream.slug,
        "text": workstream.text,
        "branch": workstream.branch,
        "base": workstream.base,
        "worktree": str(workstream.path),
    }

"""Which stages a run takes workstreams through, and the items that workstreams become."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from agentos.documents.approval import Intact, verify_approval
from agentos.errors import UsageError
from agentos.settings import Settings
from agentos.sources.item import dependency_ids, text_hash
from agentos.workflows.plan import Item
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


def source_items(workstreams: Iterable[Workstream]) -> list[Item]:
    """Items for workflows that begin with an issue; the slug is the issue's id."""
    return [_source_item(workstream) for workstream in workstreams]


def _source_item(workstream: Workstream) -> Item:
    if not workstream.text.strip():
        raise UsageError(
            f'{workstream.slug} has no text to work on: give it one with `agentos ws new {workstream.slug} "…"`'
        )
    text = issue_text(workstream)
    return Item(
        id=workstream.slug,
        input={
            "item_id": workstream.slug,
            "title": title_of(workstream.text),
            "source_text": text,
            "source_hash": text_hash(text),
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


def has_approved_design(item: Item, project_dir: Path, settings: Settings) -> bool:
    """Whether the design of this very text is there and approved: there is nothing left to design."""
    for folder in (settings.documents.lld_done_dir, settings.documents.lld_dir):
        try:
            text = (project_dir / folder / f"LLD-{item.id}.md").read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            continue
        found = verify_approval(text)
        if isinstance(found, Intact) and found.approval.issue_hash == item.input["source_hash"]:
            return True
    return False

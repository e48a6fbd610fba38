"""Workflows by name: which graph an item type goes through. The engine knows none of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from agentos.engine.plan import Plan
from agentos.errors import UsageError
from agentos.processes import host
from agentos.text.identifiers import sanitize_identifier

if TYPE_CHECKING:
    from agentos.launch import RunRequest


@dataclass(frozen=True, slots=True)
class Workflow:
    """A registered workflow."""

    name: str
    """The `{type}` of file names."""
    graph: str
    """`MODULE:ATTR`."""
    label_prefix: str


WORKFLOWS: dict[str, Workflow] = {
    "lld": Workflow("lld", "agentos.workflows.lld.graph:graph", "LLD-"),
    "issue": Workflow("issue", "agentos.workflows.issue.graph:graph", "ISSUE-"),
    "implementation": Workflow("implementation", "agentos.workflows.implementation.graph:graph", "IMPL-"),
    "pipeline": Workflow("pipeline", "agentos.workflows.pipeline.graph:graph", "PIPE-"),
}


def label_of(workflow: str, item_id: str) -> str:
    """What people call an item: `LLD-42`. Items of unregistered workflows go by their id."""
    return f"{WORKFLOWS[workflow].label_prefix if workflow in WORKFLOWS else ''}{item_id}"


def parse_label(text: str, default: str = "lld") -> tuple[Workflow, str]:
    """`LLD-42` as its workflow and id; a bare id is taken for the default workflow's."""
    for workflow in WORKFLOWS.values():
        prefix = workflow.label_prefix
        if text.upper().startswith(prefix) and len(text) > len(prefix):
            return workflow, sanitize_identifier(text[len(prefix) :])
    return WORKFLOWS[default], sanitize_identifier(text)


def request_for(name: str, graph: str | None, plan: Plan, project_dir: Path, parallel: int) -> RunRequest:
    """A run of a registered workflow, or of `graph` under that name. Quiet: for callers with a listener."""
    workflow = Workflow(sanitize_identifier(name), graph, "") if graph else WORKFLOWS.get(name)
    if workflow is None:
        known = ", ".join(sorted(WORKFLOWS)) or "none"
        raise UsageError(f"Unknown workflow type {name!r}. Registered: {known}; or give a graph.")
    from agentos.launch import RunRequest  # noqa: PLC0415  Names and graphs are needed without an engine.

    return RunRequest(
        plan=plan,
        workflow=workflow.name,
        graph=workflow.graph,
        project_dir=project_dir,
        search_dir=Path.cwd(),
        parallel=parallel,
        fork=host.CAN_FORK_SAFELY,
        label_prefix=workflow.label_prefix,
        is_quiet=True,
    )

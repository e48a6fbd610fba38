"""Workflows by name: which graph an item type goes through. The engine knows none of them."""

from __future__ import annotations

from dataclasses import dataclass

from agentos.errors import UsageError
from agentos.text.identifiers import sanitize_identifier


@dataclass(frozen=True, slots=True)
class Workflow:
    """A registered workflow, or a user's graph under a name."""

    name: str
    """The `{type}` of file names."""
    graph: str
    """`MODULE:ATTR`."""
    label_prefix: str = ""
    models: tuple[str, ...] = ()
    """The models it calls, as the settings name them. Empty: only the graph knows."""
    documents: tuple[str, ...] = ()
    """Where an item's document may be, the likeliest first: `id` and the `[documents]` settings in braces."""
    nodes: tuple[str, ...] = ()
    """In the order an item first meets them, by the names a run's lines have. Empty: only the graph knows."""


def _registered(name: str, prefix: str, models: tuple[str, ...], nodes: tuple[str, ...], *documents: str) -> Workflow:
    return Workflow(name, f"agentos.workflows.{name}.graph:graph", prefix, models, documents, nodes)


_DRAFTING = (
    *("N0_load", "N0b_context", "N1_design", "N2_validate"),
    *("G1_draft_gate", "N3_review", "G2_verdict_gate", "N4_finalize"),
)
_IMPLEMENTATION = (
    *("N0_load", "N1_test_plan", "N2_scaffold_tests", "N3_verify_red"),
    *("N4_implement", "N5_verify_green", "N6_report", "N7_finalize"),
)
_PIPELINE = (
    *(f"LLD.{node}" for node in _DRAFTING),
    "design_to_code",
    *(f"IMPL.{node}" for node in _IMPLEMENTATION),
)
_LLD_PLACES = ("{lld_dir}/LLD-{id}.md", "{lld_done_dir}/LLD-{id}.md")
_REPORT_PLACE = "{reports_dir}/{id}/implementation-report.md"
_WRITERS = ("drafter", "reviewer")
WORKFLOWS: dict[str, Workflow] = {
    workflow.name: workflow
    for workflow in (
        _registered("lld", "LLD-", _WRITERS, _DRAFTING, *_LLD_PLACES),
        _registered("issue", "ISSUE-", _WRITERS, (*_DRAFTING, "N5_publish"), "{issues_dir}/{id}.md"),
        _registered("implementation", "IMPL-", ("coder", "reviewer"), _IMPLEMENTATION, _REPORT_PLACE),
        _registered("pipeline", "PIPE-", ("drafter", "coder", "reviewer"), _PIPELINE, *_LLD_PLACES),
    )
}


COMMANDS: dict[str, str] = {"lld": "lld", "issue": "issue", "implementation": "implement", "pipeline": "pipeline"}
"""What `agentos` calls each workflow."""


def label_of(workflow: str, item_id: str) -> str:
    """What people call an item: `LLD-42`. Items of unregistered workflows go by their id."""
    return f"{WORKFLOWS[workflow].label_prefix if workflow in WORKFLOWS else ''}{item_id}"


def parse_label(text: str) -> tuple[Workflow, str]:
    """`LLD-42` as its workflow and id; a bare id is taken for a design's."""
    for workflow in WORKFLOWS.values():
        prefix = workflow.label_prefix
        if text.upper().startswith(prefix) and len(text) > len(prefix):
            return workflow, sanitize_identifier(text[len(prefix) :])
    return WORKFLOWS["lld"], sanitize_identifier(text)


def find_workflow(name: str, graph: str | None = None) -> Workflow:
    """A registered workflow, or `graph` under that name."""
    if graph:
        return Workflow(sanitize_identifier(name), graph)
    if name not in WORKFLOWS:
        raise UsageError(
            f"Unknown workflow type {name!r}. Registered: {', '.join(sorted(WORKFLOWS))}; or give a graph."
        )
    return WORKFLOWS[name]

"""`agentos diff`: what an item changed: the code on its branch, or its document since the version before."""

from __future__ import annotations

import argparse
import difflib
from dataclasses import dataclass
from pathlib import Path

from agentos.cli.graph_items import GraphItem, find_graph_item, is_graph_and_id
from agentos.cli.known_names import item_hint
from agentos.cli.options import project_from
from agentos.cli.pages import show_page
from agentos.cli.parsing import add_project_option
from agentos.documents.approval import without_approval
from agentos.errors import UsageError
from agentos.hints import Hint
from agentos.settings import Settings, load_settings
from agentos.text.words import one_line
from agentos.workflows.document_paths import document_paths, lineage_dir
from agentos.workflows.implementation.records import Implemented, has_branch, read_record
from agentos.workflows.item_names import find_item
from agentos.workflows.lineage import Lineage
from agentos.workflows.registry import WORKFLOWS, Workflow, label_of


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Show what an item changed. For an implementation: its branch, compared with where it started. "
        "For a document: what was edited since its last draft, or else what the last draft changed. A bare id means "
        "the implementation if there is one."
    )
    parser.add_argument("item", metavar="ITEM", help="an item, like 42, LLD-42, IMPL-42, or the path of its document")
    parser.add_argument(
        "--from", dest="start", type=int, metavar="N", help="compare with entry N of the history that `show` lists"
    )
    add_project_option(parser, "the project the item belongs to")
    parser.set_defaults(handler=run)


def run(arguments: argparse.Namespace) -> int:
    project_dir = project_from(arguments.project, Path.cwd())
    settings = load_settings(project_dir)
    if is_graph_and_id(arguments.item) and (of_graph := find_graph_item(project_dir, arguments.item)):
        raise UsageError(_no_versions(of_graph))
    workflow, item_id = find_item(arguments.item, project_dir, settings)
    implemented = read_record(project_dir, item_id) if workflow.name in ("lld", "implementation") else None
    is_bare = arguments.item.removeprefix("#") == item_id or workflow.name == "implementation"
    if implemented and is_bare and arguments.start is None:
        text = _code(project_dir, settings, implemented)
    elif workflow.name == "implementation":
        raise UsageError(f"{label_of(workflow.name, item_id)} has no branch yet.")
    else:
        text = _document(project_dir, settings, workflow, item_id, arguments)
    show_page([], text, is_markdown=False, language="diff")
    return 0


def _code(project_dir: Path, settings: Settings, implemented: Implemented) -> str:
    from agentos.workflows.implementation.branch import open_repository  # noqa: PLC0415  Knows git; documents need none.

    if not has_branch(project_dir, implemented.branch):
        raise UsageError(f"{implemented.branch} is gone: it was merged and removed, or removed by hand.")
    git = open_repository(project_dir, settings).git
    return git.text("diff", "--no-ext-diff", "--no-color", f"{implemented.base}...{implemented.branch}")


@dataclass(frozen=True, slots=True)
class _Version:
    """A document at some time."""

    name: str
    text: str


def _no_versions(item: GraphItem) -> str:
    show = Hint.SHOW_DOCUMENT.line(label=item.item_id)
    return f"{item.item_id} is an item of the graph {item.workflow}: no versions of it are kept. See: {show}"


def _document(
    project_dir: Path, settings: Settings, workflow: Workflow, item_id: str, arguments: argparse.Namespace
) -> str:
    start: int | None = arguments.start
    label = WORKFLOWS[workflow.name].label_prefix + item_id
    lineage = Lineage(lineage_dir(project_dir, settings, label))
    drafts = [_Version(entry.path.name, entry.read()) for entry in lineage.entries("draft")]
    path = next((p for p in document_paths(project_dir, settings, workflow.name, item_id) if p.is_file()), None)
    versions = list(drafts)
    if path is not None:
        written = _Version(path.name, without_approval(path.read_text(encoding="utf-8", errors="replace")))
        if not drafts or _lines(drafts[-1]) != _lines(written):
            versions.append(written)
    if start is not None:
        chosen = [_Version(e.path.name, e.read()) for e in lineage.entries() if e.number == start]
        if not chosen:
            raise UsageError(f"{label} has no entry {start} in its history.")
        versions = [chosen[0], *versions[-1:]]
    if not versions:
        if of_graph := find_graph_item(project_dir, arguments.item):
            raise UsageError(_no_versions(of_graph))
        name = one_line(arguments.item, 60)
        raise UsageError(f"{name} has no document and no draft yet.{item_hint(label, project_dir)}")
    if len(versions) == 1:
        raise UsageError(f"{label} has one version: there is nothing to compare it with.")
    return _unified(versions[-2], versions[-1])


def _lines(version: _Version) -> list[str]:
    """Without the status, which the end of a run sets."""
    lines = [line.rstrip() for line in version.text.strip().splitlines()]
    return [line for line in lines if "status:" not in line.casefold().replace("*", "")]


def _unified(before: _Version, after: _Version) -> str:
    pairs = (before.text.splitlines(keepends=True), after.text.splitlines(keepends=True))
    return "".join(
        line if line.endswith("\n") else f"{line}\n" for line in difflib.unified_diff(*pairs, before.name, after.name)
    )

"""Everything about one item of a run: what the record tells, and what lies in the project. Blocking: uses git."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agentos.dashboard.needs import action
from agentos.dashboard.payload import Surroundings, item_page
from agentos.dashboard.view import ItemView, RunView
from agentos.engine.checkpoints import store_for
from agentos.engine.checkpoints.protocol import ItemRef
from agentos.errors import AgentosError
from agentos.page.branches import branch_diff, branch_facts
from agentos.page.diffs import between
from agentos.page.documents import ItemPlace, listed, read, rounds_of, settings_of
from agentos.page.logs import log_path
from agentos.page.mask import Mask
from agentos.page.refused import Refused
from agentos.page.reviewing import approval_of, rendered, review_of
from agentos.text.words import one_line


def place_of(view: RunView, item_id: str, run_dir: Path) -> ItemPlace:
    """Where the item's documents are."""
    project_dir = Path(view.project_dir)
    return ItemPlace(project_dir, settings_of(project_dir), view.workflow, item_id, run_dir)


def item_document(records: dict[str, Any], item: ItemView, place: ItemPlace, mask: Mask, *, may_control: bool) -> Any:
    """`records` is what `item_page` made of the record."""
    documents = listed(place)
    path = log_path(place.run_dir, item.id)
    return {
        **records,
        "facts": _facts(item, place),
        "log": {"size": path.stat().st_size, "name": path.name} if path and _is_log(path) else None,
        "documents": [
            {"name": each.name, "title": one_line(each.title), "kind": each.kind, "words": one_line(each.words)}
            for each in documents
        ],
        "rounds": rounds_of(documents),
        "approval": approval_of(place),
        "review": review_of(place, mask, may_control=may_control),
        "branch": branch_facts(place),
        "test_report": next((each.name for each in documents if each.name == "report:test"), None),
        "checkpoint": _checkpoint(item, place),
    }


def item_records(view: RunView, item: ItemView, around: Surroundings) -> dict[str, Any]:
    """What the record alone tells, and what can be done about the item now."""
    return item_page(view, item, around) | {"actions": _actions(view, item, around)}


def add_usual(records: dict[str, Any], usual: Mapping[str, float]) -> None:
    """How long each of its nodes usually takes."""
    for node in records["nodes"]:
        node["usual"] = usual.get(node["node"])


def _actions(view: RunView, item: ItemView, around: Surroundings) -> list[dict[str, Any]]:
    if not around.may_control or view.is_over:
        return []
    if item.outcome is None:
        stop = [] if item.is_withdrawn else [action("stop", "Stop this item")]
        start = (
            [action("retry", "Start it after all", primary=True)] if item.is_withdrawn and not item.is_running else []
        )
        return [*start, *stop, action("skip", "Skip")]
    can_retry = item.outcome.is_unfinished and not item.outcome.needs_person
    return [action("retry", "Retry", primary=True)] if can_retry else []


def _facts(item: ItemView, place: ItemPlace) -> list[dict[str, str]]:
    facts = {
        "Project": str(place.project_dir),
        "Workflow": place.workflow,
        "Error": item.error_type,
        "Reason": item.reason,
    }
    return [{"name": name, "text": one_line(text, longest=2000)} for name, text in facts.items() if text]


def _is_log(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def _checkpoint(item: ItemView, place: ItemPlace) -> str:
    """What another attempt would continue from; empty where there is none."""
    if item.outcome is not None and item.outcome.is_done:
        return ""
    try:
        standing = store_for(place.project_dir).peek(ItemRef(place.workflow, item.id))
    except (AgentosError, OSError):
        return ""
    if standing is None:
        return ""
    after = standing.resumes_after
    return f"continues after {one_line(after, longest=80)}" if after else "starts over"


def document_page(place: ItemPlace, name: str, mask: Mask) -> dict[str, Any]:
    document = read(place, name)
    if document is None:
        raise Refused(404, "There is no such document any more.", "Open the item again.")
    head = {"name": document.name, "title": one_line(document.title), "kind": document.kind}
    body = rendered(document.text, mask)
    return head | (body if document.is_markdown else body | {"html": None})


def document_diff(place: ItemPlace, before: str, after: str, mask: Mask) -> dict[str, Any]:
    first, second = read(place, before), read(place, after)
    if first is None or second is None:
        raise Refused(404, "One of the two documents is not there any more.", "Open the item again.")
    files, is_cut = between(mask.text(first.text), mask.text(second.text), second.title)
    title = f"{one_line(first.title)} to {one_line(second.title)}"
    return {"title": title, "from": before, "to": after, "files": files, "is_cut": is_cut}


def branch_page(place: ItemPlace, mask: Mask) -> dict[str, Any]:
    try:
        found = branch_diff(place)
    except AgentosError as error:
        raise Refused(404, "Git cannot show the branch.", one_line(str(error))) from None
    if found is None:
        raise Refused(404, "This item has no branch.")
    record, files, is_cut = found
    for file in files:
        file["path"] = mask.text(one_line(file["path"]))
        for hunk in file["hunks"]:
            # After its numbers, git repeats a line of the file.
            hunk["header"] = mask.text(one_line(hunk["header"]))
            hunk["lines"] = [[mark, mask.text(text)] for mark, text in hunk["lines"]]
    names = {"title": one_line(record.branch), "from": one_line(record.base), "to": one_line(record.branch)}
    return {**names, "files": files, "is_cut": is_cut}

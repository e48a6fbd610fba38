"""Items of users' own graphs, as far as records and checkpoints know them: they have no document of ours."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentos.engine.checkpoints import store_for
from agentos.engine.checkpoints.protocol import ItemRef, Standing
from agentos.engine.documents import written_by
from agentos.errors import UsageError
from agentos.records.results import read_results
from agentos.reporters.last_run import LastRun, last_runs
from agentos.workflows.registry import WORKFLOWS


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphItem:
    """An item that some graph of the user's own was run over."""

    workflow: str
    """The graph's name, as records have it."""
    item_id: str
    standing: Standing | None
    """What its checkpoint says, while there is one."""
    last: LastRun | None
    documents: tuple[Path, ...]
    """What its nodes wrote, as far as it is still there."""

    @property
    def result(self) -> dict[str, Any]:
        """What its graph came to in its last run, as far as that was kept."""
        kept = read_results(self.last.run_dir) if self.last else iter(())
        return next((each for each in kept if each.get("id") == self.item_id), {})

    @property
    def result_text(self) -> str:
        """The state at its end; empty for an item that did not come that far."""
        state = self.result.get("state")
        return "" if state is None else json.dumps(state, indent=1, ensure_ascii=False)


def is_graph_and_id(name: str) -> bool:
    """Whether it is written `GRAPH/ID`, and no file goes by that name."""
    return "/" in name and not Path(name).suffix and not Path(name).is_file()


def find_graph_item(project_dir: Path, name: str) -> GraphItem | None:
    """By its id, or by graph and id (`steps/a1`) where several graphs have one."""
    workflow, _, item_id = name.rpartition("/")
    runs = last_runs(project_dir, lambda each: _is_own(each, workflow), [item_id])
    last = runs.get(item_id)
    refs = [r for r in store_for(project_dir).items() if r.item_id == item_id and _is_own(r.workflow, workflow)]
    if last is None and not refs:
        return None
    ref = ItemRef(last.summary.workflow, item_id) if last else refs[0]
    return GraphItem(
        workflow=ref.workflow,
        item_id=item_id,
        standing=store_for(project_dir).peek(ref),
        last=last,
        documents=tuple(written_by(project_dir, item_id)),
    )


def _is_own(workflow: str, wanted: str) -> bool:
    return workflow not in WORKFLOWS and wanted in ("", workflow)


def only_document(item: GraphItem) -> Path:
    """What the item wrote. Raises UsageError when it is none or several."""
    if not item.documents:
        raise UsageError(f"{item.item_id} is an item of the graph {item.workflow}, and has written no document.")
    if len(item.documents) > 1:
        names = ", ".join(map(str, item.documents))
        raise UsageError(f"{item.item_id} is an item of the graph {item.workflow}. Its documents: {names}")
    return item.documents[0]

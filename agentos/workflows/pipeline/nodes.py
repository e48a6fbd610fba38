"""The pipeline's own node: what stands between its two stages."""

from __future__ import annotations

from agentos.workflows.context import Context
from agentos.workflows.pipeline.state import PipelineState


def hand_over(state: PipelineState, context: Context) -> dict[str, str]:
    """The approved design, as it was written down, becomes what code is written from."""
    path = f"{context.settings.documents.lld_dir}/LLD-{state['item_id']}.md"
    return {"lld_text": state["document"], "lld_path": path, "outcome": "", "reason": ""}

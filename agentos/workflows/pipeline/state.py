"""The state of an item on its whole way: a design's, then its code's."""

from __future__ import annotations

from agentos.workflows.drafting.state import DraftingState
from agentos.workflows.implementation.state import ImplementationState


# The two agree on the type of what they share: id, title, outcome, reason.
class PipelineState(DraftingState, ImplementationState, total=False):
    pass

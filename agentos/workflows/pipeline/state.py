"""The state of an item on its whole way: what its two stages are given, and how the last of them ended."""

from __future__ import annotations

from agentos.workflows.drafting.state import DraftingInput
from agentos.workflows.implementation.state import ImplementationInput


class PipelineInput(DraftingInput, ImplementationInput):
    """With the text of an approved design an item starts with its code; the issue's texts are then empty."""


class PipelineState(PipelineInput, total=False):
    document: str
    """The design that the first stage ended with."""
    outcome: str
    """The item's, at the end."""
    reason: str

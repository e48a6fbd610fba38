"""What a graph's own LangChain models say of their use: tokens, and how many pieces they streamed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from langchain_core.callbacks import BaseCallbackHandler


class ModelUsage(BaseCallbackHandler):
    """Counts what models report. Streamed text is counted, and shown only to who asks for it."""

    run_inline = True

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.calls = 0
        self.input_tokens = 0
        self.output_tokens = 0
        self.chunks = 0
        self.on_token: Callable[[str], None] | None = None

    def on_llm_new_token(self, token: Any, **_context: Any) -> None:
        with self._lock:
            self.chunks += 1
        if self.on_token is not None and isinstance(token, str):
            self.on_token(token)

    def on_llm_end(self, response: Any, **_context: Any) -> None:
        with self._lock:
            self.calls += 1
            for generation in (each for batch in response.generations for each in batch):
                usage = getattr(getattr(generation, "message", None), "usage_metadata", None) or {}
                self.input_tokens += int(usage.get("input_tokens") or 0)
                self.output_tokens += int(usage.get("output_tokens") or 0)

    def document(self) -> dict[str, int]:
        """For records; empty when no model was called."""
        if not self.calls:
            return {}
        names = ("calls", "input_tokens", "output_tokens", "chunks")
        return {name: getattr(self, name) for name in names}

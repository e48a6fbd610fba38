"""The promised place of OutputPrefixer; it lives in `agentos.text.output_prefixer`."""

from __future__ import annotations

from agentos.text.output_prefixer import OutputPrefixer

__all__ = ["OutputPrefixer"]

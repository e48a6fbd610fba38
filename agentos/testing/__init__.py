"""A provider on this machine that answers like Gemini, OpenAI and Anthropic, and misbehaves as it is told.

For tests of graphs and programs that call models: see docs/howto/calling-models.md.
"""

from agentos.testing.faults import faults
from agentos.testing.provider_formats import Seen
from agentos.testing.provider_server import Config, Key, LimitRule, Move, ProviderServer, Step

__all__ = ["Config", "Key", "LimitRule", "Move", "ProviderServer", "Seen", "Step", "faults"]

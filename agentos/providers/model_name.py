"""Names of models as users write them: `provider:model`, or one of the few that need no provider."""

from __future__ import annotations

from dataclasses import dataclass

from agentos.errors import UsageError
from agentos.providers.registry import providers
from agentos.text.suggestions import did_you_mean

KEYLESS = ("offline", "recorded")
"""Models that answer without a provider: no key, no network, no price."""
CODING_CLI = "cli"
"""A coding CLI in the place of a provider: it has a login instead of keys."""
CODING_CLIS = {"claude": "npm install -g @anthropic-ai/claude-code"}
"""Programs that `cli:PROGRAM` can call, each with what installs it."""


class ModelNameError(UsageError):
    """A model name that no provider answers to."""


@dataclass(frozen=True, slots=True)
class ModelName:
    """`provider:model`."""

    provider: str
    model: str

    @classmethod
    def parse(cls, text: str) -> ModelName:
        """Read a name as the user wrote it; `offline` and `recorded` need no model part."""
        provider, _, model = text.partition(":")
        known = (*providers(), CODING_CLI, *KEYLESS)
        if provider not in known:
            raise ModelNameError(
                f"Unknown model '{text}': write provider:model, with one of the providers {', '.join(known)}."
                + did_you_mean(provider, known)
            )
        if not model and provider not in KEYLESS:
            raise ModelNameError(f"Model '{text}' names no model: write {provider}:<model>.")
        program = model.partition(":")[0]
        if provider == CODING_CLI and program not in CODING_CLIS:
            forms = [f"cli:{each} or cli:{each}:<model>" for each in CODING_CLIS]
            raise ModelNameError(f"Unknown coding CLI '{program}': use {', '.join(forms)}.")
        return cls(provider, model)

    @property
    def program(self) -> str:
        """Of a coding CLI: what is started."""
        return self.model.partition(":")[0]

    def __str__(self) -> str:
        return f"{self.provider}:{self.model}" if self.model else self.provider

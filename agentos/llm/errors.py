"""How a model call can fail in a way that a user can act on. No message ever holds a key."""

from __future__ import annotations

import shutil
from importlib.util import find_spec

from agentos.distribution import install_line
from agentos.errors import AgentosError, UsageError
from agentos.providers.model_name import CODING_CLIS
from agentos.providers.registry import providers


class ProviderUnavailableError(AgentosError):
    """The provider stayed overloaded or out of reach for as long as it was reasonable to try."""


class ModelRequestError(AgentosError):
    """The provider refuses this request whichever key sends it; sending it again would not help."""


class ModelNotServedError(ModelRequestError):
    """No key's account is served this: most often a model that is not there. Another model may do."""


class InvalidOutputError(AgentosError):
    """The answer did not fit the output type, not even after the model was told why."""


class RecordingMissingError(AgentosError):
    """Nothing was recorded for this call."""


def require_sdk(provider: str) -> None:
    """Raises UsageError when the provider's packages are not installed. Loads none of them."""
    module = providers()[provider].sdk_module
    try:
        is_there = not module or find_spec(module) is not None
    except ModuleNotFoundError:  # Not even the package around it.
        is_there = False
    if not is_there:
        raise missing_sdk(provider)


def require_cli(program: str, search_path: str | None) -> None:
    """Raises UsageError when a coding CLI is not installed where these folders, as in PATH, say."""
    if shutil.which(program, path=search_path) is None:
        raise UsageError(
            f"The coding CLI {program} is not on PATH: install it ({CODING_CLIS[program]}), or choose another model."
        )


def missing_sdk(provider: str) -> UsageError:
    """A provider whose optional packages are not installed."""
    return UsageError(f"The SDK for {provider} is not installed: {install_line(providers()[provider].extra)}")

"""What a model call takes and gives. Data only: importing this loads no SDK."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from agentos.llm.conversation import Message, ToolCall
from agentos.llm.options import Options
from agentos.providers.evidence import Evidence, Usage
from agentos.providers.model_name import ModelName

OutputT = TypeVar("OutputT")


DEFAULT_TIMEOUT_SECONDS = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One call of `generate`, with every default filled in."""

    model: ModelName
    messages: tuple[Message, ...]
    system: str | None = None
    output_type: Any = None
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
    """For one attempt at the provider. Waiting for a key does not count."""
    max_output_tokens: int | None = None
    options: Options = field(default_factory=Options)
    has_fallback: bool = False
    """Another model is asked if this one cannot be: no long wait for it."""
    task: str | None = None
    """What the caller is doing, for the offline model; real providers ignore it."""
    data: Mapping[str, Any] = field(default_factory=dict)
    """Facts an offline answer may use; real providers ignore them."""

    @property
    def prompt(self) -> str:
        """The last thing the user said."""
        return next((message.content for message in reversed(self.messages) if message.role == "user"), "")

    @property
    def text(self) -> str:
        """Everything that is sent as input."""
        return "\n".join([self.system or "", *(message.content for message in self.messages)])


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """One answer of a model, not yet checked against an output type."""

    text: str
    structured: str | None = None
    """The structured answer as JSON, when the model gave one."""
    usage: Usage = field(default_factory=Usage)
    model: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    provider_state: str = field(default="", repr=False)
    """What the provider wants to see again in the conversation, see `Message`."""
    is_truncated: bool = False
    """The model stopped because it ran out of output tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempted:
    """What one attempt at a provider showed: an answer, or evidence why there is none."""

    evidence: Evidence
    completion: Completion | None = None
    timed_out: bool = False
    has_begun: bool = False
    """A part of the answer was handed on before it failed: it cannot be asked for again."""
    detail: str = ""
    """What the provider said about a failure, in its own words. For people only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply(Generic[OutputT]):
    """What `generate` returns."""

    text: str
    output: OutputT
    """The validated value when an output type was asked for, else None."""
    usage: Usage
    """Of all attempts that were answered, a re-ask included."""
    model: str
    """The model that answered, as the caller named it: `provider:model`."""
    tool_calls: tuple[ToolCall, ...] = ()
    """What the model wants to have called, if tools were given; then send back `message` and the results."""
    message: Message = field(default_factory=lambda: Message("assistant"))
    """The reply as the next turn of the conversation."""
    is_truncated: bool = False

    @property
    def cost_usd(self) -> float | None:
        """None when the model's price is not known."""
        return self.usage.cost_usd


def add_usage(first: Usage, second: Usage) -> Usage:
    """The sum; its cost is unknown as soon as one of the two is."""
    cost_usd = None
    if first.cost_usd is not None and second.cost_usd is not None:
        cost_usd = first.cost_usd + second.cost_usd
    return Usage(
        input_tokens=first.input_tokens + second.input_tokens,
        output_tokens=first.output_tokens + second.output_tokens,
        cost_usd=cost_usd,
    )

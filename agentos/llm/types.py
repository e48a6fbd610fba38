"""What a model call takes and gives. Data only: importing this loads no SDK."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

from agentos.errors import UsageError
from agentos.providers.evidence import Evidence, Usage
from agentos.providers.model_name import ModelName

OutputT = TypeVar("OutputT")
Role = Literal["user", "assistant"]


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation."""

    role: Role
    content: str


Prompt = str | Sequence[Message | Mapping[str, str]]

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
    is_truncated: bool = False
    """The model stopped because it ran out of output tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempted:
    """What one attempt at a provider showed: an answer, or evidence why there is none."""

    evidence: Evidence
    completion: Completion | None = None
    timed_out: bool = False
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
    """The model as the caller named it: `provider:model`."""
    is_truncated: bool = False

    @property
    def cost_usd(self) -> float | None:
        """None when the model's price is not known."""
        return self.usage.cost_usd


def read_prompt(prompt: Prompt, system: str | None) -> tuple[tuple[Message, ...], str | None]:
    """The conversation and the system text; system messages of a list join the system text."""
    if isinstance(prompt, str):
        return (Message("user", prompt),), system
    messages: list[Message] = []
    instructions = [system] if system else []
    for entry in prompt:
        turn = {"role": entry.role, "content": entry.content} if isinstance(entry, Message) else entry
        if turn["role"] == "system":
            instructions.append(turn["content"])
        else:
            messages.append(Message(_role(turn["role"]), turn["content"]))
    return tuple(messages), "\n\n".join(instructions) or None


def _role(text: str) -> Role:
    if text == "user":
        return "user"
    if text == "assistant":
        return "assistant"
    raise UsageError(f"A message has the role '{text}': use user, assistant or system.")


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

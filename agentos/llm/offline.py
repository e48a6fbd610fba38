"""The built-in model `offline`: no network, no key, and the same answer for the same request every time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from agentos.llm import pricing, settings
from agentos.llm.cancellation import Cancellation
from agentos.llm.conversation import Tool, ToolCall
from agentos.llm.schema_example import example_value
from agentos.llm.types import Completion, Request
from agentos.providers.evidence import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class OfflineRequest:
    """What an offline answer may depend on."""

    prompt: str
    system: str | None = None
    task: str | None = None
    data: Mapping[str, Any] = field(default_factory=dict)
    output_type: Any = None
    tools: tuple[Tool, ...] = ()


OfflineFunction = Callable[[OfflineRequest], Any]
"""Returns text, or for a request with an output type a value that fits it. With tools it may return a ToolCall."""

_functions: dict[str, OfflineFunction] = {}


def register_offline(task_name: str, function: OfflineFunction) -> None:
    """Answer requests with `task=task_name` by `function`. A later registration replaces an earlier one."""
    _functions[task_name] = function


def answer(request: Request, cancellation: Cancellation) -> Completion:
    """The offline answer, after the configured latency."""
    cancellation.wait(settings.offline_latency_seconds())
    function = _functions.get(request.task or "", _plain_answer)
    value = function(
        OfflineRequest(
            prompt=request.prompt,
            system=request.system,
            task=request.task,
            data=request.data,
            output_type=request.output_type,
            tools=request.options.tools,
        )
    )
    if called := _forced_tool(request):
        value = ToolCall(
            id="offline-1", name=called.name, arguments=example_value(called.parameters, text=str(value))
        )
    if isinstance(value, ToolCall):
        return replace(_completion(request, "", None), tool_calls=(value,))
    if request.output_type is None:
        return _completion(request, str(value), None)
    from agentos.llm.structured import OutputSchema  # noqa: PLC0415 - loads pydantic, which plain text does not need

    structured = OutputSchema(request.output_type).encode(value)
    return _completion(request, structured, structured)


def _forced_tool(request: Request) -> Tool | None:
    """The tool that the caller insists on, unless a tool has answered already."""
    choice, tools = request.options.tool_choice, request.options.tools
    if choice in (None, "auto", "none") or request.messages[-1].role == "tool":
        return None
    return next((tool for tool in tools if choice in ("required", tool.name)), None)


def _plain_answer(request: OfflineRequest) -> Any:
    """Recognisable and stable: which request it answers shows in a digest and its first words."""
    import hashlib  # noqa: PLC0415 - loads OpenSSL

    first_line = next((line.strip() for line in request.prompt.splitlines() if line.strip()), "")
    digest = hashlib.sha256(f"{request.system or ''}\0{request.prompt}".encode()).hexdigest()[:8]
    text = f"Offline answer {digest}: {first_line[:80]}"
    if request.output_type is None:
        return text
    from agentos.llm.structured import OutputSchema  # noqa: PLC0415 - loads pydantic, which plain text does not need

    return example_value(OutputSchema(request.output_type).inner_schema, text=text)


def _completion(request: Request, text: str, structured: str | None) -> Completion:
    usage = Usage(
        input_tokens=pricing.estimate_tokens(request.text), output_tokens=pricing.estimate_tokens(text), cost_usd=0.0
    )
    return Completion(text=text, structured=structured, usage=usage, model=str(request.model))

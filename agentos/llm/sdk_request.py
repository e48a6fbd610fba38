"""A request in the words of the SDK machinery, and what a model does not take of it. Loads it; sends nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from pydantic_ai import ModelRequest, ModelResponse, TextPart, ToolCallPart, ToolReturnPart, UserPromptPart
from pydantic_ai.messages import (
    BinaryContent,
    ImageUrl,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequestPart,
    ModelResponsePart,
    ThinkingPart,
    UserContent,
)
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from agentos.llm.conversation import Message, Tool
from agentos.llm.options import Options
from agentos.llm.structured import OUTPUT_TOOL_NAME, OutputSchema
from agentos.llm.types import Request
from agentos.providers.model_name import ModelName

_SETTING_OF: Final = {"temperature": "temperature", "seed": "seed", "stop": "stop_sequences"}
"""Our options, by the names that SDK machinery has for them."""


def unsupported(model: Model, request: Request) -> dict[str, str]:
    """Options that the machinery would leave out for this model, with a warning or none, and why."""
    profile: dict[str, Any] = dict(model.profile)
    options = request.options
    ignored = {*model.unsupported_settings, *profile.get("openai_unsupported_model_settings", ())}
    found = dict.fromkeys((name for name, setting in _SETTING_OF.items() if setting in ignored), "")
    if profile.get("anthropic_disallows_sampling_settings") or _reasons(profile, options):
        found["temperature"] = "it reasons, and takes none then"
    if not profile.get("supports_thinking", False):
        found["reasoning_effort"] = "it does not reason, as far as is known"
    elif profile.get("thinking_always_enabled") and options.reasoning_effort == "none":
        found["reasoning_effort"] = "it always reasons"
    if not profile.get("supports_json_schema_output", False):
        found["native_output"] = "it has no structured output of its own"
    if not profile.get("supports_tools", True):
        found |= dict.fromkeys(("tools", "tool_choice"), "it calls no tools")
    if options.tool_choice not in (None, "auto", "none") and not profile.get("supports_forced_tool_choice", True):
        found["tool_choice"] = "it cannot be made to call a tool"
    return found


def takes_images(model: Model) -> bool:
    return bool(dict(model.profile).get("supports_image_input", True))


def _reasons(profile: dict[str, Any], options: Options) -> bool:
    """Whether an OpenAI model reasons in this call, which excludes sampling."""
    if not profile.get("openai_supports_reasoning"):
        return False
    if not profile.get("openai_supports_reasoning_effort_none"):
        return True
    if options.reasoning_effort is None:
        return bool(profile.get("thinking_enabled_by_default"))
    return options.reasoning_effort != "none"


def to_model_messages(messages: Sequence[Message], system: str | None, name: ModelName) -> list[ModelMessage]:
    """The conversation; what user and tools say in a row is one request."""
    names = {call.id: call.name for message in messages for call in message.tool_calls}
    found: list[ModelMessage] = []
    for message in messages:
        if message.role == "assistant":
            found.append(_response(message, name))
            continue
        part = _request_part(message, names)
        last = found[-1] if found else None
        if isinstance(last, ModelRequest):
            last.parts = [*last.parts, part]
        else:
            found.append(ModelRequest(parts=[part], instructions=system))
    return found


def _request_part(message: Message, tool_names: dict[str, str]) -> ModelRequestPart:
    if message.role == "tool":
        return ToolReturnPart(
            tool_name=tool_names[message.tool_call_id],
            content=message.content,
            tool_call_id=message.tool_call_id,
        )
    if not message.images:
        return UserPromptPart(content=message.content)
    images: list[UserContent] = [
        ImageUrl(url=image.url) if image.url else BinaryContent(data=image.data, media_type=image.media_type)
        for image in message.images
    ]
    return UserPromptPart(content=[*([message.content] if message.content else []), *images])


def _response(message: Message, name: ModelName) -> ModelResponse:
    """An earlier answer: as its provider gave it, if it is asked again; else what everybody understands of it."""
    provider, newline, state = message.provider_state.partition("\n")
    if newline and provider == name.provider:
        (kept,) = ModelMessagesTypeAdapter.validate_json(state)
        assert isinstance(kept, ModelResponse)
        return kept
    parts: list[ModelResponsePart] = [TextPart(content=message.content)] if message.content else []
    parts += [
        ToolCallPart(tool_name=call.name, args=dict(call.arguments), tool_call_id=call.id)
        for call in message.tool_calls
    ]
    return ModelResponse(parts=parts)


def state_of(response: ModelResponse, name: ModelName) -> str:
    """What to send back with this answer in the next turn; empty if its text is all there is to it."""
    if all(isinstance(part, TextPart) for part in response.parts):
        return ""
    kept = ModelResponse(
        parts=[part for part in response.parts if isinstance(part, TextPart | ToolCallPart | ThinkingPart)],
        model_name=response.model_name,
        provider_name=response.provider_name,
        provider_details=response.provider_details,
    )
    return f"{name.provider}\n{ModelMessagesTypeAdapter.dump_json([kept]).decode()}"


def model_settings(request: Request) -> ModelSettings:
    options = request.options
    # From 2.68 on, the machinery puts words of its own before the system prompt of some models unless told not to.
    settings = ModelSettings(max_retries=0, timeout=request.timeout_seconds, framing_announcement="never")
    if request.max_output_tokens is not None:
        settings["max_tokens"] = request.max_output_tokens
    if options.temperature is not None:
        settings["temperature"] = options.temperature
    if options.seed is not None:
        settings["seed"] = options.seed
    if options.stop:
        settings["stop_sequences"] = list(options.stop)
    if options.reasoning_effort is not None:
        settings["thinking"] = False if options.reasoning_effort == "none" else options.reasoning_effort
    match options.tool_choice:
        case None:
            pass
        case "auto" | "required" | "none" as choice:
            settings["tool_choice"] = choice
        case name:
            settings["tool_choice"] = [name]
    return settings


def parameters(options: Options, schema: OutputSchema | None) -> ModelRequestParameters:
    if schema is None:
        return ModelRequestParameters(function_tools=[_definition(tool) for tool in options.tools])
    if options.native_output:
        definition = OutputObjectDefinition(json_schema=dict(schema.json_schema), name=schema.name)
        return ModelRequestParameters(output_mode="native", output_object=definition)
    tool = ToolDefinition(
        name=OUTPUT_TOOL_NAME,
        description="Give the final answer in this structure.",
        parameters_json_schema=dict(schema.json_schema),
        kind="output",
    )
    return ModelRequestParameters(output_mode="tool", output_tools=[tool], allow_text_output=False)


def _definition(tool: Tool) -> ToolDefinition:
    return ToolDefinition(
        name=tool.name, description=tool.description or None, parameters_json_schema=dict(tool.parameters)
    )

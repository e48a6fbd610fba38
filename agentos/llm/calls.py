"""`generate`: from a prompt to a checked reply, whichever model answers."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, Unpack, overload

from agentos.llm import offline, recorded, settings
from agentos.llm.attempts import complete
from agentos.llm.cancellation import Cancellation, tracked
from agentos.llm.context import CallPlace, next_call_place
from agentos.llm.errors import InvalidOutputError, missing_sdk
from agentos.llm.types import (
    DEFAULT_TIMEOUT_SECONDS,
    Completion,
    Message,
    Prompt,
    Reply,
    Request,
    add_usage,
    read_prompt,
)
from agentos.providers.evidence import Usage
from agentos.providers.model_name import ModelName, ModelNameError
from agentos.providers.registry import providers

if TYPE_CHECKING:
    from agentos.llm.structured import OutputSchema

OutputT = TypeVar("OutputT")

Ask = Callable[[tuple[Message, ...]], Completion]
"""Gets one answer to a conversation."""


class CallOptions(TypedDict, total=False):
    """What `generate` and `agenerate` take beside the prompt and the output type."""

    model: str | None
    system: str | None
    timeout_seconds: float
    max_output_tokens: int | None
    task: str | None
    data: Mapping[str, Any] | None


@overload
def generate(prompt: Prompt, *, output_type: type[OutputT], **options: Unpack[CallOptions]) -> Reply[OutputT]: ...


@overload
def generate(prompt: Prompt, *, output_type: None = None, **options: Unpack[CallOptions]) -> Reply[None]: ...


def generate(prompt: Prompt, *, output_type: Any = None, **options: Unpack[CallOptions]) -> Reply[Any]:
    """Ask a model and return its reply.

    `prompt` is text or a list of messages (`{"role", "content"}`); `model` is `provider:model`, by default
    `AGENTOS_MODEL`. With `output_type` (a pydantic model, dataclass or TypedDict) `reply.output` is a valid value of
    it: an answer that does not fit is sent back once with the reason, then InvalidOutputError is raised.
    `timeout_seconds` bounds one attempt at the provider; waiting for a key does not count. `task` and `data` serve
    the offline model only.

    Raises AgentosError kinds only: NoUsableKeyError, QuotaGoneError, BudgetReachedError, ProviderUnavailableError,
    ModelRequestError, InvalidOutputError, CallCancelledError.
    """
    request = _request(prompt, output_type, **options)
    with tracked(Cancellation()) as cancellation:
        return _reply(request, next_call_place(), cancellation)


@overload
async def agenerate(
    prompt: Prompt, *, output_type: type[OutputT], **options: Unpack[CallOptions]
) -> Reply[OutputT]: ...


@overload
async def agenerate(prompt: Prompt, *, output_type: None = None, **options: Unpack[CallOptions]) -> Reply[None]: ...


async def agenerate(prompt: Prompt, *, output_type: Any = None, **options: Unpack[CallOptions]) -> Reply[Any]:
    """`generate` for async code. Cancelling the task cancels the call; its key goes back at once."""
    from agentos.llm.in_thread import run_in_thread  # noqa: PLC0415 - loads asyncio

    request = _request(prompt, output_type, **options)
    place = next_call_place()
    with tracked(Cancellation()) as cancellation:
        try:
            return await run_in_thread(lambda: _reply(request, place, cancellation))
        except BaseException:
            cancellation.request()
            raise


def _request(
    prompt: Prompt,
    output_type: Any,
    *,
    model: str | None = None,
    system: str | None = None,
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
    max_output_tokens: int | None = None,
    task: str | None = None,
    data: Mapping[str, Any] | None = None,
) -> Request:
    name = model or settings.default_model()
    if not name:
        raise ModelNameError("No model is chosen: pass model='provider:model' or set AGENTOS_MODEL.")
    settings.declare_for(name.partition(":")[0])
    messages, instructions = read_prompt(prompt, system)
    return Request(
        model=ModelName.parse(name),
        messages=messages,
        system=instructions,
        output_type=output_type,
        timeout_seconds=timeout_seconds,
        max_output_tokens=max_output_tokens,
        task=task,
        data=data or {},
    )


def _reply(request: Request, place: CallPlace, cancellation: Cancellation) -> Reply[Any]:
    if request.output_type is None:
        completion = _asker(request, place, None, cancellation)(request.messages)
        _record(request, place, completion)
        return _to_reply(request, completion, None)
    return _structured_reply(request, place, cancellation)


def _structured_reply(request: Request, place: CallPlace, cancellation: Cancellation) -> Reply[Any]:
    """A valid output, or one re-ask and then an error."""
    from agentos.llm.structured import OutputMismatch, OutputSchema, reask  # noqa: PLC0415 - loads pydantic

    schema = OutputSchema(request.output_type)
    ask = _asker(request, place, schema, cancellation)
    messages, spent = request.messages, Usage(cost_usd=0.0)
    mismatch: OutputMismatch | None = None
    for _ in range(2):
        completion = ask(messages)
        spent = add_usage(spent, completion.usage)
        try:
            output = schema.parse(completion)
        except OutputMismatch as error:
            mismatch = error
            messages = (*messages, *reask(error, completion))
            continue
        completion = replace(completion, usage=spent)
        _record(request, place, completion)
        return _to_reply(request, completion, output)
    reasons = "; ".join(str(mismatch).splitlines())
    raise InvalidOutputError(f"{request.model} gave no valid {schema.name} in two attempts: {reasons}")


def _asker(request: Request, place: CallPlace, schema: OutputSchema | None, cancellation: Cancellation) -> Ask:
    """How this request's model is asked."""
    match request.model.provider:
        case "offline":
            return lambda messages: offline.answer(replace(request, messages=messages), cancellation)
        case "recorded":
            return lambda messages: recorded.replay(request, place, cancellation)
        case "cli":
            from agentos.llm.cli_provider import send_to_cli  # noqa: PLC0415 - needed by few

            return lambda messages: complete(
                request, lambda lease: send_to_cli(request, messages, schema, lease, cancellation), cancellation
            )
        case _:
            send = sdk(request.model.provider).send
            return lambda messages: complete(
                request, lambda lease: send(request, messages, schema, lease, cancellation), cancellation
            )


def sdk(provider: str) -> ModuleType:
    """The module that talks to providers. Imported on first use: it loads the SDK machinery."""
    try:
        return import_module("agentos.llm.sdk")
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("agentos"):
            raise
        raise missing_sdk(provider) from None


def _record(request: Request, place: CallPlace, completion: Completion) -> None:
    directory = settings.record_dir()
    if directory is not None and request.model.provider != "recorded":
        recorded.save(directory, place, request, completion)


def _to_reply(request: Request, completion: Completion, output: Any) -> Reply[Any]:
    return Reply(
        text=completion.text or completion.structured or "",
        output=output,
        usage=completion.usage,
        model=str(request.model),
        is_truncated=completion.is_truncated,
    )


def preload(names: Sequence[str] | None = None) -> None:
    """Import what calls to these providers need (default: all), in a process that will be forked."""
    wanted = [name for name in providers() if names is None or name in names]
    if wanted:
        sdk(wanted[0]).preload(wanted)


def close() -> None:
    """Close the connections this process keeps for its next calls, if it made any."""
    sdk = sys.modules.get("agentos.llm.sdk")
    if sdk is not None:
        sdk.close()

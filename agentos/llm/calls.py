"""`generate`: from a prompt to a checked reply, whichever model answers."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, Unpack, overload

from agentos.errors import NoOtherKeyError, NoUsableKeyError, QuotaGoneError
from agentos.llm import offline, recorded, settings
from agentos.llm.attempts import complete
from agentos.llm.cancellation import Cancellation, tracked
from agentos.llm.context import CallPlace, next_call_place
from agentos.llm.conversation import Message, Prompt, read_prompt
from agentos.llm.errors import (
    InvalidOutputError,
    ModelNotServedError,
    ProviderUnavailableError,
    missing_sdk,
)
from agentos.llm.options import Effort, OnText, read_options, refuse_unsupported
from agentos.llm.types import DEFAULT_TIMEOUT_SECONDS, Completion, Reply, Request, add_usage
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
    tools: Sequence[Any]
    tool_choice: str | None
    temperature: float | None
    seed: int | None
    stop: str | Sequence[str] | None
    reasoning_effort: Effort | None
    native_output: bool
    on_text: OnText | None
    fallback: Sequence[str]
    task: str | None
    data: Mapping[str, Any] | None


_ELSEWHERE = (NoOtherKeyError, NoUsableKeyError, QuotaGoneError, ProviderUnavailableError, ModelNotServedError)
"""What another model may do better. A request that is refused for what it says is refused there too."""


@overload
def generate(prompt: Prompt, *, output_type: type[OutputT], **options: Unpack[CallOptions]) -> Reply[OutputT]: ...


@overload
def generate(prompt: Prompt, *, output_type: None = None, **options: Unpack[CallOptions]) -> Reply[None]: ...


def generate(prompt: Prompt, *, output_type: Any = None, **options: Unpack[CallOptions]) -> Reply[Any]:
    """Ask a model and return its reply.

    `prompt` is text or a list of messages (`{"role", "content"}`); `model` is `provider:model`, by default
    `AGENTOS_MODEL`. With `output_type` (a pydantic model, dataclass or TypedDict) `reply.output` is a valid value of
    it: an answer that does not fit is sent back once with the reason, then InvalidOutputError is raised.
    `timeout_seconds` bounds one attempt at the provider; waiting for a key does not count. `fallback` names models
    that are asked, in order, when one has no usable key, stays out of reach or does not exist. `on_text` is called
    with each piece of the answer as it comes. What a model does not take is an error before anything is sent.
    `task` and `data` serve the offline model only.

    Raises AgentosError kinds only: NoUsableKeyError, QuotaGoneError, BudgetReachedError, ProviderUnavailableError,
    ModelRequestError, InvalidOutputError, CallCancelledError.
    """
    return prepared(prompt, output_type, **options)(Cancellation())


@overload
async def agenerate(
    prompt: Prompt, *, output_type: type[OutputT], **options: Unpack[CallOptions]
) -> Reply[OutputT]: ...


@overload
async def agenerate(prompt: Prompt, *, output_type: None = None, **options: Unpack[CallOptions]) -> Reply[None]: ...


async def agenerate(prompt: Prompt, *, output_type: Any = None, **options: Unpack[CallOptions]) -> Reply[Any]:
    """`generate` for async code. Cancelling the task cancels the call; its key goes back at once."""
    from agentos.llm.in_thread import run_in_thread  # noqa: PLC0415 - loads asyncio

    ask, cancellation = prepared(prompt, output_type, **options), Cancellation()
    try:
        return await run_in_thread(lambda: ask(cancellation))
    except BaseException:
        cancellation.request()
        raise


def prepared(
    prompt: Prompt, output_type: Any, **options: Unpack[CallOptions]
) -> Callable[[Cancellation], Reply[Any]]:
    """The call, checked and with its place in the order of calls, to be made when it suits, in any thread."""
    requests, place = _requests(prompt, output_type, **options), next_call_place()

    def ask(cancellation: Cancellation) -> Reply[Any]:
        with tracked(cancellation):
            return _first_reply(requests, place, cancellation)

    return ask


def _requests(
    prompt: Prompt,
    output_type: Any,
    *,
    model: str | None = None,
    system: str | None = None,
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
    max_output_tokens: int | None = None,
    fallback: Sequence[str] = (),
    task: str | None = None,
    data: Mapping[str, Any] | None = None,
    **options: Any,
) -> list[Request]:
    """The request to the model and to each of those that may answer in its place."""
    chosen = model or settings.default_model()
    if not chosen:
        raise ModelNameError("No model is chosen: pass model='provider:model' or set AGENTOS_MODEL.")
    messages, instructions = read_prompt(prompt, system)
    checked_options = read_options(has_output_type=output_type is not None, **options)
    names = [chosen, *([fallback] if isinstance(fallback, str) else fallback)]
    return [
        Request(
            model=_model_name(name),
            messages=messages,
            system=instructions,
            output_type=output_type,
            timeout_seconds=timeout_seconds,
            max_output_tokens=max_output_tokens,
            options=checked_options,
            has_fallback=number < len(names),
            task=task,
            data=data or {},
        )
        for number, name in enumerate(names, start=1)
    ]


def _model_name(name: str) -> ModelName:
    settings.declare_for(name.partition(":")[0])
    return ModelName.parse(name)


def _check_supported(request: Request) -> None:
    """Raises UnsupportedOptionError before anything is sent, and before a key is asked for."""
    match request.model.provider:
        case "offline" | "recorded":
            return
        case "cli":
            from agentos.llm.cli_provider import UNSUPPORTED, check_messages  # noqa: PLC0415 - needed by few

            refuse_unsupported(str(request.model), UNSUPPORTED, request.options)
            check_messages(request)
        case _:
            sdk(request.model.provider).check_supported(request)


def _first_reply(requests: Sequence[Request], place: CallPlace, cancellation: Cancellation) -> Reply[Any]:
    """Of the first model that can be asked."""
    for request in requests:
        _check_supported(request)
    *others, last = requests
    for request in others:
        try:
            return _reply(request, place, cancellation)
        except _ELSEWHERE:
            continue
    return _reply(last, place, cancellation)


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
            return lambda messages: _told(request, offline.answer(replace(request, messages=messages), cancellation))
        case "recorded":
            return lambda messages: _told(request, recorded.replay(request, place, cancellation))
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


def _told(request: Request, completion: Completion) -> Completion:
    """An answer that is whole from the start is one piece."""
    if request.options.on_text is not None and completion.text:
        request.options.on_text(completion.text)
    return completion


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
    text = completion.text or completion.structured or ""
    message = Message("assistant", text, tool_calls=completion.tool_calls, provider_state=completion.provider_state)
    return Reply(
        text=text,
        output=output,
        usage=completion.usage,
        model=str(request.model),
        tool_calls=completion.tool_calls,
        message=message,
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

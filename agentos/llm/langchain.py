"""`ChatAgentos`: the pool as a LangChain chat model, for graphs and chains that are written with one.

    from agentos.llm.langchain import ChatAgentos

    model = ChatAgentos(model="google:gemini-2.5-flash", fallback=["openai:gpt-4.1-mini"])
    model.bind_tools([search]).invoke("Who wrote Momo?")

Keys, pacing, retries and the budget are those of `agentos.llm.generate`, in a worker of a run and outside of one.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import LanguageModelInput
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.messages.ai import UsageMetadata
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import model_validator

from agentos.errors import UsageError
from agentos.llm.calls import CallOptions, agenerate, generate
from agentos.llm.conversation import Message, ToolCall
from agentos.llm.options import Effort
from agentos.llm.streams import astream, stream
from agentos.llm.types import DEFAULT_TIMEOUT_SECONDS, Reply
from agentos.text.suggestions import did_you_mean

_STATE = "agentos_provider_state"
"""Where a message keeps what its provider wants to see again."""
_CALL_OPTIONS = frozenset(CallOptions.__annotations__) - {"on_text", "system", "task", "data"}


class ChatAgentos(BaseChatModel):
    """A LangChain chat model over AgentOS's keys. Its fields are the options of `agentos.llm.generate`."""

    model: str | None = None
    """`provider:model`; None is `AGENTOS_MODEL`."""
    fallback: Sequence[str] = ()
    """Models that are asked in order when one has no usable key or stays out of reach."""
    temperature: float | None = None
    seed: int | None = None
    max_output_tokens: int | None = None
    reasoning_effort: Effort | None = None
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
    stop_sequences: Sequence[str] = ()

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown(cls, given: dict[str, Any]) -> dict[str, Any]:
        """Raises UsageError: LangChain's models drop what they do not know in silence."""
        known = {*cls.model_fields, *(field.alias for field in cls.model_fields.values() if field.alias)}
        for name in given:
            if name not in known:
                own = [each for each in cls.__annotations__ if each in known]
                hint = did_you_mean(name, own, f"It takes {', '.join(own)}.")
                raise UsageError(f"ChatAgentos does not take {name!r}.{hint}")
        return given

    @property
    def _llm_type(self) -> str:
        return "agentos"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"model": self.model, "fallback": list(self.fallback), "temperature": self.temperature}

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | Any],
        *,
        tool_choice: str | bool | Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """The model with tools that it may call; `tool_choice` is auto, any, none or a tool's name."""
        choice = {} if tool_choice in (None, False) else {"tool_choice": _tool_choice(tool_choice)}
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools], **choice, **kwargs)

    def with_structured_output(
        self, schema: dict[str, Any] | type, *, include_raw: bool = False, **kwargs: Any
    ) -> Runnable[LanguageModelInput, Any]:
        """Answers as values of the schema, by a tool that must be called."""
        if kwargs.pop("method", None) not in (None, "function_calling") or kwargs:
            raise UsageError(
                "ChatAgentos makes structured output by calling a tool and takes no other method; for the provider's "
                "own, use agentos.llm.generate(…, output_type=…, native_output=True)."
            )
        return super().with_structured_output(schema, include_raw=include_raw)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return _result(generate(_conversation(messages), **self._options(stop, kwargs)))

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return _result(await agenerate(_conversation(messages), **self._options(stop, kwargs)))

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        pieces = stream(_conversation(messages), **self._options(stop, kwargs))
        for piece in pieces:
            chunk = ChatGenerationChunk(message=AIMessageChunk(content=piece))
            if run_manager is not None:
                run_manager.on_llm_new_token(piece, chunk=chunk)
            yield chunk
        yield _last_chunk(pieces.reply)

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        pieces = astream(_conversation(messages), **self._options(stop, kwargs))
        async for piece in pieces:
            chunk = ChatGenerationChunk(message=AIMessageChunk(content=piece))
            if run_manager is not None:
                await run_manager.on_llm_new_token(piece, chunk=chunk)
            yield chunk
        yield _last_chunk(pieces.reply)

    def _options(self, stop: list[str] | None, given: Mapping[str, Any]) -> CallOptions:
        """Raises UsageError for what `generate` does not take: nothing is dropped in silence."""
        unknown = [name for name in given if name not in _CALL_OPTIONS]
        if unknown:
            raise UsageError(
                f"ChatAgentos does not take {unknown[0]!r}: it takes {', '.join(sorted(_CALL_OPTIONS))}."
            )
        options: CallOptions = {
            "model": self.model,
            "fallback": self.fallback,
            "temperature": self.temperature,
            "seed": self.seed,
            "max_output_tokens": self.max_output_tokens,
            "reasoning_effort": self.reasoning_effort,
            "timeout_seconds": self.timeout_seconds,
            "stop": stop or self.stop_sequences,
        }
        return {**options, **given}  # type: ignore[typeddict-item]  # Its names are checked above.


def _tool_choice(choice: str | bool | Mapping[str, Any]) -> str:
    match choice:
        case True | "any":
            return "required"
        case {"function": {"name": str(name)}} | {"name": str(name)}:
            return name
        case _:
            return str(choice)


def _conversation(messages: Sequence[BaseMessage]) -> list[Message | Mapping[str, Any]]:
    return [_message(message) for message in messages]


def _message(message: BaseMessage) -> Message | Mapping[str, Any]:
    match message:
        case SystemMessage():
            return {"role": "system", "content": message.content}
        case HumanMessage():
            return {"role": "user", "content": message.content}
        case ToolMessage():
            return Message("tool", str(message.text), tool_call_id=message.tool_call_id)
        case AIMessage():
            calls = [
                ToolCall(id=call["id"] or "", name=call["name"], arguments=call["args"])
                for call in message.tool_calls
            ]
            state = str(message.additional_kwargs.get(_STATE, ""))
            return Message("assistant", str(message.text), tool_calls=tuple(calls), provider_state=state)
        case ChatMessage():
            return {"role": message.role, "content": message.content}
        case _:
            raise UsageError(f"ChatAgentos takes no {type(message).__name__}.")


def _result(reply: Reply[None]) -> ChatResult:
    message = AIMessage(
        content=reply.text,
        tool_calls=[{"id": call.id, "name": call.name, "args": dict(call.arguments)} for call in reply.tool_calls],
        additional_kwargs=_state(reply),
        usage_metadata=_usage(reply),
        response_metadata=_metadata(reply),
    )
    return ChatResult(generations=[ChatGeneration(message=message)])


def _last_chunk(reply: Reply[None]) -> ChatGenerationChunk:
    """What is known only when the answer is whole."""
    message = AIMessageChunk(
        content="",
        tool_call_chunks=[
            tool_call_chunk(id=call.id, name=call.name, args=_json(call.arguments), index=index)
            for index, call in enumerate(reply.tool_calls)
        ],
        additional_kwargs=_state(reply),
        usage_metadata=_usage(reply),
        response_metadata=_metadata(reply),
        chunk_position="last",
    )
    return ChatGenerationChunk(message=message)


def _json(arguments: Mapping[str, Any]) -> str:
    return json.dumps(dict(arguments))


def _state(reply: Reply[None]) -> dict[str, Any]:
    state = reply.message.provider_state
    return {_STATE: state} if state else {}


def _usage(reply: Reply[None]) -> UsageMetadata:
    into, out = reply.usage.input_tokens, reply.usage.output_tokens
    return UsageMetadata(input_tokens=into, output_tokens=out, total_tokens=into + out)


def _metadata(reply: Reply[None]) -> dict[str, Any]:
    """The model that answered may be a fallback; the price is None where it is not known."""
    why = "length" if reply.is_truncated else "tool_calls" if reply.tool_calls else "stop"
    return {"model_name": reply.model, "finish_reason": why, "cost_usd": reply.cost_usd}

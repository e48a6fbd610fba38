"""Structured answers: the schema a model is shown and the check of what it sends back."""

from __future__ import annotations

import re
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError

from agentos.errors import UsageError
from agentos.llm.conversation import Message
from agentos.llm.types import Completion

OUTPUT_TOOL_NAME = "final_result"
_WRAPPED_FIELD = "result"
_FENCED = re.compile(r"```(?:json)?\s*\n(.*?)\n?```", re.DOTALL)


class OutputMismatch(Exception):
    """An answer that does not fit; the text says why, in words for the model."""


class OutputSchema:
    """An output type as JSON schema. Providers want an object on top: anything else travels in a field of one."""

    def __init__(self, output_type: Any) -> None:
        self.name = getattr(output_type, "__name__", "output")
        try:
            self._adapter: TypeAdapter[Any] = TypeAdapter(output_type)
            schema = self._adapter.json_schema()
        except PydanticUserError as error:
            raise UsageError(f"{self.name} cannot be an output type: {error.message}") from None
        self._is_wrapped = schema.get("type") != "object"
        self.json_schema = _wrapped(schema) if self._is_wrapped else schema

    def parse(self, completion: Completion) -> Any:
        """The validated value of an answer, or OutputMismatch."""
        source = completion.structured or _json_in(completion.text)
        if completion.is_truncated and completion.structured is None:
            raise OutputMismatch("the answer was cut off before its end: give a shorter one")
        try:
            if self._is_wrapped:
                return _unwrap(self._adapter, source)
            return self._adapter.validate_json(source)
        except ValidationError as error:
            raise OutputMismatch(_reasons(error)) from None

    def encode(self, value: Any) -> str:
        """A value, of the output type or plain data, as the JSON a model would send for it."""
        return _to_json({_WRAPPED_FIELD: value} if self._is_wrapped else value).decode()

    @property
    def inner_schema(self) -> dict[str, Any]:
        """The schema of the type itself, without the wrapper."""
        return self._adapter.json_schema()


def reask(mismatch: OutputMismatch, completion: Completion) -> tuple[Message, Message]:
    """The two turns that tell a model what was wrong with its answer. Plain text: every provider takes it."""
    answered = completion.structured or completion.text or "(no answer)"
    correction = (
        f"Your answer does not fit the required structure:\n{mismatch}\n"
        "Answer again with the complete, corrected structure and nothing else."
    )
    return Message("assistant", answered), Message("user", correction)


def _wrapped(schema: dict[str, Any]) -> dict[str, Any]:
    definitions = schema.pop("$defs", None)
    wrapper: dict[str, Any] = {
        "type": "object",
        "properties": {_WRAPPED_FIELD: schema},
        "required": [_WRAPPED_FIELD],
        "additionalProperties": False,
    }
    if definitions:
        wrapper["$defs"] = definitions
    return wrapper


def _unwrap(adapter: TypeAdapter[Any], source: str) -> Any:
    """Validate the wrapper's field; a model that left the wrapper out is understood too."""
    value = TypeAdapter(Any).validate_json(source)
    if isinstance(value, dict) and value.keys() == {_WRAPPED_FIELD}:
        value = value[_WRAPPED_FIELD]
    return adapter.validate_json(_to_json(value))


def _to_json(value: Any) -> bytes:
    return TypeAdapter(Any).dump_json(value)


def _json_in(text: str) -> str:
    """The JSON of a text answer: inside a fence if there is one."""
    fenced = _FENCED.search(text)
    return fenced.group(1) if fenced else text


def _reasons(error: ValidationError) -> str:
    lines = []
    for problem in error.errors(include_url=False, include_input=False):
        place = ".".join(str(part) for part in problem["loc"]) or "(whole answer)"
        lines.append(f"- {place}: {problem['msg']}")
    return "\n".join(lines)

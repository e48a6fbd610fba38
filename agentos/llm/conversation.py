"""What is said to a model and by it: messages with images, the tools it may call, and its calls. Data only."""

from __future__ import annotations

import base64
import json
import mimetypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from agentos.errors import UsageError

Role = Literal["user", "assistant", "tool"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """A picture in a user's message: its bytes, or where the provider finds it."""

    data: bytes = field(default=b"", repr=False)
    media_type: str = ""
    url: str = ""

    @classmethod
    def from_file(cls, path: Path | str) -> Image:
        """The kind of picture is taken from the file's name."""
        media_type = mimetypes.guess_type(str(path))[0] or ""
        if not media_type.startswith("image/"):
            raise UsageError(f"{path} has no image extension: use .png, .jpg, .gif or .webp.")
        return cls(data=Path(path).read_bytes(), media_type=media_type)

    @classmethod
    def from_url(cls, url: str) -> Image:
        """A web address, or a picture in a `data:` URL."""
        head, comma, packed = url.partition(",")
        if not url.startswith("data:"):
            return cls(url=url)
        if not comma or not head.endswith(";base64"):
            raise UsageError("An image has a data URL that is not base64: write data:image/png;base64,…")
        return cls(data=base64.b64decode(packed), media_type=head.removeprefix("data:").removesuffix(";base64"))

    def to_document(self) -> dict[str, Any]:
        """What a recording keeps of it."""
        return {"url": self.url} if self.url else {"media_type": self.media_type, "bytes": len(self.data)}


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that the model may ask for. Who calls `generate` runs it and sends back what it returned."""

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = field(default_factory=lambda: {"type": "object", "properties": {}})
    """A JSON schema of an object."""

    @classmethod
    def from_function(cls, function: Callable[..., Any]) -> Tool:
        """By its name, docstring and the types of its parameters."""
        import inspect  # noqa: PLC0415 - slow to import, and few need it

        from pydantic import create_model  # noqa: PLC0415 - loads pydantic

        parameters = inspect.signature(function, eval_str=True).parameters.values()
        fields: dict[str, Any] = {
            each.name: (
                Any if each.annotation is each.empty else each.annotation,
                ... if each.default is each.empty else each.default,
            )
            for each in parameters
        }
        schema = create_model(function.__name__, **fields).model_json_schema()
        return cls(function.__name__, inspect.getdoc(function) or "", schema)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """The model's wish to have a tool called."""

    id: str
    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation."""

    role: Role
    content: str = ""
    images: tuple[Image, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    """Of an assistant's turn."""
    tool_call_id: str = ""
    """Of a tool's turn: the call that it answers."""
    provider_state: str = field(default="", repr=False)
    """Of an assistant's turn: what its provider wants to see again, such as signed thoughts. Kept as it came."""

    def to_document(self) -> dict[str, Any]:
        """What a recording keeps of it."""
        document: dict[str, Any] = {"role": self.role, "content": self.content}
        if self.images:
            document["images"] = [image.to_document() for image in self.images]
        if self.tool_calls:
            document["tool_calls"] = [{"id": c.id, "name": c.name, "arguments": c.arguments} for c in self.tool_calls]
        if self.tool_call_id:
            document["tool_call_id"] = self.tool_call_id
        return document


Prompt = str | Sequence[Message | Mapping[str, Any]]


def read_prompt(prompt: Prompt, system: str | None) -> tuple[tuple[Message, ...], str | None]:
    """The conversation and the system text; system messages of a list join the system text."""
    if isinstance(prompt, str):
        return (Message("user", prompt),), system
    messages: list[Message] = []
    instructions = [system] if system else []
    for entry in prompt:
        if isinstance(entry, Message):
            messages.append(entry)
        elif entry.get("role") in ("system", "developer"):
            instructions.append(_text_and_images(entry.get("content"))[0])
        else:
            messages.append(_message(entry))
    _check_answers(messages)
    return tuple(messages), "\n\n".join(instructions) or None


def _message(turn: Mapping[str, Any]) -> Message:
    """A turn in the form that OpenAI's API has made common."""
    role = turn.get("role")
    if role not in ("user", "assistant", "tool"):
        raise UsageError(f"A message has the role '{role}': use user, assistant, tool or system.")
    text, images = _text_and_images(turn.get("content"))
    calls = tuple(_tool_call(call) for call in turn.get("tool_calls") or ())
    return Message(role, text, images, calls, str(turn.get("tool_call_id") or ""))


def _text_and_images(content: Any) -> tuple[str, tuple[Image, ...]]:
    if content is None or isinstance(content, str):
        return content or "", ()
    texts: list[str] = []
    images: list[Image] = []
    for part in content:
        match part:
            case str():
                texts.append(part)
            case Image():
                images.append(part)
            case {"type": "text", "text": str(text)}:
                texts.append(text)
            case {"type": "image_url", "image_url": {"url": str(url)}} | {"type": "image_url", "image_url": str(url)}:
                images.append(Image.from_url(url))
            case {"type": "image", "base64": str(packed), "mime_type": str(media_type)}:
                images.append(Image(data=base64.b64decode(packed), media_type=media_type))
            case {"type": "image", "url": str(url)}:
                images.append(Image.from_url(url))
            case _:
                kind = part.get("type") if isinstance(part, Mapping) else type(part).__name__
                raise UsageError(f"A message has a part of the kind '{kind}': use text and images.")
    return "\n".join(texts), tuple(images)


def _tool_call(call: ToolCall | Mapping[str, Any]) -> ToolCall:
    if isinstance(call, ToolCall):
        return call
    function = call.get("function", call)
    arguments = function.get("arguments", function.get("args", {}))
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments or "{}")
        except ValueError:
            raise UsageError(f"The arguments of the tool call {function.get('name')!r} are not JSON.") from None
    return ToolCall(id=str(call.get("id") or ""), name=str(function.get("name")), arguments=arguments)


def _check_answers(messages: Sequence[Message]) -> None:
    """Every provider refuses an answer to a call that nobody made."""
    asked: set[str] = set()
    for message in messages:
        asked |= {call.id for call in message.tool_calls}
        if message.role == "tool" and message.tool_call_id not in asked:
            raise UsageError(
                f"A tool message answers the call {message.tool_call_id!r}, which no message before it makes: "
                "keep the assistant's message (reply.message) in the conversation."
            )

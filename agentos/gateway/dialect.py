"""What the gateway knows of one provider protocol: the record that a file of this package fills in. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Headers = list[tuple[str, str]]
"""In order, names in lower case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """What a reply says it used; None for what it does not say."""

    input_tokens: int | None = None
    output_tokens: int | None = None

    def updated(self, later: Tokens) -> Tokens:
        """Streams repeat and complete their counts: the latest word stands."""
        return Tokens(
            input_tokens=self.input_tokens if later.input_tokens is None else later.input_tokens,
            output_tokens=self.output_tokens if later.output_tokens is None else later.output_tokens,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One kind of request of a protocol."""

    model: str = ""
    """The model it names, if it names one."""
    counted_as: str = ""
    """What its limits are counted by, if not by the model."""
    writes: bool = False
    """A model writes something: it costs by its length, which can be bounded."""
    is_answer: bool = False
    """What it writes is an answer of the usual form: it can be checked for being a whole one."""
    model_in_path: bool = False
    streams_list: bool = False
    """Its answer is streamed, as one list in JSON if not as events."""
    ends_stream: Callable[[object], bool] | None = None
    """Where its streams end otherwise than the provider's answers do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    name: str
    """Of the provider whose protocol it is."""
    base_url: str
    """Where that provider answers."""
    find: Callable[[str, str, Mapping[str, str], Mapping[str, Any]], Endpoint | None]
    """(method, path, headers, body) to what is asked; None if this protocol has no such request."""
    upstream_path: Callable[[str], str]
    """The path as it follows the base URL."""
    token: Callable[[Mapping[str, str], Mapping[str, str]], str]
    """(headers, query) to what the client gave in the place of a key; empty if nothing."""
    with_key: Callable[[Headers, str], Headers]
    """The headers with this key, and without what the client had there."""
    most_output_tokens: Callable[[Mapping[str, Any]], int | None]
    """The bound that the request sets for its answer."""
    bounded: Callable[[Mapping[str, Any], str, int], dict[str, Any]]
    """(body, path, tokens) to the body with that bound."""
    usage: Callable[[Mapping[str, Any]], Tokens]
    """What a body, or an event of a stream, says of its use."""
    text: Callable[[Mapping[str, Any]], str]
    """The answer's words in an event of a stream: counted where the stream does not."""
    error: Callable[[int, str], dict[str, Any]]
    """(status, message) to an error as this protocol has them."""


def named_model(body: Mapping[str, Any]) -> str:
    """Empty if it names none."""
    model = body.get("model")
    return model if isinstance(model, str) else ""


def whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def mappings(value: object) -> list[Mapping[str, Any]]:
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []


def bearer(headers: Mapping[str, str]) -> str:
    kind, _, value = headers.get("authorization", "").partition(" ")
    return value.strip() if kind.lower() == "bearer" else ""


def without(headers: Headers, *names: str) -> Headers:
    return [(name, value) for name, value in headers if name not in names]


def sent_text(body: Mapping[str, Any]) -> str:
    """Everything in a request that becomes input tokens by its length: not pictures and files in base 64."""
    found: list[str] = []
    waiting: list[Any] = [body]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str) and not value.startswith("data:"):
            found.append(value)
        elif isinstance(value, Mapping):
            waiting += [part for name, part in value.items() if name not in ("data", "file_data")]
        elif isinstance(value, list):
            waiting += value
    return "\n".join(found)


def encoded(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()

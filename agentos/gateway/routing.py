"""From a request to the provider, protocol and model it means, as far as this gateway's policy allows it. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, unquote_plus, urlsplit

from agentos.errors import UsageError
from agentos.gateway import anthropic, google, openai
from agentos.gateway.dialect import Dialect, Endpoint, Headers, encoded
from agentos.providers.registry import providers

DIALECTS = {module.DIALECT.name: module.DIALECT for module in (anthropic, openai, google)}
_ON_THIS_MACHINE = ("127.0.0.1", "localhost", "[::1]")


@dataclass(frozen=True, slots=True)
class Received:
    """A request as it came."""

    method: str
    target: str
    headers: Headers
    body: bytes = b""

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def query(self) -> list[tuple[str, str]]:
        return parse_qsl(urlsplit(self.target).query, keep_blank_values=True)

    @property
    def by_name(self) -> dict[str, str]:
        return dict(self.headers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Which models clients may call, and which they get for which."""

    allowed: tuple[str, ...] = ()
    """Patterns of `provider:model`; none allows all."""
    mapped: Mapping[str, str] = field(default_factory=dict)
    """What a client asks for, as `model` or `provider:model`, to the `provider:model` it gets."""

    def target(self, provider: str, model: str) -> str:
        """The model of this provider to call. Raises UsageError when it is not allowed."""
        wanted = f"{provider}:{model}"
        given = self.mapped.get(wanted, self.mapped.get(model, wanted))
        kind, _, name = given.partition(":")
        if kind != provider:
            raise UsageError(f"{wanted} is mapped to {given}, which speaks another protocol.")
        if self.allowed and not any(fnmatchcase(given, pattern) for pattern in self.allowed):
            raise UsageError(f"{given} is not among the models this gateway allows: {', '.join(self.allowed)}.")
        return name


def read_policy(allowed: Sequence[str], mapped: Sequence[str]) -> Policy:
    """From the options of a command: patterns, and `ASKED=PROVIDER:MODEL`. Raises UsageError."""
    pairs: dict[str, str] = {}
    for entry in mapped:
        asked, equals, given = entry.partition("=")
        if not equals or not asked or given.partition(":")[0] not in providers() or not given.partition(":")[2]:
            raise UsageError(f"--map {entry}: write ASKED=PROVIDER:MODEL, such as gpt-4o=openai:gpt-5.1.")
        pairs[asked] = given
    for pattern in allowed:
        if ":" not in pattern:
            raise UsageError(f"--allow {pattern}: write PROVIDER:MODEL, such as 'openai:gpt-5*'.")
    return Policy(allowed=tuple(allowed), mapped=pairs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A request that may be made with a key."""

    provider: str
    dialect: Dialect
    endpoint: Endpoint
    path: str
    """As the protocol has it, with the model that is called."""
    query: str
    body: bytes
    document: Mapping[str, Any]

    def bounded(self, tokens: int) -> Call:
        """With a bound on its answer, unless it has one."""
        if not self.endpoint.writes or self.dialect.most_output_tokens(self.document) is not None:
            return self
        document = self.dialect.bounded(self.document, self.path, tokens)
        return replace(self, document=document, body=encoded(document))


def is_foreign(received: Received) -> bool:
    """Whether a request names another machine, as its host or before its path: a page in a browser may lead here."""
    host, target = received.by_name.get("host", ""), received.target
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
    return name.lower() not in _ON_THIS_MACHINE or not target.startswith("/") or target.startswith("//")


def dialect_of(received: Received) -> tuple[str, Dialect, str]:
    """Provider, protocol and path. A provider's name may come first: `/groq/v1/chat/completions`."""
    first, slash, rest = received.path.removeprefix("/").partition("/")
    if slash and first in providers():
        dialect = DIALECTS.get(first, openai.COMPATIBLE)
        return first, dialect, f"/{rest}"
    found = next((d for d in DIALECTS.values() if d.find(received.method, received.path, received.by_name, {})), None)
    dialect = found or _by_headers(received.by_name)
    return dialect.name, dialect, received.path


def _by_headers(headers: Mapping[str, str]) -> Dialect:
    """In whose words to say that there is no such request."""
    if "anthropic-version" in headers:
        return anthropic.DIALECT
    return google.DIALECT if "x-goog-api-key" in headers else openai.DIALECT


def token_of(received: Received, dialect: Dialect) -> str:
    return dialect.token(received.by_name, dict(received.query))


def read_call(received: Received, policy: Policy) -> Call:
    """What is asked for. Raises LookupError if nobody answers that, UsageError if it is not allowed."""
    provider, dialect, path = dialect_of(received)
    _refuse_other_protocols(provider)
    _refuse_ways_out(received.path)
    if received.by_name.get("content-encoding", "identity") != "identity":
        raise UsageError("The gateway has to read which model is called: send the request uncompressed.")
    document = _document(received.body, is_unambiguous=bool(policy.allowed))
    endpoint = dialect.find(received.method, path, received.by_name, document)
    if endpoint is None:
        raise LookupError(f"{received.method} {path}")
    if not endpoint.model and not endpoint.counted_as:
        raise UsageError("The request names no model.")
    call = Call(
        provider=provider,
        dialect=dialect,
        endpoint=endpoint,
        path=path,
        query=_without_key(urlsplit(received.target).query),
        body=received.body,
        document=document,
    )
    return _with_model(call, policy.target(provider, endpoint.model)) if endpoint.model else call


def _without_key(query: str) -> str:
    """As it came, but for the token that Gemini's protocol may have there."""
    return "&".join(part for part in query.split("&") if unquote_plus(part.partition("=")[0]) != "key")


def _refuse_other_protocols(provider: str) -> None:
    """Neither of a dialect here nor like OpenAI: it would be sent its key in a way that it does not know."""
    known = providers()[provider]
    if provider not in DIALECTS and (known.extra != openai.DIALECT.name or known.api_version):
        raise UsageError(f"The gateway does not speak the protocol of {provider}: call it with agentos.llm.")


def _refuse_ways_out(path: str) -> None:
    """A key can do more than call models: a path must not lead from what we know of to anything else."""
    # Some servers drop what follows a semicolon before they look at the dots.
    parts = [part.partition(";")[0] for part in re.split(r"[/\\]", unquote(unquote(path)))]
    if any(part in (".", "..") for part in parts):
        raise LookupError(path)


def _document(body: bytes, *, is_unambiguous: bool = False) -> Mapping[str, Any]:
    """`is_unambiguous`: a name that comes twice may mean another model to the provider than to us."""
    if not body:
        return {}
    try:
        document = json.loads(body, object_pairs_hook=_without_repeats if is_unambiguous else None)
    except (ValueError, RecursionError):
        raise UsageError("The body of the request is not JSON.") from None
    if not isinstance(document, Mapping):
        raise UsageError("The body of the request is not a JSON object.")
    return document


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) != len(pairs):
        raise UsageError("The body of the request has a field twice.")
    return document


def _with_model(call: Call, model: str) -> Call:
    """Nothing changes unless the model does."""
    asked = call.endpoint.model
    if model == asked:
        return call
    endpoint = replace(call.endpoint, model=model)
    if call.endpoint.model_in_path:
        path = call.path.replace(f"/{asked}:", f"/{quote(model, safe='')}:")
        return replace(call, endpoint=endpoint, path=path)
    document = {**call.document, "model": model}
    return replace(call, endpoint=endpoint, document=document, body=encoded(document))

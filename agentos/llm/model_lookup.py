"""Whether providers have the models that a run will call: asked before its first item, and remembered.

A model's name is asked for where the provider lists its models, which costs nothing. Only a call proves that one is
missing: a gateway may not know the question.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum
from http import HTTPStatus
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote

from agentos.files import write_private
from agentos.keys.credentials import Credential
from agentos.llm.settings import base_url
from agentos.paths import known_models_path
from agentos.providers.model_name import ModelName
from agentos.providers.registry import providers

_TIMEOUT_SECONDS = 2.0
_VERSION = 1


class Presence(StrEnum):
    THERE = "there"
    MISSING = "missing"
    UNTOLD = "untold"
    """The provider could not be asked, or does not answer such a question."""


_TOLD_BY: Mapping[int, Presence] = {HTTPStatus.OK: Presence.THERE, HTTPStatus.NOT_FOUND: Presence.MISSING}
_KEPT_SECONDS = {Presence.THERE: 7 * 86400.0, Presence.UNTOLD: 86400.0}
"""How long an answer spares the next run the question."""


def missing_models(models: Sequence[str], credentials: Iterable[Credential]) -> dict[str, str]:
    """Models that no key's account has, each with what the provider says. Those that nobody can tell of pass."""
    by_provider: dict[str, list[Credential]] = {}
    for credential in credentials:
        by_provider.setdefault(credential.spec.provider, []).append(credential)
    known = _known(time.time())
    asked = [ModelName.parse(model) for model in models if _mark(ModelName.parse(model)) not in known]
    asked = [name for name in asked if by_provider.get(name.provider) and providers()[name.provider].model_lookup]
    if not asked:
        return {}
    with ThreadPoolExecutor(max_workers=len(asked), thread_name_prefix="model-lookup") as threads:
        told = dict(
            zip(asked, threads.map(lambda name: _ask(name, by_provider[name.provider][0]), asked), strict=True)
        )
    missing: dict[str, str] = {}
    for name in [name for name, presence in told.items() if presence is Presence.MISSING]:
        told[name], words = _proven(name, by_provider[name.provider])
        if told[name] is Presence.MISSING:
            missing[str(name)] = words
    if not missing:
        # A command that is refused leaves nothing behind.
        _remember({_mark(name): presence for name, presence in told.items()}, time.time())
    return missing


def _ask(name: ModelName, credential: Credential) -> Presence:
    lookup = providers()[name.provider].model_lookup
    assert lookup is not None
    address = (base_url(name.provider) or lookup.base_url).rstrip("/")
    headers = {header: text.replace("{key}", credential.secret) for header, text in lookup.headers.items()}
    url = address + lookup.path.replace("{model}", quote(name.model, safe=""))
    return _TOLD_BY.get(_status(url, headers), Presence.UNTOLD)


def _status(url: str, headers: Mapping[str, str]) -> int:
    """0 when nobody answers in time. Redirects are not followed: they would carry the key to another host."""
    # An SDK's client takes a second to load; this is one question, and most runs have asked it before.
    from urllib.request import HTTPRedirectHandler, HTTPSHandler, Request, build_opener  # noqa: PLC0415

    class StayHere(HTTPRedirectHandler):
        def redirect_request(self, *_: object) -> None:
            return None

    handlers: list[Any] = [StayHere]
    if url.startswith("https:"):
        from agentos.llm.http_client import new_ssl_context  # noqa: PLC0415

        handlers.append(HTTPSHandler(context=new_ssl_context()))
    try:
        with build_opener(*handlers).open(Request(url, headers=dict(headers)), timeout=_TIMEOUT_SECONDS) as reply:
            return int(reply.status)
    except HTTPError as error:
        return error.code
    except (OSError, HTTPException, ValueError):
        return 0


def _proven(name: ModelName, credentials: Sequence[Credential]) -> tuple[Presence, str]:
    """What a call says: missing when every account refuses it as not found, with the words of one."""
    from agentos.llm.key_check import refusal_of  # noqa: PLC0415  Loads the SDK, which few need here.

    words = ""
    for credential in {each.spec.group or each.spec.name: each for each in credentials}.values():
        status, words = refusal_of(credential, str(name))
        if status != HTTPStatus.NOT_FOUND:
            return Presence.UNTOLD, ""
    return Presence.MISSING, words


def _mark(name: ModelName) -> str:
    """Another address may have other models."""
    return f"{name} at {base_url(name.provider) or 'its own address'}"


def _known(now: float) -> Mapping[str, tuple[Presence, float]]:
    """What was answered not too long ago. A file that is damaged says nothing."""
    try:
        document = json.loads(known_models_path().read_text(encoding="utf-8"))
        found = {str(mark): (Presence(told), float(at)) for mark, (told, at) in document["models"].items()}
        if document["version"] != _VERSION:
            return {}
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return {}
    return {mark: (told, at) for mark, (told, at) in found.items() if 0 <= now - at < _KEPT_SECONDS.get(told, 0.0)}


def _remember(told: Mapping[str, Presence], now: float) -> None:
    kept = {**_known(now), **{mark: (presence, now) for mark, presence in told.items()}}
    document = {"version": _VERSION, "models": {mark: [str(told), at] for mark, (told, at) in kept.items()}}
    try:
        write_private(known_models_path(), json.dumps(document, indent=1))
    except OSError:
        return  # The next run asks again.

"""Finds the providers: every module of this package that has a `PROVIDER`, and those that settings declare."""

from __future__ import annotations

import pkgutil
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module

import agentos.providers as package
from agentos.providers.compatible import compatible, key_variable
from agentos.providers.provider import Provider

COMPATIBLE_KIND = "openai"
"""What providers are called as that only share OpenAI's API."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """What settings say of a provider: one of their own, or other ways of a known one."""

    kind: str
    """The known provider it is like."""
    needs_key: bool | None = None
    api_version: str = ""
    max_concurrent: int | None = None


_with_declared: Mapping[str, Provider] | None = None


def providers() -> Mapping[str, Provider]:
    """All providers by name, in the order of their rank, those that settings declare last."""
    return known_providers() if _with_declared is None else _with_declared


@cache
def known_providers() -> Mapping[str, Provider]:
    """Those that have a file here."""
    modules = [import_module(f"{package.__name__}.{each.name}") for each in pkgutil.iter_modules(package.__path__)]
    found: list[Provider] = [module.PROVIDER for module in modules if hasattr(module, "PROVIDER")]
    return {provider.name: provider for provider in sorted(found, key=lambda each: (each.rank, each.name))}


def declare(declared: Mapping[str, Declared]) -> None:
    """Know these from now on, in the place of all that were declared before."""
    global _with_declared
    _with_declared = {**known_providers(), **{name: _provider(name, each) for name, each in declared.items()}}


def _provider(name: str, declared: Declared) -> Provider:
    known = known_providers().get(name)
    provider = known or _like(name, declared.kind)
    return replace(
        provider,
        needs_key=provider.needs_key if declared.needs_key is None else declared.needs_key,
        api_version=declared.api_version or provider.api_version,
        max_concurrent=declared.max_concurrent or provider.max_concurrent,
    )


def _like(name: str, kind: str) -> Provider:
    """A provider of the user's own. Its address is theirs, and so are its models."""
    if kind == COMPATIBLE_KIND:
        known = known_providers()[kind]
        return compatible(name, read_limits=known.read_limits, needs_base_url=True, quota_owner=f"{name} account")
    return replace(
        known_providers()[kind],
        name=name,
        rank=100,
        key_variables=(key_variable(name),),
        default_model="",
        check_model="",
        quota_owner=f"{name} account",
        model_lookup=None,
    )


def needs_key(name: str) -> bool:
    """Whether models of this name's provider are called with a key; what is no provider needs none."""
    known = providers().get(name)
    return known is not None and known.needs_key


def key_variables() -> dict[str, str]:
    """Environment variables that hold a key, and whose."""
    return {variable: each.name for each in providers().values() for variable in each.key_variables}


def default_models() -> list[str]:
    """Of each provider that has one, the model that is used when none is chosen, as `provider:model`."""
    return [f"{each.name}:{each.default_model}" for each in providers().values() if each.default_model]


def default_model(with_keys: Collection[str]) -> str:
    """The model to use when none is chosen, by the providers there are keys of; empty if there are none."""
    return next((model for model in default_models() if model.partition(":")[0] in with_keys), "")

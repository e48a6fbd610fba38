"""Finds the providers: every module of this package that has a `PROVIDER` is one."""

from __future__ import annotations

import pkgutil
from collections.abc import Collection, Mapping
from functools import cache
from importlib import import_module

import agentos.providers as package
from agentos.providers.provider import Provider


@cache
def providers() -> Mapping[str, Provider]:
    """All providers by name, in the order of their rank."""
    modules = [import_module(f"{package.__name__}.{each.name}") for each in pkgutil.iter_modules(package.__path__)]
    found: list[Provider] = [module.PROVIDER for module in modules if hasattr(module, "PROVIDER")]
    return {provider.name: provider for provider in sorted(found, key=lambda each: (each.rank, each.name))}


def key_variables() -> dict[str, str]:
    """Environment variables that hold a key, and whose."""
    return {variable: each.name for each in providers().values() for variable in each.key_variables}


def default_models() -> list[str]:
    """Of each provider the model that is used when none is chosen, as `provider:model`."""
    return [f"{provider.name}:{provider.default_model}" for provider in providers().values()]


def default_model(with_keys: Collection[str]) -> str:
    """The model to use when none is chosen, by the providers there are keys of; empty if there are none."""
    return next((model for model in default_models() if model.partition(":")[0] in with_keys), "")

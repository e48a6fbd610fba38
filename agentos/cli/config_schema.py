"""The JSON schema of `agentos.toml`, made from the settings themselves: `agentos config --schema` prints it."""

from __future__ import annotations

from typing import Any

from agentos.cli.init import SECTION_WORDS, SETTING_WORDS
from agentos.providers.registry import providers
from agentos.setting_rules import rule_of
from agentos.settings import FILE_NAME, Settings, setting_names, value_of

_DRAFT = "http://json-schema.org/draft-07/schema#"
"""The newest that editors of TOML understand."""


def settings_schema() -> dict[str, Any]:
    """What may stand in the file. Whatever it refuses, a command refuses as well."""
    sections: dict[str, dict[str, Any]] = {}
    for setting in setting_names():
        section, _, name = setting.partition(".")
        if section != "providers":
            sections.setdefault(section, {})[name] = _setting(setting)
    tables = {section: _table(settings, SECTION_WORDS[section]) for section, settings in sections.items()}
    addresses = _table({name: _address(name) for name in providers()}, "Other addresses of providers.")
    whole = _table({**tables, "providers": addresses}, "Settings of a project for AgentOS.")
    return {"$schema": _DRAFT, "title": FILE_NAME, **whole}


def _table(properties: dict[str, Any], words: str = "") -> dict[str, Any]:
    described = {"description": words} if words else {}
    return {**described, "type": "object", "additionalProperties": False, "properties": properties}


def _setting(setting: str) -> dict[str, Any]:
    default = value_of(Settings(), setting)
    schema = {"description": SETTING_WORDS[setting], **rule_of(setting).schema()}
    return {**schema, "default": list(default) if isinstance(default, tuple) else default}


def _address(provider: str) -> dict[str, Any]:
    rule = rule_of(f"providers.{provider}.base_url")
    return _table({"base_url": {"description": "where calls go, and your keys with them", **rule.schema()}})

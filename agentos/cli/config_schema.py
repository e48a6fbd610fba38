"""The JSON schema of `agentos.toml`, made from the settings themselves: `agentos config --schema` prints it."""

from __future__ import annotations

from typing import Any

from agentos.cli.init import SECTION_WORDS, SETTING_WORDS
from agentos.providers.registry import providers
from agentos.settings import CHOICES, FILE_NAME, Settings, setting_names, value_of

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
    address = _table({"base_url": {"type": "string", "description": "where calls go, and your keys with them"}})
    addresses = _table(dict.fromkeys(providers(), address), "Other addresses of providers.")
    whole = _table({**tables, "providers": addresses}, "Settings of a project for AgentOS.")
    return {"$schema": _DRAFT, "title": FILE_NAME, **whole}


def _table(properties: dict[str, Any], words: str = "") -> dict[str, Any]:
    described = {"description": words} if words else {}
    return {**described, "type": "object", "additionalProperties": False, "properties": properties}


def _setting(setting: str) -> dict[str, Any]:
    default = value_of(Settings(), setting)
    schema = {"description": SETTING_WORDS[setting], **_type(default)}
    if setting in CHOICES:
        schema["enum"] = list(CHOICES[setting])
    return {**schema, "default": list(default) if isinstance(default, tuple) else default}


def _type(default: Any) -> dict[str, Any]:
    match default:
        case tuple():
            return {"type": "array", "items": {"type": "string"}}
        case int():
            return {"type": "integer", "minimum": 1}
        case _:
            return {"type": "string"}

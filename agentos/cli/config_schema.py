"""The JSON schema of `agentos.toml`, made from the settings themselves: `agentos config --schema` prints it."""

from __future__ import annotations

from typing import Any

from agentos.cli.init import SECTION_WORDS, SETTING_WORDS
from agentos.providers.registry import known_providers
from agentos.setting_rules import OWN_PROVIDER, provider_rules, rule_of
from agentos.settings import FILE_NAME, OTHER_NAMES, Settings, provider_options, setting_names, value_of

_DRAFT = "http://json-schema.org/draft-07/schema#"
"""The newest that editors of TOML understand."""


def settings_schema() -> dict[str, Any]:
    """What may stand in the file. Whatever it refuses, a command refuses as well."""
    sections: dict[str, dict[str, Any]] = {}
    for setting in setting_names():
        section, _, name = setting.partition(".")
        if section != "providers":
            sections.setdefault(section, {})[name] = _setting(setting)
    for other, setting in OTHER_NAMES.items():
        section, _, name = other.partition(".")
        sections[section][name] = {**_setting(setting), "description": f"the same as {setting}"}
    tables = {section: _table(settings, SECTION_WORDS[section]) for section, settings in sections.items()}
    whole = _table({**tables, "providers": _providers()}, "Settings of a project for AgentOS.")
    return {"$schema": _DRAFT, "title": FILE_NAME, **whole}


def _table(properties: dict[str, Any], words: str = "") -> dict[str, Any]:
    described = {"description": words} if words else {}
    return {**described, "type": "object", "additionalProperties": False, "properties": properties}


def _setting(setting: str) -> dict[str, Any]:
    default = value_of(Settings(), setting)
    schema = {"description": SETTING_WORDS[setting], **rule_of(setting).schema()}
    if default is None:
        return schema
    return {**schema, "default": list(default) if isinstance(default, tuple) else default}


def _providers() -> dict[str, Any]:
    """Those that are known, each with what may be set of it, and the user's own."""
    rules = provider_rules()
    options = {option: {"description": words, **rules[option].schema()} for option, words in _OPTION_WORDS.items()}
    known = {
        name: _table({option: options[option] for option in ["kind", *provider_options(name)]})
        for name in known_providers()
    }
    own = _table(options, "A provider of your own, like the one that `kind` names.")
    words = "Other addresses of providers, and providers of your own."
    return {
        **_table(known, words),
        "additionalProperties": {**own, "required": ["kind"]},
        "propertyNames": {"pattern": f"^{OWN_PROVIDER}$"},
    }


_OPTION_WORDS = {
    "kind": "the provider it is like",
    "base_url": "where calls go, and your keys with them",
    "api_version": "sent with every request, by azure",
    "needs_key": "false: call it without a key if there is none",
    "max_concurrent": "calls at once without a key",
}

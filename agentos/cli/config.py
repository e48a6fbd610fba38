"""`agentos config`: the settings that hold here, and where each comes from."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agentos.cli.options import project_from
from agentos.cli.output import say, say_json
from agentos.cli.parsing import add_json_option, add_project_option
from agentos.environment import environment
from agentos.errors import UsageError
from agentos.hints import Hint
from agentos.paths import home_dir
from agentos.settings import (
    FILE_NAME,
    FURTHER_VARIABLES,
    Loaded,
    load_with_sources,
    setting_names,
    unknown_variables,
    value_of,
)
from agentos.text.suggestions import did_you_mean
from agentos.text.table import table_lines
from agentos.text.window import window_columns
from agentos.text.words import one_line

_PASSWORD_IN_URL = re.compile(r"(?<=://)[^/@]*@")


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Show the settings of this project, and where each comes from. A variable wins over "
        "agentos.toml, which wins over the default; the flags of a command win over all of them."
    )
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="show only these: a section, like models, or a setting, like models.drafter",
    )
    add_json_option(parser)
    parser.add_argument(
        "--schema", action="store_true", help="print the JSON schema of agentos.toml, for editors and other tools"
    )
    add_project_option(parser)
    parser.set_defaults(handler=run)


def run(arguments: argparse.Namespace) -> int:
    if arguments.schema:
        from agentos.cli.config_schema import settings_schema  # noqa: PLC0415  Few ask for it.

        sys.stdout.write(json.dumps(settings_schema(), indent=2) + "\n")
        return 0
    project_dir = project_from(arguments.project, Path.cwd())
    environ = environment()
    loaded = load_with_sources(project_dir, environ, {})
    names = _chosen(arguments.names)
    if not arguments.names and not arguments.json:
        names = [name for name in names if not _is_idle(name, loaded)]
    sys.stderr.write("".join(f"Warning: {line}\n" for line in unknown_words(environ)))
    if arguments.json:
        say_json(_document(project_dir, names, loaded, _further(environ)))
    else:
        further = {} if arguments.names else _further(environ)
        head = [] if arguments.names else [f"File: {_file_words(project_dir)}", f"Home: {home_dir()}", ""]
        say(*head, *_lines(names, loaded, further))
    return 0


def unknown_words(environ: Mapping[str, str]) -> list[str]:
    """What to say of variables that look like ours and change nothing."""
    return [
        f"{one_line(name, 60)} is not a variable of AgentOS and changes nothing."
        + (f" Did you mean {meant}?" if meant else "")
        for name, meant in unknown_variables(environ).items()
    ]


def _chosen(wanted: Sequence[str]) -> list[str]:
    known = setting_names()
    for name in wanted:
        if not any(_is_within(each, name) for each in known):
            sections = dict.fromkeys(each.partition(".")[0] for each in known)
            hint = did_you_mean(name, [*known, *sections], f"Sections: {', '.join(sections)}.")
            raise UsageError(f"No setting {one_line(name, 60)!r}.{hint}")
    return [each for each in known if not wanted or any(_is_within(each, name) for name in wanted)]


def _is_idle(setting: str, loaded: Loaded) -> bool:
    """Of a provider that nobody has set anything of: there are many."""
    return setting.startswith("providers.") and value_of(loaded.settings, setting) is None


def _is_within(setting: str, name: str) -> bool:
    return setting == name or setting.startswith(f"{name}.")


def _further(environ: Mapping[str, str]) -> dict[str, str]:
    """Variables that are set and are no setting of a project."""
    return {name: environ[name] for name in FURTHER_VARIABLES if environ.get(name)}


def _lines(names: Sequence[str], loaded: Loaded, further: Mapping[str, str]) -> list[str]:
    columns = window_columns()
    rows = [
        (name, _shown(name, value_of(loaded.settings, name)), loaded.sources.get(name, "default")) for name in names
    ]
    lines = table_lines([("SETTING", "VALUE", "FROM"), *rows], columns)
    if further:
        variables = [(name, one_line(value, 120), FURTHER_VARIABLES[name]) for name, value in further.items()]
        lines += ["", *table_lines([("VARIABLE", "VALUE", "WHAT IT IS"), *variables], columns)]
    return lines


def _file_words(project_dir: Path) -> str:
    path = project_dir / FILE_NAME
    return str(path) if path.is_file() else f"none in {project_dir}; {Hint.WRITE_SETTINGS.line()} writes one"


def _shown(name: str, value: Any) -> str:
    """As it would stand in the file; what a URL has of a password stays out."""
    if value is None:
        return "the provider's own" if name.startswith("providers.") else "none"
    text = json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False)
    return one_line(_PASSWORD_IN_URL.sub("…@", text), 120)


def _document(project_dir: Path, names: Sequence[str], loaded: Loaded, further: Mapping[str, str]) -> dict[str, Any]:
    path = project_dir / FILE_NAME
    values = {name: value_of(loaded.settings, name) for name in names}
    return {
        "project_dir": str(project_dir),
        "file": str(path) if path.is_file() else None,
        "home": str(home_dir()),
        "settings": {
            name: {
                "value": _PASSWORD_IN_URL.sub("…@", value) if isinstance(value, str) else value,
                "source": loaded.sources.get(name, "default"),
            }
            for name, value in values.items()
        },
        "variables": dict(further),
    }

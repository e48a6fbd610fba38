"""`agentos config`: what holds, where it comes from, and a schema that says what a command would say."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest

import agentos
from agentos.cli.config_schema import settings_schema
from agentos.cli.main import main
from agentos.errors import UsageError
from agentos.settings import OWN_SECTIONS, Settings, load_settings, setting_names, unknown_variables, value_of

SCHEMA_PATH = Path(__file__).parents[3] / "docs/reference/agentos.schema.json"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AGENTOS_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("COLUMNS", raising=False)
    (tmp_path / "agentos.toml").write_text(
        '[models]\ndrafter = "google:file"\nreviewer = "google:file"\n[providers.google]\nbase_url = "http://me:pw@h"\n'
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path


def config(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert main(["config", *words, "--json"]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def test_every_value_is_shown_with_what_set_it(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AGENTOS_REVIEWER", "openai:variable")
    monkeypatch.setenv("AGENTOS_CREDENTIAL_LIMIT", "2")

    document = config(capsys)

    assert list(document["settings"]) == setting_names()
    assert document["file"] == str(project / "agentos.toml")
    assert document["settings"]["models.drafter"] == {"value": "google:file", "source": "agentos.toml"}
    assert document["settings"]["models.reviewer"] == {"value": "openai:variable", "source": "AGENTOS_REVIEWER"}
    assert document["settings"]["limits.parallel"] == {"value": 1, "source": "default"}
    assert document["variables"]["AGENTOS_CREDENTIAL_LIMIT"] == "2"
    assert list(config(capsys, "limits", "models.coder")["settings"]) == [
        *("models.coder", "limits.parallel", "limits.max_rounds", "limits.context_tokens"),
    ]
    assert main(["config"]) == 0
    shown = capsys.readouterr().out
    assert 'models.drafter                       "google:file"' in shown
    assert "me:pw" not in shown + json.dumps(document)


def test_a_name_or_a_variable_that_means_nothing_is_told(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["config", "models.draftr"]) == 2
    assert "No setting 'models.draftr'. Did you mean models.drafter" in capsys.readouterr().err
    monkeypatch.setenv("AGENTOS_LIMIT__PARALLEL", "4")
    assert main(["config"]) == 0
    assert "AGENTOS_LIMIT__PARALLEL is not a variable of AgentOS and changes nothing. Did you mean" in (
        capsys.readouterr().err
    )


def test_every_variable_the_package_names_is_known() -> None:
    package = Path(agentos.__file__).parent
    named = {
        node.value
        for path in package.rglob("*.py")
        if "AGENTOS_" in (text := path.read_text(encoding="utf-8"))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if re.fullmatch(r"AGENTOS_[A-Z0-9_]*[A-Z0-9]", node.value)
    }
    assert unknown_variables(dict.fromkeys(named, "x")) == {}


def test_the_schema_that_is_shipped_is_the_one_the_settings_make(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "--schema"]) == 0
    assert capsys.readouterr().out == SCHEMA_PATH.read_text()


def test_the_schema_has_every_setting_with_its_default() -> None:
    properties = settings_schema()["properties"]
    for setting in setting_names():
        section, name, *rest = setting.split(".")
        found = properties[section]["properties"][name]
        if not rest:
            assert found.get("default") == (
                list(value) if isinstance(value := value_of(Settings(), setting), tuple) else value
            )
            assert found["description"]


_OF_ANOTHER_TYPE = {"string": "3", "integer": '"x"', "array": '"x"', "boolean": '"x"', "number": '"x"'}


@pytest.mark.parametrize("setting", [name for name in setting_names() if not name.startswith("providers.")])
def test_what_the_schema_refuses_a_command_refuses(
    setting: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENTOS_HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    section, name = setting.split(".")
    found = settings_schema()["properties"][section]["properties"][name]
    refused = [f"{name} = {_OF_ANOTHER_TYPE[found['type']]}", f"{name}x = 1"]
    refused += [f"{name} = {found['minimum'] - 1}"] if "minimum" in found else []
    refused += [f'{name} = "no-such-choice"'] if "enum" in found else []
    path = (tmp_path / "home" if section in OWN_SECTIONS else tmp_path) / "agentos.toml"
    for line in refused:
        path.write_text(f"[{section}]\n{line}\n")
        with pytest.raises(UsageError):
            load_settings(tmp_path, {})
    for value in found.get("enum", [found["default"]] if "default" in found else [0.5]):
        path.write_text(f"[{section}]\n{name} = {json.dumps(value)}\n")
        load_settings(tmp_path, {})

"""Every setting has a range; whatever is outside of it is refused with its place, and the schema refuses the same."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentos.cli.main import main
from agentos.engine.limits import MAX_PARALLELISM
from agentos.errors import UsageError
from agentos.providers.registry import providers
from agentos.setting_rules import rule_of
from agentos.settings import OWN_SECTIONS, Settings, load_settings, setting_names, value_of, variable_of

NAMES = setting_names()
OUTSIDE = ["../out", "docs/../../out", "/tmp/out", "~/out", "..", " "]
MODELS = ["gemini-3-pro", "gogle:gemini", "google:", "cli:vim"]
OF_PROVIDERS: dict[str, list[Any]] = {
    "base_url": ["gateway", "ftp://x", "https://", "http://a\\b"],
    "api_version": ["", "two words"],
    "needs_key": ["perhaps", 1],
    "max_concurrent": [0, 1001],
}
REFUSED: dict[str, list[Any]] = {
    "sources.issues": ["", "two\nlines"],
    "sources.briefs": ["", " "],
    "sources.briefs_done": OUTSIDE,
    "documents.issues_dir": OUTSIDE,
    "documents.lld_dir": [*OUTSIDE, ""],
    "documents.lld_done_dir": OUTSIDE,
    "documents.reports_dir": OUTSIDE,
    "documents.lineage": OUTSIDE,
    "models.drafter": MODELS,
    "models.reviewer": MODELS,
    "models.coder": MODELS,
    "limits.parallel": [0, -1, 11, 50],
    "limits.max_rounds": [0, 101],
    "limits.context_tokens": [0, 1_000_001],
    "prices.models": [["google:x"], ["google:x two/12"], ["google:x -1/2"]],
    "prices.unpriced": ["2", "2/", "free", "-1/2", "nan/1"],
    "review.gate": ["sometimes", ""],
    "notify.command": [["a\0b"], [""]],
    "notify.on": [["sometimes"], ["Failed"]],
    "notify.desktop": ["perhaps"],
    "budget.usd_per_day": [-1, "twenty", True],
    "implementation.test": ["a\0b"],
    "implementation.python": ["two\nlines"],
    "implementation.junit": OUTSIDE,
    "implementation.coverage": OUTSIDE,
    "implementation.base": ["", "--upload-pack=x", " main"],
    "implementation.commits": ["many"],
    "implementation.stacking": ["maybe", ""],
    "implementation.coverage_target": [0, 101, 900],
    "implementation.max_rounds": [0, 101],
    "implementation.test_timeout_seconds": [0, 86_401],
    "implementation.sandbox": ["docker", ""],
    "implementation.readable": [["two\nlines"], [""]],
    **{
        f"implementation.{name}": [0, 10**9]
        for name in ("memory_mb", "processes", "open_files", "file_mb", "disk_mb")
    },
    "workstreams.dir": ["two\nlines"],
    "workstreams.copy": [["../.env"], ["/etc/passwd"]],
    "workstreams.setup": ["a\0b"],
    "workstreams.setup_network": ["maybe", ""],
    "workstreams.link": [["../.env"]],
    "workstreams.ports": [["WEB PORT"], ["1PORT"]],
    "workstreams.names": [["TEST-DB"]],
    "checkpoints.url": ["mysql://host/db", "postgresql://", "postgresql://host/db#x", "postgresql://h/db?password=x"],
    "checkpoints.project": ["a/b", "-a", "a b"],
    "checkpoints.patience_seconds": [0, 3601, "long"],
    "cluster.backend": ["slurm", ""],
    "cluster.address": ["head", "head:port", "ray://head:10001"],
    "cluster.env": ["other", ""],
    "cluster.max_per_node": [0, 1001],
    "cluster.resources": [["CPU"], ["CPU=two"], ["=1"]],
    **{name: OF_PROVIDERS[name.rpartition(".")[2]] for name in NAMES if name.startswith("providers.")},
}
OF_ANY_TYPE = [3, -1, True, 2.5, "x", "", ["x"], {"x": 1}]


def toml_of(setting: str, value: Any) -> str:
    section, _, name = setting.rpartition(".")
    return f"# A comment on {name}.\n[{section}]\n\n{name} = {json.dumps(value)}\n"


def schema_takes(schema: dict[str, Any], value: Any) -> bool:
    """As a validator would say it, for the few words that our schema uses."""
    match schema["type"]:
        case "integer":
            return type(value) is int and schema["minimum"] <= value <= schema["maximum"]
        case "number":
            return type(value) in (int, float) and schema["minimum"] <= value <= schema["maximum"]
        case "boolean":
            return isinstance(value, bool)
        case "array":
            return isinstance(value, list) and all(schema_takes(schema["items"], entry) for entry in value)
        case _ if not isinstance(value, str):
            return False
    return value in schema["enum"] if "enum" in schema else re.fullmatch(schema["pattern"], value) is not None


def refused(project_dir: Path, environ: dict[str, str]) -> str:
    with pytest.raises(UsageError) as raised:
        load_settings(project_dir, environ)
    return str(raised.value)


def test_every_setting_is_in_the_table() -> None:
    assert set(REFUSED) == set(NAMES)


@pytest.mark.parametrize("setting", NAMES)
def test_what_is_out_of_range_is_refused_with_its_place_and_what_is_allowed(
    setting: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENTOS_HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    is_own = setting.partition(".")[0] in OWN_SECTIONS
    path = (tmp_path / "home" if is_own else tmp_path) / "agentos.toml"
    shown = re.escape(str(path)) if is_own else "agentos.toml"
    name = setting.rpartition(".")[2]
    for value in REFUSED[setting]:
        path.write_text(toml_of(setting, value))
        words = refused(tmp_path, {})
        assert re.match(rf"{shown}, line 4: {setting}((: each entry)? must be .*, got |: )", words), words
        assert name in words
    path.unlink()
    for value in REFUSED[setting]:
        text = ",".join(value) if isinstance(value, list) else str(value)
        if text:
            assert variable_of(setting) in refused(tmp_path, {variable_of(setting): text})


def assert_same(setting: str, value: Any) -> None:
    """That rule and schema say the same; but a schema cannot know the providers that the file itself declares."""
    rule = rule_of(setting)
    is_refused, is_taken = bool(rule.refusal(setting, value)), schema_takes(rule.schema(), value)
    is_of_unknown_provider = setting.startswith("models.") and is_taken and value.partition(":")[0] not in providers()
    assert is_refused == (not is_taken) or is_of_unknown_provider, value


@pytest.mark.parametrize("setting", NAMES)
def test_the_schema_says_the_same_as_the_rule(setting: str) -> None:
    rule, default = rule_of(setting), value_of(Settings(), setting)
    if default is not None:
        assert rule.refusal(setting, default) == ""
        assert schema_takes(rule.schema(), list(default) if isinstance(default, tuple) else default)
    for value in [*REFUSED[setting], *OF_ANY_TYPE]:
        assert_same(setting, value)


pieces = st.sampled_from(
    ["a", "..", "/", "~", ":", " ", "-", "\n", "1", ".", "2/12", "google", "cli", "offline", "http"]
)
texts = st.lists(pieces, max_size=8).map("".join)
values = st.one_of(st.integers(-5, 2_000_000), texts, st.lists(texts, max_size=3), st.booleans())


@given(st.sampled_from(NAMES), values)
def test_the_schema_says_the_same_as_the_rule_of_whatever_is_written(setting: str, value: Any) -> None:
    assert_same(setting, value)


def test_as_many_may_run_at_once_as_the_flag_allows() -> None:
    assert rule_of("limits.parallel").schema()["maximum"] == MAX_PARALLELISM


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["lld", "--all", "--max-rounds", "900"], "--max-rounds must be a whole number from 1 to 100, got 900."),
        (["lld", "--all", "--drafter", "gogle:x"], "--drafter: Unknown model 'gogle:x'"),
        (["implement", "--all", "--base", " x"], "--base must be a commit, branch or tag, like main, got ' x'."),
        (["init", "--lld-dir", "../out"], "--lld-dir must be a folder inside the project, like docs/designs, got"),
    ],
)
def test_a_flag_is_named_when_it_is_to_blame(
    words: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    assert said in capsys.readouterr().err

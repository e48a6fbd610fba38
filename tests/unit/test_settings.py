"""Settings: where each value comes from, and what is refused with words that help."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from agentos.cli.init import SETTING_WORDS, settings_text
from agentos.database import database_of
from agentos.errors import UsageError
from agentos.settings import OWN_SECTIONS, Notify, Settings, freeze, load_settings, load_with_sources, thaw


def write(project_dir: Path, text: str) -> Path:
    (project_dir / "agentos.toml").write_text(text)
    return project_dir


def test_without_a_file_and_variables_the_defaults_hold(tmp_path: Path) -> None:
    assert load_settings(tmp_path, {}) == Settings()


def test_the_environment_wins_over_the_file_and_the_file_over_defaults(tmp_path: Path) -> None:
    write(
        tmp_path,
        '[models]\ndrafter = "google:file"\nreviewer = "openai:file"\n[limits]\nparallel = 4\nmax_rounds = 2\n',
    )
    variables = {"AGENTOS_DRAFTER": "google:variable", "AGENTOS_LIMITS__PARALLEL": "6"}
    settings = load_settings(tmp_path, variables)
    assert (settings.models.drafter, settings.models.reviewer) == ("google:variable", "openai:file")
    assert (settings.limits.parallel, settings.limits.max_rounds) == (6, 2)
    assert settings.sources.issues == "docs/issues"


def test_an_empty_variable_is_no_setting(tmp_path: Path) -> None:
    assert load_settings(tmp_path, {"AGENTOS_DRAFTER": "", "AGENTOS_LIMITS__PARALLEL": ""}) == Settings()


def test_lists_come_from_arrays_and_from_commas(tmp_path: Path) -> None:
    write(tmp_path, '[workstreams]\ncopy = [".env", "local.toml"]\n')
    settings = load_settings(tmp_path, {"AGENTOS_WORKSTREAMS__LINK": "node_modules, .venv,"})
    assert settings.workstreams.copy == (".env", "local.toml")
    assert settings.workstreams.link == ("node_modules", ".venv")


def test_addresses_of_providers_come_from_the_file_and_the_environment(tmp_path: Path) -> None:
    write(tmp_path, '[providers.google]\nbase_url = "https://file"\n[providers.openai]\nbase_url = "https://other"\n')
    settings = load_settings(tmp_path, {"AGENTOS_PROVIDERS__GOOGLE__BASE_URL": "https://variable"})
    assert settings.provider_urls == {"google": "https://variable", "openai": "https://other"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[model]\n", "unknown section [model]. Did you mean 'models'?"),
        ("[models]\ndraftr = 'x'\n", "[models] has no setting 'draftr'. Did you mean 'drafter'?"),
        (
            "[limits]\nparallel = 'many'\n",
            "agentos.toml, line 2: limits.parallel must be a whole number from 1 to 10, got 'many'",
        ),
        ("[limits]\nparallel = true\n", "limits.parallel must be a whole number"),
        ("[limits]\nparallel = 0\n", "limits.parallel must be a whole number from 1 to 10, got 0"),
        ("[workstreams]\ncopy = 'x'\n", "workstreams.copy must be a list, each entry a path"),
        (
            "[review]\ngate = 'sometimes'\n",
            "agentos.toml, line 2: review.gate must be one of none, draft, verdict, all, got 'sometimes'",
        ),
        ("models = 3\n", "[models] must be a table"),
        ("[providers.google]\nkey = 'x'\n", "[providers.google] has no setting 'key'"),
        ("[providers.google]\nbase_url = 'gateway.example'\n", "providers.google.base_url must be an address like"),
        ("[providers.google]\nkind = 'openai'\n", "google is a provider of its own"),
        (
            "[providers.acme]\nkind = 'opnai'\n",
            "[providers.acme] has the unknown kind 'opnai'. Did you mean 'openai'?",
        ),
        ("[providers.acme]\nkind = 'openai'\n", "[providers.acme] needs base_url"),
        ("[providers.Acme-1]\nkind = 'openai'\n", "name it with lower-case letters"),
        (
            "[providers.acme]\nkind = 'openai'\nbase_url = 'https://x'\nneeds_key = 'no'\n",
            "providers.acme.needs_key must be true or false",
        ),
        ("providers = 3\n", "[providers] must be a table"),
        (
            "[providers.gogle]\nbase_url = 'https://x'\n",
            "unknown provider [providers.gogle]. Did you mean 'google'?",
        ),
        (
            "[documents]\nlld_dir = 'designs'\nlld_done_dir = './designs'\n",
            "agentos.toml, line 3: documents.lld_done_dir must be another folder than documents.lld_dir",
        ),
        ("[sources]\nbriefs_done = 'ideas/active'\n", "sources.briefs_done must be another folder"),
        ("not toml", "not valid TOML"),
    ],
)
def test_what_is_wrong_in_the_file_is_named(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(UsageError, match=re.escape(words)):
        load_settings(write(tmp_path, text), {})


def test_a_variable_that_is_no_number_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="AGENTOS_MAX_ROUNDS must be a whole number from 1 to 100, got 'x'"):
        load_settings(tmp_path, {"AGENTOS_MAX_ROUNDS": "x"})


def test_a_file_that_cannot_be_read_says_so(tmp_path: Path) -> None:
    (tmp_path / "agentos.toml").mkdir()
    with pytest.raises(UsageError, match="cannot be read"):
        load_settings(tmp_path, {})


def test_the_file_that_init_writes_says_what_holds_without_it(tmp_path: Path) -> None:
    text = settings_text({})
    assert load_settings(write(tmp_path, text), {}) == Settings()
    # With every default uncommented it is still valid and still says the same.
    uncommented = re.sub(r"(?m)^# (\w+ = )", r"\1", text.partition("# Other addresses")[0])
    assert load_settings(write(tmp_path, uncommented), {}) == Settings()
    values = tomllib.loads(uncommented)
    names = {f"{section}.{name}" for section, entries in values.items() for name in entries}
    assert names == {name for name in SETTING_WORDS if name.partition(".")[0] not in OWN_SECTIONS}


def test_what_was_chosen_stands_in_the_file_as_it_is(tmp_path: Path) -> None:
    spec = 'github:owner/repo?label="ready\\now"'
    settings = load_settings(write(tmp_path, settings_text({"sources.issues": spec})), {})
    assert settings.sources.issues == spec


def test_a_flag_wins_over_the_environment(tmp_path: Path) -> None:
    settings = load_settings(tmp_path, {"AGENTOS_DRAFTER": "google:variable"}, {"models.drafter": "google:flag"})
    assert settings.models.drafter == "google:flag"


def test_settings_thaw_as_they_were_frozen(tmp_path: Path) -> None:
    write(tmp_path, '[workstreams]\nports = ["PORT"]\n[providers.google]\nbase_url = "http://127.0.0.1:1"\n')
    settings = load_settings(tmp_path, {"AGENTOS_MAX_ROUNDS": "7"}, {"models.coder": "offline"})
    assert thaw(freeze(settings)) == settings


class TestOwnFile:
    """`[notify]` names a command: only the user can."""

    @pytest.fixture
    def own(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.setenv("AGENTOS_HOME", str(tmp_path / "home"))
        (tmp_path / "home").mkdir()
        return tmp_path / "home" / "agentos.toml"

    def test_the_users_own_file_says_whom_to_tell(self, own: Path, tmp_path: Path) -> None:
        own.write_text('[notify]\ncommand = ["tell", "a b"]\non = ["failed"]\ndesktop = true\n')
        loaded = load_with_sources(tmp_path, {}, {})
        assert loaded.settings.notify == Notify(command=("tell", "a b"), on=("failed",), desktop=True)
        assert loaded.sources["notify.command"] == str(own)

    def test_a_variable_wins_and_is_split_like_a_command_line_or_a_list(self, own: Path, tmp_path: Path) -> None:
        own.write_text('[notify]\ncommand = ["tell"]\n')
        for text in ("curl -d 'a b'", '["curl", "-d", "a b"]'):
            loaded = load_settings(tmp_path, {"AGENTOS_NOTIFY__COMMAND": text, "AGENTOS_NOTIFY__ON": "failed, done"})
            assert loaded.notify == Notify(command=("curl", "-d", "a b"), on=("failed", "done"))
        with pytest.raises(UsageError, match="AGENTOS_NOTIFY__COMMAND must be a list"):
            load_settings(tmp_path, {"AGENTOS_NOTIFY__COMMAND": "'open"})

    def test_a_project_cannot_name_a_command(self, own: Path, tmp_path: Path) -> None:
        (tmp_path / "agentos.toml").write_text('[notify]\ncommand = ["rm"]\n')
        with pytest.raises(UsageError, match=rf"agentos.toml, line 1: .* no project can set it. Move it to .*{own}"):
            load_settings(tmp_path, {})

    def test_a_file_that_others_can_write_is_refused(self, own: Path, tmp_path: Path) -> None:
        own.write_text('[notify]\ncommand = ["tell"]\n')
        own.chmod(0o664)
        with pytest.raises(
            UsageError, match=r"others can write it, and what it says is yours to say\. Run: chmod go-w"
        ):
            load_settings(tmp_path, {})

    def test_what_is_a_projects_is_not_read_from_there(self, own: Path, tmp_path: Path) -> None:
        own.write_text("[limits]\nparallel = 2\n")
        with pytest.raises(
            UsageError, match=r"line 1: only \[notify\] and \[budget\] are read from here. Put \[limits\] into"
        ):
            load_settings(tmp_path, {})
        own.write_text("[notify]\nwho = 2\n")
        with pytest.raises(UsageError, match=r"line 2: \[notify\] has no setting 'who'"):
            load_settings(tmp_path, {})
        own.write_text("notify = 2\n")
        with pytest.raises(UsageError, match=r"\[notify\] must be a table"):
            load_settings(tmp_path, {})

    def test_workers_are_not_sent_it(self, own: Path, tmp_path: Path) -> None:
        own.write_text('[notify]\ncommand = ["curl", "https://hooks.example/secret"]\n')
        frozen = freeze(load_settings(tmp_path, {}))
        assert "hooks.example" not in frozen
        assert thaw(frozen).notify == Notify()


def test_checkpoints_of_a_cluster_are_the_checkpoints_of_the_project(tmp_path: Path) -> None:
    url = "postgresql://alice@db.example/agentos"
    (tmp_path / "agentos.toml").write_text(f'[cluster]\ncheckpoints = "{url}"\n')
    loaded = load_with_sources(tmp_path, {}, {})
    assert loaded.settings.checkpoints.url == url
    with pytest.raises(UsageError, match=r"would keep checkpoints in db\.example/agentos"):
        database_of(tmp_path, {})
    chosen = {"AGENTOS_CLUSTER__CHECKPOINTS": url, "AGENTOS_CHECKPOINTS__PROJECT": "library"}
    database = database_of(tmp_path, chosen)
    assert database is not None
    assert database.name == "db.example/agentos"
    (tmp_path / "agentos.toml").write_text(f'[cluster]\ncheckpoints = "{url}"\n[checkpoints]\nurl = "{url}"\n')
    with pytest.raises(UsageError, match=r"line 2: cluster.checkpoints is the same as checkpoints.url: keep one"):
        load_settings(tmp_path, {})

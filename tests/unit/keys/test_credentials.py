"""Keys from file, environment and keyring; every mistake has its sentence, and no sentence has a secret."""

from __future__ import annotations

import os
import re
import stat
import sys
import threading
from pathlib import Path

import pytest

from agentos.errors import UsageError
from agentos.files import write_private
from agentos.keys.credential_edits import add_credential, remove_credential
from agentos.keys.credentials import (
    CredentialSet,
    fingerprint,
    load_credentials,
    load_salt,
)
from agentos.keys.key_spec import KeySpec
from agentos.paths import credentials_path
from agentos.providers.registry import key_variables

SECRET = "SENTINEL-abcdefgh"


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AGENTOS_HOME", str(tmp_path))
    return credentials_path()


def write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    path.chmod(0o600)


def load(path: Path, **environ: str) -> CredentialSet:
    return load_credentials(path, environ, keyring_get=lambda service, name: None)


def entry(name: str = "alpha", provider: str = "google", more: str = "") -> str:
    return f'[[key]]\nname = "{name}"\nprovider = "{provider}"\nsecret = "{SECRET}-{name}"\n{more}\n'


def error_of(path: Path, **environ: str) -> str:
    with pytest.raises(UsageError) as caught:
        load(path, **environ)
    text = str(caught.value)
    assert "SENTINEL" not in text
    assert "\n" not in text
    return text


def test_no_file_and_no_variable_is_an_empty_pool(path: Path) -> None:
    assert load(path) == CredentialSet()


def test_a_full_file_is_read(path: Path) -> None:
    write(
        path,
        entry(more='group = "project-1"\nmax_concurrent = 4\nrpm = 10\ntpm = 1000\nrpd = 250')
        + '[[key]]\nname = "beta"\nprovider = "openai"\nenv = "MY_KEY"\n'
        + '[[key]]\nname = "gamma"\nprovider = "anthropic"\nkeyring = true\n',
    )
    stored = {("agentos", "gamma"): "SENTINEL-ring"}
    found = load_credentials(
        path, {"MY_KEY": " SENTINEL-env\n"}, keyring_get=lambda service, name: stored.get((service, name))
    )
    assert found.specs == (
        KeySpec(name="alpha", provider="google", group="project-1", max_concurrent=4, rpm=10, tpm=1000, rpd=250),
        KeySpec(name="beta", provider="openai", group="beta"),
        KeySpec(name="gamma", provider="anthropic", group="gamma"),
    )
    assert found.secrets == {"alpha": f"{SECRET}-alpha", "beta": "SENTINEL-env", "gamma": "SENTINEL-ring"}
    assert found.warnings == ()


def test_no_repr_shows_a_secret(path: Path) -> None:
    write(path, entry())
    assert "SENTINEL" not in repr(load(path))


@pytest.mark.parametrize(
    ("variable", "name"),
    [
        ("GEMINI_API_KEY", "env-google"),
        ("GOOGLE_API_KEY", "env-google"),
        ("OPENAI_API_KEY", "env-openai"),
        ("ANTHROPIC_API_KEY", "env-anthropic"),
    ],
)
def test_a_plain_variable_is_enough(path: Path, variable: str, name: str) -> None:
    found = load(path, **{variable: SECRET})
    assert found.secrets == {name: SECRET}


def test_the_same_secret_in_two_variables_is_one_key_and_two_secrets_are_two(path: Path) -> None:
    assert len(load(path, GEMINI_API_KEY=SECRET, GOOGLE_API_KEY=SECRET).credentials) == 1
    both = load(path, GEMINI_API_KEY=SECRET, GOOGLE_API_KEY="other")
    assert both.secrets == {"env-google": SECRET, "env-google-2": "other"}


def test_the_environment_is_read_by_default(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in key_variables():
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    assert load_credentials().secrets == {"env-openai": SECRET}


def test_a_providers_keys_in_the_file_replace_its_plain_variable(path: Path) -> None:
    write(path, entry())
    found = load(path, GEMINI_API_KEY="x", OPENAI_API_KEY="y")
    assert set(found.secrets) == {"alpha", "env-openai"}


def test_the_same_secret_twice_in_the_file_is_used_once_and_said(path: Path) -> None:
    write(path, entry("a").replace(f"{SECRET}-a", SECRET) + entry("b").replace(f"{SECRET}-b", SECRET))
    found = load(path)
    assert list(found.secrets) == ["a"]
    assert "same secret" in found.warnings[0]
    assert "SENTINEL" not in found.warnings[0]


def test_the_pool_can_be_limited_at_loading(path: Path) -> None:
    write(path, entry("a") + entry("b") + entry("c"))
    assert list(load(path, AGENTOS_CREDENTIAL_LIMIT="2").secrets) == ["a", "b"]
    assert "AGENTOS_CREDENTIAL_LIMIT" in error_of(path, AGENTOS_CREDENTIAL_LIMIT="two")


@pytest.mark.skipif(os.name == "nt", reason="file modes")
def test_a_file_open_to_others_is_warned_of_with_the_fix(path: Path) -> None:
    write(path, entry())
    path.chmod(0o644)
    (warning,) = load(path).warnings
    assert "0644" in warning
    assert f"chmod 600 {path}" in warning


def test_keys_that_share_one_group_add_nothing_and_that_is_said(path: Path) -> None:
    write(path, "".join(entry(name, more='group = "p"') for name in "abc") + entry("o", "openai"))
    assert load(path).warnings == ("google: 3 keys, 1 quota group: rotation adds no capacity",)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ('[[key]]\nname = "a"\nsecret = "SENTINEL\n', ["not valid TOML", "line 3"]),
        ('[[key]]\nname = "a"\nsecret = SENTINEL\n', ["not valid TOML", "line 3"]),
        ("[[key", ["not valid TOML"]),
        ('[key]\nname = "a"\n', ["[[key]]"]),
        ('key = ["SENTINEL"]\n', ["[[key]]"]),
        (f'alpha = "{SECRET}"\n', ["[[key]]"]),
        (entry("a") + entry("a"), ["line 6", "'a'", "another key has this name"]),
        ('\n\n[[key]]\nname = "a"\nprovider = "gogle"\nsecret = "x"\n', ["line 3", "'a'", "'gogle'", "google"]),
        (f'[[key]]\nname = "a"\nprovider = "{SECRET}"\nsecret = "x"\n', ["'a'", "unknown provider;"]),
        ('[[key]]\nname = "a"\nsecret = "x"\n', ["unknown provider"]),
        ('[[key]]\nprovider = "google"\nsecret = "SENTINEL"\n', ["needs a name"]),
        ('[[key]]\nname = "SENTINEL with spaces"\nprovider = "google"\nsecret = "x"\n', ["needs a name"]),
        ('[[key]]\nname = "a"\nprovider = "google"\n', ["no secret", "keyring = true"]),
        ('[[key]]\nname = "a"\nprovider = "google"\nsecret = "SENTINEL"\nenv = "B"\n', ["secret and env at once"]),
        ('[[key]]\nname = "a"\nprovider = "google"\nsecret = "SENTINEL x"\n', ["spaces"]),
        ('[[key]]\nname = "a"\nprovider = "google"\nsecret = ""\n', ["'a'", "empty"]),
        ('[[key]]\nname = "a"\nprovider = "google"\nsecret = 5\n', ["'a'"]),
        (
            '[[key]]\nname = "a"\nprovider = "google"\nenv = "SENTINEL-1"\n',
            ["env must be the name of an environment variable"],
        ),
        ('[[key]]\nname = "a"\nprovider = "google"\nkeyring = "SENTINEL"\n', ["keyring must be true"]),
        (entry(more="max_concurent = 2"), ["unknown field 'max_concurent'"]),
        (entry(more='"SENTINEL Field" = 2'), ["unknown field"]),
        (entry(more="rpm = 0"), ["rpm must be a whole number"]),
        (entry(more="max_concurrent = true"), ["max_concurrent must be a whole number"]),
        (entry(more='group = "a b"'), ["group must be a name"]),
    ],
)
def test_a_mistake_names_its_place_and_its_fix(path: Path, text: str, parts: list[str]) -> None:
    write(path, text)
    message = error_of(path)
    assert str(path) in message
    for part in parts:
        assert part in message


def test_a_plain_variable_with_a_broken_value_is_an_error(path: Path) -> None:
    assert "OPENAI_API_KEY" in error_of(path, OPENAI_API_KEY="SENTINEL two words")


def test_a_file_that_is_no_text_or_no_file_is_an_error(path: Path) -> None:
    path.write_bytes(b"\xff\xfeSENTINEL")
    assert "UTF-8" in error_of(path)
    path.unlink()
    path.mkdir()
    assert "cannot be read" in error_of(path)


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_file_is_an_error(path: Path) -> None:
    write(path, entry())
    path.chmod(0o000)
    assert "chmod 600" in error_of(path)


def test_changed_secrets_are_those_of_keys_in_both_sets(path: Path) -> None:
    write(path, entry("a") + entry("b"))
    before = load(path)
    write(path, entry("a").replace(SECRET, "new") + entry("b") + entry("c"))
    assert load(path).changed_secrets(before) == frozenset({"a"})


def spec(name: str, **more: object) -> KeySpec:
    return KeySpec(**{"name": name, "provider": "google", "group": name, **more})  # type: ignore[arg-type]


def test_a_key_is_added_and_removed_and_the_rest_stays_as_it_was(path: Path) -> None:
    original = '# my keys\n\n[[key]]  # the first\nname = "old"\nprovider = "openai"\nsecret = "x"'
    write(path, original)
    add_credential(path, spec("new", group="p", max_concurrent=2, rpm=5), secret=f" {SECRET}\n")
    found = load(path)
    assert found.secrets == {"old": "x", "new": SECRET}
    assert found.specs[1] == spec("new", group="p", max_concurrent=2, rpm=5)
    assert path.read_text().startswith(original)
    remove_credential(path, "new")
    assert path.read_text().strip() == original
    assert load(path).secrets == {"old": "x"}


def test_the_file_is_created_private_and_stays_so(path: Path) -> None:
    path = path.parent / "deep" / "credentials.toml"
    add_credential(path, spec("a"), secret="x")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o644)
    add_credential(path, spec("b"), env="SOME_VARIABLE")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert load(path, SOME_VARIABLE="y").secrets == {"a": "x", "b": "y"}
    assert {item.name for item in path.parent.iterdir()} == {"credentials.toml", "credentials.toml.lock"}


def test_a_link_to_the_file_stays_a_link(path: Path) -> None:
    real = path.parent / "real.toml"
    write(real, entry("a"))
    path.symlink_to(real)
    add_credential(path, spec("b"), secret="x")
    assert path.is_symlink()
    assert set(load(path).secrets) == {"a", "b"}


def test_a_secret_for_the_keyring_never_reaches_the_file(path: Path) -> None:
    ring: dict[str, str] = {}

    def remember(service: str, name: str, secret: str) -> None:
        ring[name] = secret

    add_credential(path, spec("a"), secret=SECRET, use_keyring=True, keyring_set=remember)
    assert "SENTINEL" not in path.read_text()
    found = load_credentials(path, {}, keyring_get=lambda service, name: ring.get(name))
    assert found.secrets == {"a": SECRET}


def test_the_installed_keyring_is_asked(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keyring = pytest.importorskip("keyring")
    ring: dict[tuple[str, str], str] = {}
    monkeypatch.setattr(keyring, "set_password", lambda s, n, secret: ring.__setitem__((s, n), secret))
    monkeypatch.setattr(keyring, "get_password", lambda s, n: ring.get((s, n)))
    add_credential(path, spec("a"), secret=SECRET, use_keyring=True)
    assert load_credentials(path, {}).secrets == {"a": SECRET}


def test_a_locked_keyring_is_an_error_with_a_fix(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keyring = pytest.importorskip("keyring")

    def refuse(*args: str) -> None:
        raise keyring.errors.KeyringLocked("SENTINEL")

    monkeypatch.setattr(keyring, "set_password", refuse)
    monkeypatch.setattr(keyring, "get_password", refuse)
    with pytest.raises(UsageError, match="unlock") as caught:
        add_credential(path, spec("a"), secret=SECRET, use_keyring=True)
    assert "SENTINEL" not in str(caught.value)
    assert not path.exists()
    write(path, '[[key]]\nname = "a"\nprovider = "google"\nkeyring = true\n')
    (missing,) = load_credentials(path, {}).missing
    assert "unlock" in missing.reason
    assert "SENTINEL" not in missing.reason


def test_without_the_keyring_library_the_fix_is_said(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)
    write(path, '[[key]]\nname = "a"\nprovider = "google"\nkeyring = true\n')
    (missing,) = load_credentials(path, {}).missing
    assert re.search(r"pip install .*keyring", missing.reason)


def test_a_key_without_its_secret_leaves_the_others_as_they_are(path: Path) -> None:
    write(
        path,
        '[[key]]\nname = "a"\nprovider = "google"\nenv = "MISSING"\n'
        '[[key]]\nname = "b"\nprovider = "openai"\nkeyring = true\n' + entry(),
    )
    found = load_credentials(path, {"OPENAI_API_KEY": "SENTINEL"}, keyring_get=lambda service, name: None)
    # Who lists keys of a provider wants those and no other: the plain variable does not take their place.
    assert [spec.name for spec in found.specs] == ["alpha"]
    assert [(each.spec.name, each.spec.provider) for each in found.missing] == [("a", "google"), ("b", "openai")]
    assert "key 'a': the environment variable MISSING is not set: export it" in found.missing[0].reason
    assert f"{path}, line 1" in found.missing[0].reason
    assert "key 'b': the OS keyring has no secret" in found.missing[1].reason
    write(path, '[[key]]\nname = "a"\nprovider = "google"\nenv = "MISSING"\n' * 2)
    assert "another key has this name" in error_of(path)


@pytest.mark.parametrize(
    ("name", "more", "problem"),
    [
        ("old", {"secret": "x"}, "exists"),
        ("bad name", {"secret": "x"}, "name"),
        ("a", {}, "no secret"),
        ("a", {"secret": "SENTINEL a"}, "spaces"),
        ("a", {"secret": "SENTINEL", "env": "B"}, "at once"),
        ("a", {"env": "1B"}, "environment variable"),
    ],
)
def test_what_cannot_be_added_changes_nothing(path: Path, name: str, more: dict[str, str], problem: str) -> None:
    write(path, entry("old"))
    before = path.read_bytes()
    with pytest.raises(UsageError, match=problem) as caught:
        add_credential(path, spec(name), **more)  # type: ignore[arg-type]
    assert "SENTINEL" not in str(caught.value)
    assert path.read_bytes() == before


def test_removing_keeps_the_next_keys_comment(path: Path) -> None:
    write(path, entry("a") + "# about b\n" + entry("b") + entry("c"))
    remove_credential(path, "a")
    assert path.read_text().lstrip().startswith("# about b\n")
    remove_credential(path, "c")
    assert list(load(path).secrets) == ["b"]


def test_removing_an_unknown_key_lists_the_known(path: Path) -> None:
    write(path, entry("a"))
    with pytest.raises(UsageError, match="the file's keys: a"):
        remove_credential(path, "b")


def test_a_layout_that_cannot_be_edited_safely_is_left_alone(path: Path) -> None:
    text = 'key = [{name = "a", provider = "google", secret = "x"}]\n'
    write(path, text)
    with pytest.raises(UsageError, match="by hand"):
        remove_credential(path, "a")
    assert path.read_text() == text


def test_keys_added_at_the_same_time_are_all_there(path: Path) -> None:
    threads = [
        threading.Thread(target=add_credential, args=(path, spec(f"k{n}")), kwargs={"secret": f"s{n}"})
        for n in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert set(load(path).secrets) == {f"k{n}" for n in range(8)}


def test_a_write_that_fails_leaves_the_old_file_and_no_other(path: Path) -> None:
    write(path, entry())
    before = path.read_text()
    with pytest.raises(UnicodeEncodeError):
        write_private(path, "half \ud800")
    assert path.read_text() == before
    assert list(path.parent.iterdir()) == [path]


def test_a_fingerprint_tells_secrets_apart_and_needs_the_salt(path: Path) -> None:
    salt = load_salt()
    assert load_salt() == salt
    assert stat.S_IMODE((path.parent / "keys" / "salt").stat().st_mode) == 0o600
    assert fingerprint(SECRET, salt) == fingerprint(SECRET, salt)
    assert fingerprint(SECRET, salt) != fingerprint(SECRET + "x", salt)
    assert fingerprint(SECRET, salt) != fingerprint(SECRET, salt + b"x")


def test_one_secret_at_two_providers_is_two_keys(path: Path) -> None:
    """As with a gateway of one's own that serves all protocols with one key."""
    variables = {"OPENAI_API_KEY": SECRET, "ANTHROPIC_API_KEY": SECRET}
    assert len(set(load_credentials(path, variables).fingerprints(b"salt").values())) == 2


@pytest.mark.parametrize("content", ["not hex", "ab"])
def test_a_broken_salt_is_an_error_with_a_fix(path: Path, content: str) -> None:
    salt_path = path.parent / "keys" / "salt"
    load_salt(salt_path)
    salt_path.write_text(content)
    with pytest.raises(UsageError, match="remove it"):
        load_salt(salt_path)


def test_processes_that_race_for_the_salt_agree(path: Path) -> None:
    found: list[bytes] = []
    threads = [threading.Thread(target=lambda: found.append(load_salt())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(found) == 8
    assert len(set(found)) == 1

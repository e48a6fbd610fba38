"""`agentos keys` in this process: verbs, words and exit codes; one call a key against the loopback server."""

from __future__ import annotations

import getpass
import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentos import llm
from agentos.cli.main import main
from agentos.keys.credentials import load_credentials
from agentos.llm.key_check import is_usable, result_and_note
from agentos.llm.settings import use_base_urls
from agentos.providers.evidence import Abandoned, Evidence, Overloaded, QuotaSpent, RequestFailed, TransportFailed
from agentos.testing.provider_server import Key, ProviderServer, Step

SECRET = "AIzaSyUnitTestSecret0123456789"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home without keys; calls go to a port where nobody listens unless a test says otherwise."""
    for variable in ("GEMINI_API_KEY", "GOOGLE_API_KEY", "OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("AGENTOS_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("AGENTOS_PROVIDERS__GOOGLE__BASE_URL", "http://127.0.0.1:9")
    monkeypatch.chdir(tmp_path)
    yield tmp_path / "home"
    llm.close()
    use_base_urls({})


def add(monkeypatch: pytest.MonkeyPatch, name: str, *more: str, secret: str = SECRET) -> int:
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{secret}\n"))
    return main(["keys", "add", name, "--provider", "google", *more])


def listed(capsys: pytest.CaptureFixture[str]) -> dict[str, dict[str, object]]:
    capsys.readouterr()
    assert main(["keys", "--json"]) == 0
    return {key["name"]: key for key in json.loads(capsys.readouterr().out)}


def test_a_key_is_added_listed_and_removed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["keys", "list"]) == 0
    assert "No keys yet" in capsys.readouterr().out
    assert add(monkeypatch, "alpha", "--group", "p1", "--max-concurrent", "2", "--tpm", "10", "--rpd", "9") == 0
    (spec,) = load_credentials().specs
    assert (spec.group, spec.max_concurrent, spec.tpm, spec.rpd) == ("p1", 2, 10, 9)
    assert listed(capsys)["alpha"]["state"] == "available"
    assert main(["keys"]) == 0
    assert SECRET not in capsys.readouterr().out
    assert main(["keys", "remove", "alpha"]) == 0
    assert load_credentials().specs == ()


def test_a_table_is_no_wider_than_its_window(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    add(monkeypatch, "a-name-that-takes-its-room")
    capsys.readouterr()
    monkeypatch.setenv("COLUMNS", "40")
    main(["keys"])

    assert {len(line) for line in capsys.readouterr().out.splitlines()} == {40}
    monkeypatch.setenv("COLUMNS", "70")
    main(["keys"])
    heading, row = capsys.readouterr().out.splitlines()
    assert heading.split() == ["NAME", "PROVIDER", "STATE", "UNTIL", "NOTE"]
    assert row.split() == ["a-name-that-takes-its-room", "google", "available"]


def test_a_terminal_is_asked_without_echo(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdin", Terminal())
    monkeypatch.setattr(getpass, "getpass", lambda _prompt: SECRET)

    assert main(["keys", "add", "alpha", "--provider", "google"]) == 0
    assert load_credentials().secrets == {"alpha": SECRET}


def test_no_secret_and_no_such_key_are_usage_errors_and_no_key_is_none_that_serves(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert add(monkeypatch, "alpha", secret="") == 2
    assert main(["keys", "check"]) == 4
    assert main(["keys", "reset", "alpha"]) == 2
    errors = capsys.readouterr().err
    assert "No secret" in errors
    assert "No keys to check" in errors
    assert "No key named 'alpha'. Known keys: none." in errors


@pytest.mark.parametrize(("words", "code"), [(["check"], 4), (["check", "alpha"], 2), (["reset", "alpha"], 2)])
def test_a_key_without_its_variable_is_named_with_it(
    words: list[str], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["keys", "add", "alpha", "--provider", "google", "--env", "UNSET_KEY"]) == 0
    capsys.readouterr()

    assert main(["keys", *words]) == code
    [line] = capsys.readouterr().err.splitlines()
    assert "key 'alpha': the environment variable UNSET_KEY is not set: export it" in line


def test_check_says_what_one_call_showed_and_reset_forgets_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ("good", "spent", "bad", "empty", "odd")
    for name in names:
        add(monkeypatch, name, secret=f"AIzaSy-secret-of-{name}")
    with ProviderServer(keys=[Key(name=n, secret=f"AIzaSy-secret-of-{n}", group=n) for n in names]) as server:
        monkeypatch.setenv("AGENTOS_PROVIDERS__GOOGLE__BASE_URL", server.base_url("google"))
        server.script("spent", Step(kind="daily_limit"))
        server.script("bad", Step(kind="fail", fail="invalid_key"))
        server.script("empty", Step(kind="fail", fail="zero_limit"))
        server.script("odd", Step(kind="fail", fail="bad_request"))
        capsys.readouterr()
        assert main(["keys", "check", "--json", "--model", "google:gemini-2.5-flash"]) == 0
        checked = {each["name"]: each for each in json.loads(capsys.readouterr().out)}
        assert main(["keys", "check", "bad"]) == 0  # The provider has taken it back.
        llm.close()
        states = {name: key["state"] for name, key in listed(capsys).items()}
        main(["keys", "reset", "spent"])

    assert {name: each["result"] for name, each in checked.items()} == {
        "good": "valid",
        "spent": "out_of_quota",
        "bad": "rejected",
        "empty": "out_of_quota",
        "odd": "valid",
    }
    assert {name for name, each in checked.items() if each["is_usable"]} == {"good", "spent", "odd"}
    assert {each["model"] for each in checked.values()} == {"google:gemini-2.5-flash"}
    assert (states["bad"], states["spent"], states["empty"]) == ("available", "out_of_quota", "out_of_quota")
    assert listed(capsys)["spent"]["state"] == "available"


def test_check_of_a_provider_out_of_reach_is_exit_4(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    add(monkeypatch, "alpha")
    capsys.readouterr()

    assert main(["keys", "check", "alpha"]) == 4
    assert "0 valid, 1 unknown (alpha)" in capsys.readouterr().out
    assert listed(capsys)["alpha"]["state"] == "available"


def test_a_model_without_keys_cannot_be_checked_with(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    add(monkeypatch, "alpha")

    assert main(["keys", "check", "--model", "offline"]) == 2
    assert "has no keys" in capsys.readouterr().err


def test_what_says_nothing_of_the_key_is_unknown() -> None:
    silent: list[Evidence] = [Overloaded(), TransportFailed(reason="reset"), RequestFailed(reason="bad"), Abandoned()]

    assert [result_and_note(evidence)[0] for evidence in silent] == ["unknown"] * 4
    assert not any(is_usable(evidence) for evidence in [*silent, QuotaSpent(never_resets=True)])

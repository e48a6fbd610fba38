"""`agentos keys`: what it lists, adds, removes, checks and resets, through the installed command."""

from __future__ import annotations

import base64
import json
import os
import pty
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest
from harness import AGENTOS, DEADLINE_SECONDS, Finished, Sandbox, eventually
from providers import PoolKey, provider

from agentos.testing.provider_server import Step

ALPHA = PoolKey(name="alpha")


def _piped(sandbox: Sandbox, text: str, *arguments: str) -> Finished:
    source = sandbox.root / "stdin.txt"
    source.write_text(text)
    with source.open("rb") as stdin:
        return sandbox.start_command("keys", *arguments, stdin=stdin).wait()


def _listed(sandbox: Sandbox) -> dict[str, dict[str, Any]]:
    return {key["name"]: key for key in json.loads(sandbox.command("keys", "--json").stdout)}


def test_a_key_from_a_pipe_is_kept_private_and_listed_without_its_secret(sandbox: Sandbox) -> None:
    added = _piped(
        sandbox, ALPHA.secret + "\n", "add", "alpha", "--provider", "google", "--group", "p1", "--rpm", "5"
    )
    listed = sandbox.command("keys")
    path = sandbox.home / "credentials.toml"

    assert added.code == 0, added.stderr
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert f'secret = "{ALPHA.secret}"' in path.read_text()
    assert "rpm = 5" in path.read_text()
    assert listed.lines[0].split() == ["NAME", "PROVIDER", "GROUP", "STATE", "UNTIL", "CALLS", "LAST", "USED", "NOTE"]
    assert listed.lines[1].split() == ["alpha", "google", "p1", "available", "0", "never"]
    for finished in (added, listed):
        assert ALPHA.secret[:8] not in finished.stdout + finished.stderr


def test_a_key_typed_on_a_terminal_is_not_echoed(sandbox: Sandbox) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [str(AGENTOS), "keys", "add", "alpha", "--provider", "google"],
        cwd=sandbox.project,
        env=sandbox.environment,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        preexec_fn=_take_terminal,
    )
    os.close(theirs)
    shown = bytearray()

    def prompt_is_there() -> bool:
        shown.extend(os.read(ours, 4096))
        return b"(not shown)" in shown

    eventually(prompt_is_there, "a prompt")
    os.write(ours, ALPHA.secret.encode() + b"\n")
    while data := _read_or_end(ours):
        shown.extend(data)
    os.close(ours)

    assert process.wait(DEADLINE_SECONDS) == 0, shown
    assert b"Added alpha" in shown
    assert ALPHA.secret[:8].encode() not in shown
    assert ALPHA.secret in (sandbox.home / "credentials.toml").read_text()


def _take_terminal() -> None:
    """The new session's terminal is its standard input; opening it by name does that."""
    os.close(os.open(os.ttyname(0), os.O_RDWR))


def _read_or_end(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 4096)
    except OSError:  # Linux says EIO when the last process has closed its side.
        return b""


def test_a_key_by_variable_keeps_no_secret_and_says_when_the_variable_is_missing(sandbox: Sandbox) -> None:
    variable = {"MY_KEY": ALPHA.secret}
    added = sandbox.command("keys", "add", "alpha", "--provider", "google", "--env", "MY_KEY", env=variable)
    listed = sandbox.command("keys", env=variable)
    without = sandbox.command("keys")

    assert (added.code, listed.code) == (0, 0), added.stderr
    assert ALPHA.secret not in (sandbox.home / "credentials.toml").read_text()
    assert "alpha" in listed.stdout
    assert without.code == 0
    assert "no secret" in without.stdout
    assert "MY_KEY is not set" in without.stderr


@pytest.mark.parametrize(
    ("text", "arguments", "code", "words"),
    [
        ("", ["add", "alpha", "--provider", "google"], 2, "No secret"),
        ("two words\n", ["add", "alpha", "--provider", "google"], 2, "spaces"),
        ("secret-1234\n", ["add", "al pha", "--provider", "google"], 2, "name"),
        ("secret-1234\n", ["add", "alpha", "--provider", "acme"], 2, "No provider 'acme': use one of google"),
        ("secret-1234\n", ["add", "alpha", "--provider", "google", "--rpm", "0"], 2, "at least 1"),
        ("secret-1234\n", ["add", "beta", "--provider", "google"], 2, "exists"),
        ("", ["remove", "nobody"], 2, "no such key"),
        ("", ["reset", "nobody"], 2, "No key named 'nobody'"),
        ("", ["check", "nobody"], 2, "No key named 'nobody'"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(
    sandbox: Sandbox, text: str, arguments: list[str], code: int, words: str
) -> None:
    assert _piped(sandbox, "other-secret-1\n", "add", "beta", "--provider", "google").code == 0
    before = (sandbox.home / "credentials.toml").read_text()
    finished = _piped(sandbox, text, *arguments)

    assert finished.code == code
    assert words in finished.stderr
    assert "Traceback" not in finished.stderr
    assert "secret-1234" not in finished.stderr
    assert (sandbox.home / "credentials.toml").read_text() == before


@pytest.mark.parametrize(
    "arguments",
    [
        ("rm", "nobody"),
        ("reset", "nobody"),
        ("check", "nobody"),
        ("add", "alpha", "--provider", "acme"),
        ("add", "al pha", "--provider", "google", "--env", "NOT_SET"),
    ],
    ids=" ".join,
)
def test_what_is_refused_leaves_nothing_on_disk(sandbox: Sandbox, arguments: tuple[str, ...]) -> None:
    assert sandbox.command("keys", *arguments).code == 2
    assert not sandbox.home.exists()


def test_remove_leaves_the_other_keys_and_no_keys_are_no_error(sandbox: Sandbox) -> None:
    for name in ("alpha", "beta"):
        assert _piped(sandbox, f"secret-of-{name}\n", "add", name, "--provider", "openai").code == 0
    assert sandbox.command("keys", "remove", "alpha").code == 0
    assert list(_listed(sandbox)) == ["beta"]
    assert sandbox.command("keys", "rm", "beta").code == 0
    empty = sandbox.command("keys")

    assert empty.code == 0
    assert "agentos keys add google --provider google" in empty.stdout
    assert json.loads(sandbox.command("keys", "--json").stdout) == []


def test_keys_that_all_share_one_group_and_a_file_open_to_others_are_said(sandbox: Sandbox) -> None:
    for name in ("alpha", "beta", "gamma"):
        _piped(sandbox, f"secret-of-{name}\n", "add", name, "--provider", "google", "--group", "one")
    (sandbox.home / "credentials.toml").chmod(0o644)
    listed = sandbox.command("keys")

    assert listed.code == 0
    assert "google: 3 keys, 1 quota group: rotation adds no capacity" in listed.stderr
    assert "chmod 600" in listed.stderr


def test_check_tells_valid_limited_and_rejected_keys_apart_and_remembers(sandbox: Sandbox) -> None:
    keys = [PoolKey(name="good"), PoolKey(name="busy"), PoolKey(name="spent"), PoolKey(name="bad", is_valid=False)]
    with provider(sandbox, *keys) as server:
        server.script("busy", Step(kind="rate_limit", retry_after_seconds=40))
        server.script("spent", Step(kind="daily_limit"))
        checked = sandbox.command("keys", "check")
        listed = _listed(sandbox)
        only_bad = sandbox.command("keys", "check", "bad", "--json")

    assert checked.code == 0, checked.stderr
    assert "1 valid, 1 rate limited (busy), 1 out of quota (spent), 1 rejected (bad)" in checked.stdout
    assert {name: key["state"] for name, key in listed.items()} == {
        "good": "available",
        "busy": "rate_limited",
        "spent": "out_of_quota",
        "bad": "rejected",
    }
    assert listed["good"]["calls"] == 1
    assert only_bad.code == 4
    assert [each["result"] for each in json.loads(only_bad.stdout)] == ["rejected"]
    assert server.stats()["hits"] == {"good": 1, "busy": 1, "spent": 1, "bad": 2}
    assert not any(key.secret[:8] in checked.stdout + checked.stderr + only_bad.stdout for key in keys)


@pytest.mark.slow
def test_a_check_shows_no_form_of_a_key_that_the_provider_quotes(sandbox: Sandbox) -> None:
    encoded = base64.b64encode(ALPHA.secret.encode()).decode()
    with provider(sandbox, ALPHA) as server:
        words = f"no user for {ALPHA.secret}, sent as {encoded}"
        server.script("alpha", Step(kind="status", status=500, body={"error": {"message": words}}))
        checked = sandbox.command("keys", "check")
    assert "no user for ****" in checked.stdout
    assert not any(part in checked.stdout for part in (ALPHA.secret[:8], encoded[:12], encoded[8:20]))


def test_reset_and_a_good_check_lift_what_was_remembered(sandbox: Sandbox) -> None:
    twins = [PoolKey(name="one", group="g"), PoolKey(name="two", group="g")]
    with provider(sandbox, *twins) as server:
        server.script("one", Step(kind="daily_limit"))
        server.script("two", Step(kind="fail", fail="invalid_key"))
        sandbox.command("keys", "check")
        before = {name: key["state"] for name, key in _listed(sandbox).items()}
        assert sandbox.command("keys", "reset", "one").code == 0
        after_reset = {name: key["state"] for name, key in _listed(sandbox).items()}
        assert sandbox.command("keys", "check").code == 0
        after_check = {name: key["state"] for name, key in _listed(sandbox).items()}

    assert before == {"one": "out_of_quota", "two": "rejected"}
    assert after_reset == {"one": "available", "two": "rejected"}
    assert after_check == {"one": "available", "two": "available"}


def test_a_damaged_memory_is_set_aside_with_a_warning(sandbox: Sandbox) -> None:
    _piped(sandbox, "secret-of-alpha\n", "add", "alpha", "--provider", "google")
    memory = sandbox.home / "keys" / "limits.json"
    memory.parent.mkdir(exist_ok=True)
    memory.write_text("{")
    listed = sandbox.command("keys")

    assert listed.code == 0
    assert "limits start unknown" in listed.stderr
    assert Path(f"{memory}.damaged").exists()

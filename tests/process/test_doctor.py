"""`agentos doctor`: what a run would stumble over is found before one is started, each with what to do."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from backlog import SECRETS
from designs import Designs
from harness import Finished, Sandbox
from test_preflight import HIDDEN_SDK

from agentos.testing.provider_server import Key, ProviderServer, Step

MODEL = "google:gemini-2.5-flash"
NOT_FOUND = Step(
    kind="status",
    status=404,
    times=-1,
    body={"error": {"code": 404, "status": "NOT_FOUND", "message": "models/gemini-2.5-flash is not found"}},
)


@pytest.fixture
def designs(tmp_path: Path) -> Iterator[Designs]:
    made = Designs(tmp_path)
    made.environment.pop("ANTHROPIC_API_KEY")
    try:
        yield made
    finally:
        made.close()


def provider() -> ProviderServer:
    keys = [Key(name=f"k{n}", secret=secret) for n, secret in enumerate(SECRETS, 1)]
    return ProviderServer(keys=keys, accepts_unknown_keys=False)


def use_keys(sandbox: Sandbox, server: ProviderServer, *secrets: str) -> None:
    sandbox.home.mkdir(exist_ok=True)
    path = sandbox.home / "credentials.toml"
    path.write_text(
        "".join(
            f'[[key]]\nname = "k{n}"\nprovider = "google"\nsecret = "{secret}"\n'
            for n, secret in enumerate(secrets, 1)
        )
    )
    path.chmod(0o600)
    sandbox.environment["AGENTOS_PROVIDERS__GOOGLE__BASE_URL"] = server.base_url("google")
    sandbox.environment |= dict.fromkeys(("AGENTOS_DRAFTER", "AGENTOS_REVIEWER"), MODEL)


def findings(done: Finished, level: str) -> list[dict[str, Any]]:
    return [each for each in json.loads(done.stdout)["findings"] if each["level"] == level]


def snapshot(folder: Path) -> dict[str, float]:
    return {str(path): path.lstat().st_mtime for path in folder.rglob("*")}


def test_a_healthy_project_has_no_error_and_nothing_is_left_behind(designs: Designs) -> None:
    with provider() as server:
        use_keys(designs, server, *SECRETS)
        before = snapshot(designs.project)
        done = designs.command("doctor")
        calls = server.hits("k1") + server.hits("k2")
        quick = designs.command("doctor", "--no-calls", "--no-suite", "--json")
        careful = json.loads(quick.stdout)
        assert server.hits("k1") + server.hits("k2") == calls

    assert done.code == 0, done.stdout
    for line in (
        "ok       keys: k1 (google): valid",
        "ok       keys: k2 (google): valid",
        f"ok       models: {MODEL}: answers",
    ):
        assert line in done.lines
    assert any(line.startswith("ok       tests: python -m pytest in ") for line in done.lines)
    assert any("1 test passed" in line for line in done.lines)
    assert "Running the project's tests in a copy, for at most 10m 00s. --no-suite leaves them out." in done.stderr
    assert "Running" not in quick.stderr
    assert any(
        line.startswith(f"ok       models: {MODEL} writes, reviews, writes tests and code; $") for line in done.lines
    )
    assert done.lines[-1].endswith(" 0 errors")
    assert snapshot(designs.project) == before
    assert not any(secret in done.stdout + done.stderr for secret in SECRETS)
    assert careful["errors"] == 0
    assert any("not tried" in each["text"] for each in careful["findings"])


def test_a_wrong_model_and_a_rejected_key_are_errors_with_a_fix(designs: Designs) -> None:
    with provider() as server:
        server.script("k1", NOT_FOUND)
        use_keys(designs, server, SECRETS[0], "AIza-nobody")
        done = designs.command("doctor", "--no-suite", "--json")
        use_keys(designs, server, "AIza-nobody")
        rejected = designs.command("doctor", "--no-suite", "--json")

    assert (done.code, rejected.code) == (1, 1)
    (wrong,) = findings(done, "error")
    assert wrong["area"] == "models"
    assert wrong["text"] == f"{MODEL}: google refuses it: models/gemini-2.5-flash is not found"
    assert [each["area"] for each in findings(done, "warning") if "k2" in each["text"]] == ["keys"]
    (key,) = [each for each in findings(rejected, "error") if each["area"] == "keys"]
    assert "k1 (google): rejected" in key["text"]
    assert key["fix"] == "agentos keys rm k1"


def test_an_unset_variable_a_missing_sdk_and_a_broken_file_are_errors(designs: Designs) -> None:
    offline = {"AGENTOS_DRAFTER": "offline", "AGENTOS_REVIEWER": "offline"}
    live = dict.fromkeys(offline, MODEL)
    quick = ("doctor", "--no-calls", "--no-suite", "--json")
    assert designs.command("keys", "add", "alpha", "--provider", "google", "--env", "UNSET_KEY").code == 0
    hook = designs.root / "hook"
    hook.mkdir()
    (hook / "sitecustomize.py").write_text(HIDDEN_SDK)
    path = os.pathsep.join(filter(None, [str(hook), os.environ.get("PYTHONPATH")]))

    unset = designs.command(*quick, env=live)
    assert designs.command("keys", "add", "beta", "--provider", "google", "--env", "UNSET_TOO").code == 0
    as_text = designs.command(*quick[:-1], env=live)
    assert designs.command("keys", "rm", "beta").code == 0
    issue_dir = designs.project / "docs/issues"
    issue_dir.mkdir(parents=True, exist_ok=True)
    (issue_dir / "44-bad.md").write_text("---\nid: a/b\n---\n# Bad\n")
    unneeded = designs.command(*quick, env=offline)
    (issue_dir / "44-bad.md").unlink()
    no_sdk = designs.command(*quick, env={**live, "UNSET_KEY": "nobodys", "PYTHONPATH": path})
    (designs.project / "agentos.toml").write_text("[model]\n[implementation]\ncoverage_target = 900\n")
    broken = designs.command(*quick, env={**offline, "AGENTOS_CODER": "cli:nope"})

    fix = "         Set the variable where you start AgentOS, or remove the key."
    assert as_text.lines.count(fix) == 1, as_text.stdout
    assert "UNSET_TOO" in as_text.lines[as_text.lines.index(fix) - 1]
    assert (unset.code, unneeded.code, no_sdk.code, broken.code) == (1, 0, 1, 1)
    assert any("UNSET_KEY is not set" in each["text"] and each["fix"] for each in findings(unset, "error"))
    assert any("UNSET_KEY is not set" in each["text"] for each in findings(unneeded, "warning"))
    assert any("44-bad.md: Invalid identifier 'a/b'" in each["text"] for each in findings(unneeded, "warning"))
    (sdk,) = findings(no_sdk, "error")
    assert "The SDK for google is not installed" in sdk["text"]
    assert "pip install" in sdk["fix"]
    wrong = findings(broken, "error")
    assert [each["text"].partition(": ")[0] for each in wrong] == [
        "agentos.toml, line 1",
        "agentos.toml, line 3",
        "AGENTOS_CODER",
    ]
    assert "unknown section [model]. Did you mean 'models'?" in wrong[0]["text"]
    assert "coverage_target must be a whole number from 1 to 100, got 900" in wrong[1]["text"]
    assert "Unknown coding CLI 'nope': use cli:claude or cli:claude:<model>." in wrong[2]["text"]
    assert all(each["fix"] for each in wrong)


def test_a_project_without_git_is_told_the_same_remedy_for_its_tests(sandbox: Sandbox) -> None:
    done = sandbox.command("doctor", "--json", "--no-calls")
    found = {each["area"]: each for each in json.loads(done.stdout)["findings"]}
    assert found["tests"]["fix"] == found["git"]["fix"] == f"git init {sandbox.project}"
    assert found["tests"]["text"] == "not run: they run on a clean checkout, and this is not a git repository"

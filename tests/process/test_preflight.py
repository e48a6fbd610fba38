"""What would go wrong in every item is said once, before the first; what a run has to work with is said as well."""

from __future__ import annotations

import json
import os

from backlog import OFFLINE, Author, Backlog, serving
from harness import Finished, of_type

from agentos.testing.provider_server import Step

MODEL = "google:gemini-2.5-flash"
LIVE = ("--drafter", MODEL, "--reviewer", MODEL)
HIDDEN_SDK = """
import sys


class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name == "google.genai":
            raise ModuleNotFoundError(name)


sys.meta_path.insert(0, Hidden())
"""


def started_nothing(backlog: Backlog) -> bool:
    return not backlog.run_dirs()


def add_key_by_variable(backlog: Backlog) -> None:
    done = backlog.command("keys", "add", "alpha", "--provider", "google", "--env", "UNSET_KEY")
    assert done.code == 0, done.stderr


def refused(backlog: Backlog, *arguments: str, **choices: object) -> list[Finished]:
    """The same refusal of the run and of its dry run, before anything has started."""
    done = [backlog.lld("--all", *arguments, *more, **choices) for more in ((), ("--dry-run",))]
    assert started_nothing(backlog)
    assert done[0].stdout == ""
    assert "  1. LLD-1" in done[1].stdout
    assert done[0].stderr == done[1].stderr
    assert done[0].code == done[1].code
    return done


def test_a_variable_that_is_not_set_stops_only_runs_that_need_it(backlog: Backlog) -> None:
    backlog.add_issues(1)
    add_key_by_variable(backlog)

    live = refused(backlog, *LIVE)[0]
    as_json = backlog.lld("--all", "--dry-run", "--json", *LIVE)
    offline = backlog.lld("--all", *OFFLINE)

    assert live.code == 4
    assert "key 'alpha': the environment variable UNSET_KEY is not set: export it, or remove the key" in live.stderr
    assert as_json.code == 4
    assert "UNSET_KEY is not set" in json.loads(as_json.stdout)["preflight"]["problem"]
    assert offline.code == 0, offline.stderr
    assert "[COORDINATOR] Models: offline. Keys: none needed. Expected cost: none." in offline.lines
    assert "UNSET_KEY" not in offline.stdout + offline.stderr


def test_nothing_is_estimated_for_a_model_that_no_key_serves(backlog: Backlog) -> None:
    backlog.add_issues(1, 2)
    assert backlog.lld("1", *OFFLINE).code == 0
    done = backlog.lld("2", "--dry-run", *LIVE)
    as_json = backlog.lld("2", "--dry-run", "--json", *LIVE)
    assert done.code == as_json.code == 4
    assert "stimate" not in done.stdout
    assert json.loads(as_json.stdout)["estimated_seconds"] is None


def test_a_misspelled_provider_and_a_missing_sdk_are_found_before_the_start(backlog: Backlog) -> None:
    backlog.add_issues(1)
    hook = backlog.root / "hook"
    hook.mkdir()
    (hook / "sitecustomize.py").write_text(HIDDEN_SDK)
    path = os.pathsep.join(filter(None, [str(hook), os.environ.get("PYTHONPATH")]))

    misspelled = [backlog.lld("--all", "--drafter", "gogle:gemini", *more) for more in ((), ("--dry-run",))]
    no_sdk = refused(backlog, *LIVE, env={"PYTHONPATH": path, "GEMINI_API_KEY": "nobodys"})[0]

    for done in misspelled:
        assert (done.code, done.stdout) == (2, "")
        assert "--drafter: Unknown model 'gogle:gemini'" in done.stderr
        assert "Did you mean google?" in done.stderr
    assert started_nothing(backlog)
    assert no_sdk.code == 2
    assert "The SDK for google is not installed: " in no_sdk.stderr


def test_a_missing_program_and_missing_recordings_are_found_before_the_start(backlog: Backlog) -> None:
    backlog.add_issues(1)
    nowhere = {"PATH": str(backlog.root / "nowhere"), "AGENTOS_RECORDED_DIR": ""}
    quick = ("doctor", "--no-calls", "--no-suite", "--json")
    expected = {
        "cli:claude": "The coding CLI claude is not on PATH: install it (npm install -g @anthropic-ai/claude-code)",
        "recorded": "The model `recorded` has no recordings: AGENTOS_RECORDED_DIR is not set.",
    }
    for model, words in expected.items():
        done = refused(backlog, "--drafter", model, "--reviewer", "offline", env=nowhere)[0]
        doctor = backlog.command(*quick, env={**nowhere, "AGENTOS_DRAFTER": model, "AGENTOS_REVIEWER": "offline"})
        found = [each for each in json.loads(doctor.stdout)["findings"] if each["level"] == "error"]

        assert (done.code, words in done.stderr, len(done.stderr.splitlines())) == (2, True, 1), done.stderr
        assert doctor.code == 1
        assert any(each["area"] == "models" and words in each["text"] and each["fix"] for each in found)


def test_a_misspelled_provider_is_told_although_there_is_nothing_to_do(backlog: Backlog) -> None:
    backlog.add_issues(1)
    with serving(Author()) as server:
        backlog.use_keys(1, server)
        assert backlog.lld("--all", *LIVE).code == 0
    (backlog.home / "credentials.toml").unlink()

    for more in ((), ("--dry-run",)):
        done = backlog.lld("--all", "--drafter", "gogle:foo", *more)
        assert (done.code, "Did you mean google?" in done.stderr) == (2, True)
        assert backlog.lld("--all", "--drafter", "google:foo", *more).code == 0  # Nothing to do needs no key.


def test_the_expected_cost_comes_from_past_runs_with_the_same_models(backlog: Backlog) -> None:
    backlog.add_issues(1, 2, 3)
    with serving(Author()) as server:
        backlog.use_keys(2, server)
        before = backlog.lld("1", "--dry-run", *LIVE)
        assert backlog.lld("1", *OFFLINE, "--fresh").code == 0
        first = backlog.lld("1", *LIVE, "--fresh")
        mistyped = backlog.lld("2", "--drafter", "google:gemini-2.5-flsh", "--reviewer", MODEL, "--fresh")
    after = backlog.lld("3", "--dry-run", *LIVE)
    found = json.loads(backlog.lld("3", "--dry-run", "--json", *LIVE).stdout)["preflight"]

    assert "Warning: google:gemini-2.5-flsh is not in the list of prices. Did you mean google:gemini-2.5-flash?" in (
        mistyped.stdout
    )
    assert "not in the list of prices" not in first.stdout
    unknown = f"Models: {MODEL}. Keys: k1, k2. Expected cost: unknown: there is no past run to go by."
    assert unknown in before.lines
    assert (first.code, f"[COORDINATOR] {unknown}" in first.lines) == (0, True), first.stdout + first.stderr
    assert f"Models: {MODEL}. Keys: k1, k2. Expected cost: less than $0.01, from 1 past item." in after.lines
    assert (found["models"], found["keys"], found["past_items"]) == ([MODEL], ["k1", "k2"], 1)
    assert 0 < found["expected_cost_usd"] < 0.01


def test_a_model_that_the_provider_does_not_have_is_found_before_the_start(backlog: Backlog) -> None:
    backlog.add_issues(1, 2, 3)
    wrong = "google:gemini-2.5-flsh"
    with serving(Author(), models=[MODEL.partition(":")[2]]) as server:
        backlog.use_keys(1, server)
        refusal = backlog.lld("--all", "--parallel", "3", "--drafter", wrong, "--reviewer", MODEL)
        assert (refusal.code, refusal.stdout) == (2, ""), refusal.stdout
        assert started_nothing(backlog)
        asked = len(server.desk.lookups)
        previews = [backlog.lld("--all", "--dry-run", "--drafter", model) for model in (wrong, MODEL)]
        assert [done.code for done in previews] == [0, 0]
        assert len(server.desk.lookups) == asked, "a dry run asks nobody"
        runs = [backlog.lld(item, *LIVE) for item in "12"]
        assert [done.code for done in runs] == [0, 0], runs[0].stderr
        assert len(server.desk.lookups) == asked + 1, "what was answered is remembered"

    (line,) = refusal.stderr.splitlines()
    assert f'google has no model {wrong}. It says: "models/gemini-2.5-flsh is not found' in line
    assert f"Did you mean {MODEL}? Correct --drafter, or models.drafter in agentos.toml." in line


def test_where_only_a_call_tells_the_first_item_finds_out_for_all(backlog: Backlog) -> None:
    """A provider that lists the model and does not serve it."""
    backlog.add_issues(1, 2, 3, 4)
    with serving(Author()) as server:
        backlog.use_keys(1, server)
        server.script("*", Step(kind="fail", fail="no_model", times=-1))
        done = backlog.lld("--all", *LIVE)
        hits = server.hits("k1")
    with serving(Author()) as server:
        backlog.use_keys(1, server)
        again = backlog.lld("--all", *LIVE)

    assert done.code == 1, done.stdout
    assert done.stdout.count(f"google has no model {MODEL}, which every item needs") == 1
    assert (hits, len(of_type(backlog.records(), "item_started"))) == (1, 5)
    assert "3 items left: LLD-2, LLD-3, LLD-4" in done.stdout
    assert again.code == 0, again.stdout


def test_keys_that_were_all_rejected_serve_nobody(backlog: Backlog) -> None:
    backlog.add_issues(1)
    with serving(Author()) as server:
        backlog.use_keys(1, server)
        path = backlog.home / "credentials.toml"
        path.write_text(path.read_text().replace("AIza-first", "AIza-wrong"))
        assert backlog.command("keys", "check").code == 4
    for more in (["--dry-run"], []):
        done = backlog.lld("1", *more, *LIVE)
        assert done.code == 4
        assert "Every google key was rejected by its provider: k1." in done.stderr
    with serving(Author()) as server:
        backlog.use_keys(1, server)
        server.script("k1", Step(kind="fail", fail="no_credit"))
        assert backlog.command("keys", "check", "--model", MODEL).code == 4
    for more in (["--dry-run"], []):
        done = backlog.lld("1", *more, *LIVE)
        assert done.code == 4
        assert f"No key can serve {MODEL}: k1 has no quota for it." in done.stderr
    assert backlog.run_dirs() == []

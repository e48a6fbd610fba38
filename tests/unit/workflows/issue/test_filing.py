"""Filing: where issues go, with whose token, and that an issue is filed once."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from drafting_bench import Bench

from agentos.errors import UsageError
from agentos.workflows.issue.filing import filing_environment, repository_name
from fakes.github_server import GitHubServer

BRIEF = "# Totals\n\nReaders want totals in the catalogue. Each total has a label. It works without a network.\n"
TOKEN = "ghp_token-for-tests-0123456789"


@pytest.fixture
def github(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Iterator[GitHubServer]:
    with GitHubServer(token=TOKEN) as server:
        server.add_repository("shop/catalogue")
        for name, value in {
            "GITHUB_API_URL": server.url,
            "GITHUB_TOKEN": TOKEN,
            "GITHUB_REPOSITORY": "shop/catalogue",
            "AGENTOS_FILE_ISSUES": "1",
            # What the offline model approves is a rehearsal, which is not filed.
            "AGENTOS_REVIEWER": "recorded",
            "AGENTOS_RECORDED_DIR": str(bench.project / "recorded"),
        }.items():
            monkeypatch.setenv(name, value)
        record_reviews(bench, "approve")
        yield server


def record_reviews(bench: Bench, verdict: str) -> None:
    folder = bench.project / "recorded/issue/totals"
    folder.mkdir(parents=True, exist_ok=True)
    approval = json.dumps({"verdict": verdict, "summary": "Read.", "findings": [], "answers": []})
    usage = {"input_tokens": 1, "output_tokens": 1}
    for number in range(1, 4):
        saved = {"model": "recorded", "text": "", "structured": approval, "usage": usage}
        (folder / f"N3_review.{number}.json").write_text(json.dumps(saved))


def put_brief(bench: Bench, text: str = BRIEF) -> Path:
    path = bench.project / "ideas/active/totals.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_an_approved_issue_is_filed_and_its_brief_put_away(bench: Bench, github: GitHubServer) -> None:
    brief = put_brief(bench)
    state = bench.write_issue(BRIEF)
    assert state["reason"] == f"filed as {state['filed_url']}"
    (filed,) = github.issues("shop/catalogue")
    assert filed["body"].startswith("# Add totals\n")
    assert not brief.exists()
    assert (bench.project / "ideas/done/totals.md").read_text() == BRIEF


def test_the_same_brief_is_filed_once_and_a_new_one_of_its_name_again(bench: Bench, github: GitHubServer) -> None:
    bench.write_issue(BRIEF)
    put_brief(bench)
    again = bench.write_issue(BRIEF)
    assert again["reason"].startswith("was filed already as")
    assert "round" not in again["draft"]  # Approved before: nothing was drafted.
    put_brief(bench, BRIEF + "\nTotals are rounded.\n")
    assert bench.write_issue(BRIEF + "\nTotals are rounded.\n")["reason"].startswith("filed as")
    assert len(github.issues("shop/catalogue")) == 2
    assert sorted(path.name for path in (bench.project / "ideas/done").iterdir()) == ["totals-2.md", "totals.md"]


def test_what_is_not_approved_is_not_filed(bench: Bench, github: GitHubServer) -> None:
    record_reviews(bench, "discuss")
    brief = put_brief(bench, "# Totals\n\nToo short.\n")
    assert bench.write_issue("# Totals\n\nToo short.\n")["outcome"] == "needs_revision"
    assert github.requests == []
    assert brief.exists()


def test_the_repository_comes_from_settings_then_the_environment_then_the_remote(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    with pytest.raises(UsageError, match="No GitHub repository to file issues in"):
        repository_name(tmp_path, "docs/issues", {})
    for url in ("git@github.com:a/remote.git", "https://github.com/a/remote", "ssh://git@host:22/a/remote.git"):
        subprocess.run(["git", "config", "remote.origin.url", url], cwd=tmp_path, check=True)
        assert repository_name(tmp_path, "docs/issues", {}) == "a/remote"
    assert repository_name(tmp_path, "docs/issues", {"GITHUB_REPOSITORY": "a/variable"}) == "a/variable"
    assert repository_name(tmp_path, "github:a/settings?label=x", {"GITHUB_REPOSITORY": "a/b"}) == "a/settings"
    with pytest.raises(UsageError):
        repository_name(tmp_path, "docs/issues", {"GITHUB_REPOSITORY": "../../x"})


def test_workers_get_a_token_or_nothing_starts(tmp_path: Path) -> None:
    given = {"GITHUB_REPOSITORY": "a/b", "GITHUB_TOKEN": TOKEN, "PATH": ""}
    assert filing_environment(tmp_path, "docs/issues", given)["GITHUB_TOKEN"] == TOKEN
    with pytest.raises(UsageError, match="needs a GitHub token"):
        filing_environment(tmp_path, "docs/issues", {"GITHUB_REPOSITORY": "a/b", "PATH": ""})

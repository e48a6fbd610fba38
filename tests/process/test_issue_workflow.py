"""`issue-workflow`: briefs become issues, and with --file they are on GitHub exactly once, whatever happens."""

from __future__ import annotations

import json
import signal
import threading
import uuid
from collections.abc import Iterator

import pytest
from backlog import APPROVAL, OFFLINE, SECRETS, Author, Backlog, serving, unlabelled
from harness import Finished, eventually, no_process_left, of_type, processes_with

from agentos.documents.approval import Intact, verify_approval
from agentos.documents.issue import parse_issue
from agentos.testing.provider_server import LimitRule
from fakes.github_server import GitHubServer, Scripted

REPOSITORY = "shop/catalogue"
EXHAUSTED = "[COORDINATOR] Credential pool exhausted. Pausing all workflows..."


@pytest.fixture
def github(backlog: Backlog) -> Iterator[GitHubServer]:
    # One of its own for each test: the tests look for it in every process of the machine.
    with GitHubServer(token=f"ghp_a-token-nobody-may-see-{uuid.uuid4().hex}") as server:
        server.add_repository(REPOSITORY)
        backlog.environment |= {
            "GITHUB_API_URL": server.url,
            "GITHUB_TOKEN": server.token,
            "GITHUB_REPOSITORY": REPOSITORY,
        }
        yield server


@pytest.fixture
def author(backlog: Backlog) -> Iterator[Author]:
    """A model that writes and reviews: what the offline one rehearses is not filed."""
    too_short = {**APPROVAL, "verdict": "discuss", "summary": "Too short to write an issue from."}
    author = Author(reviews=lambda title: too_short if title == "Short" else APPROVAL)
    with serving(author) as server:
        backlog.use_keys(1, server)
        yield author


def titles(server: GitHubServer) -> list[str]:
    return [issue["title"] for issue in server.issues(REPOSITORY)]


def test_briefs_become_issues_that_the_design_workflow_takes_up(backlog: Backlog) -> None:
    backlog.add_brief("exports")
    backlog.add_brief("reports")
    backlog.add_brief("short", "# Short\n\nToo short.\n")
    done = backlog.issue("--all", "--parallel", *OFFLINE)
    assert done.code == 3
    assert "[COORDINATOR] 3 items, 3 at a time (graph issue)" in done.lines
    assert "[COORDINATOR] 2 rehearsed, 1 needs revision" in done.lines
    assert "[ISSUE-exports] >>> Executing: N1_design" in done.lines
    assert unlabelled(done.stdout) == []
    written = (backlog.project / "docs/issues/exports.md").read_text()
    assert isinstance(verify_approval(written), Intact)
    assert parse_issue(written).requirements
    assert backlog.databases() == []
    assert (backlog.project / "ideas/active/exports.md").exists()

    pending = json.loads(backlog.lld("--all", "--dry-run", "--json", *OFFLINE).stdout)
    assert [item["id"] for item in pending["items"]] == ["exports", "reports"]
    assert pending["skipped"] == [{"id": "short", "reason": "the issue itself needs revision"}]
    again = json.loads(backlog.issue("--all", "--dry-run", "--json", *OFFLINE).stdout)
    assert again["items"] == []
    (short,) = [entry["reason"] for entry in again["skipped"] if entry["id"] == "short"]
    assert short.startswith("needs revision: ")


def test_another_model_designs_nothing_from_an_issue_that_was_only_rehearsed(
    backlog: Backlog, author: Author
) -> None:
    assert author is not None
    backlog.add_brief("dark-mode")
    assert backlog.issue("--all", *OFFLINE).code == 0
    for command in (("lld", "dark-mode"), ("pipeline", "dark-mode")):
        refused = backlog.command(*command)
        assert refused.code == 3
        assert "the issue itself is a rehearsal by the offline model" in refused.stdout
        assert "decide with: agentos review ISSUE-dark-mode" in refused.stdout
    approved = backlog.command("review", "ISSUE-dark-mode", "--approve")
    next_line = (
        "[ISSUE-dark-mode] Next, from issues to designs: agentos lld --all --drafter offline --reviewer offline"
    )
    assert (approved.code, approved.lines[-1]) == (0, next_line)
    assert "  1. LLD-dark-mode  (no approved LLD)" in backlog.command("lld", "dark-mode", "--dry-run").lines


def test_a_design_that_a_person_approved_counts_although_its_issue_was_only_rehearsed(
    backlog: Backlog, author: Author
) -> None:
    assert author is not None
    backlog.add_brief("dark-mode")
    assert backlog.issue("--all", *OFFLINE).code == 0
    assert backlog.lld("--all", *OFFLINE).code == 0
    assert backlog.command("review", "LLD-dark-mode", "--approve").code == 0

    done = backlog.lld("--all")
    preview = backlog.command("pipeline", "--all", "--dry-run")

    assert (done.code, done.lines[0].partition(" (")[2]) == (0, "already approved: docs/lld/active/LLD-dark-mode.md)")
    assert preview.lines[1].startswith("  1. PIPE-dark-mode")
    assert "the issue itself is a rehearsal" in backlog.lld("dark-mode", "--fresh").stdout


def test_without_file_nothing_reaches_github_and_no_worker_has_the_token(
    backlog: Backlog, github: GitHubServer
) -> None:
    backlog.add_brief("exports")
    started = backlog.start_issue("--all", *OFFLINE, env={"AGENTOS_OFFLINE_LATENCY_SECONDS": "2"})
    started.wait_for_line(">>> Executing: N1_design")
    with_token = processes_with("GITHUB_TOKEN", github.token)
    assert started.wait().code == 0
    assert with_token == [started.pid]
    assert github.requests == []


def test_approved_issues_are_filed_once_and_their_briefs_put_away(
    backlog: Backlog, github: GitHubServer, author: Author
) -> None:
    backlog.add_brief("exports")
    backlog.add_brief("short", "# Short\n\nToo short.\n")
    assert backlog.issue("exports").code == 0  # Approved earlier, by a run that was not to file.
    plan = json.loads(backlog.issue("--all", "--file", "--dry-run", "--json").stdout)
    assert [(item["id"], item["reason"]) for item in plan["items"]] == [
        ("exports", "approved, not filed yet"),
        ("short", "no approved issue"),
    ]
    assert github.requests == []
    done = backlog.issue("--all", "--parallel", "--file")
    assert done.code == 3
    assert any("[ISSUE-exports] approved: filed as https://github.example" in line for line in done.lines)
    assert "[ISSUE-exports] >>> Executing: N1_design" not in done.lines
    assert titles(github) == ["Offer exports"]
    assert [path.name for path in (backlog.project / "ideas/active").iterdir()] == ["short.md"]
    assert [path.name for path in (backlog.project / "ideas/done").iterdir()] == ["exports.md"]
    assert "agentos:approval" not in github.issues(REPOSITORY)[0]["body"]
    token = github.token.encode()
    kept = [path for path in backlog.root.rglob("*") if path.is_file() and token in path.read_bytes()]
    assert kept == []


def test_a_lost_answer_and_a_kill_after_filing_file_nothing_twice(
    backlog: Backlog, github: GitHubServer, author: Author
) -> None:
    backlog.add_brief("exports")
    # GitHub files the issue, and its answer does not come while anybody is there to hear it.
    is_over = threading.Event()
    github.script(Scripted(method="POST", path="/issues", handle_first=True, hang_up=True, after=is_over))
    started = backlog.start_issue("--all", "--file")
    eventually(lambda: titles(github), "the issue on GitHub")
    started.kill(signal.SIGKILL)
    started.wait()
    no_process_left(backlog.home)
    is_over.set()
    assert (backlog.project / "ideas/active/exports.md").exists()
    done = backlog.issue("--all", "--file")
    assert done.code == 0, done.stdout
    assert titles(github) == ["Offer exports"]
    assert any("was filed already as" in line for line in done.lines)
    assert "[ISSUE-exports] >>> Executing: N1_design" not in done.lines
    assert (backlog.project / "docs/issues/exports.md").exists()
    assert not (backlog.project / "ideas/active/exports.md").exists()


def test_a_kill_after_the_brief_was_put_away_still_leaves_the_issue_written(
    backlog: Backlog, github: GitHubServer, author: Author
) -> None:
    brief = backlog.add_brief("exports")
    started = backlog.start_issue("--all", "--file")
    # Moved away as the last node's work: the run may die before it has put the issue in its place.
    eventually(lambda: not brief.exists(), "the brief put away")
    started.kill(signal.SIGKILL)
    started.wait()
    no_process_left(backlog.home)
    is_cut_off = any(name.endswith(".db") for name in backlog.databases())
    done = backlog.issue("--all", "--file")
    assert done.code == 0, done.stdout + done.stderr
    assert is_cut_off == ("1 approved" in done.stdout)
    assert isinstance(verify_approval((backlog.project / "docs/issues/exports.md").read_text()), Intact)
    assert titles(github) == ["Offer exports"]
    assert backlog.databases() == []


def test_filing_without_a_token_is_refused_before_anything_starts(backlog: Backlog, github: GitHubServer) -> None:
    backlog.add_brief("exports")
    environment = {"GITHUB_TOKEN": "", "PATH": "/usr/bin:/bin", "HOME": str(backlog.root)}
    done = backlog.issue("--all", "--file", *OFFLINE, env=environment)
    assert done.code == 2
    assert "needs a GitHub token" in done.stderr
    assert not backlog.run_dirs()


# Scenario 2 of the seeds: the pool runs dry in the middle, all wait, all go on.


@pytest.fixture
def exhausted(backlog: Backlog) -> Iterator[Finished]:
    quota = {"limits": [LimitRule(requests_per_minute=3)], "minute_seconds": 2.0, "announces_scaled_limits": True}
    with serving(Author(), latency_seconds=0.1, **quota) as server:
        backlog.use_keys(2, server)
        for number in range(5):
            backlog.add_brief(f"wish-{number}")
        yield backlog.issue("--all", "--parallel", "5", seconds=110.0)


def test_an_exhausted_pool_pauses_everyone_and_everyone_goes_on(backlog: Backlog, exhausted: Finished) -> None:
    assert exhausted.code == 0, exhausted.stdout
    assert any(line.startswith(EXHAUSTED) for line in exhausted.lines)
    assert "[COORDINATOR] 5 approved" in exhausted.lines
    assert of_type(backlog.records(), "pool_resumed")
    assert not any(secret in exhausted.stdout for secret in SECRETS)

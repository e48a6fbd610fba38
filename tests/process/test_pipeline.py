"""`agentos pipeline`: from issue to tested code, item by item, on the sample project and with real kills."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
from backlog import OFFLINE, Backlog
from harness import Finished, of_type, resume_line

from agentos.documents.approval import Intact, verify_approval
from agentos.workflows.registry import WORKFLOWS

_SECONDS = 200.0
_DRY = ("--dry-run",)


def commit_all(backlog: Backlog) -> None:
    """The offline model's skeletons, and commits for the branches to start from."""
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.invalid", "-c", "commit.gpgsign=false"]
    for arguments in (["add", "."], ["commit", "--quiet", "-m", "The project"]):
        subprocess.run([*git, *arguments], cwd=backlog.project, check=True, capture_output=True)


def prepare(backlog: Backlog, *issues: int) -> None:
    backlog.add_issues(*issues)
    (backlog.project / "pyproject.toml").write_text(
        '[tool.pytest.ini_options]\naddopts = "-p no:hypothesispytest -p no:anyio -p no:timeout"\n'
    )
    commit_all(backlog)


def pipeline(backlog: Backlog, *arguments: str) -> Finished:
    return backlog.start_command("pipeline", *arguments).wait(_SECONDS)


def nodes_of(backlog: Backlog, item_id: str) -> list[str]:
    return [record["node"] for record in of_type(backlog.records(), "node_started", item_id)]


def test_issues_become_designs_and_code_and_no_stage_waits_for_other_items(backlog: Backlog) -> None:
    prepare(backlog, 1, 2, 3)
    open_question = "\n## Open Questions\n\n- [ ] Which one of the two?\n"
    issue = backlog.project / "docs/issues/003-feature.md"
    issue.write_text(issue.read_text() + open_question)

    finished = pipeline(backlog, "--all", "--parallel", "3", *OFFLINE)

    assert finished.code == 3, finished.stdout + finished.stderr
    assert backlog.outcomes() == {"1": "rehearsed", "2": "rehearsed", "3": "needs_revision"}
    assert not [node for node in nodes_of(backlog, "3") if node.startswith("IMPL.")]
    order = [
        (record["item"], record["node"].partition(".")[0]) for record in of_type(backlog.records(), "node_started")
    ]
    first_code = next(place for place, (_, stage) in enumerate(order) if stage == "IMPL")
    assert {item for item, _ in order[first_code:]} >= {"1", "2"}
    design = (backlog.project / "docs/lld/active/LLD-1.md").read_text()
    assert ("Approved" in design, "**Status:** Rehearsed" in design) == (False, True)
    pushed = backlog.command("pipeline", "--all", "--push", *OFFLINE)
    assert (pushed.code, "the offline model only rehearses it" in pushed.stderr) == (2, True)
    assert "agentos/1 is a rehearsal by the offline model: nothing to merge." in finished.stdout
    again = backlog.command("pipeline", "--all", "--dry-run", *OFFLINE)
    assert "Skipped: PIPE-1 (rehearsed on agentos/1)" in again.stdout
    # The questions that only a person can answer, and where.
    assert "docs/issues/003-feature.md leaves a question open; answer there: Which one of the two?" in finished.stdout
    assert "Skipped: PIPE-3 (needs revision: docs/issues/003-feature.md leaves a question open" in again.stdout
    (run_dir,) = backlog.run_dirs()
    for label, words in (("LLD-1", "# 1 - Feature"), ("PIPE-1", "# 1 - Feature"), ("IMPL-1", "agentos/1:./docs/rep")):
        shown = backlog.command("show", label)
        assert (shown.code, f"last run: {run_dir.name}, rehearsed" in shown.stdout) == (0, True), shown.stdout
        assert words in shown.stdout


def test_a_coder_without_a_key_is_refused_before_the_design_is_paid_for(backlog: Backlog) -> None:
    prepare(backlog, 1)
    refused = pipeline(backlog, "1", *OFFLINE, "--coder", "openai:gpt-5.1")
    assert refused.code == 4
    assert "No key for openai:gpt-5.1" in refused.stderr
    assert "or work without network: --coder offline." in refused.stderr
    assert not backlog.records()


def test_without_a_commit_to_start_from_nothing_is_designed(backlog: Backlog) -> None:
    backlog.add_issues(1)
    backlog.lld_path(2).parent.mkdir(parents=True)
    backlog.lld_path(2).write_text("# 2 - Feature: two\n")
    base = pipeline(backlog, "--all", *OFFLINE, "--base", "nowhere")
    assert (base.code, "'nowhere' names no commit in" in base.stderr) == (2, True)
    shutil.rmtree(backlog.project / ".git")
    commands = [
        (name, item, *OFFLINE, *more) for name, item in (("pipeline", "1"), ("implement", "2")) for more in ((), _DRY)
    ]
    for words in (f"is not in a git checkout: run `git init {backlog.project}`", "'HEAD' names no commit in"):
        for command in commands:
            refused = backlog.command(*command)
            assert (refused.code, refused.stdout, len(refused.stderr.splitlines())) == (2, "", 1), refused.stderr
            assert words in refused.stderr
        subprocess.run(["git", "init", "--quiet"], cwd=backlog.project, check=True)
    assert not backlog.records()


@pytest.mark.slow
def test_a_design_that_is_there_starts_with_its_code(backlog: Backlog) -> None:
    prepare(backlog, 1)
    assert backlog.lld("--all", *OFFLINE).code == 0

    finished = pipeline(backlog, "1", *OFFLINE)

    assert finished.code == 0, finished.stdout
    assert nodes_of(backlog, "1")[-8:][0] == "IMPL.N0_load"
    assert "LLD.N0_load" not in nodes_of(backlog, "1")


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_kill_in_every_node_repeats_no_finished_node_and_loses_none(backlog: Backlog) -> None:
    """The coordinator and the worker in turn; each time the printed line continues."""
    prepare(backlog, 1)
    line = f"agentos pipeline 1 {' '.join(OFFLINE)}"
    for place, node in enumerate(WORKFLOWS["pipeline"].nodes):
        if "gate" in node:
            continue
        started = backlog.start_command("-c", f"exec {line}", program=Path("/bin/sh"))
        started.wait_for_record("node_started", node=node)
        worker = of_type(backlog.records(), "item_started")[-1]["pid"]
        if place % 2:
            with suppress(ProcessLookupError):  # It may be through with all of it just now.
                os.kill(worker, signal.SIGKILL)
            ended = started.wait(_SECONDS)
            if ended.code == 0:
                break
        else:
            started.kill()
            started.wait()
            ended = backlog.command("runs", "show", "last")
        line = resume_line(ended)
        assert line == f"agentos pipeline 1 {' '.join(OFFLINE)}"
    done = backlog.start_command("-c", f"exec {line}", program=Path("/bin/sh")).wait(_SECONDS)
    assert done.code == 0, done.stdout + done.stderr
    assert backlog.outcomes() == {"1": "rehearsed"}
    finished: set[str] = set()
    for record in backlog.records():
        if record["type"] == "node_started":
            assert record["node"] not in finished, f"{record['node']} was done already"
        elif record["type"] == "node_finished":
            finished.add(record["node"])
    starts = list(dict.fromkeys(nodes_of(backlog, "1")))
    assert starts == [node for node in WORKFLOWS["pipeline"].nodes if "gate" not in node]
    # The last kill may have come when the item had just ended.
    ends = ("agentos/1 is a rehearsal by the offline model: nothing to merge.", "1 (rehearsed on agentos/1)")
    assert any(words in done.stdout for words in ends)
    git = ["git", "-C", str(backlog.project)]
    log = subprocess.run([*git, "log", "--oneline", "HEAD..agentos/1"], check=True, capture_output=True, text=True)
    assert len(log.stdout.splitlines()) == 1, log.stdout
    left = subprocess.run([*git, "status", "--porcelain"], check=True, capture_output=True, text=True).stdout
    assert left.split() == ["??", "docs/lld/"]
    assert not list(backlog.project.rglob("*.tmp"))
    assert isinstance(verify_approval(backlog.lld_path(1).read_text()), Intact)
    assert "Nothing to do. 1 issue skipped: 1 (rehearsed on agentos/1)" in pipeline(backlog, "1", *OFFLINE).stdout


@pytest.mark.slow
def test_a_parked_design_waits_for_a_person_and_then_becomes_code(backlog: Backlog) -> None:
    prepare(backlog, 1)

    parked = pipeline(backlog, "1", "--review", "verdict", *OFFLINE)
    assert parked.code == 3, parked.stdout
    assert backlog.outcomes() == {"1": "awaiting_review"}
    assert backlog.command("review", "PIPE-1", "--approve").code == 0
    finished = pipeline(backlog, "1", "--review", "verdict", *OFFLINE)

    assert finished.code == 0, finished.stdout
    assert backlog.outcomes() == {"1": "rehearsed"}

"""Outcomes are facts: what a run says of a document is true of the file; a person's text is not replaced unasked."""

from __future__ import annotations

from pathlib import Path

from backlog import INVALID_ISSUE, OFFLINE, Author, Backlog, design, serving

from agentos.documents.approval import Intact, verify_approval
from agentos.testing.provider_formats import Seen
from agentos.testing.provider_server import Step


def test_an_item_counts_as_done_only_with_the_document_it_made(backlog: Backlog) -> None:
    backlog.add_issues(1, 2, 3)
    backlog.add_issues(4, text=lambda _n: INVALID_ISSUE)
    assert backlog.lld("--all", "--parallel", "3", *OFFLINE).code == 1
    backlog.lld_path(1).unlink()
    edited = backlog.lld_path(2).read_text().replace("## 3. Requirements", "## 3. Requirements\n\nAsk Ada first.")
    backlog.lld_path(2).write_text(edited)

    dry = backlog.lld("1", "2", "3", "--dry-run")
    assert "done in run" not in dry.stdout
    again = backlog.lld("1", "2", "3", *OFFLINE)

    assert again.code == 3
    assert "[LLD-1] >>> Executing: N1_design" in again.lines
    assert isinstance(verify_approval(backlog.lld_path(1).read_text()), Intact)
    assert backlog.lld_path(2).read_text() == edited
    (said,) = [line for line in again.lines if "LLD-2 is skipped" in line]
    assert "a person edited docs/lld/active/LLD-2.md (changed '3. Requirements') since it was approved" in said
    assert "decide with: agentos review LLD-2" in said
    assert "[LLD-3]" not in again.stdout


def test_an_outage_is_a_failure_that_the_same_command_retries(backlog: Backlog) -> None:
    author = Author()
    backlog.add_issues(1)
    backlog.add_issues(2, text=lambda _n: "# Add more\n\nMore of it, in eight words or so.\n\nDepends on #1\n")
    with serving(author) as server:
        backlog.use_keys(1, server)
        server.script("k1", Step(kind="ok"), Step(kind="reset", times=4))
        failed = backlog.lld("--all")
        assert failed.code == 1
        assert "[COORDINATOR] 1 failed (LLD-1), 1 skipped" in failed.lines
        assert not backlog.lld_path(1).exists()
        backlog.lld_path(1).parent.mkdir(parents=True)
        backlog.lld_path(1).write_text("# 1 - Written by hand meanwhile\n")
        assert "a person's text that nobody approved" in backlog.lld("--all", "--dry-run").stdout
        backlog.lld_path(1).unlink()
        again = backlog.lld("--all")
    assert again.code == 0, again.stdout
    assert "[COORDINATOR] 2 approved" in again.lines
    assert author.asked["draft", "1"] == 1


def test_a_review_that_was_nonsense_is_asked_for_again_and_findings_are_not(backlog: Backlog) -> None:
    """Findings are the document's own: nothing is paid for them again until it, or its issue, changes."""
    verdicts = {"1": "lgtm!!", "2": "discuss"}
    author = Author(reviews=lambda item: {"verdict": verdicts[item], "summary": "Who pays?", "findings": []})
    backlog.add_issues(1, 2)
    with serving(author) as server:
        backlog.use_keys(1, server)
        assert backlog.lld("--all").code == 3
        verdicts["1"] = "approve"
        again = backlog.lld("--all")
        assert again.code == 3
        assert "[LLD-1] >>> Executing: N3_review" in again.lines
        assert "[LLD-1] >>> Executing: N1_design" not in again.lines
        assert isinstance(verify_approval(backlog.lld_path(1).read_text()), Intact)
        (said,) = [line for line in again.lines if "LLD-2 is skipped" in line]
        assert "needs revision: the reviewer wants to discuss: Who pays?" in said
        asked = dict(author.asked)
        idle = backlog.lld("2")
        assert (idle.code, dict(author.asked)) == (3, asked)
        issue = backlog.project / "docs/issues/002-feature.md"
        issue.write_text(issue.read_text() + "\nThe library pays.\n")
        verdicts["2"] = "approve"
        assert backlog.lld("--all").code == 0
    assert (author.asked["draft", "1"], author.asked["draft", "2"]) == (1, 2)


DOCUMENT = "docs/lld/active/LLD-1.md"


def test_a_person_approves_reviews_or_revises_what_they_edited(backlog: Backlog) -> None:
    backlog.add_issues(1)
    assert backlog.lld("1", *OFFLINE).code == 0
    path = backlog.lld_path(1)
    assert "nothing to report" in backlog.command("lint", str(path)).stdout
    first = path.read_text()
    assert "  next:     decide: agentos review LLD-1" in backlog.command("show", "1").lines
    assert backlog.command("runs", "show").lines[-1] == "[COORDINATOR] To read what it made: agentos show LLD-1"
    edited = first.replace("## 4. Alternatives", "Ada wants it small.\n\n## 4. Alternatives")
    path.write_text(edited)

    refused = backlog.command("implement", "1", "--drafter", "offline", "--reviewer", "offline")
    assert "agentos review LLD-1 --approve" in refused.stdout
    assert "--fresh" not in refused.stdout.replace("Run with --fresh", "")
    dry = backlog.command("implement", "1", "--dry-run", *OFFLINE)
    assert (dry.code, "would be refused" in dry.stdout) == (1, True)
    assert "  next:     decide: agentos review LLD-1" in backlog.command("show", "1").lines
    listed = backlog.command("review")
    assert listed.lines == [f"LLD-1  {DOCUMENT} changed since it was approved: changed '3. Requirements'"]

    broken = edited.replace("## 3. Requirements", "## 3. Wishes")
    path.write_text(broken)
    failing = backlog.command("implement", "1", *OFFLINE)
    assert "and does not pass the check. See why (`agentos review LLD-1`)" in failing.stdout
    assert "--approve" not in failing.stdout
    wrong = backlog.command("review", "1", "--approve")
    assert (wrong.code, path.read_text()) == (1, broken)
    assert f"{DOCUMENT} does not pass the check, so it is not approved:" in wrong.stderr

    path.write_text(edited)
    done = backlog.command("review", "1", "--approve", env={"GIT_CONFIG_GLOBAL": str(_git_config(backlog))})
    assert (done.code, done.lines[0]) == (0, f"[LLD-1] {DOCUMENT} is approved as it stands, by Ada Byron")
    further = "from designs to code: agentos implement --all --drafter offline --reviewer offline"
    assert done.lines[1:] == [f"[LLD-1] Next, {further}"]
    assert f"  next:     {further}" in backlog.command("show", "1").lines
    found = verify_approval(path.read_text())
    assert isinstance(found, Intact)
    assert (found.approval.reviewer, found.approval.person) == ("Ada Byron", "Ada Byron")
    assert found.approval.drafter == "offline, then edited"
    assert "Ada wants it small." in path.read_text()
    assert "already approved" in backlog.lld("1", *OFFLINE).stdout
    assert backlog.command("review", "1", "--approve").code == 2
    for command in ("review", "lld"):
        assert backlog.command(command, "1", "--review-again", *OFFLINE).code == 0

    issue = backlog.project / "docs/issues/001-feature.md"
    issue.write_text(issue.read_text() + "\n3. It is small.\n")
    kept = path.read_text()
    assert backlog.lld("--all", *OFFLINE).code == 3
    assert path.read_text() == kept
    again = backlog.command("review", "LLD-1", "--review-again", *OFFLINE)
    assert again.code == 0, again.stdout
    assert ">>> Executing: N1_design" not in again.stdout
    assert ">>> Executing: N3_review" in again.stdout
    reviewed = verify_approval(path.read_text())
    assert isinstance(reviewed, Intact)
    assert "Ada wants it small." in path.read_text()

    path.write_text(edited)
    revised = backlog.command("review", "LLD-1", "--revise", "split the store", *OFFLINE)
    assert revised.code == 0, revised.stdout
    assert "As asked for in review: split the store." in path.read_text()
    assert "Ada wants it small." in path.read_text()
    assert isinstance(verify_approval(path.read_text()), Intact)


def test_what_a_person_changed_after_a_revision_that_failed_is_reviewed_and_not_revised_again(
    backlog: Backlog,
) -> None:
    backlog.add_issues(1)
    path = backlog.lld_path(1)
    path.parent.mkdir(parents=True)
    path.write_text("# 1 - Feature: A heading\n")
    told = backlog.lld("1", "--revise", "more detail", *OFFLINE)
    assert (told.code, f"Change {DOCUMENT}:" in told.stdout) == (3, True), told.stdout
    path.write_text(design("1", "Add feature number 1", more="\nIn Ada's own words.\n"))
    line = told.lines[-1].partition("Then run: ")[2]
    assert line == "lld-workflow 1 --drafter offline --reviewer offline --review-again"
    done = backlog.start_command("-c", line, program=Path("/bin/sh")).wait()
    assert done.code == 0, done.stdout
    assert "In Ada's own words." in path.read_text()
    assert "more detail" not in path.read_text()


def _git_config(backlog: Backlog) -> Path:
    path = backlog.root / "gitconfig"
    path.write_text("[user]\n\tname = Ada Byron\n")
    return path


def test_a_hand_written_design_is_found_wanting_without_losing_a_word(backlog: Backlog) -> None:
    """And what somebody writes while a run is at work is not overwritten at its end."""
    author = Author(reviews=lambda _item: {"verdict": "revise", "summary": "Who pays?", "findings": []})
    backlog.add_issues(1, 2)
    mine = design("1", "Add feature number 1", more="\nIn Ada's own words.\n")
    backlog.lld_path(1).parent.mkdir(parents=True)
    backlog.lld_path(1).write_text(mine)
    theirs = "# 2 - Feature: By hand, meanwhile\n"

    def meanwhile(kind: str, _seen: Seen) -> None:
        if kind == "review" and not backlog.lld_path(2).exists():
            backlog.lld_path(2).write_text(theirs)

    with serving(author) as server:
        backlog.use_keys(1, server)
        done = backlog.command("review", "1", "--review-again")
        assert done.code == 3, done.stdout
        assert "needs revision: the reviewer wants changes: Who pays?" in done.stdout
        assert "needs you: the reviewer wants changes: Who pays? Change docs/lld/active/LLD-1.md" in done.stdout
        assert "agentos:unapproved" not in backlog.command("review", "1").stdout
        assert "agentos:unapproved" not in backlog.command("show", "1").stdout
        assert author.asked["patch", "1"] == 0
        author.before = meanwhile
        refused = backlog.lld("2")
        assert refused.code == 1
        assert "docs/lld/active/LLD-2.md was written or changed while this run was at work" in refused.stdout
    text = backlog.lld_path(1).read_text()
    assert "In Ada's own words." in text
    assert "* **Status:** Needs revision" in text
    assert backlog.lld_path(2).read_text() == theirs
    assert backlog.lld("--all", "--dry-run").stdout.count("Skipped: LLD-1 (needs revision") == 1


def test_what_cannot_be_replayed_or_was_begun_elsewhere_is_said_before_anything_starts(backlog: Backlog) -> None:
    backlog.add_issues(1)
    for folder in ("", "nowhere"):
        done = backlog.lld(
            "1", "--drafter", "recorded", "--reviewer", "offline", env={"AGENTOS_RECORDED_DIR": folder}
        )
        assert (done.code, done.stdout) == (2, "")
        assert "The model `recorded` has no recordings" in done.stderr
    assert backlog.run_dirs() == []
    assert backlog.lld("1", "--review", "draft", *OFFLINE).code == 3
    both = backlog.command("pipeline", "--all", *OFFLINE)
    assert both.code == 3
    begun = "PIPE-1 is skipped: its design was begun on its own and is not finished; continue it first: agentos lld 1"
    assert f"{begun} {' '.join(OFFLINE)}" in both.stdout
    assert backlog.command("review", "LLD-1").code == 0

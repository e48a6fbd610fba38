"""Gates: an item parks for a person, the run goes on with others, an answer lets the next run go on."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from backlog import OFFLINE, Author, Backlog, serving, subject
from harness import Finished, eventually

from agentos.documents.approval import Intact, verify_approval
from agentos.testing.provider_formats import Seen

WISH = "split the store"


@dataclass
class Story:
    """Two designs through both gates, by one person."""

    backlog: Backlog
    parked: Finished
    listed: Finished
    shown: Finished
    answered: Finished
    listed_answered: Finished
    shown_answered: Finished
    second: Finished
    third: Finished


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    backlog = Backlog(tmp_path_factory.mktemp("story"))
    backlog.add_issues(1, 2)
    command = ("--all", "--parallel", "2", "--review", "all", *OFFLINE)
    try:
        # A worker that read standard input would hang here: nobody writes, nobody closes.
        started = backlog.start_lld(*command, stdin=subprocess.PIPE)
        parked = started.wait()
        listed = backlog.command("review", "--all")
        shown = backlog.command("review", "LLD-1")
        answered = backlog.command("review", "LLD-1", "--revise", WISH)
        backlog.command("review", "lld-2", "--approve")
        listed_answered, shown_answered = backlog.command("review"), backlog.command("review", "2")
        second = backlog.lld(*command)
        for item in ("#1", "docs/issues/002-feature.md"):
            backlog.command("review", item, "--approve")
        third = backlog.lld(*command)
        yield Story(backlog, parked, listed, shown, answered, listed_answered, shown_answered, second, third)
    finally:
        backlog.close()


def test_items_park_and_the_summary_says_who_waits_and_how_to_answer(story: Story) -> None:
    done = story.parked
    assert done.code == 3
    assert "[COORDINATOR] 2 await review" in done.lines
    assert "[COORDINATOR] 2 items wait for review: LLD-1, LLD-2" in done.lines
    assert "[COORDINATOR] See what it asks and how to answer: agentos review LLD-1" in done.lines
    assert any(line.startswith("[COORDINATOR] Then resume with: lld-workflow --all") for line in done.lines)
    assert "N3_review" not in done.stdout


def test_review_lists_and_shows_what_waits(story: Story) -> None:
    assert story.listed.lines == ["LLD-1  draft gate, round 1: waits", "LLD-2  draft gate, round 1: waits"]
    assert story.shown.lines[0] == "# 1 - Feature: Add feature number 1"
    assert story.shown.lines[-1].startswith("[LLD-1] Answer with: agentos review LLD-1")
    resume = next(line for line in story.parked.lines if "Then resume with: " in line).partition("with: ")[2]
    assert story.answered.lines == [f"[LLD-1] to be revised: {WISH}; to continue, run: {resume}"]


def test_what_is_answered_is_listed_and_shown_with_the_line_that_continues_it(story: Story) -> None:
    resume = next(line for line in story.parked.lines if "Then resume with: " in line).partition("with: ")[2]
    assert story.listed_answered.lines == [
        f"LLD-1  draft gate, round 1: to be revised: {WISH}",
        "LLD-2  draft gate, round 1: approved",
        f"To continue what is answered, run: {resume}",
    ]
    assert f"[LLD-2] To continue, run: {resume}" in story.shown_answered.lines


def test_a_wish_leads_to_a_new_draft_with_the_wish_in_the_prompt(story: Story) -> None:
    nodes = [line.rpartition(" ")[2] for line in story.second.lines if line.startswith("[LLD-1] >>>")]
    assert nodes == ["G1_draft_gate", "N1_design", "N2_validate", "G1_draft_gate"]
    assert f"[a person] {WISH}" in story.backlog.lineage_text("LLD-1", "prompt-revise")


def test_an_approved_draft_goes_to_the_reviewer_and_parks_at_the_verdict(story: Story) -> None:
    nodes = [line.rpartition(" ")[2] for line in story.second.lines if line.startswith("[LLD-2] >>>")]
    assert nodes == ["G1_draft_gate", "N3_review", "G2_verdict_gate"]
    assert story.second.code == 3


def test_an_approved_verdict_is_the_approval_of_the_document(story: Story) -> None:
    assert "[LLD-2] >>> Executing: N4_finalize" in story.third.lines
    approval = verify_approval(story.backlog.lld_path(2).read_text())
    assert isinstance(approval, Intact)
    assert approval.approval.reviewer == "offline, then a person"
    assert [entry.reviewer for entry in approval.approval.log] == ["a person", "offline", "a person"]


def test_the_wish_of_a_person_is_in_the_revised_design(story: Story) -> None:
    """LLD-1 is one answer behind: it waits at its verdict."""
    question = json.loads(story.backlog.command("review", "LLD-1", "--json").stdout)["questions"][0]
    assert question["gate"] == "verdict"
    assert f"As asked for in review: {WISH}." in question["document"]


def test_nothing_waits_says_so_and_wrong_answers_are_refused(story: Story) -> None:
    for arguments, words in (
        (("LLD-2", "--approve"), "LLD-2 is approved already, by offline, then a person at 20"),
        (("docs/lld/active/LLD-2.md",), "LLD-2 is approved already"),
        (("docs/lld/active/LLD-99.md",), "There is no file docs/lld/active/LLD-99.md here."),
        (("LLD-99",), "LLD-99 does not wait"),
        (("LLD-1", "--revise", "  "), "--revise needs to say what to change"),
        (("--approve",), "An answer is for one item"),
        (("LLD-1", "--answer", "{"), "not valid JSON"),
        (("LLD-1", "--answer", "yes"), """Text has quotes of its own, as in --answer '"yes"'."""),
    ):
        done = story.backlog.command("review", *arguments)
        assert (done.code, done.stdout) == (2, "")
        assert words in done.stderr


def test_an_unanswered_item_parks_again_without_a_model_call(story: Story) -> None:
    done = story.backlog.lld("1", *OFFLINE)
    assert done.code == 3
    assert ">>> Executing" not in done.stdout
    assert "[COORDINATOR] 1 item waits for review: LLD-1" in done.lines
    plan = json.loads(story.backlog.lld("1", "--dry-run", "--json").stdout)
    assert plan["items"][0]["reason"] == "awaits review: agentos review LLD-1"


@pytest.mark.slow
def test_an_item_that_a_run_works_on_takes_no_answer_but_its_neighbour_does(backlog: Backlog) -> None:
    author = Author()

    def hold(_kind: str, seen: Seen) -> None:
        server.desk.config.latency_seconds = 3600.0 if subject(seen)[0] == "2" else 0.0

    author.before = hold
    with serving(author) as server:
        backlog.use_keys(2, server)
        backlog.add_issues(1, 2)
        started = backlog.start_lld("--all", "--parallel", "2", "--review", "draft")
        started.wait_for_line("[LLD-1] awaits review")
        eventually(lambda: author.asked["draft", "2"], "LLD-2 at its draft")
        assert backlog.command("review", "LLD-1", "--approve").code == 0
        assert "does not wait" in backlog.command("review", "LLD-2", "--approve").stderr
        started.kill()
        started.wait()
    first, further = backlog.command("review").lines
    assert first == "LLD-1  draft gate, round 1: approved"
    assert further.startswith("To continue what is answered, run: lld-workflow --all --parallel 2")


def test_a_redesign_that_was_answered_continues_with_all_of_them_though_the_old_design_is_in_place(
    backlog: Backlog,
) -> None:
    backlog.add_issues(1)
    assert backlog.lld("--all", *OFFLINE).code == 0
    parked = backlog.lld("1", "--fresh", "--review", "draft", *OFFLINE)
    assert parked.code == 3, parked.stdout
    assert backlog.command("review", "LLD-1", "--approve").code == 0
    done = backlog.lld("--all", "--review", "draft", *OFFLINE)
    assert done.code == 0, done.stderr
    assert "[LLD-1] resuming after N2_validate" in done.lines
    assert backlog.command("review").lines == ["Nothing waits for a review."]

"""Workstreams through the installed command: real git, real processes, real exit codes."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from harness import of_type
from terminal import Terminal
from workshop import GRAPH, Workshop, results_of, workshop


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workshop]:
    with workshop(tmp_path, monkeypatch) as made:
        yield made


def pid_of(shop: Workshop, slug: str) -> int:
    return next(int(note.split()[2]) for note in shop.notes() if note.startswith(f"pid {slug} "))


# Running: the executor's behaviours.


def test_workstreams_run_at_the_same_time_in_processes_of_their_own(shop: Workshop) -> None:
    shop.make(a="n2: wait go", b="n2: wait go", c="n2: wait go")
    run = shop.start_run("a", "b", "c")
    for slug in "abc":
        shop.wait_for_note(f"{slug} n2 start")
    assert shop.states() == dict.fromkeys("abc", "running")
    assert len({run.pid, *(pid_of(shop, slug) for slug in "abc")}) == 4
    shop.release("go")
    assert run.wait().code == 0
    assert shop.states() == dict.fromkeys("abc", "completed")
    for slug in "abc":
        assert (shop.worktree(slug) / "done.txt").read_text() == f"agentos/{slug}\n"
        assert [event for event, _ in shop.history(slug)] == ["created", "start", "complete"]


@pytest.mark.parametrize(("flags", "limit"), [((), 3), (("--max-concurrent", "2"), 2)])
def test_no_more_run_at_once_than_allowed(shop: Workshop, flags: tuple[str, ...], limit: int) -> None:
    shop.make(**{f"w{number}": "n2: sleep 0.2" for number in range(5)})
    assert shop.run_graph("w*", *flags).code == 0
    running = most = 0
    for record in shop.records():
        running += {"item_started": 1, "item_ended": -1}.get(record["type"], 0)
        most = max(most, running)
    assert most == limit


def test_one_that_fails_or_is_killed_leaves_the_others_alone(shop: Workshop) -> None:
    shop.make(good="n1: print fine", bad="n2: raise it broke", dead="n2: kill 9")
    finished = shop.run_graph("good", "bad", "dead", "--json")
    assert finished.code == 1
    results = results_of(finished)
    assert {slug: result["status"] for slug, result in results.items()} == {
        "good": "completed",
        "bad": "failed",
        "dead": "failed",
    }
    assert {slug: result["exit_code"] for slug, result in results.items()} == {"good": 0, "bad": 1, "dead": 1}
    assert results["bad"]["error"] == "it broke"
    assert "signal 9" in results["dead"]["error"]
    assert shop.states() == {"good": "completed", "bad": "failed", "dead": "failed"}
    assert shop.history("bad")[-2:] == [("start", "running"), ("fail", "failed")]


def test_results_say_when_where_and_what_was_left(shop: Workshop) -> None:
    shop.make(a="n1: print a word from inside")
    result = results_of(shop.run_graph("a", "--json"))["a"]
    assert result["started"] < result["ended"]
    assert result["seconds"] > 0
    assert "a word from inside" in Path(result["log_path"]).read_text()
    assert result["branch"] == "agentos/a"
    assert result["head"] == shop.git("rev-parse", "agentos/a")
    assert (result["input_tokens"], result["output_tokens"], result["cost_usd"]) == (0, 0, 0.0)
    assert result["error"] == ""


def test_people_get_a_table_of_results_and_lines_by_slug(shop: Workshop) -> None:
    shop.make(a="n1: print hello", b="n2: raise it broke")
    finished = shop.run_graph("a", "b")
    assert finished.code == 1
    assert "[a] hello" in finished.lines
    assert "[b] FAILED: it broke" in finished.stdout
    rows = [line.split() for line in finished.lines[-3:]]
    assert [row[:2] for row in rows] == [["SLUG", "STATUS"], ["a", "completed"], ["b", "failed"]]


def test_globs_and_repeated_names_run_each_workstream_once(shop: Workshop) -> None:
    shop.make(feature_a="x", feature_b="x", other="x")
    assert shop.run_graph("feature-b", "feature-*", "feature-b").code == 0
    started = [record["item"] for record in of_type(shop.records(), "item_started")]
    assert sorted(started) == ["feature-a", "feature-b"]
    assert shop.states()["other"] == "active"


def test_an_unknown_name_is_an_error_before_anything_runs(shop: Workshop) -> None:
    shop.make(issue_12="x")
    finished = shop.run_graph("issue-12", "isue-12", "zz*")
    assert finished.code == 2
    assert "no workstream 'isue-12': did you mean issue-12?" in finished.stderr
    assert "'zz*'" in finished.stderr
    assert shop.records() == []
    assert shop.states() == {"issue-12": "active"}


def test_run_all_takes_the_active_ones_only(shop: Workshop) -> None:
    shop.make(a="x", b="x", c="x", d="n1: raise no")
    assert shop.ws("pause", "b").code == 0
    assert shop.ws("complete", "c").code == 0
    assert shop.run_graph("d").code == 1
    finished = shop.start_command("ws", "run-all", "--graph", "graphs/streams.py:graph").wait()
    assert finished.code == 0
    assert {record["item"] for record in of_type(shop.records(), "item_started")} == {"a", "d"}
    assert shop.states() == {"a": "completed", "b": "paused", "c": "completed", "d": "failed"}
    run_d = "agentos ws run d --graph graphs/streams.py:graph"
    assert f"[COORDINATOR] Warning: not active, failed: d. To run it: {run_d}" in finished.lines
    assert (
        f"not active, paused: b. To run it: agentos ws resume b && {run_d.replace(' d ', ' b ')}" in finished.stdout
    )
    nothing = shop.ws("run-all", *GRAPH)
    assert (nothing.code, nothing.lines[0]) == (0, "No active workstreams.")
    assert nothing.lines[1:] == [
        line.removeprefix("[COORDINATOR] Warning: ") for line in finished.lines if "not active" in line
    ]


def test_priorities_dependencies_and_worktrees_count_for_ones_own_graph_too(shop: Workshop) -> None:
    shop.make(a="Depends on #issue-123\nn1: here", issue_123="n1: here", z="---\npriority: high\n---\nn1: here")
    alone = shop.run_graph("a")
    assert (alone.code, "a depends on issue-123, which is not implemented" in alone.stderr) == (2, True)
    assert shop.run_graph("*", "--parallel", "1").code == 0
    assert [record["item"] for record in of_type(shop.records(), "item_started")] == ["z", "issue-123", "a"]
    for slug in ("a", "issue-123", "z"):
        assert f"{slug} works in {shop.worktree(slug)}" in shop.notes()


def test_a_design_whose_workstream_was_removed_is_an_open_dependency_until_it_is_merged(shop: Workshop) -> None:
    shop.make(feat_a="add a counter", feat_b="add a report\n\nDepends on #feat-a", other="add a clock")
    active, done = (shop.project / "docs/lld" / folder / "LLD-feat-a.md" for folder in ("active", "done"))
    for path in (active, done):
        path.parent.mkdir(parents=True)
    active.write_text("# feat-a - Feature: a counter\n")
    assert shop.ws("rm", "feat-a", "--force").code == 0
    offline = ("--drafter", "offline", "--reviewer", "offline")

    named = shop.ws("run", "feat-b", *offline)
    assert (named.code, "feat-b depends on feat-a, which is not implemented" in named.stderr) == (2, True)
    assert not shop.run_dirs()
    plan = json.loads(shop.ws("run-all", *offline, "--dry-run", "--json").stdout)
    assert [item["id"] for item in plan["items"]] == ["other"]
    assert [skipped["id"] for skipped in plan["skipped"]] == ["feat-b"]
    assert shop.ws("run", "feat-b", *GRAPH, "--dry-run").code == 0

    active.rename(done)
    merged = shop.ws("run", "feat-b", *offline, "--dry-run")
    assert (merged.code, "feat-b" in merged.stdout) == (0, True), merged.stderr


def test_branches_without_text_are_skipped_and_an_approved_design_is_never_replaced_unasked(shop: Workshop) -> None:
    offline = ("--mode", "analyze", "--drafter", "offline", "--reviewer", "offline")
    words = "Add mean(values) to app.py: the sum of the values divided by their count"
    shop.make(mean=words)
    assert shop.ws("run-all", *offline).code == 0
    design = shop.project / "docs/lld/active/LLD-mean.md"
    # A name is as good as a number.
    assert "1 document checked: nothing to report" in shop.command("lint", str(design)).stdout
    assert "error" not in shop.command("show", "LLD-mean").stdout
    assert shop.command("review", "LLD-mean", "--approve").code == 0  # A rehearsal may be replaced.
    approved = design.read_text()
    assert shop.ws("rm", "mean").code == 0
    shop.git("worktree", "add", "--quiet", "-b", "agentos/mean", str(shop.root / "by-hand"))
    shop.make(other=words, third=f"{words}\n\nDepends on #mean")
    finished = shop.ws("run-all", *offline)
    assert finished.code == 0, finished.stderr
    next_line = "[COORDINATOR] Next, from designs to code: agentos ws run other --drafter offline --reviewer offline"
    assert next_line in finished.lines  # `third` cannot go further before `mean` is code.
    assert "depends on mean, which is not implemented" in shop.ws("run", "third", "--drafter", "offline").stderr
    skipped = "mean (has no text to work on; it has a design, which `agentos implement mean` works on)"
    assert f"1 workstream skipped: {skipped}" in finished.stdout
    assert (shop.project / "docs/lld/active/LLD-other.md").exists()
    assert shop.ws("new", "mean", "Add a median instead of a mean, for odd counts").code == 0
    refused = shop.ws("run", "mean", *offline)
    assert (refused.code, "mean would replace docs/lld/active/LLD-mean.md" in refused.stderr) == (2, True)
    assert design.read_text() == approved


def test_a_named_workstream_that_cannot_run_is_refused_and_one_a_glob_matched_is_left(shop: Workshop) -> None:
    shop.make(wa="x", wb="x")
    shop.ws("pause", "wb")
    refused = shop.run_graph("wa", "wb")
    assert refused.code == 2
    assert "wb cannot run: it is paused; resume it first" in refused.stderr
    assert shop.records() == []
    finished = shop.run_graph("w*")
    assert finished.code == 0
    assert "wb cannot run" in finished.stderr
    assert shop.states() == {"wa": "completed", "wb": "paused"}


@pytest.mark.slow
def test_a_failed_one_goes_on_from_its_checkpoint(shop: Workshop) -> None:
    shop.make(a="n2: fail_once first")
    assert shop.run_graph("a").code == 1
    assert shop.run_graph("a").code == 0
    assert shop.notes().count("a n1 start") == 1
    assert shop.states() == {"a": "completed"}


def test_needs_revision_is_no_failure_of_the_run_but_needs_a_look(shop: Workshop) -> None:
    shop.make(a="outcome: needs_revision")
    finished = shop.run_graph("a", "--json")
    assert finished.code == 3
    assert results_of(finished)["a"]["exit_code"] == 3
    assert shop.states() == {"a": "failed"}
    assert "needs revision" in shop.ws("status", "a").stdout


# Pausing.


def test_pause_takes_effect_at_the_next_node_and_resume_goes_on_from_there(shop: Workshop) -> None:
    shop.make(a="n2: wait go", b="n2: wait go")
    run = shop.start_run("a", "b")
    shop.wait_for_note("a n2 start")
    shop.wait_for_note("b n2 start")
    paused = shop.ws("pause", "a")
    assert (paused.code, paused.stdout) == (0, "a: pausing\n")
    shop.release("go")
    finished = run.wait()
    assert finished.code == 3
    assert "[a] paused: before n3" in finished.stdout
    assert "agentos ws resume a && agentos ws run a" in finished.stdout
    assert shop.states() == {"a": "paused", "b": "completed"}
    assert "paused before n3" in shop.ws("status", "a").stdout
    assert shop.ws("resume", "a").code == 0
    assert shop.run_graph("a").code == 0
    assert [note for note in shop.notes() if note.startswith("a n")] == [
        *("a n1 start", "a n1 end", "a n2 start", "a n2 end", "a n3 start", "a n3 end")
    ]
    assert [event for event, _ in shop.history("a")] == [
        *("created", "start", "pause", "reach_pause", "resume", "start", "complete")
    ]


@pytest.mark.slow
def test_a_pause_survives_the_death_of_the_run(shop: Workshop) -> None:
    shop.make(a="n2: wait go")
    run = shop.start_run("a")
    shop.wait_for_note("a n2 start")
    shop.ws("pause", "a")
    run.kill()
    run.wait()
    assert shop.states() == {"a": "paused"}
    assert ("owner_dead", "paused") in shop.history("a")
    shop.release("go")
    shop.ws("resume", "a")
    assert shop.run_graph("a").code == 0
    assert shop.notes().count("a n1 start") == 1


def test_a_pause_that_is_taken_back_in_time_changes_nothing(shop: Workshop) -> None:
    shop.make(a="n2: wait go")
    run = shop.start_run("a")
    shop.wait_for_note("a n2 start")
    shop.ws("pause", "a")
    assert shop.ws("resume", "a").stdout == "a: running\n"
    shop.release("go")
    assert run.wait().code == 0
    assert shop.states() == {"a": "completed"}


def test_one_that_is_paused_while_it_waits_for_its_turn_does_not_start(shop: Workshop) -> None:
    shop.make(a="n2: wait go", b="x")
    run = shop.start_run("a", "b", "--max-concurrent", "1")
    shop.wait_for_note("a n2 start")
    assert shop.ws("pause", "b").stdout == "b: paused\n"
    shop.release("go")
    assert run.wait().code == 3
    assert "b n1 start" not in shop.notes()
    assert shop.states() == {"a": "completed", "b": "paused"}


def test_a_glob_changes_those_it_can_and_a_name_that_cannot_is_an_error(shop: Workshop) -> None:
    shop.make(wa="x", wb="x", wc="x")
    assert shop.ws("complete", "wc").code == 0
    paused = shop.ws("pause", "w*")
    assert (paused.code, paused.lines) == (0, ["wa: paused", "wb: paused"])
    assert "skipped: wc cannot pause: it is completed" in paused.stderr
    refused = shop.ws("resume", "wa", "wc")
    assert (refused.code, "wc cannot resume" in refused.stderr) == (2, True)
    assert shop.states() == {"wa": "paused", "wb": "paused", "wc": "completed"}
    assert shop.ws("resume", "*c").code == 2


# Stopping.


def test_interrupted_ones_are_active_again_and_go_on(shop: Workshop) -> None:
    shop.make(a="n2: wait go", b="n2: wait go", c="x")
    run = shop.start_run("a", "b", "c", "--max-concurrent", "2", "--json")
    shop.wait_for_note("a n2 start")
    shop.wait_for_note("b n2 start")
    run.kill(signal.SIGINT)
    finished = run.wait()
    assert finished.code == 130
    assert {slug: result["status"] for slug, result in results_of(finished).items()} == dict.fromkeys(
        "abc", "interrupted"
    )
    assert shop.states() == dict.fromkeys("abc", "active")
    shop.release("go")
    assert shop.start_command("ws", "run-all", "--graph", "graphs/streams.py:graph").wait().code == 0
    assert shop.notes().count("a n1 start") == 1
    assert shop.states() == dict.fromkeys("abc", "completed")


def test_a_workstream_that_runs_elsewhere_is_not_run_twice(shop: Workshop) -> None:
    shop.make(a="n2: wait go")
    run = shop.start_run("a")
    shop.wait_for_note("a n2 start")
    second = shop.run_graph("a")
    assert second.code == 2
    assert "a cannot run: run " in second.stderr
    for verb in (("complete",), ("rm",), ("rm", "--force")):
        refused = shop.ws(*verb, "a")
        assert refused.code == 2, verb
        assert "works on it" in refused.stderr
    shop.release("go")
    assert run.wait().code == 0


# Steps and modes.


@pytest.mark.slow
def test_steps_end_a_run_where_they_end_without_a_pause(shop: Workshop) -> None:
    shop.make(a="x")
    finished = shop.run_graph("a", "--steps", "n1,n2", "--json")
    assert finished.code == 0
    result = results_of(finished)["a"]
    assert (result["status"], result["exit_code"]) == ("as_asked", 0)
    assert "not among the chosen steps" in result["error"]
    assert of_type(shop.records(), "run_ended")[-1]["exit_code"] == 0
    assert [note for note in shop.notes() if note.endswith("start")] == ["a n1 start", "a n2 start"]
    assert shop.states() == {"a": "active"}
    assert shop.run_graph("a").code == 0
    assert [note for note in shop.notes() if note.endswith("start")] == ["a n1 start", "a n2 start", "a n3 start"]


def test_a_run_goes_as_far_as_its_steps_and_unknown_ones_are_an_error(shop: Workshop) -> None:
    shop.make(a="add rate limiting to the login page")
    offline = ("--drafter", "offline", "--reviewer", "offline")
    unknown = shop.ws("run", "a", "--steps", "FOO", *offline)
    assert (unknown.code, unknown.stdout) == (2, "")
    assert "FOO is neither a stage nor a node. Stages: DESIGN, IMPLEMENTATION. Nodes: LLD.N0_load" in unknown.stderr
    first = shop.ws("run", "a", "--steps", "LLD.N1_design", *offline)
    assert first.code == 0, first.stdout
    nodes = [line.rpartition(" ")[2] for line in first.lines if ">>> Executing" in line]
    assert nodes == ["LLD.N0_load", "LLD.N0b_context", "LLD.N1_design"]
    assert shop.states() == {"a": "active"}
    assert "paused" not in first.stdout
    assert shop.ws("run", "a", "--steps", "LLD.N1_design", *offline).code == 0, "the same again is as well"
    further = next(line for line in first.lines if line.startswith("To go further: ")).partition(": ")[2]
    assert further == "agentos ws run a --drafter offline --reviewer offline"


def test_analyze_designs_the_text_and_leaves_the_workstream_active(shop: Workshop) -> None:
    shop.make(rate_limit="add rate limiting")
    offline = ("--mode", "analyze", "--drafter", "offline")
    finished = shop.ws("run", "rate-limit", *offline)
    assert finished.code == 0, finished.stdout
    design = (shop.project / "docs/lld/active/LLD-rate-limit.md").read_text()
    assert "add rate limiting" in design
    assert shop.states() == {"rate-limit": "active"}
    assert finished.lines[-2:] == [
        "[COORDINATOR] This run's design is in docs/lld/active. To read it: agentos show LLD-rate-limit",
        "[COORDINATOR] Next, from designs to code: agentos ws run rate-limit --drafter offline",
    ]
    again = shop.ws("run", "rate-limit", *offline)
    assert (again.code, "its design is rehearsed already" in again.stdout) == (0, True)
    assert len(shop.run_dirs()) == 1


def test_execute_designs_and_implements_on_the_workstreams_own_base(shop: Workshop) -> None:
    (shop.project / "app").mkdir()
    shop.git("mv", "app.py", "app/core.py")
    (shop.project / "app" / "__init__.py").touch()
    shop.git("add", "--all")
    shop.git("commit", "--quiet", "--message", "A package")
    base = shop.git("rev-parse", "HEAD")
    shop.git("branch", "release")
    (shop.project / "later.txt").touch()
    shop.git("add", "--all")
    shop.git("commit", "--quiet", "--message", "Later")
    assert shop.ws("new", "double", "add a function that doubles a number", "--base", "release").code == 0
    finished = shop.ws("run", "double", "--drafter", "offline", "--json")
    assert finished.code == 0, finished.stderr
    result = results_of(finished)["double"]
    assert result["status"] == "rehearsed"
    assert result["head"] == shop.git("rev-parse", "agentos/double")
    assert shop.git("rev-parse", "agentos/double^") == base
    assert shop.git("ls-tree", "--name-only", "agentos/double", "docs/reports/double/") != ""
    assert shop.states() == {"double": "active"}
    again = shop.ws("run-all", "--drafter", "offline", "--dry-run").stdout
    assert "Skipped: double (rehearsed on agentos/double)" in again
    refused = shop.ws("rm", "double")
    assert (refused.code, "1 commit not merged into release" in refused.stderr) == (1, True)


@pytest.mark.slow
def test_designs_that_overlap_are_told_and_do_not_run_at_the_same_time(shop: Workshop) -> None:
    shop.git("branch", "release")
    shop.make(double="add a function that doubles the answer")
    assert shop.ws("new", "half", "add a function that halves the answer", "--base", "release").code == 0
    offline = ("--drafter", "offline")
    assert shop.ws("run-all", "--mode", "analyze", *offline).code == 0
    planned = shop.ws("run-all", "--dry-run", *offline)
    assert "Overlap: app.py is changed by double, half" in planned.lines
    assert planned.lines[-1] == "Merge order: double, half"
    finished = shop.ws("run", "double", "half", *offline)
    assert finished.code == 0, finished.stdout
    assert "app.py is changed by double, half: they do not run at the same time" in finished.stdout


def test_recordings_are_found_from_the_folder_the_user_is_in(shop: Workshop) -> None:
    shop.make(a="n1: environment AGENTOS_RECORDED_DIR")
    outside = ("--graph", "project/graphs/streams.py:graph", "--project", "project")
    finished = shop.ws("run", "a", *outside, cwd=shop.root, env={"AGENTOS_RECORDED_DIR": "recordings"})
    assert finished.code == 0, finished.stderr
    assert f"AGENTOS_RECORDED_DIR={shop.root / 'recordings'}" in shop.notes()


@pytest.mark.parametrize("flags", [("--mode", "analyze", "--push"), (*GRAPH, "--pr")])
def test_publishing_without_an_implementation_is_refused(shop: Workshop, flags: tuple[str, ...]) -> None:
    shop.make(a="x")
    refused = shop.ws("run", "a", *flags)
    assert (refused.code, "--push and --pr publish what is implemented" in refused.stderr) == (2, True)
    assert shop.run_dirs() == []


def test_implementation_without_a_design_is_refused_before_anything_runs(shop: Workshop) -> None:
    shop.make(a="do something useful with it")
    refused = shop.ws("run", "a", "--steps", "IMPLEMENTATION", "--drafter", "offline")
    assert refused.code == 2
    assert "a has no approved design" in refused.stderr
    assert shop.run_dirs() == []


def test_a_dry_run_starts_and_changes_nothing(shop: Workshop) -> None:
    shop.make(a="x", b="x")
    before = shop.history("a")
    finished = shop.run_graph("a", "b", "--dry-run", "--json")
    assert finished.code == 0
    assert [entry["id"] for entry in json.loads(finished.stdout)["items"]] == ["a", "b"]
    assert (shop.run_dirs(), shop.history("a")) == ([], before)


# Making, looking, removing.


def test_new_makes_a_worktree_on_a_branch_with_the_configuration_it_needs(shop: Workshop) -> None:
    (shop.project / ".env").write_text("COLOUR=blue\n")
    first = shop.git("rev-parse", "HEAD")
    (shop.project / "app.py").write_text("changed\n")
    shop.git("commit", "--quiet", "--all", "--message", "Second")
    made = shop.ws("new", "a", "do it", "--base", first, "--copy", ".env", "--copy", "no.such")
    assert made.code == 0
    assert "no.such left out: there is no such file" in made.stderr
    worktree = shop.worktree("a")
    assert shop.git("rev-parse", "HEAD", cwd=worktree) == first
    assert shop.git("branch", "--show-current", cwd=worktree) == "agentos/a"
    assert (worktree / ".env").read_text() == "COLOUR=blue\n"
    (entry,) = json.loads(shop.ws("list", "--json").stdout)
    assert (entry["ahead"], entry["behind"], entry["text"]) == (0, 0, "do it")
    assert entry["size_bytes"] > 0
    again = shop.ws("new", "a", "something else")
    assert (again.code, "exists and is active" in again.stderr) == (2, True)
    assert shop.ws("new", "../x", "no").code == 2
    assert shop.ws("new", "b", "  ").code == 2


def test_list_and_status_show_what_git_and_the_registry_know(shop: Workshop) -> None:
    assert "No workstreams" in shop.ws("list").stdout
    shop.make(a="do the first thing")
    worktree = shop.worktree("a")
    shop.commit("a", "new.txt")
    (worktree / "more.txt").write_text("x\n")
    heading, row = shop.ws("list").lines
    assert heading.split()[:6] == ["SLUG", "STATE", "BRANCH", "AHEAD", "BEHIND", "SIZE"]
    assert row.split()[:5] == ["a", "active", "agentos/a", "1", "0"]
    status = shop.ws("status", "a").stdout
    for words in ("do the first thing", "1 ahead, 0 behind", "more.txt", "created: nothing -> active", str(worktree)):
        assert words in status
    assert json.loads(shop.ws("status", "a", "--json").stdout)[0]["history"][0]["event"] == "created"


def test_commands_in_a_worktree_speak_of_the_project_it_belongs_to(shop: Workshop) -> None:
    shop.make(a="x")
    inside = shop.ws("list", "--json", cwd=shop.worktree("a"))
    assert [entry["slug"] for entry in json.loads(inside.stdout)] == ["a"]


def test_rm_refuses_to_lose_work_and_says_what_force_lost(shop: Workshop) -> None:
    shop.make(clean="x", dirty="x", ahead="x")
    (shop.worktree("dirty") / "notes.txt").write_text("x\n")
    ahead = shop.worktree("ahead")
    tip = shop.commit("ahead", "new.txt")
    finished = shop.ws("rm", "clean", "dirty", "ahead")
    assert finished.code == 1
    assert finished.stdout == "clean: removed\n"
    assert "dirty is not removed: 1 file not committed (notes.txt)" in finished.stderr
    assert "ahead is not removed: 1 commit not merged into main" in finished.stderr
    assert set(shop.states()) == {"dirty", "ahead"}
    forced = shop.ws("rm", "dirty", "ahead", "--force")
    assert forced.code == 0
    assert f"branch agentos/ahead {tip[:12]}` brings its commits back" in forced.stdout
    assert shop.states() == {}
    assert shop.git("branch", "--list", "agentos/*") == ""
    assert not ahead.exists()


def test_rm_refuses_to_lose_commits_whose_worktree_is_gone(shop: Workshop) -> None:
    shop.make(a="x")
    worktree = shop.worktree("a")
    shop.commit("a", "new.txt")
    shutil.rmtree(worktree)
    shop.git("worktree", "prune")
    refused = shop.ws("rm", "a")
    assert refused.code == 1
    assert "1 commit not merged" in refused.stderr
    assert shop.git("branch", "--list", "agentos/*") == "agentos/a"


@pytest.mark.slow
def test_a_new_workstream_does_not_go_on_where_a_removed_one_stopped(shop: Workshop) -> None:
    shop.make(a="n2: raise no")
    assert shop.run_graph("a").code == 1
    assert shop.ws("rm", "a").code == 0
    assert shop.databases() == []
    shop.make(a="now it works")
    assert shop.run_graph("a").code == 0
    assert shop.notes().count("a n1 start") == 2


def test_a_deleted_worktree_is_made_again_by_the_next_run(shop: Workshop) -> None:
    shop.make(a="x")
    worktree = shop.worktree("a")
    shutil.rmtree(worktree)
    assert "missing" in shop.ws("status", "a").stdout
    assert shop.run_graph("a").code == 0
    assert (worktree / "done.txt").exists()


def test_cleanup_proposes_what_is_merged_and_removes_it_only_when_told(shop: Workshop) -> None:
    shop.make(merged="x", fresh="x", open="x", finished="x")
    for slug in ("merged", "open"):
        shop.commit(slug, f"{slug}.txt")
    shop.git("merge", "--quiet", "agentos/merged")
    shop.ws("complete", "finished")
    proposed = shop.ws("cleanup")
    assert proposed.code == 0
    assert "would remove merged: merged into main" in proposed.stdout
    assert "would remove finished: completed without commits" in proposed.stdout
    assert "keep fresh: no work in it yet" in proposed.stdout
    assert "keep open: 1 commit not merged" in proposed.stdout
    assert len(shop.states()) == 4
    assert "removed merged" in shop.ws("cleanup", "--apply").stdout
    assert set(shop.states()) == {"fresh", "open"}


def test_every_change_can_be_told_as_json(shop: Workshop) -> None:
    def told(*commands: str) -> Iterator[Any]:
        text = shop.converse(*(f"/ws {command} --json" for command in commands)).stdout.strip()
        while text:
            document, end = json.JSONDecoder().raw_decode(text)
            yield document
            text = text[end:].lstrip()

    made, paused, resumed = told("new a 'do it' --copy no.such", "pause a", "resume a")
    assert (made["slug"], made["state"], made["was_there"]) == ("a", "active", False)
    assert Path(made["path"]) == shop.worktree("a")
    assert made["provided"] == [{"path": "no.such", "problem": "there is no such file"}]
    assert paused == [{"slug": "a", "state": "paused", "node": None}]
    assert resumed == [{"slug": "a", "state": "active"}]
    tip = shop.commit("a", "new.txt")
    (kept,), (proposal,), (gone,) = told("rm a", "cleanup", "rm a --force")
    assert (kept["removed"], "1 commit not merged into main" in kept["error"]) == (False, True)
    assert (proposal["is_safe"], proposal["removed"]) == (False, False)
    assert (gone["removed"], gone["tip"], gone["lost"]) == (True, tip, "1 commit not merged into main")
    shop.make(b="x")
    completed, (cleaned,), listed = told("complete b", "run-all", "cleanup --apply", "list")
    assert completed == [{"slug": "b", "state": "completed"}]
    assert cleaned["removed"] is True
    assert listed == []


def test_dashboard_is_one_table_in_a_pipe(shop: Workshop) -> None:
    shop.make(a="n2: wait go", b="x")
    run = shop.start_run("a")
    shop.wait_for_note("a n2 start")
    lines = shop.ws("dashboard").lines
    assert lines[0].split()[:3] == ["SLUG", "STATE", "NODE"]
    assert lines[1].split()[:3] == ["a", "running", "n2"]
    assert lines[2].split()[:2] == ["b", "active"]
    shop.release("go")
    assert run.wait().code == 0


def test_dashboard_is_live_on_a_terminal_until_interrupted(shop: Workshop) -> None:
    shop.make(a="n2: wait go")
    with Terminal(shop, "ws", "dashboard", columns=140) as terminal:
        terminal.wait_for("active")
        run = shop.start_run("a")
        terminal.wait_for("running")
        shop.release("go")
        terminal.wait_for("completed")
        assert run.wait().code == 0
        terminal.type(b"\x03")
        assert terminal.wait() == 0


@pytest.mark.slow
def test_twenty_are_made_run_and_removed_at_ten_in_parallel(shop: Workshop) -> None:
    slugs = [f"w{number}" for number in range(20)]
    for first in range(0, 20, 10):
        started = [shop.start_command("ws", "new", slug, "x") for slug in slugs[first : first + 10]]
        finished = [command.wait() for command in started]
        assert [each.code for each in finished] == [0] * 10, [each.stderr for each in finished if each.code]
    done = shop.start_run("w*", "--max-concurrent", "10").wait()
    assert done.code == 0, done.stdout
    assert "lock" not in done.stdout
    assert len(list(shop.home.glob("worktrees/*/w*/done.txt"))) == 20
    removals = [shop.start_command("ws", "rm", *slugs[part::10], "--force") for part in range(10)]
    removed = [each.wait() for each in removals]
    assert [each.code for each in removed] == [0] * 10, [each.stderr for each in removed if each.code]
    assert shop.states() == {}
    assert len(shop.git("worktree", "list").splitlines()) == 1


def test_outside_a_repository_the_error_says_what_to_do(shop: Workshop, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    finished = shop.ws("list", cwd=outside, env={"GIT_CEILING_DIRECTORIES": str(tmp_path)})
    assert finished.code == 2
    assert "git init" in finished.stderr
    assert list(outside.iterdir()) == []

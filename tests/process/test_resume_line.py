"""The line that a run ends with: pasted into the same shell, it continues the run, whatever command it was."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from backlog import OFFLINE, Backlog
from designs import Designs
from harness import AGENTOS, Finished, Sandbox, Started, of_type, resume_line
from workshop import Workshop, workshop

TOOLS_DIR = Path(__file__).parents[2] / "tools"
FAILS_FIRST = {"n2": "fail_once first"}


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workshop]:
    with workshop(tmp_path, monkeypatch) as made:
        yield made


def interrupted(started: Started, line: str = ">>> Executing: N1_design") -> Finished:
    started.wait_for_line(line)
    started.kill(signal.SIGINT)
    finished = started.wait()
    assert finished.code == 130, finished.stdout + finished.stderr
    return finished


# `agentos run`.


def test_run_names_the_unfinished_items_and_all_that_was_chosen_but_not_fresh(sandbox: Sandbox) -> None:
    sandbox.write_items(
        {"id": "done"},
        {"id": "fails", "input": {"tasks": FAILS_FIRST}},
        {"id": "waits", "depends_on": ["fails"]},
        {"id": "other"},
    )
    chosen = ["--retry", "0", "--timeout-seconds", "60", "--max-wait", "2m", "--fresh"]
    failed = sandbox.run("done", "fails", "waits", "--parallel", "2", *chosen)
    assert failed.code == 1
    items = sandbox.root / "items.jsonl"
    assert resume_line(failed) == (
        f"agentos run fails waits --graph graphs/steps.py:graph --items {items} --parallel 2 --timeout-seconds 60 "
        "--max-wait 2m"
    )
    assert sandbox.paste(failed).code == 0
    assert sandbox.outcomes() == dict.fromkeys(("done", "fails", "waits"), "completed")
    assert sandbox.notes().count("fails n1 start") == 1


def test_items_from_a_pipe_are_kept_for_the_line_that_resumes_them(sandbox: Sandbox) -> None:
    piped = sandbox.write_items({"id": "a"}, {"id": "b", "input": {"tasks": FAILS_FIRST}}, name="piped")
    text = piped.read_text()
    with piped.open("rb") as stdin:
        failed = sandbox.start_command("run", "--graph", "graphs/steps.py:graph", "--items", "-", stdin=stdin).wait()
    assert failed.code == 1, failed.stderr
    piped.unlink()

    (kept,) = sandbox.home.glob("logs/parallel/*/items")
    assert (kept.read_text(), kept.stat().st_mode & 0o777) == (text, 0o600)
    resumed = sandbox.paste(failed)
    assert resumed.code == 0, resumed.stderr
    assert sandbox.outcomes() == {"a": "completed", "b": "completed"}
    assert sandbox.notes().count("b n1 start") == sandbox.notes().count("a n1 start") == 1


def test_an_item_whose_input_changed_is_started_over_by_its_own_line_and_no_other_is(sandbox: Sandbox) -> None:
    fails = [{"tasks": {"n2": "fail_once a2"}}, {"tasks": {"n2": "fail_once b2", "n3": "fail_once b3"}}]
    sandbox.write_items({"id": "a", "input": fails[0]}, {"id": "b", "input": fails[1]}, {"id": "c"})
    assert sandbox.run("--parallel", "3").code == 1
    changed = {**fails[0], "reason": "new"}
    sandbox.write_items({"id": "a", "input": changed}, {"id": "b", "input": fails[1]}, {"id": "c"})
    refused = sandbox.run("--parallel", "3")
    assert refused.code == 1
    assert not [name for name in sandbox.databases() if name.endswith("-wal")]
    assert resume_line(refused).startswith("agentos run b --graph ")
    over = next(line for line in refused.lines if "To start it over: " in line)
    assert over.startswith("[COORDINATOR] a cannot continue. To start it over: agentos run a --graph ")
    assert sandbox.paste(refused).code == 0
    again = sandbox.start_command("-c", over.partition("over: ")[2], program=Path("/bin/sh")).wait()
    assert again.code == 0, again.stdout + again.stderr
    starts = [note for note in sandbox.notes() if note.endswith("n1 start")]
    assert sorted(starts) == ["a n1 start", "a n1 start", "b n1 start", "c n1 start"]


def test_a_killed_run_names_what_is_unfinished_too(sandbox: Sandbox) -> None:
    sandbox.write_items({"id": "a"}, {"id": "b", "input": {"tasks": {"n2": "wait go"}}})
    run = sandbox.start("a", "b", "--parallel", "2")
    sandbox.wait_for_note("b n2 start")
    run.wait_for_record("item_ended", item="a")
    run.kill()
    run.wait()
    shown = sandbox.command("runs", "show", "last")
    assert resume_line(shown).startswith("agentos run b --graph ")


def test_a_program_that_is_not_on_the_path_is_named_as_it_was_typed(sandbox: Sandbox) -> None:
    sandbox.write_items({"id": "a", "input": {"tasks": {"n2": "fail_once first", "n3": "fail_once second"}}})
    (sandbox.project / "bin").symlink_to(AGENTOS.parent)
    environment = {"PATH": "/usr/bin:/bin"}
    typed = ["-c", f"bin/agentos {' '.join(sandbox.arguments())}"]
    found = sandbox.start_command(*typed, program=Path("/bin/sh")).wait()
    assert resume_line(found).startswith("agentos run --graph")
    failed = sandbox.start_command(*typed, program=Path("/bin/sh"), env=environment).wait()
    assert resume_line(failed).startswith("bin/agentos run --graph")
    assert sandbox.paste(failed, env=environment).code == 0


def test_odd_ids_and_values_are_pasted_as_they_were_meant(sandbox: Sandbox) -> None:
    fails_once = {"input": {"tasks": {"n2": "fail_once first"}}}
    name = "it's {ids} and {budget} $HOME"
    sandbox.write_items({"id": "-a", **fails_once}, {"id": "b"}, name=name)
    failed = sandbox.run("--", "-a", "b", items=name)
    assert failed.code == 1
    assert resume_line(failed).endswith(" -- -a")
    assert sandbox.paste(failed).code == 0
    assert sandbox.outcomes()["-a"] == "completed"


def test_items_that_came_through_standard_input_are_resumed_from_what_the_run_kept(sandbox: Sandbox) -> None:
    path = sandbox.write_items({"id": "a", "input": {"tasks": {"n2": "fail_once first"}}})
    with path.open("rb") as items:
        failed = sandbox.start_command("run", "--graph", "graphs/steps.py:graph", "--items", "-", stdin=items).wait()
    assert failed.code == 1
    assert sandbox.paste(failed).code == 0
    assert sandbox.outcomes()["a"] == "completed"


# Documents.

SLOW = {"AGENTOS_OFFLINE_LATENCY_SECONDS": "60"}


def test_lld_workflow(backlog: Backlog) -> None:
    backlog.add_issues(1, 2, 3)
    stopped = interrupted(backlog.start_lld("1", "2", "--max-rounds", "3", *OFFLINE, env=SLOW))
    assert resume_line(stopped) == "lld-workflow 1 2 --drafter offline --reviewer offline --max-rounds 3"
    assert backlog.paste(stopped).code == 0
    assert backlog.outcomes() == {"1": "rehearsed", "2": "rehearsed"}


@pytest.mark.slow  # `ws run --project` below is pasted; tests/unit/cli/test_resume.py has the flag for every command.
def test_a_command_for_another_project_stays_with_it(backlog: Backlog) -> None:
    backlog.add_issues(1)
    words = ["lld", "--all", "--drafter", "offline", "--reviewer", "offline", "--project", "project"]
    stopped = interrupted(backlog.start_command(*words, env=SLOW, cwd=backlog.root))
    assert resume_line(stopped) == " ".join(["agentos", *words])
    assert backlog.paste(stopped, cwd=backlog.root).code == 0
    assert backlog.lld_path(1).exists()


def test_issue_workflow(backlog: Backlog) -> None:
    backlog.add_brief("export")
    stopped = interrupted(backlog.start_issue("--all", *OFFLINE, env=SLOW))
    assert resume_line(stopped) == "issue-workflow --all --drafter offline --reviewer offline"
    assert backlog.paste(stopped).code == 0
    assert backlog.outcomes() == {"export": "rehearsed"}


@pytest.mark.parametrize("kind", ["lld", pytest.param("issue", marks=pytest.mark.slow)])
def test_the_tool_for_requirements(backlog: Backlog, kind: str) -> None:
    backlog.add_issues(1)
    backlog.add_brief("export")
    tool = str(TOOLS_DIR / "run_requirements_workflow.py")
    stopped = interrupted(
        backlog.start_command(tool, "--all", "--type", kind, *OFFLINE, env=SLOW, program=Path(sys.executable))
    )
    words = resume_line(stopped).split()
    assert words[:2] == [sys.executable, tool]
    assert backlog.paste(stopped).code == 0
    assert set(backlog.outcomes().values()) == {"rehearsed"}
    [item] = backlog.outcomes()
    assert of_type(backlog.records(), "item_started", item)[-1]["resumed_after"] is not None


@pytest.mark.parametrize(
    "program",
    [
        "agentos implement",
        pytest.param(f"{sys.executable} {TOOLS_DIR}/run_implement_from_lld.py", marks=pytest.mark.slow),
    ],
)
def test_implement_and_its_tool(designs: Designs, program: str) -> None:
    designs.use_shell_tests()
    designs.add_greetings(1)
    command, *words = program.split()
    path = Path(command) if "/" in command else AGENTOS
    models = ["--drafter", "recorded", "--reviewer", "recorded", "--commits", "stacked"]
    no_answers = {"AGENTOS_RECORDED_DIR": str(designs.root / "empty")}
    (designs.root / "empty").mkdir()
    failed = designs.start_command(*words, "1", *models, program=path, env=no_answers).wait()
    assert failed.code == 1, failed.stdout + failed.stderr
    assert resume_line(failed) == f"{program} 1 --drafter recorded --reviewer recorded --commits stacked"
    assert designs.paste(failed).code == 0
    assert designs.outcomes() == {"1": "implemented"}


def test_pipeline(designs: Designs) -> None:
    designs.add(1)
    designs.git("add", ".")
    designs.git("commit", "--quiet", "-m", "A design")
    issue = designs.project / "docs/issues/001-mean.md"
    issue.parent.mkdir(parents=True)
    issue.write_text("# mean\n\n## Requirements\n\n1. `mean(values)` is the sum by the count.\n")
    stopped = interrupted(designs.start_command("pipeline", "1", *OFFLINE, env=SLOW), "N1_design")
    assert resume_line(stopped) == "agentos pipeline 1 --drafter offline --reviewer offline"
    resumed = designs.start_command("-c", f"exec {resume_line(stopped)}", program=Path("/bin/sh"), env=SLOW)
    assert resumed.wait_for_record("item_started", resumed_after="LLD.N0b_context")
    resumed.kill(signal.SIGINT)
    resumed.wait()


# Workstreams.


def test_ws_run_keeps_its_flags_and_leaves_completed_workstreams_out(shop: Workshop) -> None:
    shop.make(done="n1: print fine", fails="n2: fail_once first")
    flags = ["--max-concurrent", "2", "--drafter", "offline", "--budget", "7.5", "--retry", "1"]
    project = ["--project", str(shop.project)]
    graph = ["--graph", "project/graphs/streams.py:graph"]
    failed = shop.ws("run", "done", "fails", *graph, *flags, *project, cwd=shop.root)
    assert failed.code == 1, failed.stderr
    assert resume_line(failed) == (
        "agentos ws run fails --max-concurrent 2 --graph project/graphs/streams.py:graph --drafter offline --retry 1 "
        f"--budget 7.5 --project {shop.project}"
    )
    resumed = shop.paste(failed, cwd=shop.root)
    assert resumed.code == 0, resumed.stderr
    assert shop.states() == {"done": "completed", "fails": "completed"}
    assert shop.notes().count("fails n1 start") == 1


def test_ws_run_all_resumes_by_name(shop: Workshop) -> None:
    shop.make(done="n1: print fine", fails="n2: fail_once first")
    failed = shop.ws("run-all", "--graph", "graphs/streams.py:graph")
    assert resume_line(failed) == "agentos ws run fails --graph graphs/streams.py:graph"
    assert shop.paste(failed).code == 0
    assert shop.states() == {"done": "completed", "fails": "completed"}


def test_a_command_at_the_prompt_resumes_outside_of_it_with_ids_anywhere(shop: Workshop) -> None:
    items = shop.write_items({"id": "a", "input": {"tasks": FAILS_FIRST}}, {"id": "b"})
    finished = shop.converse(f"/run a --graph graphs/steps.py:graph b --items {items}")
    assert finished.code == 1, finished.stderr
    assert resume_line(finished) == f"agentos run a --graph graphs/steps.py:graph --items {items}"
    assert shop.paste(finished).code == 0

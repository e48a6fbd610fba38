"""An item belongs to its project and, while it runs, to one run."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from harness import Sandbox, of_type


def item(item_id: str, depends_on: tuple[str, ...] = (), **tasks: str) -> dict[str, Any]:
    return {"id": item_id, "input": {"tasks": tasks}, "depends_on": list(depends_on)}


def test_the_same_id_in_two_projects_never_meets(sandbox: Sandbox) -> None:
    other = sandbox.root / "elsewhere" / "project"
    shutil.copytree(sandbox.project, other)
    sandbox.write_items(item("a", n2="wait go"))
    sandbox.write_items(item("a", n2="fail_once f"), name="other.jsonl")

    here = sandbox.start()
    sandbox.wait_for_note("a n2 start")
    failed_there = sandbox.run(items="other.jsonl", cwd=other)
    assert failed_there.code == 1
    assert "held by" not in failed_there.stdout
    assert len(list(sandbox.home.glob("checkpoints/*/graphs-steps-graph_workflow_a.db"))) == 2
    sandbox.release("go")
    assert here.wait().code == 0

    # The first project's success has not touched the second's checkpoint; --project finds it from anywhere.
    graph = f"{other}/graphs/steps.py:graph"
    resumed = sandbox.run("--project", str(other), items="other.jsonl", graph=graph)
    assert resumed.code == 0
    assert "[a] resuming after n1" in resumed.lines


def test_a_second_run_skips_what_the_first_holds_and_says_who_holds_it(sandbox: Sandbox) -> None:
    sandbox.write_items(item("done"), item("busy", n1="wait go"), item("waiting"))
    sandbox.write_items(
        item("done"),
        item("busy", n1="wait go"),
        item("waiting"),
        item("free"),
        item("after", ("busy",)),
        name="2.jsonl",
    )
    first = sandbox.start()
    sandbox.wait_for_note("busy n1 start")
    [first_run] = [path.name for path in sandbox.run_dirs()]

    second = sandbox.run("--parallel", "3", items="2.jsonl")

    held = f"skipped: held by run {first_run}"
    assert f"[busy] {held}" in second.lines
    assert f"[waiting] {held}" in second.lines
    assert any(line.startswith("[after] skipped: dependency busy was skipped") for line in second.lines)
    assert sandbox.outcomes() == {
        "done": "completed",  # Not held any more: its run is through with it.
        "busy": "skipped",
        "waiting": "skipped",
        "free": "completed",
        "after": "skipped",
    }
    causes = {item_id: record["cause"] for item_id, record in sandbox.endings().items()}
    assert causes == {"done": "earlier_run", "busy": "held", "waiting": "held", "free": "", "after": "dependency"}
    assert second.code == 1  # `after` did not get its turn.
    assert "[COORDINATOR] 2 items left to the run that has them: busy, waiting" in second.lines
    again = next(line for line in second.lines if "resume with: " in line).partition("resume with: ")[2]
    assert again.startswith("agentos run after --graph ")
    sandbox.release("go")
    assert first.wait().code == 0
    resumed = sandbox.start_command("-c", again, program=Path("/bin/sh")).wait()
    assert resumed.code == 0, resumed.stdout + resumed.stderr
    assert [note for note in sandbox.notes() if note.endswith("n1 start")] == [
        *("done n1 start", "busy n1 start", "free n1 start", "waiting n1 start", "after n1 start")
    ]


def test_with_another_run_alive_the_items_of_a_killed_one_are_waited_for_and_done(sandbox: Sandbox) -> None:
    """Who holds an item is the run that has it, not any run that happens to live in the project."""
    sandbox.write_items(item("busy", n1="wait go"), name="busy.jsonl")
    sandbox.write_items(item("a", n2="wait go"), item("b", n1="wait go"))
    alive = sandbox.start(items="busy.jsonl")
    sandbox.wait_for_note("busy n1 start")
    [alive_run] = [path.name for path in sandbox.run_dirs()]
    killed = sandbox.start("--parallel", "2")
    sandbox.wait_for_note("a n2 start")
    sandbox.wait_for_note("b n1 start")
    killed.kill()
    next_run = sandbox.start("--parallel", "2")  # At once: its predecessor's workers may still be dying.
    only_busy = sandbox.run(items="busy.jsonl")
    sandbox.release("go")
    done = next_run.wait()

    assert f"[busy] skipped: held by run {alive_run}" in only_busy.lines
    assert only_busy.code == 1  # It cannot say that `busy` is done.
    assert done.code == 0, done.stdout + done.stderr
    assert "held by" not in done.stdout
    assert "[a] resuming after n1" in done.lines
    assert alive.wait().code == 0


def test_items_of_a_killed_run_are_taken_over_at_once_without_a_manual_step(sandbox: Sandbox) -> None:
    sandbox.write_items(item("a", n2="wait go"), item("b", n1="wait go"), item("c"))
    first = sandbox.start("--parallel", "2")
    sandbox.wait_for_note("a n2 start")
    sandbox.wait_for_note("b n1 start")

    first.kill()
    second = sandbox.start("--parallel", "2")  # At once: its predecessor's workers may still be dying.
    second.wait_for_record("node_started", item="b", node="n1", run=_second_run(second))
    sandbox.release("go")

    done = second.wait()
    assert done.code == 0
    assert "held by" not in done.stdout
    assert "[a] resuming after n1" in done.lines
    assert sandbox.notes().count("a n1 start") == 1
    assert len(of_type(sandbox.records(), "run_ended")) == 1


def _second_run(second: Any) -> str:
    return str(second.wait_for_record("run_started", pid=second.pid)["run"])

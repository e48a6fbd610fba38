"""`agentos runs`: what is told of runs that live, ended, were stopped or died, from their records alone."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

from harness import Sandbox, eventually, no_process_left

_WAITS = {"id": "slow", "input": {"tasks": {"n2": "wait go"}}}


def _rows(text: str) -> list[list[str]]:
    """The cells of a table, without its heading."""
    return [re.split(r" {2,}", line) for line in text.splitlines()[1:]]


def test_without_runs_it_says_so(sandbox: Sandbox) -> None:
    done = sandbox.command("runs")
    assert (done.code, done.stdout) == (0, f"No runs yet under {sandbox.home / 'logs' / 'parallel'}\n")
    assert sandbox.command("runs", "--json").stdout == "[]\n"
    assert not sandbox.home.exists()


def test_runs_are_listed_newest_first_with_how_they_stand(sandbox: Sandbox) -> None:
    sandbox.write_items({"id": "a1"}, {"id": "a2", "input": {"tasks": {"n1": "raise no"}}}, name="ended.jsonl")
    assert sandbox.run(items="ended.jsonl").code == 1

    sandbox.write_items(_WAITS, {"id": "next"})
    stopped = sandbox.start()
    stopped.wait_for_record("node_started", node="n2", item="slow")
    stopped.kill(signal.SIGINT)
    assert stopped.wait().code == 130

    killed = sandbox.start()
    third = eventually(lambda: len(sandbox.run_dirs()) == 3 and sandbox.run_dirs()[2].name, "a third run")
    killed.wait_for_record("node_started", run=third, node="n2")
    killed.kill()
    killed.wait()
    no_process_left(sandbox.home)

    live = sandbox.start()
    fourth = eventually(lambda: len(sandbox.run_dirs()) == 4 and sandbox.run_dirs()[3].name, "a fourth run")
    live.wait_for_record("node_started", run=fourth, node="n2")

    listed = _rows(sandbox.command("runs").stdout)
    names = [run_dir.name for run_dir in reversed(sandbox.run_dirs())]
    assert [row[0] for row in listed] == names
    for columns in ("40", "12"):
        narrow = sandbox.command("runs", env={"COLUMNS": columns}).lines[1:]
        assert [line.split()[0] for line in narrow] == names, "ids are there to be copied"
        shown = sandbox.command("runs", "show", names[3], env={"COLUMNS": columns}).stdout
        assert f"Run {names[3]}: failed" in shown
        assert "a1" in shown
    assert [row[1:3] for row in listed] == [
        ["live", "0/2"],
        ["unfinished", "0/2"],
        ["interrupted", "0/2"],
        ["failed", "2/2"],
    ]
    assert "1 completed, 1 failed" in listed[3]

    documents = json.loads(sandbox.command("runs", "--json").stdout)
    assert json.loads(sandbox.command("runs", "list", "--json").stdout) == documents
    assert [(each["run"], each["state"]) for each in documents] == list(
        zip(names, ("live", "unfinished", "interrupted", "failed"), strict=True)
    )
    assert [each["exit_code"] for each in documents] == [None, None, 130, 1]

    live.kill(signal.SIGINT)
    live.wait()


def test_show_tells_a_live_run_as_it_stands_and_a_dead_one_as_it_was_left(sandbox: Sandbox) -> None:
    sandbox.write_items({"id": "quick"}, _WAITS)
    started = sandbox.start()
    started.wait_for_record("node_started", item="slow", node="n2")
    run = sandbox.run_dirs()[0].name

    shown = sandbox.command("runs", "show")
    assert shown.lines[0] == f"Run {run}: live"
    assert "[=====>    ] 1/2 workflows complete" in shown.lines
    assert any(re.match(r"Running, \d+:\d\d so far, .*at a time", line) for line in shown.lines)
    assert any(re.match(r"slow +n2 +working \d+:\d\d", line) for line in shown.lines)
    assert any(re.match(r"quick +completed ", line) for line in shown.lines)
    assert "[COORDINATOR] 1 item left: slow" in shown.lines
    assert "Resume with" not in shown.stdout
    assert json.loads(sandbox.command("runs", "show", run, "--json").stdout)["state"] == "live"

    started.kill()
    started.wait()
    no_process_left(sandbox.home)
    left = sandbox.command("runs", "show", run[:-1])
    assert left.lines[0] == f"Run {run}: unfinished"
    assert any(line.startswith("Coordinator lost: its process died") for line in left.lines)
    assert not any("working" in line for line in left.lines)
    assert "[COORDINATOR] 1 item left: slow" in left.lines
    assert f"[COORDINATOR] Resume with: agentos {' '.join(sandbox.arguments())}" in left.lines


def test_follow_tells_a_live_run_from_its_beginning_to_its_end(sandbox: Sandbox) -> None:
    sandbox.write_items({"id": "quick"}, _WAITS)
    started = sandbox.start()
    started.wait_for_record("node_started", item="slow", node="n2")
    follower = sandbox.start_command("runs", "follow")
    follower.wait_for_line("[slow] >>> Executing: n2")
    assert "[quick] completed" in follower.stdout()
    assert follower.process.poll() is None
    sandbox.release("go")
    followed = follower.wait()
    done = started.wait()
    assert (done.code, followed.code) == (0, 0)
    # Workers' own lines are in the logs; everything else reads as it did where the run was started.
    assert [*followed.lines, "[COORDINATOR] Results of the graph: agentos runs result"] == done.lines


def test_a_follower_that_leaves_does_not_touch_the_run(sandbox: Sandbox) -> None:
    sandbox.write_items(_WAITS)
    started = sandbox.start()
    started.wait_for_record("node_started", node="n2")
    follower = sandbox.start_command("runs", "follow", "last")
    follower.wait_for_line("[slow] >>> Executing: n2")
    follower.kill(signal.SIGINT)
    gone = follower.wait()
    assert (gone.code, gone.stderr) == (130, "")
    sandbox.release("go")
    assert started.wait().code == 0


def test_following_a_run_that_dies_ends_and_says_so(sandbox: Sandbox) -> None:
    sandbox.write_items(_WAITS)
    started = sandbox.start()
    started.wait_for_record("node_started", node="n2")
    follower = sandbox.start_command("runs", "follow", "last")
    follower.wait_for_line("[slow] >>> Executing: n2")
    started.kill()
    followed = follower.wait()
    run = sandbox.run_dirs()[0].name
    assert followed.code == 1
    assert followed.lines[-1] == f"[COORDINATOR] Run {run} did not end properly: none of its processes is alive"


def test_an_unknown_run_is_a_usage_error_that_names_the_nearest(sandbox: Sandbox) -> None:
    sandbox.write_items({"id": "a1"})
    sandbox.run()
    run = sandbox.run_dirs()[0].name
    for verb in ("show", "follow"):
        done = sandbox.command("runs", verb, "20200101-000000-000000")
        assert (done.code, done.stdout) == (2, "")
        assert done.stderr == (
            f"agentos: error: no run '20200101-000000-000000'; did you mean {run}? `agentos runs` lists all\n"
        )


def test_prune_removes_what_the_policy_says_and_never_what_is_live(sandbox: Sandbox) -> None:
    sandbox.write_items(_WAITS)
    started = sandbox.start()
    started.wait_for_record("node_started", node="n2")
    [live] = sandbox.run_dirs()
    ancient = datetime.now(UTC) - timedelta(days=99)
    runs = {}
    for number, name in enumerate(("killed", "finished")):
        runs[name] = live.with_name((ancient + timedelta(hours=number)).strftime("%Y%m%d-%H%M%S-%f"))
        runs[name].mkdir()
        (runs[name] / "workflow-audit.jsonl").touch()
    (runs["finished"] / "summary.json").write_text(json.dumps({"run": runs["finished"].name}))

    [database] = sandbox.home.glob("checkpoints/*/*.db")
    aside = [Path(f"{database}.damaged-{day:%Y%m%d-%H%M%S}-7") for day in (ancient, datetime.now(UTC))]
    for path in (*aside, wal := Path(f"{aside[0]}-wal")):
        path.touch()
    names = [runs["finished"].name, runs["killed"].name, aside[0].name, wal.name]

    planned = sandbox.command("runs", "prune", "--dry-run")
    assert planned.lines == [*names, "4 to remove"]
    assert runs["finished"].exists()
    assert sandbox.command("runs", "prune").lines == [*names, "4 removed"]
    assert sandbox.run_dirs() == [live]
    assert [path.exists() for path in aside] == [False, True]

    sandbox.release("go")
    assert started.wait().code == 0


def test_a_reader_that_leaves_early_causes_no_traceback(sandbox: Sandbox) -> None:
    sandbox.write_items({"id": "a1"})
    sandbox.run()
    command = sandbox.start_command("runs", "show", "last", stdout=subprocess.PIPE)
    assert command.process.stdout is not None
    command.process.stdout.close()
    command.wait()
    assert command.stderr() == ""


def test_a_pipe_in_place_of_a_runs_records_holds_nobody_up(sandbox: Sandbox) -> None:
    broken = sandbox.home / "logs" / "parallel" / "20261118-010203-000000"
    broken.mkdir(parents=True)
    for name in ("workflow-audit.jsonl", "summary.json", "results.jsonl"):
        os.mkfifo(broken / name)

    listed, shown = sandbox.command("runs"), sandbox.command("runs", "show", broken.name)

    assert listed.code == 0
    assert broken.name in listed.stdout
    assert shown.code == 0, shown
    assert sandbox.command("runs", "result", broken.name).stdout == ""

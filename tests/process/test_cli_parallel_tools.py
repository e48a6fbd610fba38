"""The twelve scenarios of LLD-137 for the tools, and what their shared functions promise."""

from __future__ import annotations

import argparse
import importlib.util
import json
import re
import signal
import sys
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from backlog import INVALID_ISSUE, OFFLINE, SECRETS, Author, Backlog, serving, unlabelled
from harness import STOP_DEADLINE_SECONDS, Finished, Started, no_process_left

TOOLS_DIR = Path(__file__).parents[2] / "tools"
TOOLS = ("run_requirements_workflow",)
"""Every scenario runs against each of them."""


def load(name: str) -> ModuleType:
    """A tool as a module, as `python tools/NAME.py` would load it."""
    if name in sys.modules:
        return sys.modules[name]
    specification = importlib.util.spec_from_file_location(name, TOOLS_DIR / f"{name}.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module
    specification.loader.exec_module(module)
    return module


@pytest.fixture
def utils() -> ModuleType:
    return load("cli_parallel_utils")


@pytest.fixture(params=TOOLS)
def tool(request: pytest.FixtureRequest, utils: ModuleType, tmp_path: Path, monkeypatch: Any) -> ModuleType:
    monkeypatch.setenv("AGENTOS_HOME", str(tmp_path / "home"))
    return load(request.param)


def start_tool(backlog: Backlog, tool: ModuleType, *arguments: str, **choices: Any) -> Started:
    assert tool.__file__ is not None
    return backlog.start_command(tool.__file__, *arguments, program=Path(sys.executable), **choices)


def run_tool(backlog: Backlog, tool: ModuleType, *arguments: str, **choices: Any) -> Finished:
    return start_tool(backlog, tool, *arguments, **choices).wait()


CALLER = """
import json, sys
from pathlib import Path

sys.path.insert(0, TOOLS_DIR)
import cli_parallel_utils as utils
import run_requirements_workflow as tool
from agentos.cli import run_command

if __name__ == "__main__":
    arguments = tool.parse_args(sys.argv[1:])
    work = tool.COMMANDS["lld"].prepare(arguments)
    tasks = tool.collect_pending_issues(Path("docs/issues"))
    batch = utils.EngineBatch(lambda listener: run_command.run(work, listener))
    result = utils.execute_tasks_parallel(tasks, utils.create_parallel_config(arguments), batch)
    statuses = {task["issue_id"]: task["status"] for task in tasks}
    Path("result.json").write_text(json.dumps({**result, "statuses": statuses}))
"""


def start_caller(backlog: Backlog, *arguments: str, **choices: Any) -> Started:
    """A program of somebody's own that runs a batch on the engine and keeps its result."""
    script = backlog.root / "main.py"
    script.write_text(CALLER.replace("TOOLS_DIR", repr(str(TOOLS_DIR))))
    return backlog.start_command(str(script), *arguments, program=Path(sys.executable), **choices)


def result_of(backlog: Backlog) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((backlog.project / "result.json").read_text())
    return found


def make_tasks(utils: ModuleType, folder: Path, *ids: str) -> list[Any]:
    return [
        utils.WorkflowTask(
            issue_id=issue_id,
            workflow_type="requirements",
            input_path=folder / f"{issue_id}.in",
            output_path=folder / f"{issue_id}.out",
            status="pending",
        )
        for issue_id in ids
    ]


def config_of(utils: ModuleType, workers: int, keys: list[str] | None = None) -> Any:
    return utils.ParallelConfig(max_workers=workers, dry_run=False, credential_pool=keys or [])


# 010 to 040: flags.


def test_010_parallel_n_is_parsed(tool: ModuleType, utils: ModuleType) -> None:
    assert utils.create_parallel_config(tool.parse_args(["--all", "--parallel", "4"]))["max_workers"] == 4


def test_020_dry_run_is_parsed(tool: ModuleType, utils: ModuleType) -> None:
    assert utils.create_parallel_config(tool.parse_args(["--all", "--dry-run"]))["dry_run"] is True


def test_030_sequential_is_the_default_and_bare_parallel_means_three(tool: ModuleType, utils: ModuleType) -> None:
    assert utils.create_parallel_config(tool.parse_args(["--all"]))["max_workers"] == 1
    assert utils.create_parallel_config(tool.parse_args(["--all", "--parallel"]))["max_workers"] == 3


@pytest.mark.parametrize("value", ["-1", "0", "many", "1.5"])
def test_040_a_parallelism_that_is_none_is_a_usage_error(
    tool: ModuleType, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as raised:
        tool.parse_args(["--all", f"--parallel={value}"])
    assert raised.value.code == 2
    assert "--parallel" in capsys.readouterr().err


def test_more_than_ten_workers_are_capped_with_a_warning(
    tool: ModuleType, utils: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    assert utils.create_parallel_config(tool.parse_args(["--all", "--parallel", "15"]))["max_workers"] == 10
    assert "above the maximum" in capsys.readouterr().err


# 050 to 100 on the real engine.


def test_050_a_dry_run_lists_tasks_and_executes_none(backlog: Backlog, tool: ModuleType) -> None:
    backlog.add_issues(1, 2)
    done = run_tool(backlog, tool, "--all", "--dry-run", *OFFLINE)
    assert done.code == 0
    assert done.lines[0] == "Dry run mode: 2 items, 1 at a time. Nothing is started or written."
    assert [line.split()[1] for line in done.lines[1:3]] == ["LLD-1", "LLD-2"]
    assert not backlog.home.exists()
    assert json.loads(run_tool(backlog, tool, "--all", "--dry-run", "--json").stdout)["count"] == 2


def test_a_dry_run_says_what_the_command_itself_says(backlog: Backlog, tool: ModuleType) -> None:
    backlog.add_issues(1, 2)
    assert backlog.lld("1", *OFFLINE).code == 0
    for more in ((), ("--json",)):
        asked = ["--all", "--parallel", "15", "--dry-run", *OFFLINE, *more]
        ours, commands = run_tool(backlog, tool, *asked), backlog.lld(*asked)
        assert (ours.code, ours.stdout, ours.stderr) == (0, commands.stdout, commands.stderr)
        assert ours.stderr == "Warning: --parallel 15 is above the maximum; using 10\n"


def test_a_dry_run_needs_no_choice_and_lists_everything_pending(backlog: Backlog, tool: ModuleType) -> None:
    backlog.add_issues(1, 2, 3)
    assert backlog.lld("1", *OFFLINE).code == 0
    begun = backlog.start_lld("2", *OFFLINE, env={"AGENTOS_OFFLINE_LATENCY_SECONDS": "60"})
    begun.wait_for_line(">>> Executing: N1_design")
    begun.kill(signal.SIGINT)
    assert begun.wait().code == 130
    done = run_tool(backlog, tool, "--parallel", "15", "--dry-run", *OFFLINE)
    assert (done.code, done.stderr) == (0, "Warning: --parallel 15 is above the maximum; using 10\n")
    assert done.lines[0] == "Dry run mode: 2 items, 2 at a time. Nothing is started or written."
    assert re.search(r"1\. LLD-2  \(resumes after N0\w+", done.lines[1])
    assert done.lines[2] == "  2. LLD-3  (no approved LLD)"
    assert "Skipped: LLD-1 (already rehearsed: docs/lld/active/LLD-1.md)" in done.lines
    assert done.lines[-1] == "This is everything pending. To run it, give --all and leave --dry-run out."
    assert json.loads(run_tool(backlog, tool, "--parallel", "4", "--dry-run", "--json").stdout)["parallel"] == 4
    assert run_tool(backlog, tool, "--parallel", "4").code == 2


CALLER_106 = """
import json, sys
from pathlib import Path
from agentos.workflows.parallel import CredentialCoordinator, ParallelCoordinator
from agentos.workflows.parallel.coordinator import ParallelRunConfig

if __name__ == "__main__":
    pool = CredentialCoordinator(sys.argv[1].split(","))
    config = ParallelRunConfig(workflow_type="lld", pending_items=sys.argv[2].split(","))
    report = ParallelCoordinator(config, pool).run()
    Path("report.json").write_text(json.dumps({**report, "available": pool.get_available_count()}))
"""


def call_coordinator(backlog: Backlog, keys: str, items: str) -> Finished:
    """A program of somebody's own, with LLD-1106's constructor and nothing else."""
    script = backlog.root / "caller.py"
    script.write_text(CALLER_106)
    return backlog.start_command(str(script), keys, items, program=Path(sys.executable)).wait()


def test_a_coordinator_runs_the_projects_issues_with_the_keys_it_was_given(backlog: Backlog) -> None:
    given = ",".join(SECRETS)
    backlog.add_issues(1, 2, 3)
    with serving(Author()) as server:
        backlog.use_keys(1, server)
        own = backlog.home / "credentials.toml"  # The user's own key, which this run must not touch.
        own.write_text(own.read_text().replace(SECRETS[0], "AIza-of-the-user-00000000000000000000000"))
        done = call_coordinator(backlog, given, "1,2")
        hits = server.stats()["hits"]
        assert done.code == 0, done.stdout + done.stderr
        report = json.loads((backlog.project / "report.json").read_text())
        assert (report["completed_items"], report["failed_items"], report["available"]) == (["1", "2"], [], 2)
        assert set(hits) == {"k1", "k2"}
        assert "[LLD-1] >>> Executing: N0_load" in done.stdout
        assert unlabelled(done.stdout) == []
        assert "AIza" not in done.stdout + done.stderr
        # What is approved already counts as done; an id that is not there is an error before anything starts.
        assert call_coordinator(backlog, given, "1,3").code == 0
        report = json.loads((backlog.project / "report.json").read_text())
        assert (report["total"], report["completed_items"]) == (2, ["1", "3"])
        assert "No issue matches '99'" in call_coordinator(backlog, given, "99").stderr


def test_the_result_of_a_batch_names_what_failed(backlog: Backlog) -> None:
    backlog.add_issues(1)
    backlog.add_issues(2, text=lambda _n: INVALID_ISSUE)
    assert start_caller(backlog, "--all", *OFFLINE).wait().code == 0
    result = result_of(backlog)
    assert (result["exit_code"], result["completed"], result["failed"], result["left"]) == (1, 1, 1, [])
    assert result["statuses"] == {"1": "completed", "2": "failed"}
    assert result["failed_items"]["2"]


def test_the_result_of_a_stopped_batch_names_what_is_left_and_its_last_line_resumes_it(backlog: Backlog) -> None:
    backlog.add_issues(1, 2)
    slow = {"AGENTOS_OFFLINE_LATENCY_SECONDS": "60"}
    started = start_caller(backlog, "--all", *OFFLINE, env=slow)
    started.wait_for_line(">>> Executing: N1_design")
    started.kill(signal.SIGINT)
    stopped = started.wait()
    result = result_of(backlog)
    assert (result["exit_code"], result["completed"], result["failed"], result["left"]) == (130, 0, 0, ["1", "2"])
    assert result["statuses"] == {"1": "pending", "2": "pending"}
    assert backlog.paste(stopped).code == 0
    assert backlog.outcomes() == {"1": "rehearsed", "2": "rehearsed"}


def test_an_item_that_another_run_has_is_left_and_the_exit_code_says_so(backlog: Backlog) -> None:
    backlog.add_issues(1)
    holder = backlog.start_lld("1", *OFFLINE, env={"AGENTOS_OFFLINE_LATENCY_SECONDS": "60"})
    holder.wait_for_line(">>> Executing: N1_design")
    start_caller(backlog, "1", *OFFLINE).wait()
    result = result_of(backlog)
    assert (result["exit_code"], result["completed"], result["failed"], result["left"]) == (1, 0, 0, ["1"])


def test_060_070_100_four_tasks_at_two_one_of_them_failing(backlog: Backlog, tool: ModuleType) -> None:
    backlog.add_issues(1, 2, 3)
    backlog.add_issues(4, text=lambda _n: INVALID_ISSUE)
    done = run_tool(backlog, tool, "--all", "--parallel", "2", *OFFLINE)
    assert done.code == 1
    assert "[COORDINATOR] 3 rehearsed, 1 failed (LLD-4)" in done.lines
    assert unlabelled(done.stdout) == []
    assert all(re.match(r"\[(COORDINATOR|LLD-[1-4])\] ", line) for line in done.lines)
    assert [backlog.lld_path(n).exists() for n in (1, 2, 3, 4)] == [True, True, True, False]
    assert backlog.left_over() == []
    (backlog.project / "docs/issues/004-feature.md").unlink()
    again = run_tool(backlog, tool, "--all", *OFFLINE)
    assert again.code == 0
    assert again.stdout.startswith("Nothing to do. 3 issues skipped")


def test_080_ctrl_c_ends_everything_in_time(backlog: Backlog, tool: ModuleType) -> None:
    backlog.add_issues(1, 2, 3)
    slow = {"AGENTOS_OFFLINE_LATENCY_SECONDS": "60"}
    started = start_tool(backlog, tool, "--all", "--parallel", "2", *OFFLINE, env=slow)
    started.wait_for_line(">>> Executing: N1_design")
    started.kill(signal.SIGINT)
    done = started.wait(STOP_DEADLINE_SECONDS)
    assert done.code == 130
    no_process_left(backlog.home)


def test_090_two_keys_serve_four_workers(backlog: Backlog, tool: ModuleType) -> None:
    with serving(Author(), latency_seconds=0.05) as server:
        backlog.use_keys(2, server)
        backlog.add_issues(1, 2, 3, 4)
        done = run_tool(backlog, tool, "--all", "--parallel", "4")
        hits = server.stats()["hits"]
    assert done.code == 0, done.stdout
    assert set(hits) == {"k1", "k2"}
    assert sum(hits.values()) == 8


# 060 to 120 for plain callables, as the functions themselves promise.


def test_tasks_at_two_complete_and_say_so(utils: ModuleType, tmp_path: Path) -> None:
    tasks = make_tasks(utils, tmp_path, "1", "2", "3", "4")
    both, most = threading.Barrier(2, timeout=30), set[int]()

    def execute(task: Any) -> None:
        most.add(both.wait())  # Passes only when two run at once.

    result = utils.execute_tasks_parallel(tasks, config_of(utils, 2), execute)
    assert result == {
        "total": 4, "completed": 4, "failed": 0, "failed_items": {}, "left": [], "exit_code": 0,
    }  # fmt: skip
    assert {task["status"] for task in tasks} == {"completed"}
    assert most == {0, 1}


def test_two_keys_are_shared_by_four_workers_without_a_deadlock(utils: ModuleType, tmp_path: Path) -> None:
    running, most, lock = 0, 0, threading.Lock()

    def execute(_task: Any) -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        threading.Event().wait(0.02)
        with lock:
            running -= 1

    tasks = make_tasks(utils, tmp_path, *"abcdefgh")
    result = utils.execute_tasks_parallel(tasks, config_of(utils, 4, ["first", "second"]), execute)
    assert result["completed"] == 8
    assert most <= 2


def test_100_a_failure_is_reported_beside_the_successes(
    utils: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def execute(task: Any) -> None:
        if task["issue_id"] == "3":
            raise ValueError("no such thing")

    tasks = make_tasks(utils, tmp_path, "1", "2", "3", "4")
    result = utils.execute_tasks_parallel(tasks, config_of(utils, 2), execute)
    assert (result["exit_code"], result["completed"], result["failed"]) == (1, 3, 1)
    assert result["failed_items"] == {"3": "no such thing"}
    assert "[3] FAILED: no such thing" in capsys.readouterr().out


def test_110_a_success_leaves_the_whole_file_and_no_temporary_one(utils: ModuleType, tmp_path: Path) -> None:
    (task,) = make_tasks(utils, tmp_path, "1")

    def execute(given: Any) -> None:
        utils.temporary_path(given).write_text("whole")
        assert not given["output_path"].exists()

    assert utils.execute_tasks_parallel([task], config_of(utils, 1), execute)["exit_code"] == 0
    assert [path.name for path in tmp_path.iterdir()] == ["1.out"]
    assert task["output_path"].read_text() == "whole"


def test_120_a_failure_leaves_no_file_and_keeps_the_old_one(utils: ModuleType, tmp_path: Path) -> None:
    new, old = make_tasks(utils, tmp_path, "new", "old")
    old["output_path"].write_text("as it was")

    def execute(given: Any) -> None:
        utils.temporary_path(given).write_text("half of ")
        raise OSError("disk full")

    assert utils.execute_tasks_parallel([new, old], config_of(utils, 1), execute)["failed"] == 2
    assert [path.name for path in tmp_path.iterdir()] == ["old.out"]
    assert old["output_path"].read_text() == "as it was"


def test_what_a_callable_prints_is_prefixed_line_by_line(
    utils: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks = make_tasks(utils, tmp_path, "1", "2")
    both = threading.Barrier(2, timeout=30)

    def execute(task: Any) -> None:
        print("begins", end=" ")
        both.wait()
        print("and ends", task["issue_id"])
        both.wait()
        print("unfinished, to stderr", end="", file=sys.stderr)

    before = (sys.stdout, sys.stderr)
    utils.execute_tasks_parallel(tasks, config_of(utils, 2), execute)
    assert (sys.stdout, sys.stderr) == before
    printed = capsys.readouterr()
    assert {"[1] begins and ends 1", "[2] begins and ends 2"} <= set(printed.out.splitlines())
    assert sorted(printed.err.splitlines()) == ["[1] unfinished, to stderr", "[2] unfinished, to stderr"]


def test_a_dry_run_of_callables_lists_the_tasks_and_calls_nothing(
    utils: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks = make_tasks(utils, tmp_path, "1", "2")
    called: list[Any] = []
    config = utils.ParallelConfig(max_workers=2, dry_run=True, credential_pool=[])
    result = utils.execute_tasks_parallel(tasks, config, called.append)
    assert (called, result["completed"], result["left"], result["exit_code"]) == ([], 0, ["1", "2"], 0)
    assert {task["status"] for task in tasks} == {"pending"}
    printed = capsys.readouterr().out
    assert printed.startswith("Dry run mode: 2 tasks of requirements. Nothing is started or written.\n  1. 1  ")


def test_an_executor_of_batches_gets_the_whole_batch(utils: ModuleType, tmp_path: Path) -> None:
    class Batches:
        def run_batch(self, tasks: Any, config: Any) -> dict[str, Any]:
            return {"total": len(tasks), "workers": config["max_workers"]}

    tasks = make_tasks(utils, tmp_path, "1", "2")
    assert utils.execute_tasks_parallel(tasks, config_of(utils, 2), Batches()) == {"total": 2, "workers": 2}


def test_ids_that_leave_the_folder_are_refused(utils: ModuleType, tmp_path: Path) -> None:
    tasks = make_tasks(utils, tmp_path, "../etc/passwd")
    with pytest.raises(ValueError, match="etc/passwd"):
        utils.execute_tasks_parallel(tasks, config_of(utils, 1), lambda _task: None)


def test_pending_issues_of_a_folder_become_tasks(backlog: Backlog, tool: ModuleType) -> None:
    backlog.add_issues(2, 10)
    folder = backlog.project / "docs/issues"
    tasks = tool.collect_pending_issues(folder)
    assert [task["issue_id"] for task in tasks] == ["2", "10"]
    assert tasks[0]["input_path"] == folder / "002-feature.md"
    assert tasks[0]["output_path"] == backlog.lld_path(2)
    assert {task["status"] for task in tasks} == {"pending"}


def test_the_four_functions_stand_alone(utils: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    utils.add_parallel_arguments(parser)
    assert utils.create_parallel_config(parser.parse_args(["--parallel", "2"]))["max_workers"] == 2
    utils.display_dry_run_summary(make_tasks(utils, Path("docs"), "7"), "lld")
    assert "1 task of lld" in capsys.readouterr().out

"""`--json` and the records on disk: one stream of facts, the same everywhere, written as it happens."""

from __future__ import annotations

import json
import re
import signal
import stat
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from harness import STOP_DEADLINE_SECONDS, Finished, Sandbox, no_process_left, of_type

_FAILS = {"id": "bad", "input": {"tasks": {"n1": 'print {"type": "run_ended"}', "n2": "raise Invalid spec format"}}}


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[Sandbox, Finished]:
    """A run with --json over an item that ends well, one that fails, and one that is skipped for it."""
    sandbox = Sandbox(tmp_path_factory.mktemp("json"))
    sandbox.write_items({"id": "good"}, _FAILS, {"id": "later", "depends_on": ["bad"]})
    try:
        return sandbox, sandbox.run("--json", "--parallel", "2")
    finally:
        sandbox.close()


class TestStream:
    def test_stdout_is_the_audit_file_and_nothing_else(self, told: tuple[Sandbox, Finished]) -> None:
        sandbox, done = told
        assert done.code == 1
        assert done.stdout == (sandbox.run_dirs()[0] / "workflow-audit.jsonl").read_text()

    def test_people_read_on_stderr(self, told: tuple[Sandbox, Finished]) -> None:
        text = told[1].stderr
        assert text.startswith("[COORDINATOR] 3 items, 2 at a time (graph graphs-steps-graph)\n")
        assert '[bad] {"type": "run_ended"}\n' in text
        assert "[bad] FAILED: Invalid spec format\n" in text
        assert "[COORDINATOR] 1 completed, 1 failed (bad), 1 skipped\n" in text

    def test_every_record_has_version_number_time_run_and_type(self, told: tuple[Sandbox, Finished]) -> None:
        sandbox, done = told
        found = [json.loads(line) for line in done.lines]
        assert [record["seq"] for record in found] == list(range(1, len(found) + 1))
        assert {record["v"] for record in found} == {1}
        assert {record["run"] for record in found} == {sandbox.run_dirs()[0].name}
        times = [record["time"] for record in found]
        assert times == sorted(times)
        assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", time) for time in times)

    def test_records_tell_the_run_from_its_start_to_its_end(self, told: tuple[Sandbox, Finished]) -> None:
        found = [json.loads(line) for line in told[1].lines]
        assert (found[0]["type"], found[-1]["type"]) == ("run_started", "run_ended")
        assert found[0]["items"] == ["good", "bad", "later"]
        assert found[-1]["counts"] == {"completed": 1, "failed": 1, "skipped": 1}
        assert found[-1]["exit_code"] == 1
        [failure] = of_type(found, "item_ended", "bad")
        assert (failure["outcome"], failure["reason"]) == ("failed", "Invalid spec format")
        assert failure["error_type"] == "ValueError"
        assert "ValueError: Invalid spec format" in failure["traceback"]

    def test_an_items_records_come_in_the_order_of_its_life(self, told: tuple[Sandbox, Finished]) -> None:
        found = [json.loads(line) for line in told[1].lines]
        life = [(record["type"], record.get("node")) for record in found if record.get("item") == "good"]
        nodes = [(kind, node) for node in ("n1", "n2", "n3") for kind in ("node_started", "node_finished")]
        assert life == [("item_started", None), *nodes, ("item_ended", None)]


class TestFiles:
    def test_a_run_has_these_files_and_no_others(self, told: tuple[Sandbox, Finished]) -> None:
        [run_dir] = told[0].run_dirs()
        assert re.fullmatch(r"\d{8}-\d{6}-\d{6}", run_dir.name)
        assert sorted(path.name for path in run_dir.iterdir()) == [
            "bad.log",
            "good.log",
            "later.log",
            "results.jsonl",
            "run.lock",
            "summary.json",
            "workflow-audit-bad.jsonl",
            "workflow-audit-good.jsonl",
            "workflow-audit-later.jsonl",
            "workflow-audit.jsonl",
        ]

    def test_they_are_their_owners_alone(self, told: tuple[Sandbox, Finished]) -> None:
        [run_dir] = told[0].run_dirs()
        for path in (run_dir, *run_dir.glob("*.log"), *run_dir.glob("*.jsonl")):
            assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path

    def test_an_items_audit_holds_its_records_of_the_run(self, told: tuple[Sandbox, Finished]) -> None:
        sandbox, done = told
        for item in ("good", "bad", "later"):
            own = (sandbox.run_dirs()[0] / f"workflow-audit-{item}.jsonl").read_text().splitlines()
            assert own == [line for line in done.lines if json.loads(line).get("item") == item]

    def test_an_items_log_tells_its_story(self, told: tuple[Sandbox, Finished]) -> None:
        log = (told[0].run_dirs()[0] / "bad.log").read_text()
        story = (
            r"attempt 1 started \(pid \d+\)",
            ">>> Executing: n1",
            re.escape('{"type": "run_ended"}'),
            "<<< Finished: n1",
            ">>> Executing: n2",
            "FAILED after .* ValueError: Invalid spec format",
            "Traceback",
        )
        assert re.search(".*".join(story), log, re.DOTALL)

    def test_a_skipped_items_log_says_why(self, told: tuple[Sandbox, Finished]) -> None:
        log = (told[0].run_dirs()[0] / "later.log").read_text()
        assert re.fullmatch(r"\S+ skipped: dependency bad failed\n", log)

    def test_the_summary_agrees_with_the_stream(self, told: tuple[Sandbox, Finished]) -> None:
        sandbox, done = told
        summary = json.loads((sandbox.run_dirs()[0] / "summary.json").read_text())
        last = json.loads(done.lines[-1])
        for name in ("counts", "exit_code", "wall_seconds", "item_seconds", "left"):
            assert summary[name] == last[name], name
        assert (summary["version"], summary["total"]) == (1, 3)
        outcomes = {item["id"]: item["outcome"] for item in summary["items"]}
        assert outcomes == {"good": "completed", "bad": "failed", "later": "skipped"}
        assert summary["resume_command"].startswith("agentos run ")


def test_a_reader_of_the_stream_that_leaves_stops_the_run(sandbox: Sandbox) -> None:
    sandbox.write_items(*({"id": f"a{number}", "input": {"tasks": {"n2": "sleep 1"}}} for number in range(9)))
    started = sandbox.start_command(*sandbox.arguments("--json"), stdout=subprocess.PIPE)
    assert started.process.stdout is not None
    assert json.loads(started.process.stdout.readline())["type"] == "run_started"
    started.process.stdout.close()
    assert started.process.wait(STOP_DEADLINE_SECONDS) == 130
    no_process_left(sandbox.home)
    assert "Traceback" not in started.stderr()
    assert "Resume with: agentos run " in started.stderr()


def test_a_stopped_run_still_ends_its_stream_with_run_ended(sandbox: Sandbox) -> None:
    sandbox.write_items({"id": "a1", "input": {"tasks": {"n2": "wait never"}}})
    started = sandbox.start("--json")
    started.wait_for_record("node_started", node="n2")
    started.kill(signal.SIGTERM)
    done = started.wait()
    types = [json.loads(line)["type"] for line in done.lines]
    assert types[-3:] == ["stop_requested", "item_ended", "run_ended"]
    assert done.stdout == (sandbox.run_dirs()[0] / "workflow-audit.jsonl").read_text()


def _old_run(sandbox: Sandbox, when: datetime, *, is_finished: bool) -> Path:
    run_dir = sandbox.home / "logs" / "parallel" / when.strftime("%Y%m%d-%H%M%S-%f")
    run_dir.mkdir(parents=True)
    (run_dir / "run.lock").touch()
    (run_dir / "workflow-audit.jsonl").touch()
    if is_finished:
        (run_dir / "summary.json").write_text(json.dumps({"run": run_dir.name}))
    return run_dir


def test_old_runs_go_when_a_new_one_ends_killed_ones_too(sandbox: Sandbox) -> None:
    now = datetime.now(UTC)
    recent = [_old_run(sandbox, now - timedelta(hours=hour), is_finished=True) for hour in range(1, 105)]
    too_old = _old_run(sandbox, now - timedelta(days=31), is_finished=True)
    killed = _old_run(sandbox, now - timedelta(days=40), is_finished=False)
    just_killed = _old_run(sandbox, now - timedelta(minutes=30), is_finished=False)
    stranger = sandbox.home / "logs" / "parallel" / "notes-of-mine"
    stranger.mkdir()
    sandbox.write_items({"id": "a1"})
    assert sandbox.run().code == 0
    left = set(sandbox.run_dirs())
    assert {just_killed, *recent[:98]} <= left, "the newest 100, this run among them"
    assert not left & {*recent[98:], too_old, killed}
    assert stranger.is_dir()

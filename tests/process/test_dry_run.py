"""--dry-run has no effect at all: no process, file, directory or connection."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from backlog import OFFLINE, Backlog
from harness import Sandbox, no_process_left

Snapshot = dict[str, tuple[int, int, int, int, int]]

# Runs inside the command before anything else and notes what Python is asked to do to the world outside.
WATCHMAN = """
import os
import sys

_log = os.open(os.environ["WATCHMAN_LOG"], os.O_WRONLY | os.O_APPEND)
_deeds = ("subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.exec", "os.system", "os.kill",
          "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.truncate", "os.link", "os.symlink", "os.utime",
          "os.chmod", "fcntl.flock", "fcntl.lockf", "socket.__new__", "socket.connect", "socket.bind",
          "tempfile.mkstemp")


def _watch(event, arguments):
    is_write = event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    is_database = event == "sqlite3.connect" and arguments[0] not in (":memory:", b":memory:")
    if event in _deeds or is_write or is_database:
        os.write(_log, (event + " " + repr(arguments)[:200] + "\\n").encode())


sys.addaudithook(_watch)
os.write(_log, b"watching\\n")
"""


def snapshot(root: Path) -> Snapshot:
    """Everything below `root`: what it is, how big, and when it last changed in any way."""
    found = {}
    for directory, _, names in os.walk(root):
        for path in (Path(directory), *(Path(directory) / name for name in names)):
            status = path.lstat()
            found[str(path)] = (status.st_ino, status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return found


def watched_dry_run(sandbox: Sandbox, *more: str, code: int = 0) -> str:
    """What a dry run prints, after proof that it did nothing else."""
    watchman, log = sandbox.root / "watchman", sandbox.root / "watchman.log"
    watchman.mkdir(exist_ok=True)
    (watchman / "sitecustomize.py").write_text(WATCHMAN)
    log.write_bytes(b"")
    search_path = os.pathsep.join(filter(None, [str(watchman), os.environ.get("PYTHONPATH")]))
    before = {name: snapshot(sandbox.root / name) for name in ("home", "project", "items.jsonl")}

    done = sandbox.run("--dry-run", *more, env={"PYTHONPATH": search_path, "WATCHMAN_LOG": str(log)})

    assert done.code == code, done.stderr
    assert done.stderr == ""
    assert log.read_text().splitlines() == ["watching"]
    assert {name: snapshot(sandbox.root / name) for name in before} == before
    return done.stdout


def item(item_id: str, **tasks: str) -> dict[str, Any]:
    return {"id": item_id, "input": {"tasks": tasks}}


@pytest.mark.parametrize("as_json", [False, True])
def test_a_dry_run_in_a_new_home_makes_no_home(sandbox: Sandbox, as_json: bool) -> None:
    sandbox.write_items(item("a"), {"id": "b", "depends_on": ["a"], "priority": 2}, item("c"))

    shown = watched_dry_run(sandbox, "--parallel", "3", *(["--json"] if as_json else []))

    assert not sandbox.home.exists()
    if as_json:
        document = json.loads(shown)
        assert (document["count"], document["parallel"]) == (3, 3)
        assert [entry["id"] for entry in document["items"]] == ["a", "b", "c"]
        assert document["estimated_seconds"] is None
    else:
        lines = shown.splitlines()
        assert "3 items, 3 at a time" in lines[0]
        assert [line.split()[1] for line in lines[1:4]] == ["a", "b", "c"]
        assert "after a" in lines[2]
        assert "priority 2" in lines[2]


def test_a_dry_run_says_what_each_item_would_resume_from_and_touches_no_checkpoint(sandbox: Sandbox) -> None:
    sandbox.write_items(
        item("new"), item("killed", n2="wait go"), item("failed", n3="raise no"), item("changed", n2="raise no")
    )
    run = sandbox.start("--parallel", "4")
    run.wait_for_record("item_ended", item="failed")
    run.wait_for_record("item_ended", item="changed")
    run.wait_for_record("item_ended", item="new")
    sandbox.wait_for_note("killed n2 start")

    while_live = _while_live(sandbox)
    assert "killed  (another run has it: would be skipped)" in while_live
    assert "failed  (resumes after n2)" in while_live
    run.kill()
    no_process_left(sandbox.home)
    assert any(name.endswith("_killed.db-wal") for name in sandbox.databases())  # A log that was never copied back.
    sandbox.write_items(item("new"), item("killed", n2="wait go"), item("failed", n3="raise no"), item("changed"))

    text = watched_dry_run(sandbox)
    entries = {entry["id"]: entry for entry in json.loads(watched_dry_run(sandbox, "--json"))["items"]}
    fresh = watched_dry_run(sandbox, "--fresh")

    assert "killed  (resumes after n1)" in text
    assert "failed  (resumes after n2)" in text
    assert "changed  (input or configuration changed since its checkpoint: would fail without --fresh)" in text
    assert {name: entry["resumes_after"] for name, entry in entries.items()} == {
        "new": None,
        "killed": "n1",
        "failed": "n2",
        "changed": "n1",
    }
    assert [name for name, entry in entries.items() if entry["input_changed"]] == ["changed"]
    assert "resumes" not in fresh


def _while_live(sandbox: Sandbox) -> str:
    """Beside a run that holds the items: nothing is locked, nothing is disturbed."""
    return sandbox.run("--dry-run").stdout


def test_a_dry_run_estimates_from_past_runs_and_survives_a_damaged_database(sandbox: Sandbox) -> None:
    sandbox.write_items(item("a"), item("b", n1="raise no"))
    assert sandbox.run().code == 1
    [path] = sandbox.home.glob("checkpoints/*/*_b.db")
    path.write_bytes(b"nonsense" * 4000)

    text = watched_dry_run(sandbox)
    document = json.loads(watched_dry_run(sandbox, "--json"))

    assert "from 1 past item" in text
    assert document["estimated_seconds"] is not None
    assert document["items"][1]["resumes_after"] is None


def test_an_estimate_counts_no_item_that_would_not_run(sandbox: Sandbox) -> None:
    broken, waiting = item("broken", n2="raise no"), {"id": "waiting", "depends_on": ["broken"]}
    sandbox.write_items(item("a"), broken, waiting)
    assert sandbox.run().code == 1
    sandbox.write_items(item("broken", n2="raise other"), waiting)

    shown = [watched_dry_run(sandbox, code=1), watched_dry_run(sandbox, "--fresh")]

    assert shown[0].startswith("Dry run mode: 2 items, ")
    assert "Estimate: none of these would run." in shown[0]
    assert "Estimate: about " in shown[1]
    assert json.loads(watched_dry_run(sandbox, "--json", code=1))["estimated_seconds"] == 0


def test_a_dry_run_says_which_items_another_run_has(sandbox: Sandbox) -> None:
    sandbox.write_items({"id": "past"}, name="past.jsonl")
    assert sandbox.run(items="past.jsonl").code == 0
    sandbox.write_items({"id": "a", "input": {"tasks": {"n2": "wait go"}}}, name="busy.jsonl")
    sandbox.write_items({"id": "a", "input": {"tasks": {"n2": "wait go"}}}, {"id": "b"})
    run = sandbox.start(items="busy.jsonl")
    sandbox.wait_for_note("a n2 start")

    shown = [sandbox.run("--dry-run", *more) for more in ((), ("--fresh",))]
    entries = json.loads(sandbox.run("--dry-run", "--json").stdout)["items"]
    nothing = sandbox.run("--dry-run", items="busy.jsonl")
    sandbox.release("go")
    assert run.wait().code == 0
    afterwards = sandbox.run("--dry-run")

    for dry in shown:
        assert "a  (another run has it: would be skipped)" in dry.stdout
        assert "b\n" in dry.stdout
    assert [entry["is_held_by_another_run"] for entry in entries] == [True, False]
    assert (nothing.code, "Estimate: none of these would run." in nothing.lines) == (1, True)
    assert [dry.code for dry in (*shown, afterwards)] == [0, 0, 0]
    assert "another run" not in afterwards.stdout


def test_an_estimate_counts_no_issue_that_cannot_be_read(backlog: Backlog) -> None:
    backlog.add_issues(1, 2)
    assert backlog.lld("1", *OFFLINE).code == 0
    [unreadable] = backlog.project.glob("docs/issues/*2*.md")
    unreadable.write_bytes(b"\xff\xfe")
    text = backlog.lld("--all", "--dry-run", *OFFLINE).stdout
    assert "LLD-2  (would fail: not UTF-8" in text
    assert "Estimate: none of these would run." in text


def test_a_dry_run_with_nothing_to_do_estimates_nothing(backlog: Backlog) -> None:
    for issues in ([], [1]):
        backlog.add_issues(*issues)
        assert backlog.lld("--all", *OFFLINE).code == 0
        text = backlog.lld("--all", "--dry-run", *OFFLINE).stdout
        assert text.startswith("Dry run mode: 0 items. ")
        assert "stimate" not in text


def test_a_dry_run_names_only_dependencies_that_the_run_waits_for(backlog: Backlog) -> None:
    for number, text in ((1, "# One"), (2, "# Two\n\nDepends on #1"), (3, "# Three\n\nDepends on #99")):
        (backlog.project / f"docs/issues/{number}.md").parent.mkdir(parents=True, exist_ok=True)
        (backlog.project / f"docs/issues/{number}.md").write_text(f"{text}\n\n## Requirements\n\n1. It works.\n")
    done = backlog.lld("--all", "--dry-run", *OFFLINE)
    assert "  2. LLD-2  (no approved LLD; after 1)" in done.lines
    assert "  3. LLD-3  (no approved LLD)" in done.lines
    assert "LLD-3 depends on 99, which is not known here: it is not waited for" in done.stderr

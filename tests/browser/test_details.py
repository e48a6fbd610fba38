"""Parts of the page that real runs reach slowly or seldom: code, tests, calls, cooling keys, two runs compared."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from backlog import Backlog
from harness import Sandbox
from windows import OpenWindow, Window, dashboard_of
from written import written_run

from agentos.events import (
    CallFinished,
    Event,
    ItemEnded,
    ItemStarted,
    KeyCoolingDown,
    NodeFinished,
    NodeStarted,
    RunEnded,
    RunStarted,
)
from agentos.files import write_whole
from agentos.outcomes import APPROVED, FAILED, IMPLEMENTED, Outcome
from agentos.preflight import PreflightDone
from agentos.workflows.implementation.records import Implemented, as_text, record_path

LATER = (
    "v",
    "label_prefix",
    "titles",
    "budget_usd",
    "attempts",
    "input_tokens",
    "output_tokens",
    "cost_usd",
    "traceback",
)
"""Fields that an early record did not have."""
CALL: dict[str, Any] = {"item_id": "1", "node": "N1_design", "model": "google:gemini-x"}


def events_of(*ends: Outcome, workflow: str = "lld", project: Path = Path("/shop")) -> list[Event]:
    """An item for each outcome, one after the other."""
    ids = tuple(str(number) for number in range(1, len(ends) + 1))
    begin: list[Event] = [
        RunStarted(workflow=workflow, project_dir=str(project), items=ids, parallel=2, pid=1, label_prefix="X-"),
        PreflightDone(models=("google:gemini-x",), keys=("K1", "K2")),
    ]
    for item_id, outcome in zip(ids, ends, strict=True):
        begin += [
            ItemStarted(item_id=item_id, attempt=1, pid=1),
            NodeStarted(item_id=item_id, node="N1_design"),
            NodeFinished(item_id=item_id, node="N1_design", seconds=1.0),
            ItemEnded(item_id=item_id, outcome=outcome, seconds=2.0, reason="it broke" if outcome == FAILED else ""),
        ]
    counts = {outcome: ends.count(outcome) for outcome in ends}
    code = 1 if FAILED in ends else 0
    return [*begin, RunEnded(counts=counts, left=(), wall_seconds=9.0, item_seconds=8.0, exit_code=code)]


def git(project: Path, *arguments: str) -> str:
    author = ("-c", "user.name=a", "-c", "user.email=a@example.invalid", "-c", "commit.gpgsign=false")
    return subprocess.run(
        ["git", *author, *arguments], cwd=project, check=True, capture_output=True, text=True
    ).stdout.strip()


def make_branch(project: Path, item_id: str, code: str) -> None:
    base = git(project, "branch", "--show-current")
    git(project, "switch", "--quiet", "--create", f"agentos/{item_id}")
    (project / "src/app.py").write_text(code)
    report = project / f"docs/reports/{item_id}/test-report.md"
    report.parent.mkdir(parents=True)
    report.write_text("# Test report\n\n12 tests passed, <b>none</b> failed.\n")
    git(project, "add", "--all")
    git(project, "commit", "--quiet", "--message", "Feature")
    commit = git(project, "rev-parse", "HEAD")
    git(project, "switch", "--quiet", base)
    record = Implemented(document_hash="", branch=f"agentos/{item_id}", commit=commit, base=base)
    write_whole(record_path(project, item_id), as_text(record))


def tab(shown: Window, name: str) -> None:
    shown.page.get_by_role("tab", name=name).click()
    shown.page.get_by_role("tab", name=name, selected=True).wait_for()


def test_code_its_tests_and_a_conflict_are_seen_and_opened(
    backlog: Backlog, window: OpenWindow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENTOS_HOME", str(backlog.home))
    backlog.commit_all("The project")
    for item_id in ("1", "2"):
        make_branch(backlog.project, item_id, f"def feature(value: int) -> int:\n    return value + {item_id}\n")
    events = events_of(IMPLEMENTED, IMPLEMENTED, workflow="implementation", project=backlog.project)
    with written_run(backlog.home, events) as run:
        shown = window(dashboard_of(backlog).run(run))
        shown.row("X-1").get_by_text("agentos/1").wait_for()
        needs = shown.page.locator(".needs")
        needs.get_by_text("conflicts in src/app.py").wait_for()
        needs.get_by_role("button", name="Open the diff X-2").click()
        shown.page.get_by_role("tab", name="Changes", selected=True).wait_for()
        shown.page.locator(".diff-add", has_text="return value + 2").wait_for()
        shown.page.locator(".diff-del", has_text="return value").wait_for()
        shown.check_both_themes()
        tab(shown, "Tests")
        told = shown.page.locator(".prose").get_by_text("12 tests passed, <b>none</b> failed.")
        told.wait_for()
        assert told.locator("b").count() == 0
        shown.check_both_themes()


def test_calls_are_told_with_key_answer_wait_and_cost(sandbox: Sandbox, window: OpenWindow) -> None:
    limited = CallFinished(**CALL, key_name="K1", seconds=0.4, outcome="rate_limited")
    paid = CallFinished(
        **CALL, key_name="K2", seconds=3.0, waited_seconds=7.0, outcome="ok", input_tokens=1200, output_tokens=34,
        cost_usd=0.0123,
    )  # fmt: skip
    events = events_of(APPROVED)
    with written_run(sandbox.home, [*events[:4], limited, paid, *events[4:]]) as run:
        shown = window(dashboard_of(sandbox).run(run, "/items/1/calls"))
        rows = shown.page.locator("#tab-panel tbody tr")
        rows.nth(1).wait_for()
        assert rows.nth(0).locator("td").all_inner_texts()[3:5] == ["K1", "rate-limited"]
        assert rows.nth(1).locator("td").all_inner_texts()[3:] == [
            "K2",
            "ok",
            "7.0s",
            "3.0s",
            "1,200",
            "34",
            "$0.0123",
        ]
        shown.check_both_themes()


def test_cooling_keys_count_down_and_need_somebody_when_all_do(sandbox: Sandbox, window: OpenWindow) -> None:
    cooling = [
        KeyCoolingDown(key_number=number, key_name=f"K{number}", provider="google", group="shop", seconds=600.0,
                       reason="rate_limited", state="rate_limited")
        for number in (1, 2)
    ]  # fmt: skip
    with written_run(sandbox.home, [*events_of(APPROVED)[:4], *cooling], is_live=True) as run:
        shown = window(dashboard_of(sandbox).run(run))
        shown.page.locator(".needs").get_by_text("all keys are cooling down").wait_for()
        shown.check_sees("2 cooling, next in", within=".strip")
        tab(shown, "Keys")
        card = shown.page.locator(".key-card").first
        card.get_by_text("cooling, back in").wait_for()
        assert "google · shop" in shown.page.locator("#tab-panel").inner_text()
        shown.check_both_themes()


def test_two_runs_are_chosen_and_compared(sandbox: Sandbox, window: OpenWindow) -> None:
    with (
        written_run(sandbox.home, events_of(APPROVED, APPROVED), number=1),
        written_run(sandbox.home, events_of(APPROVED, FAILED), number=2),
    ):
        shown = window(f"{dashboard_of(sandbox).control}#/history")
        compare = shown.page.get_by_role("button", name="Compare")
        compare.wait_for()
        assert compare.is_disabled()
        for box in shown.page.get_by_role("checkbox").all():
            box.check()
        compare.click()
        shown.check_sees("Items that ended differently (1)")
        row = shown.page.locator("tbody tr", has_text="X-2")
        assert {"approved", "failed"} <= set(row.inner_text().split())
        shown.check_both_themes()
        shown.page.get_by_role("link", name="History").first.click()
        shown.check_sees("failed in 1 of 2 runs")


def test_a_record_of_an_earlier_version_is_shown_as_far_as_it_tells(sandbox: Sandbox, window: OpenWindow) -> None:
    with written_run(sandbox.home, events_of(APPROVED, FAILED)) as run:
        path = sandbox.home / "logs" / "parallel" / run / "workflow-audit.jsonl"
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        kept = [{name: value for name, value in line.items() if name not in LATER} for line in lines]
        path.write_text("".join(f"{json.dumps(line)}\n" for line in kept if line["type"] != "preflight_done"))
        shown = window(dashboard_of(sandbox).run(run))
        shown.check_row("1", "approved")
        shown.check_row("1", "2.0s")
        shown.check_row("2", "failed")
        assert shown.page.locator(".problem").count() == 0


def test_a_command_is_copied_as_it_stands(sandbox: Sandbox, window: OpenWindow) -> None:
    shown = window(dashboard_of(sandbox).control, permissions=["clipboard-read", "clipboard-write"])
    told = shown.page.locator(".command code").inner_text()
    shown.page.locator(".command button").click()
    shown.check_sees("Copied.", within="#toasts")
    assert shown.page.evaluate("navigator.clipboard.readText()") == told

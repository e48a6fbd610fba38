"""Which items a command takes: as people name them, and as many as they want to try."""

from __future__ import annotations

import json

from backlog import OFFLINE, Backlog
from harness import Sandbox
from terminal import Terminal


def test_limit_takes_the_first_items_and_says_what_it_leaves(sandbox: Sandbox) -> None:
    items = [{"id": "late", "depends_on": ["early"]}, {"id": "early"}, {"id": "first", "priority": 5}]
    sandbox.write_items(*items)

    listed = json.loads(sandbox.run("--limit", "2", "--dry-run", "--json").stdout)
    done = sandbox.run("--limit", "2")

    assert [entry["id"] for entry in listed["items"]] == ["first", "early"]
    assert listed["skipped"] == [{"id": "late", "reason": "left for later by --limit 2"}]
    assert done.code == 0
    assert set(sandbox.outcomes()) == {"first", "early"}
    assert "[COORDINATOR] 1 item skipped: late (left for later by --limit 2)" in done.lines  # And no warning.
    assert sandbox.run("--limit", "0").code == 2


def test_items_that_are_skipped_for_one_reason_share_it(sandbox: Sandbox) -> None:
    sandbox.write_items(*({"id": f"a{number}"} for number in range(9)))
    done = sandbox.run("--limit", "1")
    assert "[COORDINATOR] 8 items skipped: a1, a2, a3, a4, a5 and 3 more (left for later by --limit 1)" in done.lines


def test_code_for_an_issue_without_a_design_names_the_command_that_writes_one(backlog: Backlog) -> None:
    backlog.add_issues(1, 2)
    assert backlog.lld("1", *OFFLINE).code == 0
    for name in ("2", "#2", "docs/issues/002-feature.md"):
        refused = backlog.command("implement", name, *OFFLINE)
        assert (refused.code, refused.stdout) == (2, "")
        write = "agentos lld 2 --drafter offline --reviewer offline"
        assert refused.stderr == f"agentos: error: Issue 2 has no design yet. To write one, run: {write}\n"


def test_an_issue_goes_by_number_label_and_path_and_a_second_limited_run_takes_the_next(backlog: Backlog) -> None:
    backlog.add_issues(100, 101, 102)
    for name in ("#101", "LLD-101", "docs/issues/101-feature.md"):
        found = json.loads(backlog.command("pipeline", name, "--dry-run", "--json", *OFFLINE).stdout)
        assert [entry["id"] for entry in found["items"]] == ["101"], name
    mistyped = backlog.lld("1001", "--dry-run")
    assert (mistyped.code, "Did you mean 101 or 100?" in mistyped.stderr) == (2, True), mistyped.stderr

    assert backlog.lld("--all", "--limit", "1", *OFFLINE).code == 0
    assert backlog.lld("--all", "--limit", "1", *OFFLINE).code == 0

    assert list(backlog.outcomes()) == ["100", "101"]
    for name in ("docs/lld/active/LLD-101.md", "docs/issues/101-feature.md", "#101"):
        shown = json.loads(backlog.command("show", name, "--json").stdout)
        assert shown["item"] == "LLD-101", name


def test_a_number_after_parallel_that_is_an_issue_is_asked_about(backlog: Backlog) -> None:
    backlog.add_issues(101)

    in_a_pipe = backlog.command("lld", "--parallel", "101", "--dry-run")
    assert (in_a_pipe.code, in_a_pipe.stdout) == (2, "")
    assert (
        "For issue 101: `agentos lld 101`; for every pending one: `agentos lld --all --parallel 3`."
        in in_a_pipe.stderr
    )
    assert "Nothing chosen: name issues" in backlog.command("lld", "--parallel", "102").stderr
    assert "above the maximum" in backlog.command("lld", "--parallel", "102", "--dry-run").stderr

    for answer, code, text in ((b"y\n", 0, "1. LLD-101"), (b"\n", 2, "Nothing chosen")):
        with Terminal(backlog, "lld", "--parallel", "101", "--dry-run", *OFFLINE) as terminal:
            terminal.wait_for("Do you mean issue 101? [y/N]")
            terminal.type(answer)
            assert terminal.wait() == code
            assert text in terminal.text()

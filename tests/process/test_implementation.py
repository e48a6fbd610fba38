"""`agentos implement` on approved designs with recorded answers: real git, real pytest, real kills."""

from __future__ import annotations

import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from designs import SECONDS, SECRET, Designs, create, replace
from harness import Finished, Started, eventually, of_type

from fakes.github_server import GitHubServer, Scripted

NODES = [
    "N0_load",
    "N1_test_plan",
    "N2_scaffold_tests",
    "N3_verify_red",
    "N4_implement",
    "N5_verify_green",
    "N6_report",
    "N7_finalize",
]


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Designs, Finished]]:
    """All nine designs, three at a time."""
    made = Designs(tmp_path_factory.mktemp("designs"))
    try:
        add_link(made)
        made.add(*range(1, 10))
        make_untidy(made)
        yield made, made.implement("--all", "--parallel", "3")
    finally:
        made.close()


def add_link(designs: Designs) -> None:
    """A link in the repository that leads from a worktree to the folder with the keys."""
    (designs.project / "linked").symlink_to("../../..")
    designs.git("add", "linked")
    designs.git("commit", "--quiet", "-m", "A link out of the project")


HOOKS = ("pre-commit", "commit-msg", "post-commit", "post-checkout", "post-index-change", "reference-transaction")


def make_untidy(designs: Designs) -> None:
    """A checkout with changes, staged and not, in a repository whose hooks refuse everything."""
    (designs.project / "notes.txt").write_text("mine, not committed\n")
    (designs.project / "staged.txt").write_text("mine, staged\n")
    (designs.project / "pyproject.toml").write_text("mine, changed\n")
    designs.git("add", "staged.txt")
    (designs.root / "index-before").write_bytes((designs.project / ".git/index").read_bytes())
    (designs.root / "config-before").write_bytes((designs.project / ".git/config").read_bytes())
    hooks = designs.project / ".git/hooks"
    hooks.mkdir(exist_ok=True)
    for name in HOOKS:
        (hooks / name).write_text(f"#!/bin/sh\ntouch {designs.root}/hook-ran-{name}\nexit 1\n")
        (hooks / name).chmod(0o755)


def test_designs_become_branches_and_the_outcomes_say_which_did_not(done: tuple[Designs, Finished]) -> None:
    designs, finished = done

    assert finished.code == 3, finished.stdout + finished.stderr
    assert designs.outcomes() == {
        **dict.fromkeys("1245678", "implemented"),
        "3": "needs_revision",
    }
    assert "7 implemented, 1 needs revision" in finished.stdout
    assert designs.databases() == []


def test_a_branch_has_one_commit_with_code_tests_reports_and_the_finished_design(
    done: tuple[Designs, Finished],
) -> None:
    designs, _ = done

    assert designs.git("rev-list", "--count", "main..agentos/1") == "1"
    assert designs.git("diff", "--name-only", "main", "agentos/1").splitlines() == [
        "docs/lld/done/LLD-1.md",
        "docs/reports/1/implementation-report.md",
        "docs/reports/1/test-report.md",
        "tally/stats.py",
        "tests/test_issue_1.py",
    ]
    assert designs.git("log", "-1", "--format=%s", "agentos/1") == "mean(values) is the sum by the count"


def test_the_users_checkout_branch_and_index_are_as_before(done: tuple[Designs, Finished]) -> None:
    designs, _ = done

    assert not list(designs.root.glob("hook-ran-*"))
    for name in ("index", "config"):
        assert (designs.project / ".git" / name).read_bytes() == (designs.root / f"{name}-before").read_bytes()
    assert designs.git("symbolic-ref", "HEAD") == "refs/heads/main"
    assert (designs.project / "notes.txt").read_text() == "mine, not committed\n"
    assert (designs.project / "pyproject.toml").read_text() == "mine, changed\n"
    assert designs.git("log", "--format=%s", "main").splitlines()[1:] == ["The project"]
    read_only = ("-c", "core.hooksPath=/dev/null", "--no-optional-locks")
    assert designs.git(*read_only, "status", "--short").splitlines() == [
        "M pyproject.toml",
        "A  staged.txt",
        "?? docs/",
        "?? notes.txt",
    ]


def test_an_item_takes_the_rounds_it_needs(done: tuple[Designs, Finished]) -> None:
    designs, _ = done

    nodes = [record["node"] for record in of_type(designs.records(), "node_started", "2")]
    assert nodes.count("N4_implement") == 3
    report = designs.file_on("2", "docs/reports/2/implementation-report.md")
    assert "| 1 | 2 failing (tests/test_issue_2.py::test_020_even)" in report
    assert "| 3 | all tests pass | 100 % |" in report


def test_an_item_that_goes_in_circles_stops_with_its_best_round(done: tuple[Designs, Finished]) -> None:
    designs, _ = done

    ending = designs.endings()["3"]
    assert "the same test fails in rounds 1 and 2; round 1 is kept" in ending["reason"]
    assert "marked" not in designs.file_on("3", "tally/shout.py")
    assert designs.git("log", "--format=%s", "main..agentos/3").splitlines() == [
        "Reports for LLD-3",
        "Back to round 1, the best",
        "LLD-3, round 2",
        "LLD-3, round 1",
        "Tests for LLD-3, before the code",
    ]
    assert "needs revision" in designs.file_on("3", "docs/reports/3/implementation-report.md")
    with pytest.raises(subprocess.CalledProcessError):
        designs.file_on("3", "docs/lld/done/LLD-3.md")


def test_items_that_change_the_same_file_do_not_run_at_the_same_time(done: tuple[Designs, Finished]) -> None:
    designs, finished = done
    spans = {}
    for record in designs.records():
        if record["type"] in ("item_started", "item_ended") and record["item"] in ("4", "5"):
            spans.setdefault(record["item"], []).append(record["seq"])

    assert max(spans["4"]) < min(spans["5"])
    assert "tally/words.py is changed by IMPL-4, IMPL-5: they do not run at the same time" in finished.stdout


def test_the_end_says_which_branches_merge_cleanly_in_which_order(done: tuple[Designs, Finished]) -> None:
    _, finished = done
    lines = finished.stdout.splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith("Branches, in the order to merge"))
    indented = itertools.takewhile(lambda line: line.startswith("  "), lines[start + 1 :])
    branches = dict(line.strip().split("  ", 2)[1:] for line in indented)

    assert "Overlap: tally/words.py is changed by IMPL-4, IMPL-5" in lines[:start]
    assert list(branches)[-2:] == ["agentos/4", "agentos/5"]
    assert set(branches.values()) == {"merges cleanly, tests pass"}
    assert list(branches).index("agentos/1") < list(branches).index("agentos/6")


def test_a_dependent_item_builds_on_its_dependencys_branch(done: tuple[Designs, Finished]) -> None:
    designs, _ = done

    assert designs.git("rev-parse", "agentos/6^") == designs.git("rev-parse", "agentos/1")
    report = designs.file_on("6", "docs/reports/6/implementation-report.md")
    assert "`agentos/6` from `agentos/1`" in report


def test_an_answer_that_leaves_the_worktree_is_refused_and_code_finds_no_key(done: tuple[Designs, Finished]) -> None:
    designs, finished = done

    assert not (designs.root / "escaped.txt").exists()
    assert not list(designs.root.rglob("escaped.txt"))
    report = designs.file_on("7", "docs/reports/7/implementation-report.md")
    assert "../../../escaped.txt" in report
    assert "a path is relative to the project" in report
    for path in (*designs.home.rglob("*"), *designs.project.rglob("*")):
        if path.is_file() and path.name != "credentials.toml":
            assert SECRET.encode() not in path.read_bytes(), path
    assert SECRET not in finished.stdout + finished.stderr


@pytest.mark.needs_bubblewrap
def test_code_finds_no_key_in_files_or_other_processes_either(designs: Designs) -> None:
    designs.add(10)

    finished = designs.implement("10")

    assert finished.code == 0, finished.stdout
    assert "Isolation of this and every other run: bwrap: code sees only the project" in designs.test_report("10")
    assert SECRET not in finished.stdout + finished.stderr


@pytest.mark.needs_namespaces
def test_without_bubblewrap_code_finds_no_key_either_and_the_report_says_where_it_ran(designs: Designs) -> None:
    designs.add(10)

    finished = designs.implement("10", env={"PATH": path_of("git", "sh", into=designs.root / "bin")})

    assert finished.code == 0, finished.stdout
    assert "every other run: namespaces: code sees only the project" in designs.test_report("10")
    assert "[COORDINATOR] Sandbox: namespaces: code sees only the project" in finished.stdout


def test_without_a_sandbox_nothing_starts_unless_that_is_allowed(designs: Designs) -> None:
    designs.use_shell_tests()
    designs.add_greetings(1)
    none = {"AGENTOS_IMPLEMENTATION__SANDBOX": "none"}

    refused = designs.implement("1", env=none)

    assert refused.code == 2
    assert "Not started: implementation.sandbox is 'none'." in refused.stderr
    assert "could read your keys and files" in refused.stderr
    assert "--allow-unsandboxed" in refused.stderr
    assert designs.records() == []
    allowed = designs.implement("1", "--allow-unsandboxed", env=none)
    assert allowed.code == 0, allowed.stdout + allowed.stderr
    lines = allowed.stdout.splitlines()
    said = next(place for place, line in enumerate(lines) if "Sandbox: none: a time limit" in line)
    assert said < next(place for place, line in enumerate(lines) if "[IMPL-1]" in line)
    assert "Isolation of this and every other run: none: a time limit" in designs.test_report("1")


def path_of(*programs: str, into: Path) -> str:
    """A PATH that leads to these programs only."""
    into.mkdir()
    for program in programs:
        found = shutil.which(program)
        assert found, program
        (into / program).symlink_to(found)
    return str(into)


def test_findings_of_the_plan_review_are_answered_before_tests_are_written(done: tuple[Designs, Finished]) -> None:
    designs, _ = done

    nodes = [record["node"] for record in of_type(designs.records(), "node_started", "8")]
    assert nodes[:4] == ["N0_load", "N1_test_plan", "N1_test_plan", "N2_scaffold_tests"]
    assert "| 020 | Bounds in the wrong order | 1 | passed |" in designs.test_report("8")


def test_a_design_that_changed_since_its_approval_is_left_alone_and_refused_by_name(
    done: tuple[Designs, Finished],
) -> None:
    designs, finished = done
    assert "9" not in designs.outcomes()
    assert "IMPL-9 is skipped: changed since it was approved (changed '3. Requirements')" in finished.stdout

    refused = designs.implement("9")

    assert refused.code == 1
    assert "FAILED: docs/lld/active/LLD-9.md changed since it was approved" in refused.stdout
    assert "--allow-unapproved" in refused.stdout


def test_the_same_command_again_has_nothing_left_but_what_needs_a_person(done: tuple[Designs, Finished]) -> None:
    designs, _ = done

    document = json.loads(designs.command("implement", "--all", "--dry-run", "--json").stdout)

    assert document["items"] == []
    assert {"id": "1", "reason": "implemented on agentos/1"} in document["skipped"]
    (stuck,) = [entry["reason"] for entry in document["skipped"] if entry["id"] == "3"]
    assert stuck.startswith("needs revision: ")
    assert "see branch agentos/3; change the design and approve it, or name it with --fresh" in stuck


def test_designs_that_only_add_to_a_file_do_not_wait_for_each_other(designs: Designs) -> None:
    exports = ("tally/__init__.py", "Modify", "Export it")
    for number in (11, 12):
        designs.design(number, "A thing", [(f"tally/thing_{number}.py", "Add"), exports], ["It is there"])
    designs.design(13, "Another", [("tally/__init__.py", "Modify", "Replace the docstring")], ["It is there"])
    shown = designs.command("implement", "--all", "--dry-run")
    assert "Additions: tally/__init__.py is only added to by IMPL-11, IMPL-12" in shown.lines
    assert "Overlap: tally/__init__.py is changed by IMPL-11, IMPL-12, IMPL-13" in shown.lines
    plan = json.loads(designs.command("implement", "--all", "--dry-run", "--json").stdout)
    found = {tuple(each["items"]): (each["files"], each["added_to"]) for each in plan["overlaps"]}
    path = ["tally/__init__.py"]
    assert found == {("11", "12"): ([], path), ("11", "13"): (path, []), ("12", "13"): (path, [])}


def test_a_dry_run_shows_overlaps_and_order_and_writes_nothing(designs: Designs) -> None:
    designs.add(1, 4, 5, 6)
    before = sorted(str(path) for path in designs.root.rglob("*") if ".git/" not in str(path))

    shown = designs.command("implement", "--all", "--parallel", "3", "--dry-run")

    assert shown.code == 0
    assert "Overlap: tally/words.py is changed by IMPL-4, IMPL-5" in shown.stdout
    assert "Merge order: IMPL-1, IMPL-6, IMPL-4, IMPL-5" in shown.stdout
    assert "IMPL-6  (approved, not implemented; after 1)" in shown.stdout
    after = sorted(str(path) for path in designs.root.rglob("*") if ".git/" not in str(path))
    assert [path for path in after if path not in before and "/std" not in path] == []


def test_an_unapproved_design_runs_when_allowed_and_the_report_says_so(designs: Designs) -> None:
    designs.use_shell_tests()
    designs.add_greetings(1)
    path = designs.project / "docs/lld/active/LLD-1.md"
    path.write_text(path.read_text().replace("Status:** Approved", "Status:** Draft"))

    finished = designs.implement("1", "--allow-unapproved", "--commits", "stacked")

    assert finished.code == 0, finished.stdout
    report = designs.file_on("1", "docs/reports/1/implementation-report.md")
    assert "NOT APPROVED, allowed by --allow-unapproved" in report
    assert designs.git("log", "--format=%s", "main..agentos/1").splitlines() == [
        "LLD-1 is done",
        "Reports for LLD-1",
        "LLD-1, round 1",
        "Tests for LLD-1, before the code",
    ]


def test_a_dependent_item_can_wait_for_the_merge(designs: Designs) -> None:
    designs.add(1, 6)

    shown = designs.command("implement", "--all", "--wait-for-merge", "--dry-run")

    assert "Skipped: IMPL-6 (waits until LLD-1 is merged)" in shown.stdout


def test_branches_are_pushed_once(designs: Designs) -> None:
    designs.use_shell_tests()
    designs.add_greetings(1)
    remote = designs.root / "remote.git"
    designs.git("init", "--quiet", "--bare", str(remote))
    designs.git("remote", "add", "origin", str(remote))

    first = designs.implement("1", "--push")
    again = designs.implement("1", "--push")

    assert (first.code, again.code) == (0, 0), first.stdout + again.stderr
    assert "agentos/1 is pushed" in first.stdout
    pushed = designs.git("ls-remote", "origin", "refs/heads/agentos/1").split()[0]
    assert pushed == designs.git("rev-parse", "agentos/1")
    assert len(of_type(designs.records(), "run_started")) == 1

    over = designs.implement("1", "--push", "--fresh")

    assert over.code == 0, over.stderr
    assert designs.git("ls-remote", "origin", "refs/heads/agentos/1").split()[0] == designs.git(
        "rev-parse", "agentos/1"
    )


@pytest.mark.slow
def test_a_kill_between_push_and_pull_request_leads_to_one_pull_request(designs: Designs) -> None:
    designs.add(1)
    remote = designs.root / "owner/repo.git"
    designs.git("init", "--quiet", "--bare", str(remote))
    designs.git("remote", "add", "origin", str(remote))
    with GitHubServer(token=SECRET) as server:
        server.add_repository("owner/repo")
        github = {"GITHUB_API_URL": server.url, "GITHUB_TOKEN": SECRET}
        # The request takes effect, and its answer never comes.
        release = threading.Event()
        server.script(Scripted(method="POST", path="/pulls", handle_first=True, after=release))
        killed = designs.start_implement("1", "--pr", env=github)
        eventually(lambda: server.count("POST", "/pulls"), "a pull request", SECONDS)
        killed.kill(signal.SIGKILL)
        killed.process.wait()
        release.set()

        again = [designs.implement("1", "--pr", env=github) for _ in range(2)]

        assert [finished.code for finished in again] == [0, 0], again
        assert server.count("POST", "/pulls") == 1
        (posted,) = [request for request in server.requests if request.method == "POST"]
        assert posted.body["title"] == "mean(values) is the sum by the count"
        assert posted.body["base"] == "main"
    assert "agentos/1 has the pull request https://github.example/owner/repo/" in again[0].stdout
    assert SECRET not in "".join(finished.stdout + finished.stderr for finished in again)
    assert len(of_type(designs.records(), "run_started")) == 1


def test_a_push_that_cannot_be_is_refused_before_anything_runs(designs: Designs) -> None:
    designs.add(1)

    refused = designs.implement("1", "--push")

    assert refused.code == 2
    assert "--push needs a remote named origin, and this repository has none" in refused.stderr
    assert designs.records() == []


def test_a_project_with_a_command_of_its_own_is_judged_by_exit_code(designs: Designs) -> None:
    designs.use_shell_tests()
    designs.add_greetings(1)

    finished = designs.implement("1")

    assert finished.code == 0, finished.stdout
    report = designs.test_report("1")
    assert "New tests: exit code 1 (`sh check.sh`)" in report
    assert "New tests: exit code 0 (`sh check.sh`)" in report
    assert "Not verified: coverage, since the test command names no report of it (set [implementation] cov" in report
    assert "not verified: coverage, since" in designs.endings()["1"]["reason"]


@pytest.mark.slow
def test_a_command_of_ones_own_is_held_to_the_coverage_it_reports(designs: Designs) -> None:
    command = f"{sys.executable} -m coverage run -m pytest -q && {sys.executable} -m coverage xml"
    (designs.project / "agentos.toml").write_text(
        f'[implementation]\ntest = "{command}"\ncoverage = "coverage.xml"\n'
    )
    (designs.project / ".gitignore").write_text(".coverage\n")
    designs.git("add", ".")
    designs.git("commit", "--quiet", "-m", "A command of our own")
    designs.add(1)
    mean = "def mean(values):\n    return sum(values) / len(values)"
    unused = f"{mean}\n\n\ndef unused():\n    x = 1\n    return x"
    designs.record(1, "N4_implement", create("tally/stats.py", unused), replace("tally/stats.py", mean))

    finished = designs.implement("1")

    assert finished.code == 0, finished.stdout
    assert "| 1 | tally/stats.py is covered 60 %" in designs.file_on("1", "docs/reports/1/implementation-report.md")
    report = designs.test_report("1")
    assert "Coverage of changed lines and branches: 100 %, target 95 %" in report
    assert "`tally/stats.py`: 100 %" in report
    assert "coverage.xml" not in designs.git("ls-tree", "-r", "--name-only", "agentos/1")


@pytest.mark.parametrize("victim", ["worker", pytest.param("coordinator", marks=pytest.mark.slow)])
def test_a_kill_at_every_node_leaves_the_branch_as_if_nothing_had_happened(
    done: tuple[Designs, Finished], designs: Designs, victim: str
) -> None:
    reference, _ = done
    add_link(designs)
    designs.add(2)
    chance = random.Random(victim)
    run = designs.start_implement("2", "--retry", "30")
    for node in NODES:
        run = kill_in(designs, run, node, victim, chance)

    finished = run.wait()

    assert finished.code == 0, finished.stdout
    assert designs.tree("2") == reference.tree("2")
    assert designs.git("rev-list", "--count", "main..agentos/2") == "1"
    assert designs.git("log", "-1", "--format=%B", "agentos/2") == reference.git(
        "log", "-1", "--format=%B", "agentos/2"
    )
    assert designs.git("for-each-ref", "refs/agentos/kept") == ""
    assert not list(designs.project.rglob("*.lock"))
    assert designs.databases() == []


def kill_in(designs: Designs, run: Started, node: str, victim: str, chance: random.Random) -> Started:
    """Kill while the node runs, somewhere in it, and go on with the same command."""
    count = len(of_type(designs.records(), "item_started", "2"))
    run.wait_for_record("node_started", node=node)
    time.sleep(chance.uniform(0, 0.4))  # So that kills fall into different moments of a node.
    if victim == "coordinator":
        run.kill(signal.SIGKILL)
        run.process.wait()
        return designs.start_implement("2", "--retry", "30")
    pid = of_type(designs.records(), "item_started", "2")[-1]["pid"]
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    if run.process.poll() is None and node != NODES[-1]:
        run.wait_for_record("item_started", attempt=count + 1)
    return run

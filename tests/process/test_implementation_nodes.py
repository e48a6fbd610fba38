"""The nodes of the implementation workflow in this process: every way through the graph, on a real repository."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from designs import Designs, create, replace

from agentos.documents.approval import ApprovalInfo, stamp_approval, without_approval
from agentos.engine.plan import make_plan
from agentos.errors import AgentosError, UsageError
from agentos.files import LockBusyError, locked
from agentos.git.command import Git
from agentos.paths import repository_lock_path
from agentos.settings import load_settings
from agentos.workflows.implementation import branch
from agentos.workflows.implementation.graph import build
from agentos.workflows.implementation.pending import (
    Choices,
    find_conflicts,
    find_designs,
    read_designs,
    why_implemented,
)
from agentos.workflows.implementation.records import has_branch, read_record
from agentos.workflows.pending import Reason, ReasonKind, Wanted
from agentos.workflows.pipeline.graph import build as build_pipeline
from agentos.workflows.pipeline.pending import find_items


@pytest.fixture
def designs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Designs]:
    made = Designs(tmp_path)
    monkeypatch.chdir(made.project)
    for name in ("AGENTOS_HOME", "AGENTOS_RECORDED_DIR"):
        monkeypatch.setenv(name, made.environment[name])
    monkeypatch.setenv("AGENTOS_DRAFTER", "recorded")
    monkeypatch.setenv("AGENTOS_REVIEWER", "recorded")
    try:
        yield made
    finally:
        made.close()


def run(designs: Designs, number: int) -> dict[str, Any]:
    """The design's way through the graph; the state at its end."""
    items = {item.id: item for item in read_designs(designs.project, load_settings(designs.project))}
    state: dict[str, Any] = build().compile().invoke(dict(items[str(number)].input), {"recursion_limit": 60})
    return state


def test_a_design_becomes_a_record_and_a_branch_without_the_users_hooks(designs: Designs) -> None:
    hook = designs.project / ".git/hooks/pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {designs.root}/hook-ran\nexit 1\n")
    hook.chmod(0o755)
    designs.add(1)

    state = run(designs, 1)

    assert (state["outcome"], state["reason"]) == ("implemented", "")
    assert state["baseline"]["coverage_target"] == 95
    record = read_record(designs.project, "1")
    assert record is not None
    assert record.commit == designs.git("rev-parse", "agentos/1")
    assert has_branch(designs.project, "agentos/1")
    designs.git("pack-refs", "--all")
    assert has_branch(designs.project, "agentos/1")
    assert not has_branch(designs.project, "agentos/2")
    assert state["usage"] == {"input_tokens": 300, "output_tokens": 30, "cost_usd": 0}
    assert not (designs.root / "hook-ran").exists()
    assert os.environ["AGENTOS_HOME"] not in Git(designs.project).text("status", "--short")


@pytest.mark.slow
def test_the_offline_model_writes_a_skeleton_that_is_red_and_then_green(
    designs: Designs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENTOS_DRAFTER", "offline")
    monkeypatch.setenv("AGENTOS_REVIEWER", "offline")
    designs.design(12, "Anything", [("tally/words.py", "Modify")], ["One thing", "Another thing"])

    state = run(designs, 12)

    assert state["outcome"] == "rehearsed"
    assert "Another thing" in designs.file_on("12", "tally/issue_12.py")
    assert state["deviations"] == [
        {"path": "tests/test_issue_12.py", "reason": "tests of issue 12"},
        {"path": "tally/issue_12.py", "reason": "a skeleton of its own"},
    ]


def test_a_coder_refuses_a_design_that_only_the_offline_model_approved(designs: Designs) -> None:
    designs.add(1)
    path = designs.project / "docs/lld/active/LLD-1.md"
    info = ApprovalInfo(approved_at="2026-01-02T00:00:00Z", drafter="offline", reviewer="offline")
    path.write_text(stamp_approval(without_approval(path.read_text()), info))

    with pytest.raises(AgentosError, match="approved by the offline model alone, which is a rehearsal"):
        run(designs, 1)

    settings = load_settings(designs.project)
    (skipped,) = find_designs(designs.project, settings, Wanted(), Choices()).skipped
    assert "only rehearsed by the offline model" in str(skipped[1])


def test_a_ground_that_is_broken_is_found_before_a_model_is_asked(designs: Designs) -> None:
    designs.add(1)
    (designs.project / ".gitignore").write_text("_version.py\n")
    (designs.project / "tally/__init__.py").write_text("from tally._version import version as version\n")
    (designs.project / "tally/_version.py").write_text("version = '1'\n")
    designs.git("add", ".")
    designs.git("commit", "--quiet", "-m", "A version that a build makes")

    with pytest.raises(AgentosError, match=re.escape('add `copy = ["tally/_version.py"]` under [workstreams]')):
        run(designs, 1)

    (designs.project / "agentos.toml").write_text(
        '[workstreams]\nsetup = "echo \\"version = \'2\'\\" > tally/_version.py"\n'
    )
    assert run(designs, 1)["outcome"] == "implemented"


@pytest.mark.parametrize("path", [pytest.param("tally.py", marks=pytest.mark.slow), "src/tally.py"])
def test_the_offline_coder_sees_red_and_green_beside_a_module_that_is_no_package(
    designs: Designs, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setenv("AGENTOS_DRAFTER", "offline")
    monkeypatch.setenv("AGENTOS_REVIEWER", "offline")
    designs.git("rm", "-r", "--quiet", "tally", "tests")
    module = designs.project / path
    module.parent.mkdir(exist_ok=True)
    module.write_text("def words(text):\n    return text.split()\n")
    designs.git("add", ".")
    designs.git("commit", "--quiet", "-m", "One module")
    designs.design(12, "Another thing", [(path, "Modify")], ["It is there"])

    state = run(designs, 12)

    assert state["outcome"] == "rehearsed", state["reason"]
    assert state["red"]["words"] == "1 fail as they should"
    assert designs.file_on("12", path.replace("tally", "issue_12"))


@pytest.mark.slow
def test_tests_that_fail_for_the_wrong_reason_are_written_again_and_then_given_up(designs: Designs) -> None:
    designs.design(1, "A thing", [("tally/thing.py", "Add")], ["It is there"])
    designs.record(1, "N1_test_plan", {"verdict": "approve", "summary": "", "findings": [], "answers": []})
    broken = '<create path="tests/test_thing.py" reason="tests">\ndef test_it(:\n</create>\n'
    worse = '<replace path="tests/test_thing.py" reason="tests">\nimport no_such_module\n</replace>\n'
    passing = (
        '<replace path="tests/test_thing.py" reason="tests">\ndef test_it():\n    assert "a b".split()\n</replace>\n'
    )
    designs.record(1, "N2_scaffold_tests", broken, worse, passing)

    state = run(designs, 1)

    assert state["outcome"] == "needs_revision"
    assert state["reason"] == "the tests do not fail as they should: 1 pass already"
    assert state["scaffold"]["attempts"] == 3
    assert "Every test passes before any code is written" in state["red"]["complaint"]


@pytest.mark.slow
def test_code_in_the_test_step_and_tests_in_the_code_step_are_refused(designs: Designs) -> None:
    designs.add(1)
    tests = create(
        "tests/test_issue_1.py", "from tally.stats import mean\n\n\ndef test_mean():\n    assert mean([2]) == 2"
    )
    code = create("tally/stats.py", "def mean(values):\n    return sum(values) / len(values)")
    cheat = replace("tests/test_issue_1.py", "def test_mean():\n    pass")
    conftest = '<create path="tests/conftest.py" reason="help">\ncollect_ignore = ["test_issue_1.py"]\n</create>\n'
    designs.record(1, "N2_scaffold_tests", tests + code, tests)
    designs.record(1, "N4_implement", cheat, conftest, code)

    state = run(designs, 1)

    assert state["outcome"] == "implemented"
    assert len(state["rounds"]) == 2
    assert state["refusals"] == [
        "tally/stats.py: only tests are written in this step, in the project's test folder",
        "'tests/test_issue_1.py': it may not be changed in this step",
        "'tests/conftest.py': it is protected (CI, hooks, tools, agents, how tests are run): only an approved "
        "design that names it in its table of files may change it",
    ]


def test_a_model_that_only_sends_refused_answers_stagnates(designs: Designs) -> None:
    designs.add(1)
    outside = create("../stats.py", "x = 1")
    designs.record(1, "N4_implement", outside, outside, outside, outside)

    state = run(designs, 1)

    assert state["outcome"] == "needs_revision"
    assert "the same test fails in rounds 1 and 2" in state["reason"]
    assert len(state["refusals"]) == 4


@pytest.mark.slow
def test_code_that_is_not_covered_goes_another_round(designs: Designs) -> None:
    designs.add(1)
    mean = "def mean(values):\n    return sum(values) / len(values)"
    unused = "\n\n\ndef unused():\n" + "".join(f"    x{n} = {n}\n" for n in range(5)) + "    return x0"
    designs.record(1, "N4_implement", create("tally/stats.py", mean + unused), replace("tally/stats.py", mean))

    state = run(designs, 1)

    assert state["outcome"] == "implemented"
    assert "tally/stats.py is covered" in state["rounds"][0]["words"]
    assert state["rounds"][1]["coverage_percent"] == 100.0


@pytest.mark.slow
def test_code_that_breaks_the_projects_own_tests_goes_another_round(designs: Designs) -> None:
    designs.add(4)
    words = (
        '"""Words."""\n\n\ndef words(text):\n    return {split}\n\n\ndef count(text):\n    return len(text.split())'
    )
    designs.record(
        4,
        "N4_implement",
        replace("tally/words.py", words.format(split="None")),
        replace("tally/words.py", words.format(split="text.split()")),
    )

    state = run(designs, 4)

    assert state["outcome"] == "implemented"
    assert "1 worse than before (tests/test_words.py::test_words_are_split)" in state["rounds"][0]["words"]


def test_rounds_end_at_their_limit_with_the_best_one(designs: Designs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTOS_IMPLEMENTATION__MAX_ROUNDS", "2")
    designs.add(2)

    state = run(designs, 2)

    assert state["outcome"] == "needs_revision"
    assert state["reason"].startswith("not green after 2 rounds; round 2 is kept: 1 failing")


@pytest.mark.parametrize(
    ("verdict", "expected"),
    [
        ("discuss", "the test plan is not approved (discuss): Which mean?"),
        ("revise", "the test plan is not approved (revise): Which mean?"),
    ],
)
def test_a_plan_that_is_never_approved_ends_without_tests(designs: Designs, verdict: str, expected: str) -> None:
    designs.add(1)
    finding = {"tier": "blocking", "section": "010", "text": "Which mean?"}
    said = {"verdict": verdict, "summary": "", "findings": [finding], "answers": []}
    more: dict[str, Any] = {"scenarios": []}
    designs.record(1, "N1_test_plan", said, more, said, more, said)

    state = run(designs, 1)

    assert (state["outcome"], state["reason"]) == ("needs_revision", expected)
    assert state["scaffold"] == {}
    assert "No code was written" in designs.file_on("1", "docs/reports/1/implementation-report.md")


def test_a_reviewer_that_fails_is_no_approval(designs: Designs) -> None:
    designs.add(1)
    designs.record(1, "N1_test_plan", "I like it.")

    state = run(designs, 1)

    assert state["outcome"] == "needs_revision"
    assert "unverified" in state["reason"]


def test_a_design_without_anything_to_test_is_refused(designs: Designs) -> None:
    designs.design(1, "Nothing", [("tally/x.py", "Add")], [])

    with pytest.raises(AgentosError, match="names neither a requirement nor a scenario"):
        run(designs, 1)


@pytest.mark.slow
def test_an_item_that_depends_on_two_starts_from_both(designs: Designs) -> None:
    designs.add(1, 2, 6)
    files = [("tally/spread.py", "Add"), ("tests/test_issue_6.py", "Add")]
    designs.design(6, "spread(values)", files, ["It is wide"], more="Depends on #1, #2")
    run(designs, 1)
    run(designs, 2)

    state = run(designs, 6)

    assert state["outcome"] == "implemented"
    assert state["baseline"]["base"] == "agentos/1"
    assert designs.file_on("6", "tally/median.py")
    assert designs.git("diff", "--name-only", state["baseline"]["commit"], "agentos/6").splitlines()[-2:] == [
        "tally/spread.py",
        "tests/test_issue_6.py",
    ]


@pytest.mark.slow
def test_dependencies_that_conflict_are_named(designs: Designs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTOS_IMPLEMENTATION__STACKING", "no")
    designs.add(4, 5)
    designs.design(6, "More words", [("tally/more.py", "Add")], ["It is more"], more="Depends on #4, #5")
    run(designs, 4)
    run(designs, 5)

    with pytest.raises(branch.DependencyConflictError, match="agentos/5 conflicts"):
        run(designs, 6)


@pytest.mark.slow
def test_what_others_put_on_the_branch_is_kept_in_a_ref(designs: Designs) -> None:
    designs.add(1)
    run(designs, 1)
    worktree = branch.open_repository(designs.project, load_settings(designs.project)).find("1")
    assert worktree is not None
    (worktree.path / "mine.txt").write_text("by hand\n")
    git = ["git", "-c", "user.name=me", "-c", "user.email=me@example.invalid", "-C", str(worktree.path)]
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "--quiet", "-m", "By hand"], check=True)
    by_hand = designs.git("rev-parse", "agentos/1")

    branch.rewind(worktree, f"{by_hand}^")

    assert designs.git("rev-parse", "agentos/1^{tree}") == designs.git("rev-parse", f"{by_hand}^^{{tree}}")
    assert designs.git("for-each-ref", "--format=%(objectname)", "refs/agentos/kept") == by_hand


@pytest.mark.slow
def test_work_that_a_person_began_on_the_branch_is_built_upon(designs: Designs) -> None:
    designs.add(1)
    settings = load_settings(designs.project)
    worktree = branch.open_repository(designs.project, settings).create("1").worktree
    (worktree.path / "begun.txt").write_text("by hand\n")
    git = ["git", "-c", "user.name=me", "-c", "user.email=me@example.invalid", "-C", str(worktree.path)]
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "--quiet", "-m", "Begun"], check=True)
    begun = designs.git("rev-parse", "agentos/1")
    (worktree.path / "loose.txt").write_text("not committed\n")

    for _ in range(2):  # Also when it starts over.
        assert run(designs, 1)["outcome"] == "implemented"

        assert designs.git("rev-parse", "agentos/1^") == begun
        with pytest.raises(subprocess.CalledProcessError):
            designs.file_on("1", "loose.txt")
    kept = designs.git("for-each-ref", "--format=%(refname)", "refs/agentos/kept").splitlines()
    assert any("loose.txt" in designs.git("ls-tree", "--name-only", ref).splitlines() for ref in kept)


def test_a_branch_is_worked_on_by_one_process_at_a_time(designs: Designs, monkeypatch: pytest.MonkeyPatch) -> None:
    repository = branch.open_repository(designs.project, load_settings(designs.project))
    branch.hold_branch(repository, "1")
    branch.hold_branch(repository, "1")
    ours, theirs = (repository_lock_path(repository.common_dir, f"{slug}.branch") for slug in "12")
    monkeypatch.setattr(branch, "PATIENCE_SECONDS", 0.1)

    with pytest.raises(LockBusyError), locked(ours, timeout_seconds=0.1):
        pass
    with locked(theirs), pytest.raises(branch.BranchBusyError, match="agentos/2 is being worked on by another run"):
        branch.hold_branch(repository, "2")


def test_a_project_outside_of_any_repository_is_refused(designs: Designs) -> None:
    with pytest.raises(UsageError, match="is not in a git checkout"):
        branch.open_repository(designs.root, load_settings(designs.root))


def test_a_base_that_is_no_commit_is_refused(designs: Designs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTOS_IMPLEMENTATION__BASE", "no-such-branch")
    settings = load_settings(designs.project)
    repository = branch.open_repository(designs.project, settings)

    with pytest.raises(UsageError, match="'no-such-branch' names no commit"):
        branch.choose_base(repository, settings, [])


@pytest.mark.slow
def test_a_dependency_that_was_squashed_into_the_base_is_merged(designs: Designs) -> None:
    designs.add(1, 6)
    run(designs, 1)
    settings = load_settings(designs.project)
    repository = branch.open_repository(designs.project, settings)
    assert branch.choose_base(repository, settings, ["1"]).name == "agentos/1"
    designs.git("merge", "--quiet", "--squash", "agentos/1")
    designs.git("commit", "--quiet", "-m", "Squashed")

    assert branch.choose_base(repository, settings, ["1"]).name == "HEAD"
    design = next(item for item in read_designs(designs.project, settings) if item.id == "1")
    assert why_implemented(design, designs.project, settings) == Reason(ReasonKind.MERGED)


def test_designs_are_found_in_order_with_dependencies_of_their_issues(designs: Designs) -> None:
    designs.add(1, 2, 4, 5, 9)
    issue = designs.project / "docs/issues/002-median.md"
    issue.parent.mkdir(parents=True)
    issue.write_text("# Median\n\nThe middle value of a list of numbers is wanted.\n\nDepends on #1\n")
    (designs.project / "docs/lld/active/LLD-bad id.md").write_text("# x\n")
    (designs.project / "docs/lld/active/LLD-11.md").write_bytes(b"\xff\xfe")
    settings = load_settings(designs.project)

    pending = find_designs(designs.project, settings, Wanted(), Choices())

    assert [item.id for item in pending.items] == ["1", "2", "4", "5"]
    assert pending.items[1].depends_on == ("1",)
    assert [item_id for item_id, _ in pending.skipped] == ["9"]
    conflicts = find_conflicts(make_plan(pending.items))
    assert conflicts.rivals() == {"4": ("5",)}
    assert find_designs(designs.project, settings, Wanted(), Choices(allows_unapproved=True)).items[-1].id == "9"
    named = find_designs(designs.project, settings, Wanted(patterns=["LLD-9", "IMPL-1"]), Choices())
    assert [item.id for item in named.items] == ["1", "9"]


def test_items_that_build_on_each_other_are_no_rivals(designs: Designs) -> None:
    designs.add(4)
    designs.design(5, "More", [("tally/words.py", "Modify")], ["It is more"], more="Depends on #4")
    designs.design(6, "Most", [("tally/words.py", "Modify")], ["It is most"], more="Depends on #5")
    pending = find_designs(designs.project, load_settings(designs.project), Wanted(), Choices())

    assert find_conflicts(make_plan(pending.items)).overlaps == ()


@pytest.mark.slow
def test_designs_nobody_approved_are_refused_unless_allowed(
    designs: Designs, monkeypatch: pytest.MonkeyPatch
) -> None:
    designs.add(9)
    (designs.project / "docs/lld/active/LLD-10.md").write_text("# 10 - Nothing\n")
    for number, why in (
        (9, r"changed since it was approved \(changed '3. Requirements'\)"),
        (10, "carries no approval"),
    ):
        with pytest.raises(AgentosError, match=why):
            run(designs, number)

    monkeypatch.setenv("AGENTOS_ALLOW_UNAPPROVED", "1")
    with pytest.raises(AgentosError, match="nothing can be tested"):
        run(designs, 10)


def test_a_design_waits_until_what_it_depends_on_is_merged(designs: Designs) -> None:
    designs.add(1, 6)
    settings = load_settings(designs.project)

    pending = find_designs(designs.project, settings, Wanted(), Choices(waits_for_merge=True))

    assert pending.skipped == (("6", Reason(ReasonKind.WAITS_FOR_MERGE, "LLD-1")),)
    done = designs.project / "docs/lld/done/LLD-1.md"
    done.parent.mkdir(parents=True)
    (designs.project / "docs/lld/active/LLD-1.md").rename(done)
    pending = find_designs(designs.project, settings, Wanted(), Choices(waits_for_merge=True))
    assert [item.id for item in pending.items] == ["6"]


@pytest.mark.slow
def test_the_pipeline_hands_an_approved_design_over_to_code(
    designs: Designs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENTOS_DRAFTER", "offline")
    monkeypatch.setenv("AGENTOS_REVIEWER", "offline")
    folder = designs.project / "docs/issues"
    folder.mkdir(parents=True)
    (folder / "001-count.md").write_text(
        "# Count words\n\n## Requirements\n\n1. `count(text)` returns the number of words of a text.\n"
    )
    settings = load_settings(designs.project)
    (item,) = find_items(designs.project, settings, Wanted()).items

    state = build_pipeline().compile().invoke(dict(item.input), {"recursion_limit": 60})

    assert state["outcome"] == "rehearsed"
    assert "tests/" in designs.git("diff", "--name-only", "main", "agentos/1")
    again = find_items(designs.project, settings, Wanted())
    assert again.skipped == (("1", Reason(ReasonKind.REHEARSED_ON, "agentos/1")),)

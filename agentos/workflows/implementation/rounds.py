"""What a round of code came to, and what the next one is told about it."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from agentos.workflows.implementation.judging import GreenVerdict
from agentos.workflows.implementation.project_tests import is_test_path
from agentos.workflows.implementation.project_worktree import ProjectWorktree
from agentos.workflows.implementation.suite_report import FileCoverage, SuiteReport

_MOST_CASES = 10
_MOST_CASE_CHARACTERS = 2_000
_MOST_OUTPUT_CHARACTERS = 4_000
_MOST_REFUSALS = 5
_MOST_LINES = 60


def changed_code(worktree: ProjectWorktree, since: str) -> list[str]:
    """Files that the branch adds or changes, tests left out."""
    changed = worktree.changed_files(since)
    return [path for path in changed if not is_test_path(path) and (worktree.path / path).is_file()]


def code_files(worktree: ProjectWorktree, since: str, listed: Sequence[str]) -> list[str]:
    """What a coder should see in full: the design's files and whatever the rounds so far have touched."""
    touched = changed_code(worktree, since)
    return [path for path in dict.fromkeys((*listed, *touched)) if not is_test_path(path)]


def failing_ids(verdict: GreenVerdict, test_files: Collection[str], expected: Sequence[str]) -> frozenset[str]:
    """Everything that is not as it should be, by name (pure).

    A test file that cannot be collected counts as all of its tests: a broken import is no better than two failures.
    """
    named = {*verdict.failing, *verdict.missing, *verdict.regressions, *verdict.former_failing}
    whole_files = named & set(test_files)
    inside = {test_id for test_id in expected if test_id.partition("::")[0] in whole_files}
    problem = {"the test run itself"} if verdict.problem else set()
    return frozenset((named - whole_files if inside else named) | inside | problem)


def _not_run(file: FileCoverage | None) -> str:
    """Lines, and ways between lines, that no test takes."""
    if file is None:
        return "not measured"
    lines = f"not run: lines {', '.join(map(str, file.missing_lines[:_MOST_LINES]))}"
    ways = ", ".join(f"{start} to {end}" for start, end in file.missing_branches[:_MOST_LINES])
    return f"{lines}; ways not taken: {ways}" if ways else lines


def feedback(verdict: GreenVerdict, report: SuiteReport, suite: SuiteReport | None, refusals: Sequence[str]) -> str:
    """The last round in words for the coder, bounded (pure)."""
    lines = [verdict.words()]
    cases = [case for run in (report, suite) if run is not None for case in run.cases or () if case.is_failing]
    wanted = [case for case in cases if case.id in {*verdict.failing, *verdict.regressions}]
    for case in wanted[:_MOST_CASES]:
        lines.append(f"\n{case.id}\n{case.message[-_MOST_CASE_CHARACTERS:]}")
    for path, percent in (verdict.shortfalls or {}).items():
        lines.append(f"{path}: {percent:.0f} % covered; {_not_run((suite.coverage or {})[path] if suite else None)}")
    if verdict.problem:
        lines.append(report.output[-_MOST_OUTPUT_CHARACTERS:])
    lines += [f"Refused: {refusal}" for refusal in refusals[-_MOST_REFUSALS:]]
    return "\n".join(lines)

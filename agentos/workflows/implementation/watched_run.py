"""A run of pytest as its watcher tells it: one case per test, and whether the telling is whole (pure)."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from agentos.sandbox.sandbox import SandboxResult
from agentos.workflows.implementation.suite_report import (
    CaseResult,
    CaseStatus,
    Ending,
    FileCoverage,
    Reached,
    SuiteReport,
    failed_case,
    worst_of_each,
)

_FORGED: Final = "the report holds what our reporter does not say: code under test has written to it"
_MOST_REACHED: Final = 200


def watched_report(
    command: str,
    result: SandboxResult,
    answer: Mapping[str, Any],
    coverage: Mapping[str, FileCoverage] | None,
) -> SuiteReport:
    """The report of a run. Without the watcher's answer there is no case in it, and that is a problem."""
    said = answer.get("records", ())
    records = [record for record in said if _is_record(record)]
    collected = [_shown(name) for record in records for name in record.get("collected", ())]
    cases = worst_of_each(_cases(records))
    exit_code = answer.get("exit_code")
    problem = _FORGED if len(records) < len(said) else _problem(records, collected, cases, exit_code)
    if result.ended_by:
        # Not for anybody else to explain: the tests, or the code, wanted more than they may have.
        problem = result.note
    timed_out = result.timed_out or bool(answer.get("timed_out"))
    return SuiteReport(
        command=command,
        exit_code=exit_code,
        signal_number=answer.get("signal") if answer else result.signal_number,
        timed_out=timed_out,
        output=str(answer.get("output", "")) + (_running(records) if timed_out else "") + result.note,
        seconds=result.seconds,
        isolation=result.isolation,
        cases=cases,
        coverage=coverage,
        problem=problem if not timed_out else "",
        reached=tuple(_reached(records)),
        endings=frozenset(_endings(records)),
    )


def _is_record(record: Any) -> bool:
    """Whether our reporter could have sent it: what runs in its process may have sent anything."""
    match record:
        case {"collected": [*names]}:
            return all(isinstance(name, str) for name in names)
        case {"running": str()} | {"id": str(), "phase": str(), "outcome": str(), "text": str()}:
            return True
        case {"reached": str(), "path": str(), "line": int()} | {"said": str(), "path": str()}:
            return True
    return False


def _reached(records: Iterable[Mapping[str, Any]]) -> Iterator[Reached]:
    for record in itertools.islice((each for each in records if "reached" in each), _MOST_REACHED):
        yield Reached(_shown(record["path"])[:200], record["line"], _shown(record["reached"])[:120])


def _endings(records: Iterable[Mapping[str, Any]]) -> Iterator[Ending]:
    running = ""
    for record in records:
        running = _shown(record.get("running", running))
        if "said" in record:
            yield Ending(running, record["path"], record["said"])


def _shown(case_id: str) -> str:
    """An id on one line: a test may have any name that its file gave it while it was loaded."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in case_id)


def _running(records: Sequence[Mapping[str, Any]]) -> str:
    started = [_shown(record["running"]) for record in records if "running" in record]
    return f"\nIts time ran out in {started[-1]}\n" if started else ""


def _problem(
    records: Sequence[Mapping[str, Any]], collected: Sequence[str], cases: Sequence[CaseResult], exit_code: int | None
) -> str:
    """Why this is no whole report, in words; empty when it is."""
    is_failing = any(case.is_failing for case in cases)
    if exit_code in (0, 1) and not any("collected" in record for record in records):
        return f"pytest ended with exit code {exit_code} before it said which tests there are: no report is no pass"
    known = {case.id for case in cases}
    if exit_code in (0, 1) and (lost := [name for name in collected if name not in known]):
        return f"{len(lost)} of {len(collected)} collected tests have no result ({lost[0]}): something ended the run"
    if exit_code == 0 and is_failing:
        return "pytest ended with exit code 0 although tests fail"
    if exit_code == 1 and not is_failing:
        return "pytest ended with exit code 1 although no test fails"
    return ""


def _cases(records: Iterable[Mapping[str, Any]]) -> list[CaseResult]:
    """One entry per phase that says something: a passed setup or teardown says nothing by itself."""
    cases = []
    for record in records:
        if "phase" not in record:
            continue
        case_id, phase, outcome = _shown(record["id"]), record["phase"], record["outcome"]
        file = case_id.partition("::")[0]
        is_expected = bool(record.get("expected"))
        if outcome == "failed":
            status = CaseStatus.FAILED if phase == "call" else CaseStatus.ERROR
            case = failed_case(case_id, status, record["text"], file=file)
            cases.append(replace(case, is_collection_error=phase == "collect"))
        elif outcome == "skipped":
            cases.append(CaseResult(case_id, CaseStatus.XFAILED if is_expected else CaseStatus.SKIPPED, file))
        elif outcome == "passed" and phase == "call":
            cases.append(CaseResult(case_id, CaseStatus.XPASSED if is_expected else CaseStatus.PASSED, file))
    return cases

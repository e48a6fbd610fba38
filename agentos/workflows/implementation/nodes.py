"""The implementation workflow's nodes: from an approved design to a branch with passing tests.

Every node starts from the commit the last finished node left, so that one that runs again after a kill does the same.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from agentos.documents.approval import Absent, Changed, Intact, document_hash, verify_approval
from agentos.documents.verdict import (
    InvalidReview,
    Review,
    parse_review,
    review_data,
    review_model,
    stored_review,
    unverified,
)
from agentos.errors import AgentosError
from agentos.git.commits import restore, squash
from agentos.git.worktrees import branch_of
from agentos.llm import InvalidOutputError, ModelRequestError, ProviderUnavailableError
from agentos.workflows.context import Context
from agentos.workflows.implementation import ending, reports, rounds
from agentos.workflows.implementation.bench import Answer, Bench
from agentos.workflows.implementation.branch import AUTHOR, base_name, choose_base, start_branch
from agentos.workflows.implementation.file_operations import FileOperation
from agentos.workflows.implementation.judging import (
    GreenVerdict,
    RedVerdict,
    defined_tests,
    judge_green,
    judge_red,
    module_name,
)
from agentos.workflows.implementation.project_tests import (
    ProjectTests,
    is_test_path,
    report_data,
    stored_report,
)
from agentos.workflows.implementation.project_worktree import Workplace
from agentos.workflows.implementation.records import Implemented, as_text, record_path
from agentos.workflows.implementation.state import ImplementationState
from agentos.workflows.implementation.suite_plan import coverage_target, plan_text, planned, with_changes
from agentos.workflows.implementation.suite_report import SuiteReport
from agentos.workflows.prompts import as_data


class DesignRefused(AgentosError):
    """The design is not one to write code from."""


def load(state: ImplementationState, context: Context) -> ImplementationState:
    """Refuse what nobody approved, start the item's branch, and see how the project's own tests do before."""
    bench = Bench(state, context, "N0_load")
    approval = _approval_words(state, context)
    record_path(bench.project_dir, state["item_id"]).unlink(missing_ok=True)
    folder = bench.folder
    base = choose_base(
        *(bench.repository, bench.settings, state.get("depends_on", [])),
        folder=folder,
        prefix=state.get("branch_prefix", ""),
    )
    worktree, head = start_branch(bench.repository, bench.settings, bench.slug, base, folder=folder)
    place = Workplace(worktree, folder)
    place.clear()
    bench.record("design", state["lld_text"])
    suite = ProjectTests(context, place).suite()
    return ImplementationState(
        approval=approval,
        base=base_name(bench.repository, base),
        base_commit=head,
        head=head,
        branch=branch_of(bench.slug),
        folder=folder,
        coverage_target=coverage_target(state["lld_text"], bench.settings.implementation.coverage_target),
        suite_before=report_data(suite),
        outcome="",
        reason="",
        **bench.books(),
    )


def _approval_words(state: ImplementationState, context: Context) -> str:
    match verify_approval(state["lld_text"]):
        case Intact(approval=approval):
            return f"approved by {approval.reviewer} at {approval.approved_at}"
        case Changed(what=what):
            problem = f"changed since it was approved ({what})"
        case Absent():
            problem = "carries no approval"
    if context.allows_unapproved:
        return f"NOT APPROVED, allowed by --allow-unapproved: it {problem}"
    raise DesignRefused(
        f"{state['lld_path']} {problem}. Have it reviewed (agentos lld {state['item_id']} --fresh), "
        "or give --allow-unapproved."
    )


def test_plan(state: ImplementationState, context: Context) -> ImplementationState:
    """A scenario for every requirement, reviewed; findings are answered in the next visit."""
    bench = Bench(state, context, "N1_test_plan")
    plan = _revised_plan(bench, state) if state.get("plan_reviews") else planned(bench.lld)
    if not plan:
        raise DesignRefused(f"{state['lld_path']} names neither a requirement nor a scenario: nothing can be tested.")
    bench.record("test-plan", plan_text(plan))
    verdict = _plan_review(bench, plan)
    data = review_data(verdict)
    bench.record("verdict-plan", json.dumps(data, indent=1))
    return ImplementationState(
        plan=plan,
        plan_reviews=[*state.get("plan_reviews", []), data],
        plan_reviewer=bench.settings.models.reviewer,
        **bench.books(),
    )


def _plan_review(bench: Bench, plan: Sequence[Mapping[str, Any]]) -> Review:
    prompt = bench.prompt("review_plan", plan=as_data(plan_text(plan), "the test plan"))
    try:
        reviewer = bench.settings.models.reviewer
        reply = bench.ask(prompt, "review_plan", model=reviewer, output_type=review_model(), plan=plan)
        return parse_review(reply.output.model_dump(mode="json"))
    except (InvalidOutputError, InvalidReview, ModelRequestError, ProviderUnavailableError) as error:
        return unverified(str(error))


def _revised_plan(bench: Bench, state: ImplementationState) -> list[dict[str, Any]]:
    findings = stored_review(state["plan_reviews"][-1]).findings
    words = "\n".join(f"- [{finding.tier.value}] {finding.section}: {finding.text}" for finding in findings)
    prompt = bench.prompt(
        "revise_plan",
        findings=as_data(words, "what to change"),
        plan=as_data(plan_text(state["plan"]), "the test plan"),
    )
    try:
        reply = bench.ask(prompt, "revise_plan", model=bench.coder, output_type=_plan_model())
    except InvalidOutputError:
        return state["plan"]
    return with_changes(state["plan"], [scenario.model_dump() for scenario in reply.output.scenarios])


def scaffold_tests(state: ImplementationState, context: Context) -> ImplementationState:
    """Tests for the whole plan, written before the code and committed as the branch's first round."""
    bench = Bench(state, context, "N2_scaffold_tests")
    complaint = state.get("red_complaint", "")
    prompt = bench.prompt(
        "tests",
        plan=as_data(plan_text(state["plan"]), "the test plan"),
        context=bench.digest(),
        files=bench.shown_files([*bench.listed_files, *state.get("test_files", [])], "file"),
        complaint=as_data(complaint, "what is wrong with your tests") if complaint else "",
    )
    answer = bench.ask_for_files(prompt, "tests", bench.policy(), _only_tests, complaint=complaint)
    head = bench.commit(f"Tests for {_label(state)}, before the code")
    changed = bench.place.changed_files(state["base_commit"])
    return ImplementationState(
        head=head,
        scaffolds=state.get("scaffolds", 0) + 1,
        test_files=[path for path in changed if is_test_path(path) and (bench.place.path / path).is_file()],
        **_noted(state, answer),
        **bench.books(),
    )


def _only_tests(operation: FileOperation) -> str | None:
    return (
        None if is_test_path(operation.path) else "only tests are written in this step, in the project's test folder"
    )


def verify_red(state: ImplementationState, context: Context) -> ImplementationState:
    """The new tests are collected and fail because the code is missing."""
    bench = Bench(state, context, "N3_verify_red")
    if not state["test_files"]:
        why = state.get("refusals", [])[-1:] or ["the answer has no test file"]
        return ImplementationState(red={"words": "no test was written"}, red_complaint=why[0])
    before = stored_report(state["suite_before"])
    report = bench.tests().new_tests(state["test_files"], before)
    verdict = judge_red(report, modules_under_test=_modules(bench))
    return ImplementationState(
        red={
            **report_data(report),
            "words": verdict.words(),
            "failing": list(verdict.failing_rightly),
            "passing_already": list(verdict.passing_already),
        },
        red_complaint="" if verdict.is_red else _red_complaint(verdict, report),
    )


def _modules(bench: Bench) -> set[str]:
    """The project's own modules: a failing import of anything else is a missing dependency."""
    known = (*bench.place.python_files(), *bench.listed_files)
    names = {name for path in known if (name := module_name(path))}
    return names | {name.partition(".")[0] for name in names}


def _red_complaint(verdict: RedVerdict, report: SuiteReport) -> str:
    lines = [verdict.words(), *(f"- {failure.id}: {failure.why}" for failure in verdict.wrong[:20])]
    if not verdict.failing_rightly and verdict.passing_already:
        lines.append("Every test passes before any code is written: test what the design adds.")
    return "\n".join([*lines, report.output[-2000:]])


def implement(state: ImplementationState, context: Context) -> ImplementationState:
    """One round of code, committed. An answer that is refused twice leaves the round as it was."""
    bench = Bench(state, context, "N4_implement")
    number = len(state.get("rounds", [])) + 1
    feedback = state.get("feedback", "")
    prompt = bench.prompt(
        "implement",
        round=str(number),
        coverage_target=str(state["coverage_target"]),
        tests=bench.shown_files(state["test_files"], "test"),
        files=bench.shown_files(rounds.code_files(bench.place, state, bench.listed_files), "file"),
        context=bench.digest(),
        feedback=as_data(feedback, "how the last round went") if feedback else "",
    )
    answer = bench.ask_for_files(prompt, "code", bench.policy(frozen=state["test_files"]), _no_tests, round=number)
    head = bench.commit(f"{_label(state)}, round {number}")
    return ImplementationState(head=head, **_noted(state, answer), **bench.books(), coder=bench.coder)


def _no_tests(operation: FileOperation) -> str | None:
    return "tests are written before the code and stay as they are" if is_test_path(operation.path) else None


def _noted(state: ImplementationState, answer: Answer) -> ImplementationState:
    """Refusals, deviations and decisions, added to those known."""
    refusals = [problem.words() for error in answer.refusals for problem in error.problems]
    known = {entry["path"]: entry for entry in state.get("deviations", [])}
    known |= {entry.path: {"path": entry.path, "reason": entry.reason} for entry in answer.deviations}
    decisions = dict.fromkeys((*state.get("decisions", []), *answer.decisions))
    return ImplementationState(
        refusals=[*state.get("refusals", []), *refusals],
        deviations=list(known.values()),
        decisions=list(decisions),
    )


def verify_green(state: ImplementationState, context: Context) -> ImplementationState:
    """The new tests pass, changed files are covered, and the project's own tests are not worse than before."""
    bench = Bench(state, context, "N5_verify_green")
    place, tests = bench.place, bench.tests()
    before = stored_report(state["suite_before"])
    changed = rounds.changed_code(place, state["base_commit"])
    expected = [
        test_id
        for path in state["test_files"]
        for test_id in defined_tests(path, (place.path / path).read_text(encoding="utf-8", errors="replace"))
    ]
    report = tests.new_tests(state["test_files"], before)
    suite = tests.suite(measure=changed) if report.is_success else None
    verdict = judge_green(
        replace(
            report,
            coverage=suite.coverage if suite else None,
            coverage_problem=suite.coverage_problem if suite else "the new tests do not pass yet",
        ),
        expected=expected,
        changed_files=changed,
        coverage_target=state["coverage_target"],
        suite_before=before,
        suite_after=suite,
    )
    failing = rounds.failing_ids(verdict, state["test_files"], expected)
    entry = {
        "failing": sorted(failing),
        "coverage": verdict.coverage_percent,
        "commit": state["head"],
        "words": verdict.words(),
    }
    green = _green_data(verdict, report, suite)
    so_far = [*state.get("rounds", []), entry]
    return ImplementationState(
        rounds=so_far,
        green=green,
        best_green=green if ending.is_best(so_far) else state.get("best_green", green),
        feedback="" if verdict.is_green_as_far_as_known else rounds.feedback(verdict, report, suite, state),
    )


def _green_data(verdict: GreenVerdict, report: SuiteReport, suite: SuiteReport | None) -> dict[str, Any]:
    measured = (suite.coverage if suite else None) or {}
    return {
        "is_green": verdict.is_green_as_far_as_known,
        "words": verdict.words(),
        "unverified": list(verdict.unverified),
        "coverage": verdict.coverage_percent,
        "by_file": {path: round(file.percent, 1) for path, file in measured.items()},
        "excluded": {path: file.excluded for path, file in measured.items() if file.excluded},
        "new_tests": report_data(report),
        "suite": report_data(suite) if suite else None,
    }


def report(state: ImplementationState, context: Context) -> ImplementationState:
    """The outcome, the best round put back when there is no good one, and the reports on the branch."""
    bench = Bench(state, context, "N6_report")
    outcome, reason = ending.conclusion(state, bench.settings.implementation.max_rounds)
    best = ending.round_to_restore(state, outcome)
    if best is not None:
        restore(bench.place.worktree, state["rounds"][best]["commit"], f"Back to round {best + 1}, the best", AUTHOR)
    concluded: Any = {**state, "outcome": outcome, "reason": reason}
    if best is not None:
        concluded["green"] = state["best_green"]
    changed = bench.place.changed_files(state["base_commit"])
    folder = f"{bench.settings.documents.reports_dir}/{state['item_id']}"
    documents: dict[str, str | None] = {
        f"{folder}/implementation-report.md": reports.implementation_report(
            concluded, bench.lld, changed, restored=best, commits=bench.settings.implementation.commits
        ),
        f"{folder}/test-report.md": reports.test_report(concluded, restored=best),
    }
    bench.place.put_files(documents)
    head = bench.commit(f"Reports for {_label(state)}")
    return ImplementationState(head=head, outcome=outcome, reason=reason)


def finalize(state: ImplementationState, context: Context) -> ImplementationState:
    """The finished design moves to its done folder on the branch; commits are squashed if so chosen."""
    bench = Bench(state, context, "N7_finalize")
    if state["outcome"] != ending.IMPLEMENTED:
        return ImplementationState(final_commit=bench.place.worktree.git().text("rev-parse", "HEAD"))
    documents = bench.settings.documents
    name = f"LLD-{state['item_id']}.md"
    moved: dict[str, str | None] = {f"{documents.lld_done_dir}/{name}": state["lld_text"], state["lld_path"]: None}
    bench.place.put_files(moved)
    head = bench.commit(f"{_label(state)} is done")
    if bench.settings.implementation.commits == "squash":
        head = squash(bench.place.worktree, state["base_commit"], _final_message(state), AUTHOR)
    record = Implemented(
        document_hash=document_hash(state["lld_text"]),
        branch=state["branch"],
        commit=head,
        base=state["base"],
        title=" ".join(state["title"].split()),
    )
    context.write_document(record_path(bench.project_dir, state["item_id"]), as_text(record))
    return ImplementationState(head=head, final_commit=head)


def _final_message(state: ImplementationState) -> str:
    title = " ".join(state["title"].split())[:72]
    count = len(state["rounds"])
    return (
        f"{title}\n\nImplements {_label(state)} ({state['lld_path']}), {count} round{'' if count == 1 else 's'}.\n"
        f"The design was {state['approval']}.\n"
    )


def _label(state: ImplementationState) -> str:
    return f"LLD-{state['item_id']}"


def _plan_model() -> type[Any]:
    # Pydantic loads with the SDKs; only a plan that needs revision needs it.
    from pydantic import BaseModel, Field  # noqa: PLC0415

    class PlannedScenario(BaseModel):
        id: str = Field(description="of a scenario to change, or a new one")
        scenario: str
        requirements: list[str] = Field(description="numbers of the requirements it checks")
        expected: str = ""

    class PlanRevision(BaseModel):
        scenarios: list[PlannedScenario]

    return PlanRevision

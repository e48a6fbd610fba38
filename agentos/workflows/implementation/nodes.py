"""The implementation workflow's nodes: from an approved design to a branch with passing tests.

Every node starts from the commit the last finished node left, so that one that runs again after a kill does the same.
"""

from __future__ import annotations

import glob
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any, Final

from agentos.codebase.context import build_context
from agentos.documents.approval import REHEARSER, Absent, Changed, Intact, document_hash, verify_approval
from agentos.documents.findings import errors
from agentos.documents.lld import parse_lld
from agentos.documents.unapproved import bare
from agentos.documents.verdict import (
    InvalidReview,
    Review,
    parse_review,
    review_data,
    review_model,
    unverified,
)
from agentos.errors import UndecidedError
from agentos.git.commits import restore, squash
from agentos.git.worktrees import branch_of
from agentos.hints import Hint
from agentos.llm import InvalidOutputError
from agentos.workflows import model_options
from agentos.workflows.context import Context
from agentos.workflows.document_checks import check_document
from agentos.workflows.implementation import ending, reports, rounds
from agentos.workflows.implementation.assertions import without_assertion
from agentos.workflows.implementation.branch import (
    AUTHOR,
    base_name,
    choose_base,
    folder_of,
    open_repository,
    start_branch,
)
from agentos.workflows.implementation.clean_checkout import clean_checkout
from agentos.workflows.implementation.file_operations import PROTECTED, FileOperation, Policy, matches
from agentos.workflows.implementation.judging import (
    GreenVerdict,
    RedVerdict,
    Round,
    best_round,
    defined_tests,
    is_test_file,
    judge_green,
    judge_red,
    module_name,
)
from agentos.workflows.implementation.model_calls import WORKFLOW as WORKFLOW
from agentos.workflows.implementation.model_calls import NodeCalls
from agentos.workflows.implementation.project_tests import ProjectTests, is_test_path
from agentos.workflows.implementation.project_worktree import ProjectWorktree, open_worktree, slug_of
from agentos.workflows.implementation.proof import Claim, Proof, prove
from agentos.workflows.implementation.records import Implemented, as_text, attempt_path, record_path
from agentos.workflows.implementation.stacking import stacks_on
from agentos.workflows.implementation.state import (
    IMPLEMENTED,
    REHEARSED,
    Baseline,
    Green,
    ImplementationState,
    ImplementationUpdate,
    Red,
    Scaffold,
    SuitePlan,
)
from agentos.workflows.implementation.suite_environment import Surroundings, UnusableEnvironment, environment_problem
from agentos.workflows.implementation.suite_plan import (
    PlannedScenario,
    coverage_target,
    plan_text,
    planned,
    with_changes,
)
from agentos.workflows.implementation.suite_report import SuiteReport
from agentos.workflows.implementation.suspicious_code import find_tricks, in_words, modules_among_tests
from agentos.workflows.prompts import as_data

_AROUND_A_WORD: Final = "'\"();&|"


class DesignRefused(UndecidedError):
    """The design is not one to write code from."""


def load(state: ImplementationState, context: Context) -> ImplementationUpdate:
    """Refuse what nobody approved, start the item's branch, and see how the project's own tests do before."""
    approval = _approval_words(state, context)
    calls = NodeCalls(state, context)
    calls.record("design", state["lld_text"])
    for path_of in (record_path, attempt_path):
        path_of(context.project_dir, state["item_id"]).unlink(missing_ok=True)
    baseline = _start(state, context, approval)
    return {
        "baseline": baseline,
        "head": baseline.commit,
        "plan": SuitePlan(),
        "scaffold": Scaffold(),
        "red": Red(),
        "green": None,
        "best_green": None,
        "coder": "",
        "outcome": "",
        "reason": "",
        **calls.update(),
    }


def _start(state: ImplementationState, context: Context, approval: str) -> Baseline:
    settings = context.settings
    repository = open_repository(context.project_dir, settings)
    folder = folder_of(context.project_dir, repository)
    before = [*state["depends_on"], *stacks_on(state["item_id"], context.project_dir, settings)]
    base = choose_base(repository, settings, before, folder=folder, prefix=state["branch_prefix"])
    worktree, commit = start_branch(repository, settings, slug_of(state), base, folder=folder)
    ProjectWorktree(worktree, folder).clear()
    with clean_checkout(context, commit) as checkout, checkout.fresh() as place:
        suite = ProjectTests(context, place).suite()
        if problem := environment_problem(suite, _surroundings(context, checkout.worktree)):
            raise UnusableEnvironment(f"No model was asked: {problem}.")
    return Baseline(
        approval=approval,
        base=base_name(repository, base),
        commit=commit,
        branch=branch_of(slug_of(state)),
        folder=folder,
        coverage_target=coverage_target(state["lld_text"], settings.implementation.coverage_target),
        suite=suite.kept(),
    )


def _surroundings(context: Context, clean: ProjectWorktree) -> Surroundings:
    modules = clean.submodules()
    return Surroundings(
        tracked=frozenset(clean.python_files()),
        has_file=lambda path: (context.project_dir / path).is_file(),
        empty_submodules=[path for path in modules if not any((clean.path / path).glob("*"))],
    )


def _approval_words(state: ImplementationState, context: Context) -> str:
    match verify_approval(state["lld_text"]):
        case Intact(approval=approval) if approval.is_rehearsal and context.settings.models.who_codes == REHEARSER:
            return f"rehearsed by {approval.reviewer} at {approval.approved_at}"
        case Intact(approval=approval) if approval.is_rehearsal:
            problem = "was approved by the offline model alone, which is a rehearsal"
        case Intact(approval=approval):
            return f"approved by {approval.reviewer} at {approval.approved_at}"
        case Changed(what=what):
            problem = f"changed since it was approved ({what})"
        case Absent():
            problem = "carries no approval"
    if context.allows_unapproved:
        return f"NOT APPROVED, allowed by --allow-unapproved: it {problem}"
    raise DesignRefused(f"{state['lld_path']} {problem}{_ways_out(state, context)}, or give --allow-unapproved.")


def _ways_out(state: ImplementationState, context: Context) -> str:
    label, models = _label(state), _models_for_review(state, context)
    if errors(check_document("lld", bare(state["lld_text"]), state["item_id"], context.project_dir)):
        return f" and does not pass the check. See why (`{Hint.LOOK_AT_REVIEW.line(label=label)}`)"
    return (
        f". Approve it as it stands (`{Hint.APPROVE.line(label=label)}`), have it reviewed "
        f"(`{Hint.REVIEW_AGAIN.line(label=label, options=models)}`)"
    )


def _models_for_review(state: ImplementationState, context: Context) -> str:
    made_with = model_options.of_maker(context.project_dir, "lld", state["item_id"])
    return made_with or model_options.of_run(context.project_dir, context.settings.models)


def test_plan(state: ImplementationState, context: Context) -> ImplementationUpdate:
    """A scenario for every requirement, reviewed; findings are answered in the next visit."""
    calls = NodeCalls(state, context)
    last = state["plan"]
    scenarios = _revised_plan(calls, last) if last.reviews else planned(parse_lld(state["lld_text"]))
    if not scenarios:
        raise DesignRefused(f"{state['lld_path']} names neither a requirement nor a scenario: nothing can be tested.")
    calls.record("test-plan", plan_text(scenarios))
    reviewer = context.settings.models.reviewer
    verdict = _plan_review(calls, scenarios, reviewer)
    calls.record("verdict-plan", json.dumps(review_data(verdict), indent=1))
    return {"plan": SuitePlan(scenarios, (*last.reviews, verdict), reviewer), **calls.update()}


def _plan_review(calls: NodeCalls, scenarios: Sequence[PlannedScenario], reviewer: str) -> Review:
    prompt = calls.prompt("review_plan", plan=as_data(plan_text(scenarios), "the test plan"))
    try:
        reply = calls.ask(prompt, "review_plan", model=reviewer, output_type=review_model(), plan=scenarios)
        return parse_review(reply.output.model_dump(mode="json"))
    except (InvalidOutputError, InvalidReview) as error:
        return unverified(str(error))


def _revised_plan(calls: NodeCalls, last: SuitePlan) -> tuple[PlannedScenario, ...]:
    findings = last.reviews[-1].findings
    words = "\n".join(f"- [{finding.tier.value}] {finding.section}: {finding.text}" for finding in findings)
    prompt = calls.prompt(
        "revise_plan",
        findings=as_data(words, "what to change"),
        plan=as_data(plan_text(last.scenarios), "the test plan"),
    )
    try:
        reply = calls.ask(prompt, "revise_plan", model=calls.coder, output_type=_plan_model())
    except InvalidOutputError:
        return last.scenarios
    changes = [
        PlannedScenario(change.id, change.scenario, tuple(change.requirements), change.expected)
        for change in reply.output.scenarios
    ]
    return with_changes(last.scenarios, changes)


def scaffold_tests(state: ImplementationState, context: Context) -> ImplementationUpdate:
    """Tests for the whole plan, written before the code and committed as the branch's first round."""
    calls, worktree = NodeCalls(state, context), open_worktree(state, context)
    plan, last, complaint = state["plan"].scenarios, state["scaffold"], state["red"].complaint
    prompt = calls.prompt(
        "tests",
        plan=as_data(plan_text(plan), "the test plan"),
        context=_digest(worktree, state, context),
        files=worktree.shown_files([*_listed_files(state), *last.files], "file"),
        complaint=as_data(complaint, "what is wrong with your tests") if complaint else "",
    )
    written = calls.ask_for_files(
        worktree, prompt, "tests", _policy(worktree, state, context), _only_tests, plan=plan
    )
    head = worktree.commit(f"Tests for {_label(state)}, before the code")
    changed = worktree.changed_files(state["baseline"].commit)
    files = tuple(path for path in changed if is_test_path(path) and (worktree.path / path).is_file())
    return {"head": head, "scaffold": Scaffold(files, last.attempts + 1), **written.update(), **calls.update()}


def _digest(worktree: ProjectWorktree, state: ImplementationState, context: Context) -> str:
    """What the code base looks like as it stands in the worktree."""
    budget = context.settings.limits.context_tokens
    return build_context(worktree.path, state["lld_text"], token_budget=budget)


def _listed_files(state: ImplementationState) -> tuple[str, ...]:
    return parse_lld(state["lld_text"]).listed_files


def _policy(
    worktree: ProjectWorktree, state: ImplementationState, context: Context, *, frozen: Sequence[str] = ()
) -> Policy:
    listed, documents = _listed_files(state), context.settings.documents
    folders = (documents.lld_dir, documents.lld_done_dir, documents.reports_dir)
    found = verify_approval(state["lld_text"])
    is_approved = isinstance(found, Intact) and not found.approval.is_rehearsal
    return Policy(
        listed=listed,
        frozen=tuple(frozen),
        submodules=worktree.submodules(),
        protected=(*_judging_files(context), *(f"{folder.casefold()}/*" for folder in folders)),
        granted=listed if is_approved else (),
    )


def _judging_files(context: Context) -> tuple[str, ...]:
    """What runs by itself or judges code; so does a script that the user's own commands name."""
    settings = context.settings
    words = f"{settings.implementation.test} {settings.workstreams.setup}".casefold().split()
    scripts = (PurePosixPath(word.strip(_AROUND_A_WORD)).as_posix() for word in words)
    return (*PROTECTED, *(f"*/{glob.escape(script)}" for script in scripts))


def _only_tests(operation: FileOperation) -> str | None:
    return (
        None if is_test_path(operation.path) else "only tests are written in this step, in the project's test folder"
    )


def verify_red(state: ImplementationState, context: Context) -> ImplementationUpdate:
    """The new tests are collected and fail because the code is missing."""
    files = state["scaffold"].files
    if not files:
        why = state["refusals"][-1] if state["refusals"] else "the answer has no test file"
        return {"red": Red(words="no test was written", complaint=why)}
    worktree = open_worktree(state, context)
    if idle := _without_assertion(worktree, state):
        words = f"{len(idle)} without an assertion ({idle[0]})"
        return {"red": Red(words=words, complaint=f"{words}: a test says what must hold.\n" + "\n".join(idle[:20]))}
    with clean_checkout(context, state["head"]) as checkout, checkout.fresh() as place:
        report = ProjectTests(context, place).new_tests(files, state["baseline"].suite)
    verdict = judge_red(report, modules_under_test=_modules(worktree, state))
    red = Red(
        words=verdict.words(),
        run=report.kept(),
        passing_already=tuple(test for test in verdict.passing_already if test not in _known(state)),
        complaint="" if verdict.is_red else _red_complaint(verdict, report),
    )
    return {"red": red}


def _known(state: ImplementationState) -> set[str]:
    """Tests of the project before the change, by id: they pass, and are not new."""
    return {case.id for case in state["baseline"].suite.cases or ()}


def _without_assertion(worktree: ProjectWorktree, state: ImplementationState) -> list[str]:
    """New and changed tests that could not fail if the code were wrong, by id."""
    others = {path: worktree.text(path) for path in worktree.python_files() if is_test_path(path)}
    base = state["baseline"].commit
    under_test = {module_name(path) or "" for path in _listed_files(state) if not is_test_path(path)}
    return [
        f"{path}::{name}"
        for path in state["scaffold"].files
        if path in others and is_test_file(path)
        for name in without_assertion(others[path], others, worktree.text_at(base, path), under_test=under_test)
    ]


def _modules(worktree: ProjectWorktree, state: ImplementationState) -> set[str]:
    """The project's own modules: a failing import of anything else is a missing dependency."""
    known = (*worktree.python_files(), *_listed_files(state))
    names = {name for path in known if (name := module_name(path))}
    return names | {name.partition(".")[0] for name in names}


def _red_complaint(verdict: RedVerdict, report: SuiteReport) -> str:
    lines = [verdict.words(), *(f"- {failure.id}: {failure.why}" for failure in verdict.wrong[:20])]
    if not verdict.failing_rightly and verdict.passing_already:
        lines.append("Every test passes before any code is written: test what the design adds.")
    return "\n".join([*lines, report.output[-2000:]])


def implement(state: ImplementationState, context: Context) -> ImplementationUpdate:
    """One round of code, committed. An answer that is refused twice leaves the round as it was."""
    calls, worktree = NodeCalls(state, context), open_worktree(state, context)
    baseline, tests, green = state["baseline"], state["scaffold"].files, state["green"]
    number = len(state["rounds"]) + 1
    prompt = calls.prompt(
        "implement",
        round=str(number),
        coverage_target=str(baseline.coverage_target),
        tests=worktree.shown_files(tests, "test"),
        files=worktree.shown_files(rounds.code_files(worktree, baseline.commit, _listed_files(state)), "file"),
        context=_digest(worktree, state, context),
        feedback=as_data(green.feedback, "how the last round went") if green else "",
    )
    written = calls.ask_for_files(
        worktree, prompt, "code", _policy(worktree, state, context, frozen=tests), _no_tests
    )
    head = worktree.commit(f"{_label(state)}, round {number}")
    return {"head": head, "coder": calls.coder, **written.update(), **calls.update()}


def _no_tests(operation: FileOperation) -> str | None:
    return "tests are written before the code and stay as they are" if is_test_path(operation.path) else None


def verify_green(state: ImplementationState, context: Context) -> ImplementationUpdate:
    """The new tests pass, changed files are covered, and the project's own tests are not worse than before."""
    worktree = open_worktree(state, context)
    files, baseline = state["scaffold"].files, state["baseline"]
    changed = rounds.changed_code(worktree, baseline.commit)
    expected = [test_id for path in files for test_id in defined_tests(path, worktree.text(path))]
    expected += sorted(state["red"].seen_with_parameters)
    lines = {path: worktree.changed_lines(baseline.commit, path) for path in changed}
    claim = Claim(
        baseline=baseline,
        commit=state["head"],
        listed=_listed_files(state),
        tests=files,
        code=changed,
        changed_lines=lines,
        passing_already=state["red"].passing_already,
    )
    proof = prove(context, claim, lambda so_far: _verdict(so_far, claim, expected).is_green_as_far_as_known)
    verdict = _verdict(proof, claim, expected)
    failing = rounds.failing_ids(verdict, files, expected)
    entry = Round(failing, verdict.coverage_percent, commit=state["head"], words=verdict.words())
    green = _green(verdict, proof, claim, state["refusals"])
    so_far = [*state["rounds"], entry]
    is_best = best_round(so_far) == len(so_far) - 1
    return {"rounds": [entry], "green": green, "best_green": green if is_best else state["best_green"]}


def _verdict(proof: Proof, claim: Claim, expected: Sequence[str]) -> GreenVerdict:
    report, suite, baseline = proof.new_tests, proof.suite, claim.baseline
    verdict = judge_green(
        replace(
            report,
            coverage=suite.coverage if suite else None,
            coverage_problem=suite.coverage_problem if suite else "the new tests do not pass yet",
        ),
        expected=expected,
        changed_files=claim.code,
        changed_lines=claim.changed_lines,
        coverage_target=baseline.coverage_target,
        suite_before=baseline.suite,
        suite_after=suite,
        former=proof.former,
        owed=proof.owed,
        excused=proof.excused,
    )
    return replace(
        verdict,
        problem=verdict.problem or proof.forgery,
        weakness=proof.weakness,
        unverified=(*verdict.unverified, *proof.unverified),
    )


def _green(verdict: GreenVerdict, proof: Proof, claim: Claim, refusals: Sequence[str]) -> Green:
    report, suite = proof.new_tests, proof.suite
    measured = (suite.coverage if suite else None) or {}
    is_green = verdict.is_green_as_far_as_known
    return Green(
        is_green=is_green,
        unverified=verdict.unverified,
        coverage_percent=verdict.coverage_percent,
        by_file={path: round(file.percent, 1) for path, file in measured.items()},
        by_change={
            path: round(file.only(claim.changed_lines.get(path)).percent, 1) for path, file in measured.items()
        },
        excluded={path: file.excluded for path, file in measured.items() if file.excluded},
        new_tests=report.kept(),
        suite=suite.kept() if suite else None,
        former=proof.former.kept() if proof.former else None,
        mutants=proof.mutation.tried if proof.mutation else (),
        mutants_noticed=proof.mutation.noticed if proof.mutation else 0,
        unmoved=proof.mutation.unmoved if proof.mutation and proof.mutation.tried else (),
        reached=proof.reached,
        weakness=verdict.weakness,
        feedback="" if is_green else rounds.feedback(verdict, report, suite, refusals),
    )


def report(state: ImplementationState, context: Context) -> ImplementationUpdate:
    """The outcome, the best round put back when there is no good one, and the reports on the branch."""
    worktree, chosen = open_worktree(state, context), context.settings.implementation
    outcome, reason = ending.conclusion(state, chosen.max_rounds)
    best = ending.round_to_restore(state, outcome)
    concluded: ImplementationState = {**state, "outcome": outcome, "reason": reason}
    if best is not None:
        restore(worktree.worktree, state["rounds"][best].commit, f"Back to round {best + 1}, the best", AUTHOR)
        concluded["green"] = state["best_green"]
    changed = worktree.changed_files(state["baseline"].commit)
    folder = f"{context.settings.documents.reports_dir}/{state['item_id']}"
    documents: dict[str, str | None] = {
        f"{folder}/implementation-report.md": reports.implementation_report(
            concluded,
            changed,
            restored=best,
            commits=chosen.commits,
            protected=[path for path in changed if matches(path, _judging_files(context))],
            tricks=_tricks(worktree, state, changed),
        ),
        f"{folder}/test-report.md": reports.test_report(concluded, restored=best),
    }
    worktree.put_files(documents)
    head = worktree.commit(f"Reports for {_label(state)}")
    return {"head": head, "outcome": outcome, "reason": reason}


def _tricks(worktree: ProjectWorktree, state: ImplementationState, changed: Sequence[str]) -> dict[str, str]:
    """By file, what its new lines use that code under test has no use for."""
    base, files = state["baseline"].commit, worktree.python_files()
    among_tests = modules_among_tests(
        [path for path in files if is_test_path(path)], [path for path in files if not is_test_path(path)]
    )
    found = {
        path: find_tricks(
            worktree.text(path),
            worktree.changed_lines(base, path),
            is_test=is_test_path(path),
            among_tests=among_tests,
        )
        for path in changed
        if path.endswith(".py") and (worktree.path / path).is_file()
    }
    return {path: in_words(tricks) for path, tricks in found.items() if tricks}


def finalize(state: ImplementationState, context: Context) -> ImplementationUpdate:
    """The finished design moves to its done folder on the branch; commits are squashed if so chosen."""
    worktree, baseline = open_worktree(state, context), state["baseline"]
    if state["outcome"] not in (IMPLEMENTED, REHEARSED):
        head = worktree.worktree.git().text("rev-parse", "HEAD")
        if ending.is_the_works_own(state):
            record = replace(_record(state, head), reason=state["reason"])
            context.write_document(attempt_path(context.project_dir, state["item_id"]), as_text(record))
        return {"final_commit": head}
    head, is_rehearsal = state["head"], state["outcome"] == REHEARSED
    if not is_rehearsal:
        done_path = f"{context.settings.documents.lld_done_dir}/{_label(state)}.md"
        worktree.put_files({done_path: state["lld_text"], state["lld_path"]: None})
        head = worktree.commit(f"{_label(state)} is done")
    if context.settings.implementation.commits == "squash":
        head = squash(worktree.worktree, baseline.commit, _final_message(state), AUTHOR)
    record = replace(_record(state, head), is_rehearsal=is_rehearsal)
    context.write_document(record_path(context.project_dir, state["item_id"]), as_text(record))
    return {"head": head, "final_commit": head}


def _record(state: ImplementationState, commit: str) -> Implemented:
    baseline = state["baseline"]
    return Implemented(
        document_hash=document_hash(state["lld_text"]),
        branch=baseline.branch,
        commit=commit,
        base=baseline.base,
        started=baseline.commit,
        title=" ".join(state["title"].split()),
    )


def _final_message(state: ImplementationState) -> str:
    title = " ".join(state["title"].split())[:72]
    count = len(state["rounds"])
    what = "Rehearses" if state["outcome"] == REHEARSED else "Implements"
    return (
        f"{title}\n\n{what} {_label(state)} ({state['lld_path']}), {count} round{'' if count == 1 else 's'}.\n"
        f"The design was {state['baseline'].approval}.\n"
    )


def _label(state: ImplementationState) -> str:
    return f"LLD-{state['item_id']}"


def _plan_model() -> type[Any]:
    # Pydantic loads with the SDKs; only a plan that needs revision needs it.
    from pydantic import BaseModel, Field  # noqa: PLC0415

    class ScenarioChange(BaseModel):
        id: str = Field(description="of a scenario to change, or a new one")
        scenario: str
        requirements: list[str] = Field(description="numbers of the requirements it checks")
        expected: str = ""

    class PlanRevision(BaseModel):
        scenarios: list[ScenarioChange]

    return PlanRevision

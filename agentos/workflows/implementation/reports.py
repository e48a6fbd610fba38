"""The two reports an implemented design leaves: what changed and how it was tested (pure)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from agentos.documents.files import FileChange
from agentos.documents.lld import Lld, parse_lld
from agentos.git.worktrees import BRANCH_PREFIX
from agentos.text.words import counted
from agentos.workflows.implementation.state import IMPLEMENTED, ImplementationState
from agentos.workflows.implementation.suite_plan import coverage_target
from agentos.workflows.implementation.suite_report import CaseStatus, Reached, SuiteReport

_MOST_REACHED = 8


def implementation_report(
    state: ImplementationState,
    changed: Sequence[str],
    *,
    restored: int | None,
    commits: str,
    protected: Sequence[str] = (),
    tricks: Mapping[str, str] | None = None,
) -> str:
    """What was done against what the design says: files, rounds, decisions, deviations, models, cost.

    `protected` are those of the changed files that are for a person to look at first.
    """
    lld, first = parse_lld(state["lld_text"]), _look_first(state, protected, tricks or {})
    sections = [
        f"# Implementation of LLD-{state['item_id']}: {_line(state['title'])}",
        *([f"## Look at this first\n\n{_bullets(first)}"] if first else []),
        _facts(state),
        "## Files against the design\n\n" + _table(("File", "Design", "Branch"), _file_rows(lld, changed)),
        "## Rounds\n\n" + (_table(("Round", "Result", "Coverage"), _round_rows(state)) or "No code was written.\n"),
    ]
    if restored is not None:
        sections.append(f"The branch holds round {restored + 1}, the best one; later rounds are in its history.\n")
    sections += [
        "## Decisions\n\n" + _bullets(_decisions(state, restored, commits)),
        "## Deviations\n\n" + _bullets([f"{_code(one.path)}: {_line(one.reason)}" for one in state["deviations"]]),
        "## Refused answers\n\n" + _bullets([_line(text) for text in state["refusals"]]),
        "## Test plan review\n\n" + _bullets(_review_lines(state)),
    ]
    return "\n\n".join(section.rstrip() for section in sections) + "\n"


def _look_first(state: ImplementationState, protected: Sequence[str], tricks: Mapping[str, str]) -> list[str]:
    """What a person should see before anything else."""
    lines = [f"{_code(path)} is changed, which is protected; the design lists it" for path in protected]
    lines += [
        f"{_code(path)} uses {_line(words)}: with that, code can tell that it is tested or change how it is judged"
        for path, words in sorted(tricks.items())
    ]
    green, early = state["green"], state["red"].passing_already
    passed_before = state["baseline"].suite.passed
    if green is not None and green.former is not None and (failing := green.former.failing & passed_before):
        names = ", ".join(map(_code, sorted(failing)[:5]))
        lines.append(
            f"Existing tests fail in their version from before this branch; the design lists their files: {names}"
        )
    if early:
        lines.append(f"{counted(len(early), 'new test')} passed before there was code ({_code(early[0])})")
    if green is not None:
        lines += [_reached_words(one) for one in green.reached[:_MOST_REACHED]]
        if green.unmoved:
            names = ", ".join(map(_code, green.unmoved[:5]))
            mistakes = counted(len(green.mutants), "mistake")
            lines.append(
                f"{counted(len(green.unmoved), 'new test')} noticed none of {mistakes} made on purpose ({names})"
            )
        lines += [
            f"{_code(path)} keeps {count} lines from being measured" for path, count in sorted(green.excluded.items())
        ]
    return lines


def _reached_words(one: Reached) -> str:
    who = f"{_code(one.path)} line {one.line}" if one.path else "Code on the branch"
    return f"{who} reached for {_code(one.what)} while tests ran: with that, code can change how it is judged"


def _facts(state: ImplementationState) -> str:
    usage, baseline = state["usage"], state["baseline"]
    tokens = f"{int(usage.get('input_tokens', 0))} in, {int(usage.get('output_tokens', 0))} out"
    facts = {
        "Outcome": state["outcome"].replace("_", " ") + (f": {_line(state['reason'])}" if state["reason"] else ""),
        "Design": f"`{state['lld_path']}`, {baseline.approval}",
        "Branch": f"`{baseline.branch}` from `{baseline.base}` ({baseline.commit[:12]})"
        + (f"; paths are in `{baseline.folder}`" if baseline.folder else ""),
        "Models": f"coder {state['coder'] or 'none'}, reviewer {state['plan'].reviewer or 'none'}",
        "Tokens": f"{tokens}; cost ${usage.get('cost_usd', 0.0):.4f}",
    }
    return "\n".join(f"- **{name}:** {value}" for name, value in facts.items())


def _file_rows(lld: Lld, changed: Sequence[str]) -> list[tuple[str, str, str]]:
    listed: dict[str, FileChange] = {}
    for change in lld.files:
        for path in (change.path, change.target):
            if path:
                listed[path.removeprefix("./")] = change
    rows = [
        (
            _code(path),
            str(change.change),
            "changed" if any(_covers(path, one) for one in changed) else "**not changed**",
        )
        for path, change in listed.items()
    ]
    unlisted = [path for path in changed if not any(_covers(entry, path) for entry in listed)]
    return rows + [(_code(path), "**not listed**", "changed") for path in unlisted]


def _covers(listed: str, path: str) -> bool:
    """A folder in the table stands for what is below it."""
    return path == listed or (listed.endswith("/") and path.startswith(listed))


def _decisions(state: ImplementationState, restored: int | None, commits: str) -> list[str]:
    """What was chosen on the way, by the workflow and, in its own words, by the coder."""
    baseline = state["baseline"]
    origin = (
        "as the design asks" if coverage_target(state["lld_text"], 0) else "the project's own: the design names none"
    )
    lines = [f"Coverage target {baseline.coverage_target} %, {origin}"]
    if baseline.base.startswith(BRANCH_PREFIX):
        why = "it depends on it, or both change the same file"
        lines.append(f"Built on `{baseline.base}`, which is not merged: {why}")
    lines += [
        f"Scenario {entry.id} was added to the design's: {_line(entry.scenario)}"
        for entry in state["plan"].scenarios
        if entry.is_added
    ]
    if state["scaffold"].attempts > 1:
        lines.append(f"The tests were written {state['scaffold'].attempts} times")
    if restored is not None:
        lines.append(f"Round {restored + 1} was put back as the best one")
    if state["outcome"] == IMPLEMENTED:
        lines.append("One commit for the whole change" if commits == "squash" else "One commit per round")
    return lines + [f"The coder: {_line(text)}" for text in state["decisions"]]


def _round_rows(state: ImplementationState) -> list[tuple[str, str, str]]:
    return [
        (str(number), _line(entry.words), _percent(entry.coverage_percent))
        for number, entry in enumerate(state["rounds"], start=1)
    ]


def _review_lines(state: ImplementationState) -> list[str]:
    lines = []
    for number, review in enumerate(state["plan"].reviews, start=1):
        findings = "; ".join(_line(finding.text) for finding in review.findings)
        said = ", ".join(part for part in (_line(review.summary), findings) if part)
        lines.append(f"Review {number}: {review.verdict}" + (f" ({said})" if said else ""))
    return lines


def test_report(state: ImplementationState, *, restored: int | None) -> str:
    """Scenario by scenario, then the runs behind it: red before, green after, coverage, commands."""
    sections = [
        f"# Tests of LLD-{state['item_id']}: {_line(state['title'])}",
        "## Scenarios\n\n" + _table(("ID", "Scenario", "Requirement", "Result"), _scenario_rows(state)),
        "## Before the code\n\n" + _bullets(_red_lines(state)),
        "## After the code\n\n" + _bullets(_green_lines(state, restored)),
        "## Tests\n\n" + _bullets(_case_lines(state)),
    ]
    return "\n\n".join(section.rstrip() for section in sections) + "\n"


def _scenario_rows(state: ImplementationState) -> list[tuple[str, str, str, str]]:
    """A scenario is tested by the tests that carry its id in their name; without any, all of them stand for it."""
    results = dict(_results(state))
    rows = []
    for entry in state["plan"].scenarios:
        own = {case: status for case, status in results.items() if _names_scenario(case, entry.id)}
        words = _verdict(own or results) + ("" if own or not results else ", by all tests together: none has its id")
        rows.append((entry.id, _line(entry.scenario), ", ".join(entry.requirements), words))
    return rows


def _names_scenario(case_id: str, scenario_id: str) -> bool:
    """`010` in `test_010_upper`, `REQ-1` in `test_req_1[x]`."""
    name, wanted = (re.sub(r"[\W_]+", "_", text.lower()) for text in (case_id.rpartition("::")[2], scenario_id))
    return f"_{wanted.strip('_')}_" in f"_{name}_"


def _results(state: ImplementationState) -> list[tuple[str, CaseStatus]]:
    """Of the new tests: after the code, or before it when there was none."""
    green = state["green"]
    run = green.new_tests if green else state["red"].run
    return [(case.id, case.status) for case in (run.cases if run else None) or ()]


def _verdict(results: Mapping[str, CaseStatus]) -> str:
    if not results:
        return "not run"
    failing = [case for case, status in results.items() if status is not CaseStatus.PASSED]
    return "passed" if not failing else f"**failed** ({_line(failing[0].rpartition('::')[2])})"


def _red_lines(state: ImplementationState) -> list[str]:
    before, red = state["baseline"].suite, state["red"]
    lines = [
        f"Isolation of this and every other run: {before.isolation.words()}",
        f"The project's own suite: {_run_words(before)}",
    ]
    if red.run:
        lines.append(f"New tests: {_run_words(red.run)}; {_line(red.words)}")
    return lines + [f"Passes already, without the code: {_code(case)}" for case in red.passing_already]


def _green_lines(state: ImplementationState, restored: int | None) -> list[str]:
    green, target = state["green"], state["baseline"].coverage_target
    if green is None:
        return []
    lines = [f"Of round {restored + 1}, which the branch holds"] if restored is not None else []
    lines.append(f"New tests: {_run_words(green.new_tests)}")
    if green.suite:
        lines.append(f"The project's own suite: {_run_words(green.suite)}")
    lines.append(f"Coverage of changed lines and branches: {_percent(green.coverage_percent)}, target {target} %")
    lines += [
        f"{_code(path)}: {green.by_change.get(path, percent):g} % where it is changed, "
        f"{percent:g} % of the whole file"
        for path, percent in sorted(green.by_file.items())
    ]
    if green.former:
        lines.append(f"With the tests as they were before: {_run_words(green.former)}")
    if green.mutants:
        noticed = f"{green.mutants_noticed} of {len(green.mutants)} mistakes made on purpose were noticed"
        lines.append(f"{noticed}: {_line('; '.join(green.mutants))}")
    lines += [
        f"{_code(path)} keeps {count} lines from being measured: see whether it should (`pragma: no cover`)"
        for path, count in sorted(green.excluded.items())
    ]
    return lines + [f"Not verified: {check}" for check in green.unverified]


def _case_lines(state: ImplementationState) -> list[str]:
    return [f"{_code(case)}: {status.value}" for case, status in _results(state)]


def _run_words(run: SuiteReport) -> str:
    if run.timed_out:
        ended = "did not end in time"
    elif run.cases is None:
        ended = f"exit code {run.exit_code}"
    else:
        ended = run.in_words() or "no test"
    return f"{ended} ({_code(run.command)})"


def _percent(value: float | None) -> str:
    return "not measured" if value is None else f"{value:.0f} %"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return ""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in lines) + "\n"


def _bullets(lines: Sequence[str]) -> str:
    return "\n".join(f"- {line}" for line in lines) or "None."


def _line(text: str) -> str:
    """Text that came from elsewhere, on one line: it starts no comment, table cell, link, image or code."""
    plain = " ".join(text.split()).replace("|", "/").replace("<", "‹").replace(">", "›").replace("`", "ˋ")
    return plain.replace("![", "! [").replace("](", "] (")


def _code(text: str) -> str:
    """A path or a name that came from elsewhere."""
    return f"`{_line(text)}`"

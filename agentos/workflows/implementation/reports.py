"""The two reports an implemented design leaves: what changed and how it was tested (pure)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from agentos.documents.lld import FileChange, Lld
from agentos.git.worktrees import BRANCH_PREFIX
from agentos.sandbox.bubblewrap import Isolation
from agentos.workflows.implementation.ending import IMPLEMENTED
from agentos.workflows.implementation.state import ImplementationState
from agentos.workflows.implementation.suite_plan import coverage_target


def implementation_report(
    state: ImplementationState, lld: Lld, changed: Sequence[str], *, restored: int | None, commits: str
) -> str:
    """What was done against what the design says: files, rounds, decisions, deviations, models, cost."""
    sections = [
        f"# Implementation of LLD-{state['item_id']}: {_line(state['title'])}",
        _facts(state),
        "## Files against the design\n\n" + _table(("File", "Design", "Branch"), _file_rows(lld, changed)),
        "## Rounds\n\n" + (_table(("Round", "Result", "Coverage"), _round_rows(state)) or "No code was written.\n"),
    ]
    if restored is not None:
        sections.append(f"The branch holds round {restored + 1}, the best one; later rounds are in its history.\n")
    sections += [
        "## Decisions\n\n" + _bullets(_decisions(state, restored, commits)),
        "## Deviations\n\n" + _bullets([f"`{d['path']}`: {_line(d['reason'])}" for d in state.get("deviations", [])]),
        "## Refused answers\n\n" + _bullets([_line(text) for text in state.get("refusals", [])]),
        "## Test plan review\n\n" + _bullets(_review_lines(state)),
    ]
    return "\n\n".join(section.rstrip() for section in sections) + "\n"


def _facts(state: ImplementationState) -> str:
    usage = state.get("usage", {})
    tokens = f"{int(usage.get('input_tokens', 0))} in, {int(usage.get('output_tokens', 0))} out"
    facts = {
        "Outcome": state["outcome"].replace("_", " ") + (f": {_line(state['reason'])}" if state["reason"] else ""),
        "Design": f"`{state['lld_path']}`, {state['approval']}",
        "Branch": f"`{state['branch']}` from `{state['base']}` ({state['base_commit'][:12]})"
        + (f"; paths are in `{state['folder']}`" if state.get("folder") else ""),
        "Models": f"coder {state.get('coder', 'none')}, reviewer {state.get('plan_reviewer', 'none')}",
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
            f"`{path}`",
            str(change.change),
            "changed" if any(_covers(path, one) for one in changed) else "**not changed**",
        )
        for path, change in listed.items()
    ]
    unlisted = [path for path in changed if not any(_covers(entry, path) for entry in listed)]
    return rows + [(f"`{path}`", "**not listed**", "changed") for path in unlisted]


def _covers(listed: str, path: str) -> bool:
    """A folder in the table stands for what is below it."""
    return path == listed or (listed.endswith("/") and path.startswith(listed))


def _decisions(state: ImplementationState, restored: int | None, commits: str) -> list[str]:
    """What was chosen on the way, by the workflow and, in its own words, by the coder."""
    target = state["coverage_target"]
    origin = (
        "as the design asks" if coverage_target(state["lld_text"], 0) else "the project's own: the design names none"
    )
    lines = [f"Coverage target {target} %, {origin}"]
    if state["base"].startswith(BRANCH_PREFIX):
        lines.append(f"Built on `{state['base']}`, which it depends on and which is not merged")
    lines += [
        f"Scenario {entry['id']} was added to the design's: {_line(entry['scenario'])}"
        for entry in state.get("plan", [])
        if entry["is_added"]
    ]
    if state.get("scaffolds", 0) > 1:
        lines.append(f"The tests were written {state['scaffolds']} times")
    if restored is not None:
        lines.append(f"Round {restored + 1} was put back as the best one")
    if state["outcome"] == IMPLEMENTED:
        lines.append("One commit for the whole change" if commits == "squash" else "One commit a round")
    return lines + [f"The coder: {_line(text)}" for text in state.get("decisions", [])]


def _round_rows(state: ImplementationState) -> list[tuple[str, str, str]]:
    return [
        (str(number), _line(entry["words"]), _percent(entry["coverage"]))
        for number, entry in enumerate(state.get("rounds", []), start=1)
    ]


def _review_lines(state: ImplementationState) -> list[str]:
    lines = []
    for number, review in enumerate(state.get("plan_reviews", []), start=1):
        findings = "; ".join(_line(finding["text"]) for finding in review["findings"])
        said = ", ".join(part for part in (_line(review["summary"]), findings) if part)
        lines.append(f"Review {number}: {review['verdict']}" + (f" ({said})" if said else ""))
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
    for entry in state.get("plan", []):
        own = {case: outcome for case, outcome in results.items() if _names_scenario(case, entry["id"])}
        words = _verdict(own or results) + ("" if own or not results else ", by all tests together: none has its id")
        rows.append((entry["id"], _line(entry["scenario"]), ", ".join(entry["requirements"]), words))
    return rows


def _names_scenario(case_id: str, scenario_id: str) -> bool:
    """`010` in `test_010_upper`, `REQ-1` in `test_req_1[x]`."""
    name, wanted = (re.sub(r"[\W_]+", "_", text.lower()) for text in (case_id.rpartition("::")[2], scenario_id))
    return f"_{wanted.strip('_')}_" in f"_{name}_"


def _results(state: ImplementationState) -> list[tuple[str, str]]:
    cases = (state.get("green") or state.get("red") or {}).get("new_tests", state.get("red", {})).get("cases")
    return [(str(case), str(outcome)) for case, outcome in cases or []]


def _verdict(results: Mapping[str, str]) -> str:
    if not results:
        return "not run"
    failing = [case for case, outcome in results.items() if outcome != "passed"]
    return "passed" if not failing else f"**failed** ({_line(failing[0].rpartition('::')[2])})"


def _red_lines(state: ImplementationState) -> list[str]:
    before, red = state["suite_before"], state.get("red", {})
    lines = [
        f"Isolation of this and every other run: {Isolation(before['isolation']).words()}",
        f"The project's own suite: {_run_words(before)}",
    ]
    if red.get("command"):
        lines.append(f"New tests: {_run_words(red)}; {_line(red['words'])}")
    lines += [f"Passes already, so it proves nothing new: `{case}`" for case in red.get("passing_already", [])]
    return lines


def _green_lines(state: ImplementationState, restored: int | None) -> list[str]:
    green = state.get("green")
    if not green:
        return []
    lines = [f"Of round {restored + 1}, which the branch holds"] if restored is not None else []
    lines.append(f"New tests: {_run_words(green['new_tests'])}")
    if green["suite"]:
        lines.append(f"The project's own suite: {_run_words(green['suite'])}")
    lines.append(f"Coverage of changed files: {_percent(green['coverage'])}, target {state['coverage_target']} %")
    lines += [f"`{path}`: {percent:g} %" for path, percent in sorted(green["by_file"].items())]
    lines += [
        f"`{path}` keeps {count} lines from being measured: see whether it should (`pragma: no cover`)"
        for path, count in sorted(green.get("excluded", {}).items())
    ]
    lines += [f"Not verified: {check}" for check in green["unverified"]]
    return lines


def _case_lines(state: ImplementationState) -> list[str]:
    return [f"`{case}`: {outcome}" for case, outcome in _results(state)]


def _run_words(run: Mapping[str, Any]) -> str:
    if run["timed_out"]:
        ended = "did not end in time"
    elif run["cases"] is None:
        ended = f"exit code {run['exit_code']}"
    else:
        passed = sum(outcome == "passed" for _, outcome in run["cases"])
        ended = f"{passed} of {len(run['cases'])} passed"
    return f"{ended} (`{_line(run['command'])}`)"


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
    """Text that came from elsewhere, on one line and unable to start a comment or a table cell."""
    return " ".join(text.split()).replace("|", "/").replace("<", "‹").replace(">", "›")

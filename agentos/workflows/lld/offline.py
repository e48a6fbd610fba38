"""Answers of the offline model for the LLD workflow: plain, deterministic, and good enough to be checked for real."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agentos.codebase.files import list_files
from agentos.codebase.relevance import terms
from agentos.documents.issue import IssueDocument, parse_issue
from agentos.llm import OfflineRequest, register_offline

_ROLLBACK = "Rollback"
_KEEPS_DATA = re.compile(r"\b(migrat|stor(e|age)|persist|database|cache|file format)", re.IGNORECASE)
_CODE_SUFFIXES = (".py", ".js", ".ts", ".go", ".rs", ".java")


def register() -> None:
    register_offline("lld.draft", _draft)
    register_offline("lld.revise", _revise)
    register_offline("lld.review", _review)


def _draft(request: OfflineRequest) -> str:
    state = request.data
    issue = parse_issue(state["source_text"])
    requirements = _requirements(issue)
    title = " ".join(str(state["title"]).split())
    files = _files(Path(state["cwd"]), state["source_text"], str(state["item_id"]))
    return _TEMPLATE.format(
        number=state["item_id"],
        title=title,
        objective=_sentence(issue.user_story or title),
        files="\n".join(f"| `{path}` | {change} | {words} |" for path, change, words in files),
        requirements="\n".join(f"{n}. {text}" for n, text in enumerate(requirements, start=1)),
        scenarios="\n".join(
            f"| {n * 10:03d} | {_cell(text)} | Auto | Input that exercises requirement {n} | "
            f"The behaviour of requirement {n} is observed | Exit code 0 and the stated result | {n} |"
            for n, text in enumerate(requirements, start=1)
        ),
    )


def _revise(request: OfflineRequest) -> Mapping[str, Any]:
    """Answer what can be answered: a missing rollback plan, a wish. What only the author knows stays open."""
    draft = str(request.data["draft"])
    sections = []
    if any(_ROLLBACK in complaint for complaint in request.data["complaints"]) and f"**{_ROLLBACK}" not in draft:
        sections.append({"heading": "11. Risks & Mitigations", "text": f"{_RISKS}\n{_ROLLBACK_PLAN}"})
    wishes = str(request.data.get("wishes", ""))
    if wishes:
        sections.append(
            {"heading": "2.2 Logic Flow", "text": f"{_LOGIC}4. As asked for in review: {_sentence(wishes)}"}
        )
    return {"sections": sections, "note": "offline revision"}


def _review(request: OfflineRequest) -> Mapping[str, Any]:
    issue = parse_issue(request.data["source_text"])
    unanswered = [question.text for question in issue.open_questions if not question.resolved]
    draft = str(request.data["draft"])
    findings = [
        {"tier": "blocking", "section": "3. Requirements", "text": f"The issue leaves open: {text}"}
        for text in unanswered
    ]
    if _KEEPS_DATA.search(request.data["source_text"]) and f"**{_ROLLBACK}" not in draft:
        section = "11. Risks & Mitigations"
        findings.append({"tier": "high", "section": section, "text": f"{_ROLLBACK} plan missing: data changes."})
    return {
        "verdict": "revise" if findings else "approve",
        "summary": f"{len(findings)} findings" if findings else "Complete and testable.",
        "findings": findings,
        "answers": [],
    }


def _requirements(issue: IssueDocument) -> list[str]:
    found = [requirement.text for requirement in issue.requirements]
    found = found or [criterion.text for criterion in issue.acceptance_criteria]
    return [_sentence(text) for text in found[:12]] or [_sentence(f"{issue.title} is available to users")]


def _files(project_dir: Path, issue_text: str, number: str) -> list[tuple[str, str, str]]:
    """Existing source files that share most words with the issue, and a new test beside the others."""
    wanted = set(terms(issue_text))
    paths = [str(path) for path in list_files(project_dir)]
    code = [path for path in paths if path.endswith(_CODE_SUFFIXES) and "test" not in path]
    ranked = sorted(code, key=lambda path: (-len(wanted & set(terms(path))), path))
    test_dir = "tests/" if any(path.startswith("tests/") for path in paths) else ""
    changes = [(path, "Modify", "Rehearsal: named by chance, nothing is designed") for path in ranked[:2]]
    return [*changes, (f"{test_dir}test_issue_{number.replace('-', '_')}.py", "Add", "Tests for every requirement")]


def _sentence(text: str) -> str:
    flat = " ".join(text.replace("|", "/").split()).rstrip(".")
    return f"{flat}."


def _cell(text: str) -> str:
    return text.rstrip(".")[:90]


_LOGIC = """1. Read the input and refuse what is not valid, with a message that names it.
2. Decide in a pure function, so that the decision is tested without I/O.
3. Carry out the decision and report the result.
"""
_RISKS = """
| Risk | Impact | Likelihood | Mitigation |
|------|--------|------------|------------|
| Existing callers depend on the old behaviour | Med | Low | The change is additive; the existing tests stay green |
"""
_ROLLBACK_PLAN = f"""**{_ROLLBACK}:** the new format is read only when its version mark is present; reverting the
commit brings back the old reader, which still finds the old data.
"""
_TEMPLATE = (
    """# {number} - Feature: {title}

## 1. Context & Goal
* **Issue:** #{number}
* **Objective:** {objective}
* **Status:** Draft
* **Related Issues:** none

### Open Questions

None.

## 2. Proposed Changes

### 2.1 Files Changed

| File | Change Type | Description |
|------|-------------|-------------|
{files}

### 2.2 Logic Flow

"""
    + _LOGIC
    + """
## 3. Requirements

{requirements}

## 4. Alternatives Considered

| Option | Pros | Cons | Decision |
|--------|------|------|----------|
| Extend the existing modules | Small change, one place to look | The modules grow | **Selected** |
| A separate service | Independent releases | Another process to run | **Rejected** |

## 7. Security & Safety Considerations

| Concern | Mitigation | Status |
|---------|------------|--------|
| Untrusted input | Validated before use; never part of a path or a command | Addressed |

## 10. Verification & Testing

### 10.1 Test Scenarios

| ID | Scenario | Type | Input | Expected Output | Pass Criteria | Requirement |
|----|----------|------|-------|-----------------|---------------|-------------|
{scenarios}

## 11. Risks & Mitigations
"""
    + _RISKS
    + """
## 12. Definition of Done

- [ ] All test scenarios pass
- [ ] Coverage of changed files is at least 90 %
- [ ] The change is described in the project's documentation
"""
)

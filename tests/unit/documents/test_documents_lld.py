"""Designs of many shapes give the same data."""

from __future__ import annotations

import pytest
from document_samples import FILES, ISSUE, REQUIREMENTS, SCENARIOS, TITLE, Style, lld, rendered
from hypothesis import given, settings
from hypothesis import strategies as st

from agentos.documents.files import Change, FileChange, read_change
from agentos.documents.inline import plain
from agentos.documents.lld import parse_lld
from agentos.documents.markdown import parse
from agentos.documents.requirements import normal_id, references

STYLES = st.builds(
    Style,
    numbering=st.sampled_from(["1.", "1", "(none)", "Section", "1)"]),
    heading=st.sampled_from(["atx", "closed", "setext", "bold"]),
    table=st.sampled_from(["outer", "bare", "tight", "padded", "aligned", "tabs"]),
    newline=st.sampled_from(["\n", "\r\n", "\r"]),
    requirement=st.sampled_from(
        ["1.", "1)", "counts itself", "-", "box", "R1:", "bold", "padded", "bare", "table", "headings"]
    ),
    issue=st.sampled_from(
        ["* **Issue:** #57", "- Issue: 57", "**Issue**: #57", "Issue: #57", "* **GitHub Issue:** [#57](https://x.test/issues/57)",
         "| Issue | #57 |\n|---|---|", "* **Issue:** https://x.test/a/b/issues/57"]
    ),
    status=st.sampled_from(["* **Status:** Draft", "Status: Draft", "**Status**: Draft", "- *Status:* Draft"]),
    files=st.sampled_from(["table", "loud table", "bullets", "labelled bullets"]),
    files_heading=st.sampled_from(["Files Changed", "Files to Create/Modify", "**Affected files**", "FILES"]),
    indent=st.sampled_from(["", " ", "   "]),
)  # fmt: skip


@settings(deadline=None, max_examples=120)
@given(STYLES)
def test_every_way_to_write_a_design_reads_the_same(style: Style) -> None:
    text = lld(style)
    design = parse_lld(text)
    assert design.title.endswith(TITLE)
    assert (design.issue, design.status) == (ISSUE, "Draft")
    assert [(file.path, file.change.value, file.description) for file in design.files] == list(FILES)
    assert [requirement.id for requirement in design.requirements] == ["1", "2", "3"]
    assert [requirement.text for requirement in design.requirements] == [plain(text) for text in REQUIREMENTS]
    read = [
        (one.id, one.scenario, one.type, one.input, one.expected, one.pass_criteria, ",".join(one.requirements))
        for one in design.scenarios
    ]
    assert read == list(SCENARIOS)
    (question,) = design.open_questions
    assert (question.text, question.resolved, question.answer) == ("Per account or per user?", True, "per account")
    assert rendered(parse(text)) == text


@settings(deadline=None, max_examples=80)
@given(st.text(max_size=300), st.integers(0, 3000), st.integers(0, 400))
def test_a_damaged_design_never_crashes_the_reader(noise: str, place: int, cut: int) -> None:
    text = lld()
    damaged = text[:place] + noise + text[place + cut :]
    assert rendered(parse_lld(damaged).document) == damaged


def test_lines_point_at_the_source() -> None:
    text = lld()
    design = parse_lld(text)
    lines = text.split("\n")
    for file in design.files:
        assert file.path in lines[file.line - 1]
    for scenario in design.scenarios:
        assert scenario.scenario in lines[scenario.line - 1]
    assert "#57" in lines[design.issue_line - 1]
    assert "Draft" in lines[design.status_line - 1]


def test_an_envelope_a_review_log_and_a_quoted_issue_do_not_mix_with_the_design() -> None:
    text = (
        "# Finished\n\nStatus: APPROVED\nReviews: 2\n\n---\n\n" + lld()
        + "\n## Appendix: Review Log\n\n### Requirements review\n"
        "1. not a requirement\n\n**Final Status:** APPROVED\n\n## Original GitHub Issue #57\n# Issue #57: Exports\n"
        "## Requirements\n1. not one either\n"
    )  # fmt: skip
    design = parse_lld(text)
    assert design.title == f"57 - Feature: {TITLE}"
    assert len(design.requirements) == 3
    assert (design.status, design.final_status) == ("Draft", "APPROVED")


@pytest.mark.parametrize(
    ("head", "path", "issue"),
    [
        ("# LLD-12: Thing\n", None, 12),
        ("# Thing (#12)\n", None, 12),
        ("# 12 - Thing\n", None, 12),
        ("# Thing\n", "docs/lld/active/LLD-012.md", 12),
        ("---\nissue: 12\n---\n# 99 - Thing\n", None, 12),
        ("# 1012 - Thing\n## 1. Context\n* **Issue:** #12\n", None, 12),
        ("# Thing\n## Context\n* **Issue:** N/A\n* **Related Issues:** #4\n", None, None),
        ("# Thing\n```\nIssue: #12\n```\n", "notes.md", None),
    ],
)
def test_the_issue_number_is_found_where_people_put_it(head: str, path: str | None, issue: int | None) -> None:
    assert parse_lld(head, path).issue == issue


def design_with(section: str, body: str) -> str:
    return f"# 1 - T\n\n## Context\n\nx\n\n## {section}\n\n{body}\n"


@pytest.mark.parametrize(
    ("line", "path", "change"),
    [
        ("- `a/b.py` — New module for x", "a/b.py", Change.ADD),
        ("- `a/b.py` — Add a flag", "a/b.py", Change.UNKNOWN),
        ("- `a/b.py`: updated to x", "a/b.py", Change.MODIFY),
        ("- a/b.py - removed", "a/b.py", Change.DELETE),
        ("* Create `a/b.py` for x", "a/b.py", Change.ADD),
        ("- [ ] **a/b.py** (modify)", "a/b.py", Change.MODIFY),
        ("- `a/b.py` → `a/c.py`: clearer name", "a/b.py", Change.RENAME),
        ("1. `Makefile`", "Makefile", Change.UNKNOWN),
    ],
)
def test_files_in_lists(line: str, path: str, change: Change) -> None:
    (file,) = parse_lld(design_with("Files", line)).files
    assert (file.path, file.change) == (path, change)


def test_a_heading_says_what_happens_to_the_files_below_it() -> None:
    text = design_with("2.1 Files", "### New files\n- `a.py` — x\n### Modified files\n- `b.py` — y")
    assert [(file.path, file.change) for file in parse_lld(text).files] == [
        ("a.py", Change.ADD),
        ("b.py", Change.MODIFY),
    ]


def test_a_cell_may_hold_several_files_and_a_rename_two() -> None:
    table = "| File | Change |\n|---|---|\n| `a.py`, `b.py` | Modify |\n"
    table += "| `c.py` → `d.py` | Rename |\n| [e.py](x) | Add (new) |"
    files = parse_lld(design_with("Files Changed", table)).files
    assert [(file.path, file.change.value, file.target) for file in files] == [
        ("a.py", "Modify", None), ("b.py", "Modify", None), ("c.py", "Rename", "d.py"), ("e.py", "Add", None),
    ]  # fmt: skip


def test_a_table_of_files_counts_without_a_heading_of_its_own() -> None:
    text = design_with("Design", "| Path | Type | Notes |\n|---|---|---|\n| x/y.py | Modify | z |")
    assert [file.path for file in parse_lld(text).files] == ["x/y.py"]
    assert read_change("Add (Directory)") is Change.ADD
    assert read_change("whatever") is Change.UNKNOWN


def test_requirements_in_groups_that_count_from_one_stay_apart() -> None:
    text = design_with("Requirements", "### Speed\n1. fast\n2. faster\n### Size\n1. small")
    assert [(one.id, one.group) for one in parse_lld(text).requirements] == [
        ("1.1", "Speed"), ("1.2", "Speed"), ("2.1", "Size"),
    ]  # fmt: skip


def test_explanations_below_requirements_are_no_requirements() -> None:
    text = design_with("Requirements", "Intro - text\n\n1. one\n   - because\n   - and so\n2. two\n\n- a note")
    assert [one.text for one in parse_lld(text).requirements] == ["one", "two"]


@pytest.mark.parametrize(
    ("label", "identifier"), [("R1", "1"), ("REQ-007", "7"), ("NFR-2", "NFR-2"), ("3.1", "3.1"), ("x", None)]
)
def test_ids_are_normalised(label: str, identifier: str | None) -> None:
    assert normal_id(label) == identifier


@pytest.mark.parametrize(
    ("cell", "ids"),
    [("1, 2", ("1", "2")), ("R1-R3", ("1", "2", "3")), ("REQ-1 and REQ-4", ("1", "4")),
     ("1–2, NFR-1", ("1", "2", "NFR-1")),
     ("9999-1", ("9999", "1")), ("-", ()), ("", ())],
)  # fmt: skip
def test_a_requirement_column_may_list_and_range(cell: str, ids: tuple[str, ...]) -> None:
    assert references(cell, bare_numbers=True) == ids


def test_numbers_in_a_sentence_are_no_references() -> None:
    assert references("Waits 5 s for 3 items (REQ-2)", bare_numbers=False) == ("2",)


def test_scenarios_as_a_list_with_nested_fields() -> None:
    body = "- **test_010**: Happy path | Auto | 3 items | all done\n"
    body += "  - Requirement: 1, 2\n  - Pass criteria: exit 0\n- not one\n1. Second\n"
    first, second = parse_lld(design_with("Test Scenarios", body)).scenarios
    assert (first.id, first.scenario, first.input, first.expected) == (
        "test_010",
        "Happy path",
        "3 items",
        "all done",
    )
    assert (first.requirements, first.pass_criteria) == (("1", "2"), "exit 0")
    assert (second.id, second.scenario) == ("1", "Second")


def test_all_columns_of_a_scenario_are_kept() -> None:
    table = "| # | Test | Then | Owner |\n|---|---|---|---|\n| 1 | It runs | ok | Ann |"
    (scenario,) = parse_lld(design_with("Testing", table)).scenarios
    assert (scenario.id, scenario.scenario, scenario.expected) == ("1", "It runs", "ok")
    assert scenario.columns == {"#": "1", "Test": "It runs", "Then": "ok", "Owner": "Ann"}


@pytest.mark.parametrize(
    ("item", "resolved", "answer"),
    [
        ("- [ ] Why?", False, None),
        ("- Why?", False, None),
        ("- [x] Why?", True, None),
        ("- [ ] Why? **Answer:** Because", True, "Because"),
        ("- [ ] Why? **Answer: TBD**", False, None),
        ("- ~~Why?~~ Resolved: never mind", True, "never mind"),
        ("- [ ] Why?\n  - Decision: so be it", True, "so be it"),
        ("1. Why? → Because", True, "Because"),
    ],
)
def test_questions_are_resolved_by_a_tick_or_an_answer(item: str, resolved: bool, answer: str | None) -> None:
    (question,) = parse_lld(design_with("Open Questions", item)).open_questions
    assert (question.text, question.resolved, question.answer) == ("Why?", resolved, answer)


@pytest.mark.parametrize("item", ["- None", "- N/A.", "- *None at this time*", "Nothing to ask."])
def test_no_questions_are_no_questions(item: str) -> None:
    assert parse_lld(design_with("Open Questions", item)).open_questions == ()


@pytest.mark.parametrize(
    ("path", "change", "description", "only_adds"),
    [
        ("pkg/__init__.py", Change.MODIFY, "Export `mean`", True),
        ("pkg/__init__.py", Change.MODIFY, "", True),
        ("pkg/__init__.py", Change.MODIFY, "Rename the exports", False),
        ("pkg/__init__.py", Change.ADD, "Export `mean`", False),
        ("CHANGELOG.md", Change.UNKNOWN, "Tell of it", True),
        ("app/stats.py", Change.MODIFY, "Add the functions `mean` and `median`", True),
        ("app/stats.py", Change.MODIFY, "Append `mean`", True),
        ("app/stats.py", Change.MODIFY, "Add a parameter to the function `mean`", False),
        ("app/stats.py", Change.MODIFY, "Add `mean` and replace `average`", False),
        ("app/stats.py", Change.MODIFY, "The new behaviour", False),
        ("app/stats.py", Change.DELETE, "Export", False),
    ],
)
def test_a_design_says_whether_a_file_keeps_all_it_has(
    path: str, change: Change, description: str, only_adds: bool
) -> None:
    assert FileChange(path, change, description, 1).only_adds is only_adds

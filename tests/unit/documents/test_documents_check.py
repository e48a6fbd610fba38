"""The mechanical check: each rule finds its fault, at its line, and a good document is left alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from document_samples import ISSUE_TEXT, REPOSITORY, PathSet, Style, lld
from hypothesis import given, settings
from hypothesis import strategies as st

from agentos.documents.check import check_lld
from agentos.documents.findings import Finding, Severity
from agentos.documents.issue import check_issue, dependencies, parse_issue
from agentos.documents.known_paths import FolderPaths, suggestion, unsafe_reason
from agentos.documents.lld import parse_lld
from agentos.documents.markdown import parse

RULES = (Path(__file__).parents[3] / "docs" / "reference" / "checks.md").read_text()


def check(text: str, path: str | None = None, **options: object) -> tuple[Finding, ...]:
    options.setdefault("repository", PathSet(REPOSITORY))
    return check_lld(parse_lld(text, path), **options)  # type: ignore[arg-type]


def only(findings: tuple[Finding, ...], rule: str) -> Finding:
    (finding,) = [one for one in findings if one.rule == rule]
    return finding


def edited(old: str, new: str, count: int = 1) -> str:
    text = lld()
    assert old in text
    return text.replace(old, new, count)


def line_of(text: str, part: str) -> int:
    return text[: text.index(part)].count("\n") + 1


def test_a_good_design_has_no_findings() -> None:
    assert check(lld()) == ()


@pytest.mark.parametrize("table", ["outer", "bare", "tabs"])
@pytest.mark.parametrize("numbering", ["1.", "(none)", "Section"])
def test_shape_is_no_fault(table: str, numbering: str) -> None:
    assert check(lld(Style(table=table, numbering=numbering, newline="\r\n", requirement="bold"))) == ()


@settings(deadline=None, max_examples=60)
@given(st.text(max_size=200), st.integers(0, 2500), st.integers(0, 400))
def test_a_damaged_design_never_crashes_the_check(noise: str, place: int, cut: int) -> None:
    text = lld()
    damaged = text[:place] + noise + text[place + cut :]
    for finding in (*check(damaged, previous=parse(text)), *check_issue(parse_issue(damaged), previous=parse(text))):
        assert f"| {finding.rule} |" in RULES
        assert finding.line >= 1
        assert finding.message
        assert finding.fix


def test_findings_have_rule_severity_line_and_fix_in_one_line() -> None:
    text = edited("Status 200 five times", "Works correctly")
    (finding,) = check(text)
    assert (finding.rule, finding.severity) == ("LLD014", Severity.ERROR)
    assert finding.line == line_of(text, "Works correctly")
    assert finding.words().startswith("error LLD014 scenario 010 is vague: 'Works correctly' (fix: ")


@pytest.mark.parametrize(
    ("heading", "part"),
    [
        ("## 1. Context & Goal", "Context & Goal"),
        ("## 3. Requirements", "Requirements"),
        ("### 2.1. Files Changed", "Files Changed"),
    ],
)
def test_a_missing_required_section_is_an_error(heading: str, part: str) -> None:
    missing = [one for one in check(edited(f"\n{heading}", "\n#### Other matters")) if one.rule == "LLD002"]
    if part == "Files Changed":
        assert missing == [], "a table of files counts wherever it stands"
    else:
        assert [(one.severity, part in one.message) for one in missing] == [(Severity.ERROR, True)]


def test_an_empty_section_is_as_bad_as_a_missing_one() -> None:
    text = edited("Clocks that jump: monotonic time is used.", "")
    finding = only(check(text), "LLD002")
    assert finding.message == "section 'Risks & Mitigations' is empty"
    assert finding.line == line_of(text, "## 11.")


def test_a_title_and_an_issue_number_are_asked_for() -> None:
    rules = {one.rule for one in check("Just text\n")}
    assert {"LLD001", "LLD002", "LLD003"} <= rules


def test_a_design_that_goes_by_a_name_has_no_number_to_give() -> None:
    text = lld().replace("# 57 - ", "# ").replace("#57", "#login-page")
    assert [one.rule for one in check(text)] == ["LLD003"]
    assert check(text, path="docs/LLD-login-page.md") == ()
    assert check(text, path="docs/LLD-part-2.md") == ()
    assert check(text, is_named=True) == ()


def test_the_issue_must_be_the_expected_one() -> None:
    assert "expected #58" in only(check(lld(), expected_issue=58), "LLD004").message
    assert "expected #58" in only(check(lld(), path="docs/LLD-58.md"), "LLD004").message
    assert check(lld(), path="docs/LLD-57.md") == ()
    assert check(edited("# 57 - Feature", "# 1057 - Feature")) == (), "1057 is a way to number the design of 57"
    assert only(check(edited("# 57 - Feature", "# 99 - Feature")), "LLD004").severity is Severity.WARNING


def test_an_empty_table_of_files_is_an_error() -> None:
    text = lld()
    rows = [line for line in text.split("\n") if line.startswith("| `")]
    for row in rows:
        text = text.replace(row + "\n", "")
    assert only(check(text), "LLD005").line == line_of(text, "### 2.1")


def test_paths_to_modify_or_delete_must_exist_and_a_near_one_is_suggested() -> None:
    text = edited("`shop/exports/__init__.py` | Modify", "`shop/export/__init__.py` | Modify")
    finding = only(check(text), "LLD007")
    assert finding.severity is Severity.ERROR
    assert "did you mean shop/exports/__init__.py?" in finding.fix
    assert only(check(edited("`shop/legacy_export.py`", "`shop/legacy_exprot.py`")), "LLD007").fix.startswith(
        "did you mean shop/legacy_export.py?"
    )


def test_the_folder_of_an_added_file_must_exist_or_be_added() -> None:
    text = edited("`shop/exports/limiter.py`", "`shop/exprots/limiter.py`")
    finding = only(check(text), "LLD008")
    assert "did you mean shop/exports" in finding.fix
    row = "| `shop/exprots/__init__.py` | Add | Package |\n| `shop/exprots/limiter.py` | Add | "
    assert check(edited("| `shop/exports/limiter.py` | Add | ", row)) == ()
    row = "| `shop/new/` | Add | Folder |\n| `shop/new/limiter.py` | Add | "
    assert check(edited("| `shop/exports/limiter.py` | Add | ", row)) == ()


def test_a_file_that_is_added_and_exists_is_worth_a_note() -> None:
    finding = only(check(edited("`shop/exports/limiter.py` | Add", "`README.md` | Add")), "LLD007")
    assert finding.severity is Severity.INFO


def test_a_rename_needs_its_source_and_the_folder_of_its_target() -> None:
    rename = "| `README.md` → `docs/README.md` | Rename | Moved |\n| `shop/legacy_export.py`"
    assert "docs/" in only(check(edited("| `shop/legacy_export.py`", rename)), "LLD008").message


def test_without_a_repository_only_the_safety_of_paths_is_checked() -> None:
    assert check(edited("shop/exports/limiter.py", "nowhere/at/all.py"), repository=None) == ()


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "../up.py",
        "a/../../b.py",
        "C:\\x.py",
        "c:/x.py",
        "a\\b.py",
        "~/x.py",
        "https://x.test/a",
        ".git/config",
        "a\x07b",
    ],
)
def test_no_path_leaves_the_repository(path: str) -> None:
    assert unsafe_reason(path) is not None
    finding = only(check(edited("`shop/exports/limiter.py`", f"`{path}`")), "LLD006")
    assert finding.severity is Severity.ERROR


@pytest.mark.parametrize("path", ["a/b.py", ".github/workflows/ci.yml", "a..b/c", "docs/"])
def test_ordinary_paths_are_safe(path: str) -> None:
    assert unsafe_reason(path) is None


def test_a_change_that_is_not_said_and_a_file_listed_twice_are_warnings() -> None:
    findings = check(edited("`shop/exports/__init__.py` | Modify", "`shop/legacy_export.py` | Touch"))
    messages = [one.message for one in findings if one.rule == "LLD009"]
    assert len(messages) == 2
    assert {one.severity for one in findings} == {Severity.WARNING}


def test_a_requirement_no_scenario_names_is_an_error_where_scenarios_name_them() -> None:
    text = edited("Count read from disk is 5 | 3 |", "Count read from disk is 5 | 2 |")
    finding = only(check(text), "LLD012")
    assert (finding.severity, finding.line) == (Severity.ERROR, line_of(text, "3. Limits survive"))


def test_a_reference_to_no_requirement_is_a_warning() -> None:
    text = edited("Count read from disk is 5 | 3 |", "Count read from disk is 5 | 3, 9 |")
    assert "requirement 9" in only(check(text), "LLD013").message


def test_all_covers_all_and_ranges_count() -> None:
    for cell in ("All", "1-3", "R1, R2, R3"):
        text = edited("Status 200 five times | 1 |", f"Status 200 five times | {cell} |")
        text = text.replace("is present | 2 |", "is present |  |").replace("disk is 5 | 3 |", "disk is 5 |  |")
        assert check(text) == (), cell


def without_requirement_column(text: str) -> str:
    return "\n".join(
        line.rsplit(" | ", 1)[0] + " |" if line.startswith(("| ID", "| 010", "| 020", "| 030")) else line
        for line in text.replace("|---|---|---|---|---|---|---|", "|---|---|---|---|---|---|").split("\n")
    )


def test_without_references_words_decide_and_doubt_is_a_warning() -> None:
    text = without_requirement_column(lld()).replace(
        "| --- | --- | --- | --- | --- | --- | --- |", "|---|---|---|---|---|---|"
    )
    assert [one for one in check(text) if one.severity is Severity.ERROR] == []
    doubtful = text.replace(
        "3. Limits survive a restart of the service", "3. Count of colourful zebras crossing the savannah"
    )
    assert only(check(doubtful), "LLD012").severity is Severity.WARNING
    unrelated = text.replace("3. Limits survive a restart of the service", "3. Colourful zebras cross the savannah")
    assert only(check(unrelated), "LLD012").severity is Severity.ERROR


def test_ids_are_unique() -> None:
    assert "scenario 010 is there 2 times" in only(check(edited("| 020 |", "| 010 |")), "LLD011").message
    twice = edited("3. Limits survive", "- R2: Limits survive").replace("1. An account", "- R1: An account")
    twice = twice.replace("2. The sixth", "- R2: The sixth")
    assert "requirement 2 is there 2 times" in only(check(twice), "LLD010").message


@pytest.mark.parametrize(
    "phrase",
    [
        "works as expected",
        "is handled properly",
        "CSV, PDF, etc.",
        "responds in reasonable time",
        "behaves as intended",
    ],
)
def test_vague_requirements_are_errors(phrase: str) -> None:
    assert (
        only(check(edited("survive a restart of the service", f"survive a restart; {phrase}")), "LLD014").severity
        == "error"
    )


@pytest.mark.parametrize("phrase", ["reads /etc/hosts", "is stretched by 5 s", "`/etc` is a folder's name: a/etc/b"])
def test_exact_words_are_not_vague(phrase: str) -> None:
    findings = check(edited("survive a restart of the service", f"survive a restart of the service and {phrase}"))
    assert [one for one in findings if one.rule == "LLD014"] == []


def test_an_unresolved_question_is_an_error() -> None:
    text = edited("- [x] Per account or per user? **Answer: per account**", "- [ ] Per account or per user?")
    finding = only(check(text), "LLD015")
    assert (finding.severity, finding.line) == (Severity.ERROR, line_of(text, "- [ ] Per account"))


@pytest.mark.parametrize(
    "filler", ["TODO", "TBD: later", "{describe the risk}", "Lorem ipsum dolor", "[insert risk here]", "<your text>",
               "- ...",
               "| Risk | Impact |\n|---|---|\n| ... | … |"]
)  # fmt: skip
def test_placeholders_are_errors(filler: str) -> None:
    finding = only(check(edited("Clocks that jump: monotonic time is used.", filler)), "LLD016")
    assert finding.severity is Severity.ERROR


@pytest.mark.parametrize(
    "text",
    [
        "Use `{name}` and `TODO`",
        "Written to logs/{timestamp}/x",
        "```\nTODO {x}\n```",
        "<!-- TODO -->",
        "Wait ... then go",
    ],
)
def test_code_comments_and_patterns_are_no_placeholders(text: str) -> None:
    assert [
        one for one in check(edited("Clocks that jump: monotonic time is used.", text)) if one.rule == "LLD016"
    ] == []


def test_a_word_in_a_sentence_may_be_meant() -> None:
    finding = only(check(edited("Clocks that jump", "Each TODO comment is listed")), "LLD016")
    assert finding.severity is Severity.WARNING


def test_blanks_of_a_review_log_are_warnings_and_quotes_in_it_are_free() -> None:
    text = lld() + '\n## Review Log\n\n**Verdict:** {VERDICT}\n\n"Section 7 says TODO"\n'
    finding = only(check(text), "LLD016")
    assert (finding.severity, finding.line) == (Severity.WARNING, line_of(text, "**Verdict"))


@pytest.mark.parametrize(
    ("status", "found"),
    [
        ("Draft", False),
        ("APPROVED ✅", False),
        ("Needs Revision (round 2)", False),
        ("Rehearsed", False),
        ("Banana", True),
    ],
)
def test_the_status_is_one_of_the_known(status: str, found: bool) -> None:
    assert any(one.rule == "LLD018" for one in check(edited("**Status:** Draft", f"**Status:** {status}"))) is found


def test_a_status_that_contradicts_the_review_log_is_reported() -> None:
    assert "final status 'APPROVED'" in only(check(lld() + "\n**Final Status:** APPROVED\n"), "LLD018").message
    assert "no status" in only(check(edited("* **Status:** Draft", "")), "LLD018").message


def test_an_unclosed_fence_is_reported_where_it_opens() -> None:
    text = edited("bool: ...\n```\n", "bool: ...\n")
    assert only(check(text), "DOC004").line == line_of(text, "```python")


def test_a_section_lost_in_a_revision_is_an_error() -> None:
    before = parse(lld())
    after = edited("## 4. Alternatives Considered\n\nA queue was refused: people wait without being told.\n\n", "")
    assert only(check(after, previous=before), "LLD017").message.startswith("section '4. Alternatives Considered'")
    renumbered = edited("## 4. Alternatives Considered", "## 5. Alternatives")
    assert check(renumbered, previous=before) == ()


def test_suggestions_come_from_the_folder(tmp_path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "src" / "app").mkdir(parents=True)
    (tmp_path / "src" / "app" / "main.py").touch()
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "main.py").touch()
    repository = FolderPaths(tmp_path)
    assert repository.exists("src/app/main.py")
    assert not repository.exists("../" + tmp_path.name)
    assert not repository.exists("x" * 5000)
    assert suggestion("app/main.py", repository) == "src/app/main.py"
    assert suggestion("src/app/mian.py", repository) == "src/app/main.py"
    assert suggestion("zebra.txt", repository) is None


def test_a_good_issue_has_no_findings_and_gives_its_data() -> None:
    issue = parse_issue(ISSUE_TEXT)
    assert check_issue(issue) == ()
    assert (issue.title, issue.issue, issue.status) == ("Search by tag", 12, "ready")
    assert [one.id for one in issue.requirements] == ["1.1", "1.2", "2.1"]
    assert [one.is_met for one in issue.acceptance_criteria] == [False, True]
    assert issue.depends_on == ("7", "9", "3", "4")
    assert issue.user_story.startswith("As a reader")
    assert issue.document.sections[0].title == "Search by tag"


@pytest.mark.parametrize(
    "part",
    [
        "User Story",
        "Objective",
        "UX Flow",
        "Requirements",
        "Acceptance Criteria",
        "Definition of Done",
        "Out of Scope",
        "Testing Notes",
    ],
)
def test_every_part_of_the_issue_template_is_asked_for(part: str) -> None:
    findings = check_issue(parse_issue(ISSUE_TEXT.replace(f"## {part}", "## Something")))
    assert f"section {part!r} is missing" in [one.message for one in findings if one.rule == "ISS002"]


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        ("# Search by tag\n", "", "ISS001"),
        ("As a reader, I want to search by tag, so that I find related notes.", "Search.", "ISS003"),
        (
            "- [ ] Searching `#cooking` lists the ten notes that have it\n- [x] An unknown tag lists none",
            "It is so.",
            "ISS005",
        ),
        ("An unknown tag lists none", "An unknown tag works as expected", "ISS006"),
        ("- Searching in attachments", "- TBD", "ISS007"),
        ("## Testing Notes\n", "## Files\n- `../x.py` (new)\n\n## Testing Notes\n", "ISS008"),
        ("## Testing Notes\n", "## Open Questions\n- [ ] Why?\n\n## Testing Notes\n", "ISS010"),
        ("Use the notes in the sample folder. Depends on #3 and #4.\n", "", "ISS002"),
    ],
)
def test_faults_of_an_issue_are_found(old: str, new: str, rule: str) -> None:
    assert old in ISSUE_TEXT
    assert rule in [one.rule for one in check_issue(parse_issue(ISSUE_TEXT.replace(old, new)))]


def test_what_a_person_wrote_needs_to_say_what_is_wanted_and_no_more() -> None:
    def found(text: str) -> list[str]:
        return [f"{one.severity.value} {one.message}" for one in check_issue(parse_issue(text), is_draft=False)]

    brief = "# Search books\n\n## Requirements\n\n1. `find(text)` returns the books whose title has the text.\n"
    (warning,) = found(brief)
    assert warning.startswith("warning without User Story, Objective, UX Flow, Acceptance Criteria, ")
    assert found("# Search books\n\nReaders want to search.\n") == [
        "error it has neither requirements nor acceptance criteria"
    ]


def test_an_issue_that_lost_a_section_is_told() -> None:
    after = parse_issue(ISSUE_TEXT.replace("## Out of Scope\n- Searching in attachments\n", ""))
    assert "ISS009" in [one.rule for one in check_issue(after, previous=parse(ISSUE_TEXT))]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Depends on #106", ("106",)),
        ("- Depends on: #106 (completed)\n- Blocked by: None", ("106",)),
        ("**Depends on:** #1, #2 and #3.", ("1", "2", "3")),
        ("Blocked by: [#4](https://x.test/4), issue #5", ("4", "5")),
        ("blocked by #4; see #9", ("4",)),
        ("Depends upon #6 because of #7", ("6",)),
        ("This does not depend on #8", ()),
        ("No longer depends on #8", ()),
        ("```\nDepends on #1\n```\n<!-- Depends on #2 -->\n`Depends on #3`", ()),
        ("---\ndepends_on: 4, login-page\n---\nx", ("4", "login-page")),
        ("---\ndepends_on:\n  - '#4'\n  - 5\n---\nx", ("4", "5")),
        ("---\ndepends_on: []\nblocked_by: none\n---\nx", ()),
        ("## Dependencies\n- #12 merged first\n- None — else\n\nSee #13", ("12",)),
        ("Depends on #7, #7 and #007x", ("7", "007x")),
        ("Blocked by: #issue-123, **#Login_page**, and _#a_; #b", ("issue-123", "Login_page", "a", "b")),
        ("Depends on other/repo#7", ()),
    ],
)
def test_dependencies_are_found_in_words_and_front_matter(text: str, expected: tuple[str, ...]) -> None:
    assert dependencies(text) == expected


@settings(deadline=None, max_examples=100)
@given(st.text())
def test_dependencies_of_any_text_are_safe_names(text: str) -> None:
    assert all(dependencies(f"Depends on {text}"))

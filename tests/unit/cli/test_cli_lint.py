"""`agentos lint` as people and CI use it: exit codes, text and JSON, and no crash on any file."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentos.cli import lint
from agentos.errors import UsageError

DESIGN = """\
# 4 - Feature: Pause the feed

## 1. Context & Goal
* **Issue:** #4
* **Status:** Draft

### Open Questions
- [x] For how long? **Answer: until resumed**

## 2. Proposed Changes
### 2.1 Files Changed
| File | Change Type | Description |
|------|-------------|-------------|
| `app/feed.py` | Modify | Stop polling while paused |

## 3. Requirements
1. A paused feed sends no request

## 4. Alternatives Considered
Dropping the feed loses its history.

## 7. Security
Nothing new.

## 10. Testing
### 10.1 Test Scenarios
| ID | Scenario | Type | Input | Expected Output | Pass Criteria | Requirement |
|----|----------|------|-------|-----------------|---------------|-------------|
| 010 | Pause stops requests | Auto | pause | 0 requests | Counter is 0 | REQ-1 |

## 11. Risks
Missed updates: fetched on resume.

## 12. Definition of Done
- [ ] Scenarios pass
"""
ISSUE = "# Dark mode\n\n## User Story\nAs a reader, I want dark mode, so that I can read at night.\n\n"
ISSUE += "## Acceptance Criteria\n- [ ] Black\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AGENTOS_HOME", str(tmp_path / "home"))
    root = tmp_path / "project"
    for name, text in {"docs/lld/active/LLD-4.md": DESIGN, "app/feed.py": "", "docs/issues/7-dark.md": ISSUE}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    (root / ".git").mkdir()
    monkeypatch.chdir(root)
    return root


def run(*arguments: str) -> int:
    parser = argparse.ArgumentParser()
    lint.add_options(parser.add_subparsers().add_parser("lint"))
    args = parser.parse_args(["lint", *arguments])
    code = args.handler(args)
    assert isinstance(code, int)
    return code


def run_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[dict[str, Any]]]:
    code = run("--json", *arguments)
    return code, json.loads(capsys.readouterr().out)


def test_a_clean_design_exits_0(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("docs/lld/active/LLD-4.md") == 0
    assert capsys.readouterr().out == "1 document checked: nothing to report\n"


def test_errors_exit_1_with_path_line_rule_and_fix(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = project / "docs/lld/active/LLD-4.md"
    path.write_text(DESIGN.replace("app/feed.py", "app/fead.py"), encoding="utf-8")
    assert run() == 1
    first, last = capsys.readouterr().out.splitlines()
    assert first.startswith("docs/lld/active/LLD-4.md:14: error LLD007 app/fead.py does not exist")
    assert first.endswith("(fix: did you mean app/feed.py? Else change it to Add)")
    assert last == "1 document checked: 1 error"


def test_warnings_alone_exit_0(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "docs/lld/active/LLD-4.md").write_text(
        DESIGN.replace("Status:** Draft", "Status:** Odd"), encoding="utf-8"
    )
    assert run("docs/lld") == 0
    assert "warning LLD018" in capsys.readouterr().out


@pytest.mark.parametrize("missing", ["docs/none.md", "docs/**/*.txt", "empty", "nul\0byte"])
def test_what_does_not_exist_exits_2_and_is_named(
    project: Path, capsys: pytest.CaptureFixture[str], missing: str
) -> None:
    (project / "empty").mkdir()
    with pytest.raises(UsageError) as error:
        run("docs/lld", missing)
    assert error.value.exit_code == 2
    assert capsys.readouterr().out == ""
    assert missing.replace("\0", "") in str(error.value)


@pytest.mark.parametrize("pattern", ["docs/lld/**/*.md", "docs/lld", "docs/*/active/LLD-?.md", "docs/lld/*"])
def test_folders_and_globs_are_expanded_once(project: Path, capsys: pytest.CaptureFixture[str], pattern: str) -> None:
    code, reports = run_json(capsys, pattern, "docs/lld/active/LLD-4.md", str(project / "docs/lld/active") + "/*.md")
    assert code == 0
    assert {Path(report["path"]).name for report in reports} == {"LLD-4.md"}
    assert reports[0]["path"] == "docs/lld/active/LLD-4.md"


def test_json_has_one_object_a_document(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, reports = run_json(capsys, "docs/lld", "docs/issues")
    assert code == 0
    design, issue = reports
    assert (design["title"], design["issue"], design["status"]) == ("4 - Feature: Pause the feed", 4, "Draft")
    assert design["files"][0]["path"] == "app/feed.py"
    assert (design["files"][0]["change"], design["files"][0]["description"]) == (
        "Modify",
        "Stop polling while paused",
    )
    assert design["requirements"] == [{"id": "1", "text": "A paused feed sends no request", "line": 17}]
    (scenario,) = design["scenarios"]
    assert (scenario["id"], scenario["scenario"], scenario["requirement"]) == ("010", "Pause stops requests", ["1"])
    assert scenario["requirement_is_inferred"] is False
    assert design["open_questions"][0]["answer"] == "until resumed"
    assert design["findings"] == []
    assert (issue["type"], issue["issue"], issue["title"]) == ("issue", 7, "Dark mode")
    assert {"path", "files", "requirements", "scenarios", "open_questions", "findings"} <= set(issue)
    assert set(issue["findings"][0]) == {"rule", "severity", "line", "message", "fix"}


def test_the_requirement_of_a_scenario_is_inferred_when_it_is_not_said(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (
        DESIGN.replace(" | Requirement |", " |")
        .replace("|-------------|\n| 010", "|\n| 010")
        .replace(" | REQ-1 |", " |")
    )
    (project / "docs/lld/active/LLD-4.md").write_text(text, encoding="utf-8")
    _, (report,) = run_json(capsys, "docs/lld")
    assert report["scenarios"][0]["requirement"] == ["1"]
    assert report["scenarios"][0]["requirement_is_inferred"] is True


def test_the_type_can_be_forced(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, (as_told,) = run_json(capsys, "docs/issues")
    _, (as_lld,) = run_json(capsys, "--type", "lld", "docs/issues")
    _, (as_issue,) = run_json(capsys, "--type", "issue", "docs/lld")
    assert (as_told["type"], as_lld["type"], as_issue["type"]) == ("issue", "lld", "issue")


def test_paths_are_checked_in_the_root_that_is_given(
    project: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    assert run("docs/lld", "--root", str(other)) == 1
    assert "LLD007" in capsys.readouterr().out


def test_a_document_outside_any_project_is_checked_without_a_repository(
    project: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    loose = tmp_path / "loose.md"
    loose.write_text(DESIGN.replace("app/feed.py", "not/there.py"), encoding="utf-8")
    assert run(str(loose)) == 0


@pytest.mark.parametrize(
    ("data", "rule"),
    [(b"# \xff\xfe", "DOC002"), (b"# a\0b", "DOC002"), (b"x" * (1024 * 1024 + 1), "DOC003")],
    ids=["not UTF-8", "binary", "huge"],
)
def test_files_that_are_no_documents_are_a_finding(
    project: Path, capsys: pytest.CaptureFixture[str], data: bytes, rule: str
) -> None:
    (project / "docs/lld/bad.md").write_bytes(data)
    code, reports = run_json(capsys, "docs/lld")
    assert code == 1
    bad = next(report for report in reports if report["path"].endswith("bad.md"))
    assert [finding["rule"] for finding in bad["findings"]] == [rule]
    assert bad["title"] is None


@pytest.mark.skipif(not hasattr(os, "mkfifo") or os.geteuid() == 0, reason="needs FIFOs and file modes that bind")
def test_files_that_cannot_be_read_are_a_finding(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    secret = project / "docs/lld/secret.md"
    secret.write_text("x")
    secret.chmod(0)
    assert run(str(secret)) == 1
    assert "DOC001" in capsys.readouterr().out


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs FIFOs")
def test_a_fifo_is_never_waited_for(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(project / "docs/lld/pipe.md")
    assert run("docs/lld/pipe.md") == 1
    assert "DOC001" in capsys.readouterr().out


def test_nothing_a_document_says_steers_the_terminal(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    evil = DESIGN.replace(
        "- [x] For how long? **Answer: until resumed**", "- [ ] \x1b[2J\x1b]0;owned\x07\u202e for how long?"
    )
    (project / "docs/lld/active/LLD-4.md").write_text(evil, encoding="utf-8")
    assert run("docs/lld") == 1
    out = capsys.readouterr().out
    assert "for how long?" in out
    assert not any(character in out for character in "\x1b\x07\u202e")


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=400) | st.text(max_size=400).map(lambda text: text.encode("utf-8", "replace")))
def test_no_file_crashes_the_command(project: Path, capsys: pytest.CaptureFixture[str], data: bytes) -> None:
    (project / "docs/lld/fuzz.md").write_bytes(data)
    for kind in ("lld", "issue"):
        code, (report,) = run_json(capsys, "docs/lld/fuzz.md", "--type", kind)
        assert code in {0, 1}
        assert (code == 1) == any(finding["severity"] == "error" for finding in report["findings"])


def test_the_parser_is_light() -> None:
    script = "import sys, agentos.cli.lint;"
    script += "print([m for m in ('agentos.documents.check', 'pydantic', 'rich') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

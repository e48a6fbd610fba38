"""`agentos init`, `show` and `completion`: what they print, write and refuse."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from agentos.cli.main import main
from agentos.documents.approval import ApprovalInfo, stamp_approval
from agentos.outcomes import NEEDS_REVISION
from agentos.paths import runs_dir
from agentos.records.summary import ItemSummary, RunSummary
from agentos.settings import Settings, load_settings
from agentos.workflows.document_paths import lineage_dir
from agentos.workflows.lineage import Lineage

SECRET = "AIza-secret-for-tests-0000000000000000"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    project = tmp_path / "project"
    (project / "docs/issues").mkdir(parents=True)
    (project / ".git").mkdir()
    monkeypatch.chdir(project)
    monkeypatch.setenv("AGENTOS_HOME", str(tmp_path / "home"))
    for variable in ("GEMINI_API_KEY", "GOOGLE_API_KEY", "OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(variable, raising=False)
    return project


def test_init_writes_settings_and_says_what_it_found(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", SECRET)
    for number in (1, 2):
        (project / f"docs/issues/{number}-x.md").write_text("# Title\n")
    assert main(["init", "--lld-dir", "designs", "--drafter", "offline"]) == 0
    shown = capsys.readouterr().out
    assert f"Wrote {project / 'agentos.toml'}" in shown
    assert "issues: 2 in docs/issues" in shown
    assert "briefs: no folder ideas/active yet" in shown
    assert "keys:   env-google (google)" in shown
    assert "git:    repository project" in shown
    assert SECRET not in shown + (project / "agentos.toml").read_text()
    settings = load_settings(project, {})
    assert (settings.documents.lld_dir, settings.models.drafter) == ("designs", "offline")


def test_init_overwrites_only_when_told_to(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "agentos.toml").write_text("[limits]\nparallel = 7\n")
    assert main(["init"]) == 2
    assert "exists: edit it, or overwrite it with --force" in capsys.readouterr().err
    assert load_settings(project, {}).limits.parallel == 7
    assert main(["init", "--force", "--issues", "github:owner/repo?label=ready"]) == 0
    assert "issues: github:owner/repo?label=ready (not looked at)" in capsys.readouterr().out
    assert load_settings(project, {}).sources.issues == "github:owner/repo?label=ready"


def test_init_refuses_a_source_it_does_not_know(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "--issues", "gitlab:owner/repo"]) == 2
    assert "Unknown source" in capsys.readouterr().err
    assert not (project / "agentos.toml").exists()


def test_init_says_what_is_wrong_with_what_it_found(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.rmtree(project / ".git")
    for name in ("1-a.md", "01-b.md"):
        (project / "docs/issues" / name).write_text("# Title\n")
    assert main(["init"]) == 0
    shown = capsys.readouterr().out
    assert "issues: 1 in docs/issues, 1 problem; 01-b.md: 1-a.md has the id 1 too" in shown
    assert "not a repository" in shown
    assert "none; `agentos keys add google --provider google` adds one" in shown


@pytest.fixture
def shown_item(project: Path) -> Path:
    path = project / "docs/lld/active/LLD-42.md"
    path.parent.mkdir(parents=True)
    info = ApprovalInfo("2026-01-01T00:00:00Z", "a:drafter", "b:reviewer")
    path.write_text(stamp_approval("# 42 - \x1b[31mRed\n\n## 1. Context\n* **Status:** Draft\n", info))
    lineage = Lineage(lineage_dir(project, Settings(), "LLD-42"))
    lineage.record("issue", "# The issue\n")
    lineage.record("prompt-design", "Write it.\n")
    return path


def test_show_tells_everything_about_an_item(shown_item: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "lld-42"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"LLD-42  {shown_item}\n")
    assert "status:   Approved" in shown
    assert "approval: 2026-01-01T00:00:00Z, drafted by a:drafter, reviewed by b:reviewer" in shown
    assert "001 issue" in shown
    assert "error LLD002" in shown
    assert "\x1b" not in shown
    assert main(["show", "42", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["item"] == "LLD-42"
    assert [entry["kind"] for entry in document["lineage"]] == ["issue", "prompt-design"]
    assert document["last_run"] is None


def test_show_names_the_last_run_and_its_log(
    shown_item: Path, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = ItemSummary(id="42", outcome=NEEDS_REVISION, reason="two rounds found the same", log="42.log")
    for run_id, project_dir in (("20260101-000000-000001", str(project)), ("20260101-000000-000002", "/elsewhere")):
        summary = RunSummary(run=run_id, workflow="lld", project_dir=project_dir, items=(ended,))
        run_dir = runs_dir() / run_id
        run_dir.mkdir(parents=True)
        (run_dir / "summary.json").write_text(json.dumps(summary.to_document()))
    assert main(["show", "42"]) == 0
    shown = capsys.readouterr().out
    assert "last run: 20260101-000000-000001, needs revision: two rounds found the same" in shown
    assert f"log:      {runs_dir() / '20260101-000000-000001/42.log'}" in shown
    assert main(["show", "42", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["last_run"]["outcome"] == "needs_revision"


def test_show_of_an_issue_is_checked_as_one(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "docs/issues/exports.md").write_text("# Exports\n")
    assert main(["show", "ISSUE-exports"]) == 0
    assert "error ISS002" in capsys.readouterr().out


def test_show_prints_entries_of_the_history(shown_item: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "LLD-42", "--lineage", "1"]) == 0
    assert capsys.readouterr().out == "# The issue\n"
    assert main(["show", "LLD-42", "--prompt"]) == 0
    assert capsys.readouterr().out == "Write it.\n"
    assert main(["show", "LLD-42", "--lineage", "9"]) == 2
    assert "LLD-42 has no entry 9 in its history: it has 1 to 2." in capsys.readouterr().err


def test_show_says_when_an_approval_no_longer_counts(shown_item: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown_item.write_text(shown_item.read_text().replace("## 1. Context", "## 1. Context\n\nEdited."))
    main(["show", "LLD-42"])
    assert "no longer counts, the document changed" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["LLD-7", "ISSUE-nothing", "../x"])
def test_show_of_the_unknown_is_refused(project: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", name]) == 2
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.parametrize("command", ["agentos", "lld-workflow", "issue-workflow"])
def test_completion_scripts_name_commands_and_options(
    shell: str, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["completion", shell, "--command", command]) == 0
    script = capsys.readouterr().out
    assert command in script
    assert "dry-run" in script
    assert ("review" in script) if command == "agentos" else ("max-rounds" in script)


def test_zsh_asks_for_names_when_they_are_completed_and_not_when_it_loads_the_script(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Inside double quotes, which is where the script has them, a bare `$(` runs at once."""
    assert main(["completion", "zsh"]) == 0
    asking = [line for line in capsys.readouterr().out.splitlines() if "completion --names" in line]
    assert len(asking) > 10
    assert all(
        re.search(r":\{compadd -- \\\$\(\S+ completion --names \w+ 2>/dev/null\)\}\"$", line) for line in asking
    ), asking[0]


@pytest.mark.needs_bash
def test_the_bash_completion_works_in_bash(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["completion", "bash"])
    script = tmp_path / "agentos.bash"
    script.write_text(capsys.readouterr().out)
    ask = f"source {script}; COMP_WORDS=(agentos re); COMP_CWORD=1; _shtab_agentos; printf '%s\\n' ${{COMPREPLY[@]}}"
    done = subprocess.run(["bash", "-c", ask], capture_output=True, text=True, check=False)
    assert "review" in done.stdout.split(), done.stderr

"""`agentos show`, `diff` and `open`: what there is of an item, as a person at a terminal or a script wants it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from backlog import OFFLINE, Backlog
from harness import Sandbox
from terminal import Terminal


@pytest.fixture(scope="module")
def designed(shared_backlog: Backlog) -> Backlog:
    """One design, approved and then edited by a person."""
    shared_backlog.add_issues(1, 2)
    assert shared_backlog.lld("1", *OFFLINE).code == 0
    path = shared_backlog.lld_path(1)
    path.write_text(path.read_text().replace("## 3. Requirements", "## 3. Requirements\n\nBy hand: \x1b[31mred\n"))
    return shared_backlog


def test_show_renders_on_a_terminal_and_is_plain_in_a_pipe(designed: Backlog) -> None:
    piped = designed.command("show", "1")
    with Terminal(designed, "show", "1", rows=2000, env={"PAGER": "false"}) as terminal:
        assert terminal.wait() == 0
        drawn = terminal.text()

    assert piped.code == 0
    assert "## 3. Requirements" in piped.stdout
    assert "## 3. Requirements" not in drawn  # A heading is a heading, without its marks.
    assert "3. Requirements" in drawn
    for text in (piped.stdout, drawn):
        assert "agentos:approval" not in text
        assert "document_hash" not in text
        assert "no longer counts" in text
        assert "\x1b[31mred" not in text
    assert "\x1b" not in piped.stdout


def test_show_goes_through_the_pager_when_it_is_longer_than_the_window(designed: Backlog) -> None:
    seen = designed.root / "paged.txt"
    with Terminal(designed, "show", "1", rows=10, env={"PAGER": f"tee {seen}"}) as terminal:
        assert terminal.wait() == 0
    assert "Requirements" in seen.read_text()


def test_diff_shows_what_was_edited_since_the_last_draft(designed: Backlog) -> None:
    done = designed.command("diff", "LLD-1")
    assert done.code == 0, done.stderr
    added = [line for line in done.lines if line.startswith("+") and not line.startswith("+++")]
    assert "+By hand: red" in added
    assert not any("approval" in line for line in added)
    unknown = designed.command("diff", "LLD-2")
    assert (unknown.code, unknown.stderr) == (2, "agentos: error: LLD-2 has no document and no draft yet.\n")
    assert "has no entry 99 in its history" in designed.command("diff", "LLD-1", "--from", "99").stderr
    assert "Did you mean LLD-1" in designed.command("show", "LLD-11").stderr
    assert "Did you mean" not in designed.command("show", "login").stderr


def test_diff_shows_the_code_of_a_branch(designed: Backlog) -> None:
    project = designed.project
    git = ["git", "-c", "user.name=A", "-c", "user.email=a@example.invalid", "-c", "commit.gpgsign=false"]
    steps = (["add", "."], ["commit", "-qm", "all"], ["checkout", "-qb", "agentos/1"])
    for words in steps:
        subprocess.run([*git, *words], cwd=project, check=True)
    (project / "src/app.py").write_text("CODE = 1\n")
    for words in (["commit", "-qam", "code"], ["checkout", "-q", "-"]):
        subprocess.run([*git, *words], cwd=project, check=True)
    record = _record(designed)
    record.parent.mkdir(parents=True)
    record.write_text('{"document_hash": "x", "branch": "agentos/1", "commit": "x", "base": "HEAD"}')

    assert "+CODE = 1" in designed.command("diff", "1").lines
    assert "+CODE = 1" in designed.command("diff", "IMPL-1").lines
    assert "+CODE = 1" not in designed.command("diff", "LLD-1").lines


def test_show_does_not_call_a_rehearsal_implemented(designed: Backlog) -> None:
    record = _record(designed).with_name("2.json")
    record.parent.mkdir(parents=True, exist_ok=True)
    record.write_text(
        '{"document_hash": "x", "branch": "agentos/2", "commit": "x", "base": "HEAD", "is_rehearsal": true}'
    )
    shown = designed.command("show", "IMPL-2")
    assert shown.code == 0, shown.stderr
    assert "  status:   rehearsed on agentos/2, a branch that is gone" in shown.lines


def _record(backlog: Backlog) -> Path:
    (project,) = (backlog.home / "lineage").iterdir()
    return backlog.home / "implemented" / project.name / "1.json"


def test_open_starts_the_editor_at_a_terminal_and_prints_the_path_elsewhere(designed: Backlog) -> None:
    path, issue = designed.lld_path(1), designed.project / "docs/issues/001-feature.md"
    editor = designed.root / "editor"
    editor.write_text('#!/bin/sh\necho "edits $1"\n')
    editor.chmod(0o755)

    assert designed.command("open", "1", env={"EDITOR": str(editor)}).lines == [str(path)]
    assert designed.command("open", "1", "--issue").lines == [str(issue)]
    assert designed.command("open", "2").lines == [str(designed.project / "docs/issues/002-feature.md")]
    assert designed.command("open", "3").code == 2
    for name, value, words in (
        ("VISUAL", "no-such-editor -w", "VISUAL is 'no-such-editor -w', and there is no program 'no-such-editor' on"),
        ("EDITOR", "vi 'x", 'EDITOR is "vi \'x": No closing quotation'),
        ("EDITOR", "", "To open it, set EDITOR to your editor"),
        ("EDITOR", "false", f"false ended with status 1; the document is {path}"),
    ):
        with Terminal(designed, "open", "1", columns=500, env={"VISUAL": "", "EDITOR": "", name: value}) as terminal:
            terminal.wait()
            assert words in terminal.text()
    with Terminal(designed, "open", "LLD-1", columns=500, env={"VISUAL": str(editor)}) as terminal:
        assert terminal.wait() == 0
        assert f"edits {path}" in terminal.text()


def test_items_of_ones_own_graph_are_looked_at_by_the_same_commands(sandbox: Sandbox) -> None:
    sandbox.write_items({"id": "good"}, {"id": "bad", "input": {"tasks": {"n1": "fail"}}})
    assert sandbox.run().code == 1

    good, bad = sandbox.command("show", "good"), sandbox.command("show", "bad")
    assert '"n1"' in good.stdout
    assert "  result:   below" in good.lines
    assert (bad.code, "failed" in bad.stdout) == (0, True)
    assert "result" not in bad.stdout
    assert "null" not in bad.stdout
    for words in (("review", "bad"), ("review", "bad", "--approve"), ("diff", "bad"), ("open", "bad")):
        refused = sandbox.command(*words)
        assert (refused.code, "bad is an item of the graph graphs-steps-graph" in refused.stderr) == (2, True)
    asks = "asks nothing now: such an item waits where its graph calls interrupt(). See: agentos show bad"
    assert asks in sandbox.command("review", "bad").stderr


@pytest.mark.needs_bash
def test_completion_knows_issues_items_runs_and_keys(designed: Backlog) -> None:
    script = designed.root / "completion.bash"
    script.write_text(designed.command("completion", "bash").stdout)
    assert designed.command("keys", "add", "alpha", "--provider", "google", "--env", "NO_SUCH_VARIABLE").code == 0

    def completed(*words: str) -> list[str]:
        quoted = " ".join(f'"{word}"' for word in words)
        text = (
            f"source {script}; COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; "
            '_shtab_agentos; printf "%s\\n" "${COMPREPLY[@]}"'
        )
        done = designed.start_command("-c", text, program=Path("/bin/bash")).wait()
        return done.stdout.split()

    run = designed.run_dirs()[-1].name
    assert completed("agentos", "lld", "") == ["1", "2"]
    assert completed("agentos", "show", "LLD") == ["LLD-1", "LLD-2"]
    assert completed("agentos", "runs", "show", run[:8]) == [each.name for each in reversed(designed.run_dirs())]
    assert completed("agentos", "ctl", "pau") == ["pause"]
    assert run in completed("agentos", "ctl", run[:8])
    assert completed("agentos", "keys", "rm", "a") == ["alpha"]
    assert completed("agentos", "config", "models.d") == ["models.drafter"]
    assert "alpha" not in completed("agentos", "keys", "add", "a")

"""Every command block of the README, the quickstart and the guides, run in a project like a newcomer's."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from backlog import Backlog

PROJECT_DIR = Path(__file__).parents[2]
PAGES = ("README.md", "docs/quickstart.md")
GUIDES = ("docs/howto/tuning.md", "docs/howto/troubleshooting.md", "docs/howto/best-practices.md")
OURS = ("agentos", "lld-workflow", "issue-workflow")
# What is not ours to run here: it installs, or takes minutes, or is the reader's own folder.
OTHERS = ("make", "pip", "pipx", "uv", "python3", "cd")
# No minutes of tests, and no call to a provider: what they would do is enough.
CUT_SHORT = {"implement": ["--dry-run"], "pipeline": ["--dry-run"], "doctor": ["--no-calls", "--no-suite"]}
GRAPH = """
from langgraph.graph import END, START, StateGraph
from typing_extensions import TypedDict


class State(TypedDict, total=False):
    path: str


graph = StateGraph(State)
graph.add_node("review", lambda state: {})
graph.add_edge(START, "review")
graph.add_edge("review", END)
"""


def command_lines(page: str) -> list[str]:
    """The lines of all blocks without a language."""
    text = (PROJECT_DIR / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [line for language, block in blocks if not language for line in block.splitlines() if line.strip()]


def prepare(backlog: Backlog) -> None:
    """What the pages speak of: issues 42 and 43, a brief, a graph with its items."""
    backlog.add_issues(42, 43)
    backlog.add_brief("dark-mode")
    (backlog.project / "flows").mkdir()
    (backlog.project / "flows/review.py").write_text(GRAPH)
    (backlog.project / "items.jsonl").write_text('{"id": "a1", "input": {"path": "src/app.py"}}\n')
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.invalid", "-c", "commit.gpgsign=false"]
    for arguments in (["add", "."], ["commit", "--quiet", "-m", "The project"]):
        subprocess.run([*git, *arguments], cwd=backlog.project, check=True, stdin=subprocess.DEVNULL)


def paste(backlog: Backlog, words: list[str]) -> subprocess.CompletedProcess[str]:
    """A line as typed in the project's folder, but without a network, whatever key was added on the way."""
    more = [word for word in CUT_SHORT.get(words[1], ()) if word not in words]
    programs = f"{Path(sys.executable).parent}{os.pathsep}{backlog.environment['PATH']}"
    nowhere = {"AGENTOS_PROVIDERS__GOOGLE__BASE_URL": "http://127.0.0.1:9"}
    offline = {"AGENTOS_DRAFTER": "offline", "AGENTOS_REVIEWER": "offline", "PATH": programs, **nowhere}
    return subprocess.run(
        ["sh", "-c", shlex.join([*words, *more])],
        cwd=backlog.project,
        env=backlog.environment | offline,
        input="a-secret-of-nobody\n",
        capture_output=True,
        text=True,
        check=False,
    )


def paste_all(backlog: Backlog, page: str) -> list[str]:
    """The lines of ours that were run, each of which has to succeed."""
    lines = [(line, shlex.split(line, comments=True)) for line in command_lines(page)]
    assert [line for line, words in lines if words[0] not in (*OURS, *OTHERS)] == []
    own = {line: words for line, words in lines if words[0] in OURS}
    for line, words in own.items():
        done = paste(backlog, words)
        assert done.returncode == 0, (line, done.stdout, done.stderr)
    return list(own)


@pytest.mark.parametrize("page", PAGES)
def test_every_documented_command_works_in_the_order_of_the_page(backlog: Backlog, page: str) -> None:
    prepare(backlog)
    assert len(paste_all(backlog, page)) >= 8


def test_every_command_of_the_guides_works_after_a_first_run(backlog: Backlog) -> None:
    prepare(backlog)
    assert paste(backlog, ["lld-workflow", "42"]).returncode == 0
    for page in GUIDES:
        assert paste_all(backlog, page), page


@pytest.mark.parametrize("page", sorted((PROJECT_DIR / "docs/howto").glob("*.md")), ids=lambda page: page.stem)
def test_no_command_of_a_guide_has_places_to_fill_in(page: Path) -> None:
    lines = [line.strip() for line in page.read_text(encoding="utf-8").splitlines()]
    ours = [line.partition("  #")[0] for line in lines if line.startswith(tuple(f"{name} " for name in OURS))]
    assert [line for line in ours if "…" in line or "[" in line] == []


def test_every_documented_make_target_exists() -> None:
    targets = set(re.findall(r"^([\w-]+):", (PROJECT_DIR / "Makefile").read_text(), re.MULTILINE))
    named = {line.split()[1] for page in PAGES for line in command_lines(page) if line.startswith("make ")}
    assert named <= targets


def test_no_page_installs_from_an_index_where_we_are_not() -> None:
    """The distribution is not published: a line that asks the index for it fails, or installs a stranger's."""
    pages = [PROJECT_DIR / "README.md", PROJECT_DIR / "CONTRIBUTING.md", *(PROJECT_DIR / "docs").rglob("*.md")]
    by_name = re.compile(r"\binstall\s[^`\n]*['\" ]agentos(-workflows)?\b(\[|['\"]|$)", re.MULTILINE)
    assert [str(page) for page in pages if by_name.search(page.read_text(encoding="utf-8"))] == []

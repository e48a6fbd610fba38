"""A sandbox whose project is a git repository, with workstreams in it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from harness import Finished, Sandbox, Started

from agentos.settings import load_settings
from agentos.workstreams.commands import ProjectWorkstreams
from agentos.workstreams.state import status_word

GRAPH = ("--graph", "graphs/streams.py:graph")


class Workshop(Sandbox):
    """`ws` runs `agentos ws …` to its end; `make` makes workstreams whose text tells a sample graph what to do."""

    def __post_init__(self) -> None:
        (self.root / "user").mkdir(parents=True)
        self.environment = {"HOME": str(self.root / "user"), "GIT_CONFIG_NOSYSTEM": "1", **self.environment}
        super().__post_init__()
        (self.project / ".gitignore").write_text("__pycache__/\n.env\n")
        (self.project / "app.py").write_text("def answer():\n    return 41\n")
        self.git("init", "--quiet", "--initial-branch=main")
        self.git("config", "user.name", "A User")
        self.git("config", "user.email", "user@example.com")
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "Start")

    def git(self, *arguments: str, cwd: Path | None = None) -> str:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        done = subprocess.run(
            ["git", *arguments],
            cwd=cwd or self.project,
            env=clean | self.environment,
            check=True,
            capture_output=True,
            text=True,
            timeout=60,
        )
        return done.stdout.strip()

    def ws(self, *arguments: str, **choices: Any) -> Finished:
        return self.command("ws", *arguments, **choices)

    def converse(self, *lines: str) -> Finished:
        """Pipe these lines into `agentos repl`: many commands for the price of one process."""
        read, write = os.pipe()
        started = self.start_command("repl", stdin=read)
        os.close(read)
        os.write(write, "".join(f"{line}\n" for line in lines).encode())
        os.close(write)
        return started.wait()

    def make(self, **texts: str) -> None:
        """One workstream each, `_` in names becoming `-`. In this process: the command has a test of its own."""
        for name, text in texts.items():
            self._workstreams().new(name.replace("_", "-"), text)

    def _workstreams(self) -> ProjectWorkstreams:
        return ProjectWorkstreams.open(self.project, load_settings)

    def start_run(self, *arguments: str) -> Started:
        return self.start_command("ws", "run", *arguments, *GRAPH)

    def run_graph(self, *arguments: str) -> Finished:
        return self.start_run(*arguments).wait()

    def states(self) -> dict[str, str]:
        """What any command would see now."""
        return {slug: status_word(found.state) for slug, found in self._workstreams().refreshed().items()}

    def history(self, slug: str) -> list[tuple[str, str | None]]:
        """Event and state after it, oldest first."""
        (path,) = self.home.glob("workstreams/*/history.jsonl")
        entries = [json.loads(line) for line in path.read_text().splitlines()]
        return [(entry["event"], entry["to"]) for entry in entries if entry["slug"] == slug]

    def worktree(self, slug: str) -> Path:
        path = self._workstreams().refreshed()[slug].path
        assert path is not None
        return path

    def commit(self, slug: str, name: str) -> str:
        """A file of that name in the workstream's worktree, committed; its commit."""
        worktree = self.worktree(slug)
        (worktree / name).write_text("x\n")
        self.git("add", "--all", cwd=worktree)
        self.git("commit", "--quiet", "--message", name, cwd=worktree)
        return self.git("rev-parse", "HEAD", cwd=worktree)


@contextmanager
def workshop(root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workshop]:
    """Made and, at the end, closed. What this process does about workstreams happens in the same home."""
    made = Workshop(root)
    for name in ("AGENTOS_HOME", "HOME", "GIT_CONFIG_NOSYSTEM"):
        monkeypatch.setenv(name, made.environment[name])
    try:
        yield made
    finally:
        made.close()


def results_of(finished: Finished) -> dict[str, dict[str, Any]]:
    """The results at the end of `ws run --json`, by slug. Everything before them is JSON too."""
    records = [json.loads(line) for line in finished.lines]
    return {record["slug"]: record for record in records if record["type"] == "workstream_result"}

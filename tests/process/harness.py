"""The installed command in a sandbox: its own AGENTOS_HOME, a project, sample graphs, and ways to watch a run."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from agentos.processes import host

AGENTOS = Path(sys.executable).with_name("agentos")
DEADLINE_SECONDS = 300.0
"""Far more than anything here takes on an idle machine; a loaded one gets its time."""
STOP_DEADLINE_SECONDS = 120.0
"""Five are promised, and `python -m benchmarks stopping` holds us to them; here others may have the processors."""
_NOT_PASSED_ON = ("COLUMNS", "LINES", "PYTHONUNBUFFERED")
"""A test runner's idea of a window and of buffers is not what a command in a pipe has."""
_GRAPHS_DIR = Path(__file__).parent / "graphs"
_T = TypeVar("_T")
Record = dict[str, Any]


def eventually(condition: Callable[[], _T], what: str, seconds: float = DEADLINE_SECONDS) -> _T:
    """The condition's first true value. Fails, saying what never came, when the deadline passes."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {seconds:g} s")
        time.sleep(0.01)


def records(home: Path) -> list[Record]:
    """Every record of every run under `home`, oldest run first. A line still being written is left out."""
    found: list[Record] = []
    for path in sorted(home.glob("logs/parallel/*/workflow-audit.jsonl")):
        *whole, _rest = path.read_bytes().split(b"\n")
        found += [json.loads(line) for line in whole]
    return found


def of_type(found: Iterable[Record], kind: str, item: str | None = None) -> list[Record]:
    return [r for r in found if r["type"] == kind and item in (None, r.get("item"))]


def processes_with(variable: str, value: str | Path) -> list[int]:
    return host.processes_with(variable, str(value))


def no_process_left(marker: str | Path, variable: str = "AGENTOS_HOME", seconds: float = 60.0) -> None:
    """Fail unless every process of the sandbox ends in time."""
    try:
        eventually(lambda: not processes_with(variable, marker), "no process left", seconds)
    except AssertionError:
        left = {pid: _command_line(pid) for pid in processes_with(variable, marker)}
        raise AssertionError(f"still running: {left}") from None


def _command_line(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return "gone"


@dataclass(frozen=True)
class Finished:
    """A command that ran to its end."""

    code: int
    stdout: str
    stderr: str

    @property
    def lines(self) -> list[str]:
        return self.stdout.splitlines()


def resume_line(finished: Finished) -> str:
    """What a run told the user to type."""
    text = finished.stdout + finished.stderr
    return next(line.partition("Resume with: ")[2] for line in text.splitlines() if "Resume with: " in line)


@dataclass
class Started:
    """A command under way. What it prints goes to files, so that a test never holds it up."""

    process: subprocess.Popen[bytes]
    sandbox: Sandbox
    stdout_path: Path
    stderr_path: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    def stdout(self) -> str:
        return self.stdout_path.read_text(errors="replace")

    def stderr(self) -> str:
        return self.stderr_path.read_text(errors="replace")

    def wait_for_line(self, text: str, seconds: float = DEADLINE_SECONDS) -> str:
        """The first whole line on stdout that contains `text`."""
        return self._while_running(lambda: next((x for x in self._whole_lines() if text in x), ""), text, seconds)

    def wait_for_record(self, kind: str, seconds: float = DEADLINE_SECONDS, **values: Any) -> Record:
        """The first record of this kind with these values in any run of the sandbox."""

        def find() -> Record:
            matching = (r for r in of_type(self.sandbox.records(), kind) if values.items() <= r.items())
            return next(matching, {})

        return self._while_running(find, f"{kind} {values}", seconds)

    def wait(self, seconds: float = DEADLINE_SECONDS) -> Finished:
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {seconds:g} s:\n{self.stdout()[-2000:]}") from None
        return Finished(code, self.stdout(), self.stderr())

    def kill(self, number: int = signal.SIGKILL) -> None:
        with suppress(ProcessLookupError):
            self.process.send_signal(number)

    def fork_server(self) -> int:
        """The coordinator's only child."""
        return eventually(lambda: next(iter(children_of(self.pid)), 0), "a fork server")

    def _whole_lines(self) -> list[str]:
        return self.stdout().split("\n")[:-1]

    def _while_running(self, find: Callable[[], _T], what: str, seconds: float) -> _T:
        def find_or_give_up() -> _T:
            is_over = self.process.poll() is not None
            value = find()
            if not value and is_over:
                raise AssertionError(
                    f"{what}: never came; the command ended with {self.process.returncode}:\n"
                    f"{self.stdout()[-3000:]}\n{self.stderr()[-3000:]}"
                )
            return value

        return eventually(find_or_give_up, what, seconds)


def children_of(pid: int) -> list[int]:
    try:
        text = "".join(path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children"))
    except OSError:
        return []
    return [int(child) for child in text.split()]


def gateways_of(coordinator: int) -> list[int]:
    """The processes that put keys into a run's calls."""
    found = [(child, Path(f"/proc/{child}/cmdline").read_bytes()) for child in children_of(coordinator)]
    return [child for child, command in found if b"agentos.gateway.process" in command]


@dataclass
class Sandbox:
    """A project with the sample graphs in `graphs/`, a home, and the installed command."""

    root: Path
    environment: dict[str, str] = field(default_factory=dict)
    started: list[Started] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.home = self.root / "home"
        self.project = self.root / "project"
        self.journal = self.root / "journal.txt"
        self.project.mkdir(parents=True)
        shutil.copytree(_GRAPHS_DIR, self.project / "graphs", ignore=shutil.ignore_patterns("__pycache__"))
        self.environment = {
            **{n: v for n, v in os.environ.items() if not n.startswith("AGENTOS_") and n not in _NOT_PASSED_ON},
            "AGENTOS_HOME": str(self.home),
            # The command is installed: a shell finds it by its name.
            "PATH": f"{AGENTOS.parent}{os.pathsep}{os.environ['PATH']}",
            "JOURNAL": str(self.journal),
            "PYTHONDONTWRITEBYTECODE": "1",  # Whatever appears in the project was put there by the command.
            **self.environment,
        }

    def write_items(self, *items: Mapping[str, Any], name: str = "items.jsonl") -> Path:
        """One JSON object a line; beside the project, so that the project holds nothing but its own."""
        path = self.root / name
        path.write_text("".join(json.dumps(item) + "\n" for item in items))
        return path

    def arguments(self, *more: str, graph: str = "steps", items: str = "items.jsonl") -> list[str]:
        """`agentos run` over a sample graph; `graph` may also be a whole spec."""
        spec = graph if ":" in graph else f"graphs/{graph}.py:graph"
        return ["run", "--graph", spec, "--items", str(self.root / items), *more]

    def run(self, *more: str, seconds: float = DEADLINE_SECONDS, **choices: Any) -> Finished:
        """`agentos run` to its end."""
        return self.start(*more, **choices).wait(seconds)

    def start(self, *more: str, **choices: Any) -> Started:
        """`agentos run`, and do not wait."""
        env, cwd = choices.pop("env", {}), choices.pop("cwd", self.project)
        return self.start_command(*self.arguments(*more, **choices), env=env, cwd=cwd)

    def command(self, *arguments: str, **choices: Any) -> Finished:
        """Any `agentos` command to its end."""
        return self.start_command(*arguments, **choices).wait()

    def start_command(
        self,
        *arguments: str,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        program: Path = AGENTOS,
        **popen: Any,
    ) -> Started:
        """Any `agentos` command, or another program. `popen` overrides how it is started (`stdin=`, `stdout=`)."""
        number = len(self.started)
        out, err = self.root / f"stdout-{number}.txt", self.root / f"stderr-{number}.txt"
        with out.open("wb") as stdout, err.open("wb") as stderr:
            process = subprocess.Popen(
                [str(program), *arguments],
                cwd=cwd or self.project,
                env={**self.environment, **(env or {})},
                **{"stdin": subprocess.DEVNULL, "stdout": stdout, "stderr": stderr, **popen},
            )
        command = Started(process, self, out, err)
        self.started.append(command)
        return command

    def paste(self, finished: Finished, **choices: Any) -> Finished:
        """Do in a shell what the run's last lines say resumes it."""
        return self.start_command("-c", resume_line(finished), program=Path("/bin/sh"), **choices).wait()

    def records(self) -> list[Record]:
        return records(self.home)

    def endings(self) -> dict[str, Record]:
        """Each item's last `item_ended`."""
        return {record["item"]: record for record in of_type(self.records(), "item_ended")}

    def outcomes(self) -> dict[str, str]:
        return {item: record["outcome"] for item, record in self.endings().items()}

    def run_dirs(self) -> list[Path]:
        return sorted(self.home.glob("logs/parallel/*"))

    def databases(self) -> list[str]:
        """Names of all checkpoint files, side files too."""
        return sorted(p.name for p in self.home.glob("checkpoints/*/*") if p.name != "claims.lock")

    def notes(self) -> list[str]:
        """What nodes have written to the journal: `ITEM NODE start|end`, in the order it happened."""
        return self.journal.read_text().splitlines() if self.journal.exists() else []

    def wait_for_note(self, note: str, seconds: float = DEADLINE_SECONDS) -> None:
        eventually(lambda: note in self.notes(), f"journal: {note!r}", seconds)

    def release(self, name: str) -> None:
        """Let nodes go on that wait for this file."""
        (self.root / name).touch()

    def close(self) -> None:
        """Whatever a test did, nothing of it may outlive its commands."""
        for command in self.started:
            if command.process.poll() is None:
                command.kill()
            command.process.wait()
            for stream in (command.process.stdin, command.process.stdout, command.process.stderr):
                if stream is not None:
                    stream.close()
        try:
            no_process_left(self.home)
        finally:
            for pid in processes_with("AGENTOS_HOME", self.home):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

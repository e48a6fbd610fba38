"""Runs tests in a sandbox: pytest with coverage first, any other command by exit code and JUnit XML."""

from __future__ import annotations

import ast
import contextlib
import glob
import itertools
import json
import os
import secrets
import shlex
import shutil
import signal
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from agentos.errors import UsageError
from agentos.keys.redaction import map_texts
from agentos.sandbox.isolation import Isolation
from agentos.sandbox.sandbox import Sandbox, SandboxResult, strongest_isolation
from agentos.sandbox.scratch import scratch_folder
from agentos.workflows.implementation.coverage_report import CoverageReportError, parse_coverage
from agentos.workflows.implementation.suite_report import (
    CaseResult,
    FileCoverage,
    JunitError,
    SuiteKilled,
    SuiteReport,
    parse_junit,
)
from agentos.workflows.implementation.untrusted_xml import MAX_XML_BYTES
from agentos.workflows.implementation.watched_run import watched_report

_WATCHER_SECONDS: Final = 60.0
"""What the watcher may need beside the time of the tests: it ends them itself."""
_MAX_ANSWER_BYTES: Final = 128 * 1024 * 1024
_OUR_PLUGIN: Final = ("-p", "no:langsmith_plugin")
_MAX_REPORT_FILES: Final = 2_000
_NO_COVERAGE_FILE: Final = (
    "the test command names no report of it (set [implementation] coverage to the Cobertura or lcov file it writes)"
)
# Where a command may leave its JUnit file when it can be told to.
JUNIT_VARIABLE: Final = "AGENTOS_JUNIT_XML"


def find_python(project_dir: Path, *above: Path, configured: str | None = None) -> Path:
    """The target project's interpreter: as configured, else its virtual environment or one `above` it, else ours.

    Looked for in the user's checkout, never in the worktree, where model-written code could have put one.
    """
    if configured is not None:
        # The project's own first: a relative path means nothing where the command happens to run.
        found = shutil.which(str(project_dir / configured)) or shutil.which(configured)
        if found is None:
            raise UsageError(f"{configured} is not a Python interpreter: set [implementation] python to one")
        return Path(found)
    for directory, folder in itertools.product((project_dir, *above), (".venv", "venv")):
        candidate = directory / folder / "bin" / "python"
        if os.access(candidate, os.X_OK):
            return candidate
    return Path(sys.executable)


@dataclass(frozen=True, slots=True)
class Pytest:
    """Runs a project's tests with pytest in one worktree.

    A process that no code under test is in watches the one that runs the tests, and only that one is believed.
    """

    sandbox: Sandbox
    python: Path
    options: tuple[str, ...] = ()
    """Further options, from the project's configuration."""
    is_plugin: bool = False
    """The project is a plugin of pytest's itself: its folders must be importable before plugins are looked for."""

    def run(
        self, tests: Sequence[str] = (), *, measure: Sequence[str] = (), timeout_seconds: float = 600.0
    ) -> SuiteReport:
        """Run `tests` (files or ids; all when empty), measuring the coverage of the Python files in `measure`.

        Raises UsageError when the interpreter has no pytest, SuiteKilled when something kills the tests twice.
        Coverage is None when the interpreter has no `coverage`.
        """
        for _ in range(2):
            report = self._run_once(tests, measure, timeout_seconds)
            if not report.was_killed:
                return report
        name = signal.Signals(report.signal_number or 0).name
        raise SuiteKilled(
            f"{report.command} was ended by {name}, twice: is there enough memory? The code is not judged."
        )

    def _run_once(self, tests: Sequence[str], measure: Sequence[str], timeout_seconds: float) -> SuiteReport:
        # Masked once it is parsed: what looks like a key may reach over the end of a text.
        place = replace(self.sandbox, readable=(*self.sandbox.readable, self.python.parent.parent), mask=str)
        measured = [path for path in measure if path.endswith(".py")]
        word = secrets.token_hex(16)
        with scratch_folder("agentos-tests-") as scratch:
            request_path = scratch / "request.json"
            request = self._request(scratch, tests, measured, timeout_seconds)
            request_path.write_text(json.dumps({**request, "word": word}))
            result = place.run(
                [str(self.python), "-I", "-B", "-c", _program("watcher"), str(request_path)],
                timeout_seconds=timeout_seconds + _WATCHER_SECONDS,
                env=_python_environment(place.worktree_path),
                scratch_dir=scratch,
                output_limit_bytes=_MAX_ANSWER_BYTES,
            )
        answer = self._answer(result, word)
        command = shlex.join(["python", "-m", "pytest", *tests])
        found = _coverage_files(answer.get("coverage"), place.worktree_path)
        can_measure = bool(measure) and answer.get("coverage") is not None
        coverage = {path: found.get(path) or _never_imported(place.worktree_path / path) for path in measured}
        return watched_report(command, result, answer, coverage if can_measure else None)

    def _request(
        self, scratch: Path, tests: Sequence[str], measured: Sequence[str], timeout_seconds: float
    ) -> dict[str, Any]:
        root = self.sandbox.worktree_path.resolve()
        return {
            "child": _program("pytest_child"),
            "root": str(root),
            "folders": [str(folder) for folder in (root / "src", root) if folder.is_dir()],
            "is_plugin": self.is_plugin,
            # In namespaces of its own only: elsewhere the sandbox could not look at its files in memory any more.
            "is_closed": (self.sandbox.isolation or strongest_isolation()) in (Isolation.BWRAP, Isolation.NAMESPACES),
            "tests": list(tests),
            # The first came with agentos, not with the project, and takes seconds to load.
            "options": [*(_OUR_PLUGIN if self.python == Path(sys.executable) else ()), *self.options],
            "seconds": timeout_seconds,
            "coverage_data": str(scratch / "coverage.data") if measured else "",
            # Fnmatch patterns: `[` in a path would start a character class.
            "measured": [glob.escape(str(root / path)) for path in measured],
        }

    def _answer(self, result: SandboxResult, word: str) -> Mapping[str, Any]:
        """What the watcher said last; empty when it was ended. Raises UsageError when it never spoke.

        Only lines that begin with the word it was given are its own.
        """
        spoken = list(_spoken(result.output, word))
        if not spoken and not result.timed_out:
            said = self.sandbox.mask(result.output.strip()[-200:])
            raise UsageError(f"{self.python} does not run: {said}")
        if spoken and "pytest" not in spoken[0]["available"]:
            raise UsageError(f"{self.python} has no pytest: install it there or set [implementation] test")
        masked: Mapping[str, Any] = map_texts(spoken[1], self.sandbox.mask) if len(spoken) > 1 else {}
        return masked


def _spoken(output: str, word: str) -> Iterator[dict[str, Any]]:
    mark = f"{word} "
    for line in output.split("\n"):
        # Somebody may have written into the middle of a line: then it is not the watcher's any more.
        with contextlib.suppress(ValueError):
            if line.startswith(mark):
                yield json.loads(line.removeprefix(mark))


def _program(name: str) -> str:
    """A program for the sandbox, as text: the package itself need not be visible there."""
    return Path(__file__).with_name("inside").joinpath(f"{name}.py").read_text(encoding="utf-8")


def run_command(
    sandbox: Sandbox,
    line: str,
    *,
    junit_glob: str | None = None,
    coverage_glob: str | None = None,
    timeout_seconds: float = 600.0,
) -> SuiteReport:
    """Run the project's own test command (a line for the shell, from its configuration, never from a model).

    JUnit files it leaves in `$AGENTOS_JUNIT_XML` or at `junit_glob` in the project are read, and coverage at
    `coverage_glob`; old ones are not.
    """
    with scratch_folder("agentos-tests-") as scratch:
        junit_path = scratch / "junit.xml"
        before, coverage_before = (_stamps(sandbox.worktree_path, each) for each in (junit_glob, coverage_glob))
        argv = ["/bin/sh", "-c", line]
        env = {JUNIT_VARIABLE: str(junit_path)}
        result = sandbox.run(argv, timeout_seconds=timeout_seconds, env=env, scratch_dir=scratch)
        fresh = _written_since(before, sandbox.worktree_path, junit_glob)
        parts = [cases for path in (junit_path, *fresh) if (cases := _parsed(_masked(sandbox, path))) is not None]
    cases = tuple(case for part in parts for case in part) if parts else None
    report = _report(line, result, cases, None)
    if coverage_glob is None:
        return replace(report, coverage_problem=_NO_COVERAGE_FILE)
    written = _written_since(coverage_before, sandbox.worktree_path, coverage_glob)
    return _with_coverage(report, sandbox.worktree_path, coverage_glob, written)


def _with_coverage(report: SuiteReport, root: Path, pattern: str, written: Sequence[Path]) -> SuiteReport:
    """The report with what its command's coverage files say, or with why they say nothing."""
    if not written:
        return replace(report, coverage_problem=f"the command wrote no {pattern}")
    coverage: dict[str, FileCoverage] = {}
    for path in written:
        name = path.relative_to(root).as_posix()
        data = read_untrusted(path)
        if data is None:
            return replace(report, coverage_problem=f"{name} is not a plain file of at most {MAX_XML_BYTES} bytes")
        try:
            coverage |= parse_coverage(data, root)
        except CoverageReportError as error:
            return replace(report, coverage_problem=f"{name} cannot be read: {error}")
    return replace(report, coverage=coverage)


def _report(
    command: str,
    result: SandboxResult,
    cases: tuple[CaseResult, ...] | None,
    coverage: Mapping[str, FileCoverage] | None,
) -> SuiteReport:
    return SuiteReport(
        command=command,
        exit_code=result.exit_code,
        timed_out=result.timed_out,
        output=result.output,
        seconds=result.seconds,
        isolation=result.isolation,
        cases=cases,
        coverage=coverage,
    )


def _python_environment(worktree_path: Path) -> dict[str, str]:
    """The worktree's packages come before an editable install, which points to the user's checkout."""
    folders = [str(folder) for folder in (worktree_path / "src", worktree_path) if folder.is_dir()]
    return {"PYTHONPATH": os.pathsep.join(folders)}


def _coverage_files(files: Any, worktree_path: Path) -> dict[str, FileCoverage]:
    try:
        return dict(_coverage_file(name, record, worktree_path.resolve()) for name, record in (files or {}).items())
    except (ValueError, KeyError, TypeError, AttributeError):
        # Comes from data that code under test could write: anything may be in it, and nothing is then measured.
        return {}


def _coverage_file(name: str, record: Mapping[str, Any], root: Path) -> tuple[str, FileCoverage]:
    path = (root / name).resolve()
    missing = tuple(int(line) for line in record["missing_lines"])
    excluded = len(record.get("excluded_lines", ()))
    coverage = FileCoverage(
        int(record["summary"]["num_statements"]),
        missing,
        excluded,
        tuple(int(line) for line in record.get("executed_lines", ())),
        tuple((int(start), int(end)) for start, end in record.get("executed_branches", ())),
        tuple((int(start), int(end)) for start, end in record.get("missing_branches", ())),
    )
    return (path.relative_to(root).as_posix() if path.is_relative_to(root) else name), coverage


def _never_imported(path: Path) -> FileCoverage:
    """No test ran a line of it; a file without statements needs none."""
    try:
        body = ast.parse(path.read_bytes()).body
    except (OSError, SyntaxError, ValueError):
        return FileCoverage(1, (1,))
    lines = tuple(node.lineno for node in body if not _is_docstring(node))
    return FileCoverage(len(lines), lines)


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def read_untrusted(path: Path, limit_bytes: int = MAX_XML_BYTES) -> bytes | None:
    """A file that model-written code may have put there: None unless it is a plain file of a bounded size."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_size > limit_bytes:
            return None
        with os.fdopen(descriptor, "rb", closefd=False) as stream:
            return stream.read(limit_bytes)
    finally:
        os.close(descriptor)


def _masked(sandbox: Sandbox, path: Path) -> bytes | None:
    """An untrusted file without keys: what tests say in it goes into prompts and reports."""
    data = read_untrusted(path)
    return None if data is None else sandbox.mask(data.decode("utf-8", "surrogateescape")).encode("utf-8", "replace")


def _parsed(data: bytes | None) -> tuple[CaseResult, ...] | None:
    try:
        return parse_junit(data) if data else None
    except JunitError:
        # No usable report by test: the exit code decides, and a judge says what it could not see.
        return None


def _written_since(before: Mapping[Path, tuple[int, int]], root: Path, pattern: str | None) -> list[Path]:
    return [path for path, stamp in sorted(_stamps(root, pattern).items()) if before.get(path) != stamp]


def _stamps(root: Path, pattern: str | None) -> dict[Path, tuple[int, int]]:
    if pattern is None:
        return {}
    if pattern.startswith("/") or ".." in pattern.split("/"):
        raise UsageError(f"{pattern!r} is not a pattern inside the project: reports of tests are looked for in it")
    stamps = {}
    for path in sorted(root.glob(pattern))[:_MAX_REPORT_FILES]:
        with contextlib.suppress(OSError):
            found = path.lstat()
            stamps[path] = (found.st_mtime_ns, found.st_ino)
    return stamps

"""Runs tests in a sandbox: pytest with coverage first, any other command by exit code and JUnit XML."""

from __future__ import annotations

import ast
import contextlib
import glob
import itertools
import json
import os
import shlex
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from agentos.errors import UsageError
from agentos.sandbox.bubblewrap import Sandbox, SandboxResult
from agentos.workflows.implementation.coverage_report import CoverageReportError, parse_coverage
from agentos.workflows.implementation.suite_report import (
    CaseResult,
    FileCoverage,
    JunitError,
    SuiteReport,
    parse_junit,
)
from agentos.workflows.implementation.untrusted_xml import MAX_XML_BYTES

_MODULES: Final = ("pytest", "coverage", "pytest_cov", "xdist")
_PROBE: Final = (
    "import importlib.util as u, json; "
    f"print(json.dumps([name for name in {_MODULES!r} if u.find_spec(name) is not None]))"
)
_PROBE_SECONDS: Final = 60.0
_COVERAGE_JSON_SECONDS: Final = 120.0
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
    """Runs a project's tests with pytest in one worktree."""

    sandbox: Sandbox
    python: Path
    options: tuple[str, ...] = ()
    """Further options, from the project's configuration."""

    def run(
        self, tests: Sequence[str] = (), *, measure: Sequence[str] = (), timeout_seconds: float = 600.0
    ) -> SuiteReport:
        """Run `tests` (files or ids; all when empty), measuring the coverage of the Python files in `measure`.

        Raises UsageError when the interpreter has no pytest. Coverage is None when it has no `coverage`.
        """
        place = replace(self.sandbox, readable=(*self.sandbox.readable, self.python.parent.parent))
        available = self._available(place)
        can_measure = bool(measure) and "coverage" in available
        measured = [path for path in measure if path.endswith(".py")] if can_measure else []
        with _scratch() as scratch:
            options = self._options(place.worktree_path, scratch, available)
            argv = [*self._measuring(place, scratch, measured), "-m", "pytest", *options]
            env = _python_environment(place.worktree_path)
            result = place.run([*argv, *tests], timeout_seconds=timeout_seconds, env=env, scratch_dir=scratch)
            found = self._coverage(place, scratch, measured, env) if measured else {}
            coverage = found if can_measure else None
            cases = _parsed(read_untrusted(scratch / "junit.xml"))
        return _report(shlex.join(["python", "-m", "pytest", *tests]), result, cases, coverage)

    def _available(self, place: Sandbox) -> frozenset[str]:
        result = place.run([str(self.python), "-I", "-c", _PROBE], timeout_seconds=_PROBE_SECONDS)
        try:
            available = frozenset(json.loads(result.output))
        except (ValueError, TypeError):
            raise UsageError(f"{self.python} does not run: {result.output.strip()[-200:]}") from None
        if "pytest" not in available:
            raise UsageError(f"{self.python} has no pytest: install it there or set [implementation] test")
        return available

    def _options(self, root: Path, scratch: Path, available: frozenset[str]) -> list[str]:
        """Options that win over the project's own: whole results, no early stop, no files in the worktree."""
        return [
            *("-p", "no:cacheprovider", "--color=no", "--tb=long", "--maxfail=0", "--continue-on-collection-errors"),
            *("-o", "junit_family=xunit1", f"--junitxml={scratch / 'junit.xml'}"),
            # Ids of tests start here, wherever above it a settings file of pytest may be.
            f"--rootdir={root}",
            *(("--no-cov",) if "pytest_cov" in available else ()),
            *(("-n0",) if "xdist" in available else ()),
            # Came with agentos, not with the project, and takes seconds to load.
            *(("-p", "no:langsmith_plugin") if self.python == Path(sys.executable) else ()),
            *self.options,
        ]

    def _measuring(self, place: Sandbox, scratch: Path, measured: list[str]) -> list[str]:
        if not measured:
            return [str(self.python)]
        (scratch / "coveragerc").write_text(_coverage_settings(place.worktree_path, scratch, measured))
        return [str(self.python), "-m", "coverage", "run", f"--rcfile={scratch / 'coveragerc'}"]

    def _coverage(
        self, place: Sandbox, scratch: Path, measured: list[str], env: Mapping[str, str]
    ) -> dict[str, FileCoverage]:
        target = scratch / "coverage.json"
        argv = [str(self.python), "-m", "coverage", "json", f"--rcfile={scratch / 'coveragerc'}", f"-o{target}"]
        place.run(argv, timeout_seconds=_COVERAGE_JSON_SECONDS, env=env, scratch_dir=scratch)
        found = _coverage_files(read_untrusted(target), place.worktree_path)
        return {path: found.get(path) or _never_imported(place.worktree_path / path) for path in measured}


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
    with _scratch() as scratch:
        junit_path = scratch / "junit.xml"
        before, coverage_before = (_stamps(sandbox.worktree_path, each) for each in (junit_glob, coverage_glob))
        argv = ["/bin/sh", "-c", line]
        env = {JUNIT_VARIABLE: str(junit_path)}
        result = sandbox.run(argv, timeout_seconds=timeout_seconds, env=env, scratch_dir=scratch)
        fresh = _written_since(before, sandbox.worktree_path, junit_glob)
        parts = [cases for path in (junit_path, *fresh) if (cases := _parsed(read_untrusted(path))) is not None]
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


@contextlib.contextmanager
def _scratch() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="agentos-tests-", ignore_cleanup_errors=True) as directory:
        yield Path(directory).resolve()


def _python_environment(worktree_path: Path) -> dict[str, str]:
    """The worktree's packages come before an editable install, which points to the user's checkout."""
    folders = [str(folder) for folder in (worktree_path / "src", worktree_path) if folder.is_dir()]
    return {"PYTHONPATH": os.pathsep.join(folders)}


def _coverage_settings(worktree_path: Path, scratch: Path, measured: list[str]) -> str:
    """Our own settings file: the project's may leave files out, or fail the run."""
    # Fnmatch patterns: `[` in a path would start a character class.
    included = "\n".join(f"    {glob.escape(str(worktree_path.resolve() / path))}" for path in measured)
    return f"[run]\ndata_file = {scratch / 'coverage.data'}\ninclude =\n{included}\n"


def _coverage_files(data: bytes | None, worktree_path: Path) -> dict[str, FileCoverage]:
    try:
        files: Mapping[str, Any] = json.loads(data or b"{}").get("files", {})
        return dict(_coverage_file(name, record, worktree_path.resolve()) for name, record in files.items())
    except (ValueError, KeyError, TypeError, AttributeError):
        # Written by a process the code under test shares: anything may be in it, and nothing is then measured.
        return {}


def _coverage_file(name: str, record: Mapping[str, Any], root: Path) -> tuple[str, FileCoverage]:
    path = (root / name).resolve()
    missing = tuple(int(line) for line in record["missing_lines"])
    excluded = len(record.get("excluded_lines", ()))
    coverage = FileCoverage(int(record["summary"]["num_statements"]), missing, excluded)
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

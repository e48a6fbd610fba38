"""The project's tests in an item's worktree: the whole suite, or the new tests with coverage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from agentos.keys.key_shapes import redact_shapes
from agentos.sandbox.limits import Limits
from agentos.sandbox.sandbox import Sandbox, SandboxResult, chosen_isolation, readable_paths
from agentos.settings import Implementation
from agentos.workflows.context import Context
from agentos.workflows.implementation.judging import is_test_file
from agentos.workflows.implementation.left_behind import stamps, written_between
from agentos.workflows.implementation.project_worktree import ProjectWorktree
from agentos.workflows.implementation.suite_report import SuiteReport
from agentos.workflows.implementation.suite_runner import Pytest, find_python, run_command

_TEST_FOLDERS = frozenset({"test", "tests", "__tests__", "spec", "specs", "testing"})
_TEST_NAME_PARTS = ("_test.", ".test.", "_spec.", ".spec.", "Test.", "Tests.")


def is_test_path(path: str) -> bool:
    """Whether a file is a test or serves tests, by its place or its name, in any language."""
    pure = PurePosixPath(path)
    if any(part.lower() in _TEST_FOLDERS for part in pure.parts[:-1]):
        return True
    return is_test_file(path) or any(part in pure.name for part in _TEST_NAME_PARTS)


@dataclass(frozen=True, slots=True)
class ProjectTests:
    """Runs tests as the project wants them run, in the sandbox."""

    context: Context
    worktree: ProjectWorktree

    def suite(self, measure: Sequence[str] = ()) -> SuiteReport:
        """All of the project's tests, measuring the coverage of `measure` where that can be done."""
        if command := self.context.settings.implementation.test:
            return self._command(command)
        return self._run_pytest(measure=measure)

    def new_tests(self, test_files: Sequence[str], before: SuiteReport) -> SuiteReport:
        """The tests in `test_files`.

        A command of the project's own runs everything: what failed `before` is then left out of the report.
        """
        if command := self.context.settings.implementation.test:
            return without_old_failures(self._command(command), before)
        return self.some(test_files)

    def prepare(self) -> SandboxResult:
        """The user's setup command, in the sandbox that tests run in."""
        chosen = self.context.settings.workstreams
        place = replace(self._sandbox(), allow_network=chosen.setup_network == "yes")
        python = find_python(*self._checkout_dirs, configured=self.context.settings.implementation.python or None)
        place = replace(place, readable=(*place.readable, python.parent.parent))
        return place.run(["/bin/sh", "-c", chosen.setup], timeout_seconds=self._timeout_seconds)

    def some(self, files: Sequence[str], *, timeout_seconds: float | None = None) -> SuiteReport:
        """The tests of some files, with pytest."""
        runnable = [path for path in files if path.endswith(".py") and PurePosixPath(path).name != "conftest.py"]
        limit = min(timeout_seconds or self._timeout_seconds, self._timeout_seconds)
        return self._run_pytest([path for path in runnable if is_test_file(path)], timeout_seconds=limit)

    def files_as_they_are(self, files: Sequence[str]) -> SuiteReport:
        """The tests in `files`, or everything when one of them only serves tests: others may depend on it."""
        if self.context.settings.implementation.test:
            return self.suite()
        serve_others = any(not is_test_file(path) or PurePosixPath(path).name == "conftest.py" for path in files)
        return self.suite() if serve_others else self.some(files)

    @property
    def _timeout_seconds(self) -> float:
        return float(self.context.settings.implementation.test_timeout_seconds)

    def _sandbox(self) -> Sandbox:
        whole = self.worktree.worktree.path if self.worktree.folder else None
        chosen, project_dir = self.context.settings.implementation, self.context.project_dir
        linked = [
            path.resolve() for name in self.context.settings.workstreams.link for path in project_dir.glob(name)
        ]
        return Sandbox(
            self.worktree.path,
            chosen_isolation(chosen.sandbox, allow_none=self.context.allows_unsandboxed),
            repository_path=whole,
            passed_on=self.context.reserved_variables,
            readable=(*readable_paths(project_dir, chosen.readable), *linked),
            limits=limits_of(chosen),
            mask=lambda text: redact_shapes(self.context.mask(text)),
        )

    def _command(self, command: str) -> SuiteReport:
        chosen = self.context.settings.implementation
        return run_command(
            self._sandbox(),
            command,
            junit_glob=chosen.junit or None,
            coverage_glob=chosen.coverage or None,
            timeout_seconds=self._timeout_seconds,
        )

    def _run_pytest(
        self, tests: Sequence[str] = (), measure: Sequence[str] = (), timeout_seconds: float | None = None
    ) -> SuiteReport:
        configured = self.context.settings.implementation.python or None
        python = find_python(*self._checkout_dirs, configured=configured)
        pytest = Pytest(self._sandbox(), python, is_plugin=_is_pytest_plugin(self.context.project_dir))
        before = stamps(self.worktree.path)
        report = pytest.run(tests, measure=measure, timeout_seconds=timeout_seconds or self._timeout_seconds)
        return replace(report, written=written_between(before, stamps(self.worktree.path), is_test_path))

    @property
    def _checkout_dirs(self) -> tuple[Path, ...]:
        """The project in the user's checkout, then the folders above it up to the repository's top."""
        depth = len(PurePosixPath(self.worktree.folder).parts)
        project_dir = self.context.project_dir
        return (project_dir, *project_dir.resolve().parents[:depth])


def limits_of(chosen: Implementation) -> Limits:
    return Limits(
        memory_mb=chosen.memory_mb,
        processes=chosen.processes,
        open_files=chosen.open_files,
        file_mb=chosen.file_mb,
        disk_mb=chosen.disk_mb,
    )


def _is_pytest_plugin(project_dir: Path) -> bool:
    """Whether the project is one, as the user's checkout says: what a model wrote is not asked."""
    files = (project_dir / name for name in ("pyproject.toml", "setup.cfg", "setup.py"))
    return any("pytest11" in path.read_text(encoding="utf-8", errors="replace") for path in files if path.is_file())


def without_old_failures(report: SuiteReport, before: SuiteReport) -> SuiteReport:
    """A report of everything, reduced to what this change answers for (pure)."""
    if report.cases is None or before.cases is None:
        return report
    kept = tuple(case for case in report.cases if not (case.is_failing and case.id in before.failing))
    only_old_ones_fail = len(kept) < len(report.cases) and not any(case.is_failing for case in kept)
    return replace(report, cases=kept, exit_code=0 if only_old_ones_fail else report.exit_code)

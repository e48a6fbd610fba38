"""Whether a project's tests can say anything at all: a broken environment told from tests that fail (pure)."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final

from agentos.errors import AgentosError
from agentos.workflows.implementation.suite_report import SuiteReport

_RAN: Final = (0, 1, 5)
"""Exit codes of pytest after a run: passed, failed, nothing collected."""
_SAID_CHARACTERS: Final = 500
_FIX: Final = "under [workstreams] in agentos.toml"
_SETUP: Final = f'`setup = "…"` {_FIX}'
_INSTALL: Final = "in the interpreter of the tests ([implementation] python)"


class UnusableEnvironment(AgentosError):
    """The project's own tests cannot run where nothing is changed yet: no code could be shown to work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What is known about a project beside its tests."""

    tracked: Collection[str]
    """Paths that git keeps, in the project."""
    has_file: Callable[[str], bool]
    """Whether the user's own checkout has a file."""
    empty_submodules: Collection[str] = ()


def environment_problem(report: SuiteReport, around: Surroundings) -> str | None:
    """Why the suite says nothing about code, and what to do; None when it does, even if tests fail."""
    if report.timed_out:
        limit = "raise [implementation] test_timeout_seconds, or have `test` run fewer"
        return f"your own tests do not finish in {report.seconds:.0f} s: {limit}"
    if missing := _missing_own_module(report, around):
        return missing
    has_run = report.exit_code in _RAN and not report.problem
    if has_run and (report.passed or not report.failing):
        return None
    if around.empty_submodules:
        paths = ", ".join(sorted(around.empty_submodules)[:3])
        fix = f'`setup = "git submodule update --init"` and `setup_network = "yes"` {_FIX} fill them'
        return f"submodules are empty in a clean checkout ({paths}): {fix}"
    if not has_run or report.cases is None:
        return None if report.cases is None and report.exit_code in _RAN else _did_not_run(report)
    return _nothing_passes(report)


def _missing_own_module(report: SuiteReport, around: Surroundings) -> str | None:
    """A module of the project that a clean checkout lacks: made by a build, and ignored by git."""
    for module in dict.fromkeys(case.missing_module for case in report.cases or () if case.missing_module):
        top, *rest = module.split(".")
        for root in ("", "src/"):
            if not rest or not any(path.startswith(f"{root}{top}/") for path in around.tracked):
                continue
            path = f"{root}{'/'.join([top, *rest])}.py"
            if path in around.tracked or f"{path.removesuffix('.py')}/__init__.py" in around.tracked:
                continue
            lacks = f"{module} is missing in a clean checkout"
            if around.has_file(path):
                fix = f'add `copy = ["{path}"]` {_FIX}'
                return f"{lacks}; your checkout has {path}, which git does not keep: {fix}"
            return f"{lacks}; {path} is not in git: name the command that makes it, {_SETUP}"
    return None


def _did_not_run(report: SuiteReport) -> str:
    said = " | ".join(line.strip() for line in report.output.splitlines() if line.strip())[-_SAID_CHARACTERS:]
    fix = f"install what is missing {_INSTALL}, or name a command that prepares a checkout, {_SETUP}"
    return f"your own tests do not run on a clean checkout (exit code {report.exit_code}): {said}. To fix it, {fix}"


def _nothing_passes(report: SuiteReport) -> str | None:
    """Not one test passes, and all for want of something that is not there."""
    failing = [case for case in report.cases or () if case.is_failing]
    modules = sorted({case.missing_module.partition(".")[0] for case in failing if case.missing_module})
    if not modules or not all(case.missing_module or case.is_collection_error for case in failing):
        return None
    example = failing[0].id.partition("::")[0]
    fix = f"install them {_INSTALL}, or with {_SETUP}"
    return f"no test of yours can be imported on a clean checkout ({example} needs {', '.join(modules[:5])}): {fix}"

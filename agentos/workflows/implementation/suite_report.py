"""What a test run says: typed cases out of JUnit XML, read as the untrusted text it is."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from signal import SIGKILL, SIGTERM
from typing import Final
from xml.etree import ElementTree

from agentos.errors import AgentosError
from agentos.sandbox.isolation import Isolation
from agentos.workflows.implementation.untrusted_xml import UntrustedXmlError, read_xml

_MAX_MESSAGE_CHARACTERS: Final = 4_000

_ERROR_NAME: Final = r"(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*"
_LOCATION: Final = re.compile(rf"^(?P<file>[^\s:<>][^:\n]*):\d+: (?P<rest>in .+|{_ERROR_NAME})$", re.MULTILINE)
_ERROR_LINE: Final = re.compile(rf"^E {{3,}}(?P<type>{_ERROR_NAME})(?:: |$)", re.MULTILINE)
_SYNTAX_FILE: Final = re.compile(r'^E\s+File "(?P<file>[^"\n]+)", line \d+', re.MULTILINE)
_MISSING_MODULE: Final = re.compile(r"No module named '(?P<name>[\w.]+)'")
_MISSING_NAME: Final = re.compile(
    r"cannot import name '\w+' from (?:partially initialized module )?'(?P<name>[\w.]+)'"
)


class CaseStatus(Enum):
    """How one test ended."""

    PASSED = "passed"
    XPASSED = "xpassed"
    """Passed although it is marked as failing."""
    XFAILED = "xfailed"
    """Failed, as it is marked to."""
    SKIPPED = "skipped"
    FAILED = "failed"
    ERROR = "error"


_WORST_LAST: Final = tuple(CaseStatus)
_READING_ORDER: Final = (
    *(CaseStatus.FAILED, CaseStatus.ERROR, CaseStatus.PASSED),
    *(CaseStatus.SKIPPED, CaseStatus.XFAILED, CaseStatus.XPASSED),
)
_GOOD: Final = (CaseStatus.PASSED, CaseStatus.XPASSED)


class SuiteKilled(AgentosError):
    """Something ended the tests that is not known to be theirs: nothing can be said about the code."""


class JunitError(AgentosError):
    """A JUnit file is not one, is too large, or tries tricks."""


@dataclass(frozen=True, slots=True)
class CaseResult:
    """One test, or one test file that could not be collected."""

    id: str
    """`tests/test_a.py::TestX::test_y[1]`; the file alone when it could not be collected."""
    status: CaseStatus
    file: str | None = None
    is_collection_error: bool = False
    error_type: str | None = None
    """The exception's name, when it could be told."""
    raised_in: str | None = None
    """The file the exception came from."""
    missing_module: str | None = None
    """The module an import did not find, or did not find a name in."""
    message: str = ""

    @property
    def is_failing(self) -> bool:
        return self.status in (CaseStatus.FAILED, CaseStatus.ERROR)


@dataclass(frozen=True, slots=True)
class FileCoverage:
    """How much of a file the tests ran."""

    statements: int
    missing_lines: tuple[int, ...]
    excluded: int = 0
    """Lines that the code asks not to be measured."""
    executed_lines: tuple[int, ...] = field(default=(), compare=False)
    """Empty when a report only says what is missing."""
    branches: tuple[tuple[int, int], ...] = field(default=(), compare=False)
    """Ways from one line to another that the tests took, where a line has several."""
    missing_branches: tuple[tuple[int, int], ...] = field(default=(), compare=False)

    @property
    def parts(self) -> int:
        return self.statements + len(self.branches) + len(self.missing_branches)

    @property
    def missing_parts(self) -> int:
        return len(self.missing_lines) + len(self.missing_branches)

    @property
    def percent(self) -> float:
        """Of its lines and branches."""
        return 100.0 if not self.parts else 100.0 * (1 - self.missing_parts / self.parts)

    def only(self, lines: Collection[int] | None) -> FileCoverage:
        """The same of some of its lines; of all when they are None, or nobody knows which ones ran."""
        if lines is None or (self.statements and not self.executed_lines and not self.missing_lines):
            return self
        missing = tuple(line for line in self.missing_lines if line in lines)
        executed = tuple(line for line in self.executed_lines if line in lines)
        return FileCoverage(
            len(missing) + len(executed),
            missing,
            self.excluded,
            executed,
            tuple(branch for branch in self.branches if branch[0] in lines),
            tuple(branch for branch in self.missing_branches if branch[0] in lines),
        )


CHANGING: Final = "changing "
"""What is reached for begins with it where a file is written (`inside/pytest_child.py`)."""


@dataclass(frozen=True, slots=True)
class Reached:
    """Code of the project that reached for what runs it, while tests ran."""

    path: str
    """Empty when it is not known who did."""
    line: int
    what: str


@dataclass(frozen=True, slots=True)
class Ending:
    """How the body of a test of ours ended, as it said itself before anybody around it heard of that."""

    test: str
    """The id of the test that ran."""
    path: str
    """The file whose code said it."""
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteReport:
    """One run of tests."""

    command: str
    exit_code: int | None
    signal_number: int | None = None
    """What ended the run, when it was not the time limit."""
    timed_out: bool
    output: str
    seconds: float
    isolation: Isolation
    cases: tuple[CaseResult, ...] | None
    """None when the run left no report by test: then the exit code is all there is."""
    coverage: Mapping[str, FileCoverage] | None = field(default=None)
    """By path in the project; None when it was not or could not be measured."""
    coverage_problem: str = "it could not be measured"
    """Why there is no coverage, after a "since"."""
    problem: str = ""
    """Why the report proves nothing, whatever its cases say: it is not whole, or contradicts itself."""
    reached: tuple[Reached, ...] = ()
    """What its process said before it could be made to say something else."""
    written: tuple[str, ...] = ()
    """Modules, and files that tests read, which are other ones after the run than before."""
    endings: frozenset[Ending] = frozenset()
    """From tests that were changed to give one."""

    @property
    def passed(self) -> frozenset[str]:
        return frozenset(case.id for case in self.cases or () if case.status in _GOOD)

    @property
    def passed_whole(self) -> frozenset[str]:
        """Tests that passed with all their parts (`subTest`), which pytest counts beside them."""
        return self.passed - self.with_failing_part

    @property
    def with_failing_part(self) -> frozenset[str]:
        """What a failing part may be of, whatever became of the whole: all that its id says before a ` (`."""
        return frozenset(one[: begin.start()] for one in self.failing for begin in re.finditer(re.escape(" ("), one))

    @property
    def failing(self) -> frozenset[str]:
        """Ids of what fails; the command itself when there is no report by test."""
        if self.cases is None:
            return frozenset() if self.exit_code == 0 else frozenset({self.command})
        return frozenset(case.id for case in self.cases if case.is_failing)

    @property
    def is_success(self) -> bool:
        """Nothing fails, and the command says so too: a report alone can be forged by the code under test."""
        return self.exit_code == 0 and not self.timed_out and not self.failing and not self.problem

    @property
    def was_killed(self) -> bool:
        """Ended by a signal that code under test has no reason to send: the kernel's, or somebody's."""
        is_unexplained = self.exit_code is None and not self.timed_out and not self.problem
        return is_unexplained and self.signal_number in (SIGKILL, SIGTERM)

    def in_words(self) -> str:
        """How many tests ended how, as pytest counts them."""
        counts = Counter(case.status for case in self.cases or ())
        return ", ".join(f"{counts[status]} {status.value}" for status in _READING_ORDER if counts[status])

    def kept(self) -> SuiteReport:
        """What a checkpoint keeps: how each test ended, without output, messages and coverage."""
        cases = None if self.cases is None else tuple(CaseResult(case.id, case.status) for case in self.cases)
        return SuiteReport(
            command=self.command,
            exit_code=self.exit_code,
            signal_number=self.signal_number,
            timed_out=self.timed_out,
            output="",
            seconds=round(self.seconds, 2),
            isolation=self.isolation,
            cases=cases,
            problem=self.problem,
            reached=self.reached,
            written=self.written,
        )


def parse_junit(data: bytes) -> tuple[CaseResult, ...]:
    """The test cases in a JUnit file. Raises JunitError; entities and document types are refused, never expanded."""
    try:
        root = read_xml(data, "the JUnit file")
    except UntrustedXmlError as error:
        raise JunitError(str(error)) from None
    if root.tag not in ("testsuites", "testsuite"):
        raise JunitError(f"the JUnit file starts with <{root.tag[:40]}>, not with <testsuites> or <testsuite>")
    return worst_of_each([_case(element) for element in root.iter("testcase")])


def worst_of_each(cases: Iterable[CaseResult]) -> tuple[CaseResult, ...]:
    """A test that fails and then fails to tear down is listed twice; the first failure counts."""
    worst: dict[str, CaseResult] = {}
    for case in cases:
        known = worst.get(case.id)
        if known is None or (not known.is_failing and _severity(case) > _severity(known)):
            worst[case.id] = case
    return tuple(worst.values())


def without_parameters(case_id: str) -> str:
    """The id of a test without the parameters of one of its runs. A folder or file may have brackets in its name."""
    path, separator, names = case_id.partition("::")
    return path + separator + names.partition("[")[0]


def _severity(case: CaseResult) -> int:
    return _WORST_LAST.index(case.status)


def _case(element: ElementTree.Element) -> CaseResult:
    file, name, class_name = element.get("file"), element.get("name", ""), element.get("classname", "")
    status, problem = _status(element)
    is_collection_error = problem is not None and problem.get("message") == "collection failure"
    case_id = (file or name) if is_collection_error else _case_id(file, class_name, name)
    if problem is None or status is CaseStatus.SKIPPED:
        return CaseResult(case_id, status, file)
    text = problem.text or ""
    case = failed_case(case_id, status, text, file=file, message=problem.get("message", ""))
    error_type = case.error_type or (problem.get("type") or "").rpartition(".")[2] or None
    return replace(case, is_collection_error=is_collection_error, error_type=error_type)


def failed_case(
    case_id: str, status: CaseStatus, text: str, *, file: str | None = None, message: str = ""
) -> CaseResult:
    """A failure with what can be told from its words: pytest's, or a JUnit file's."""
    whole = f"{message}\n{text}".strip()
    missing = _MISSING_MODULE.search(whole) or _MISSING_NAME.search(whole)
    return CaseResult(
        id=case_id,
        status=status,
        file=file,
        error_type=_error_type(text),
        raised_in=_raised_in(text),
        missing_module=missing["name"] if missing else None,
        message=whole[-_MAX_MESSAGE_CHARACTERS:],
    )


def _status(element: ElementTree.Element) -> tuple[CaseStatus, ElementTree.Element | None]:
    for tag, status in (("error", CaseStatus.ERROR), ("failure", CaseStatus.FAILED), ("skipped", CaseStatus.SKIPPED)):
        if (found := element.find(tag)) is not None:
            return status, found
    return CaseStatus.PASSED, None


def _case_id(file: str | None, class_name: str, name: str) -> str:
    if file is None:
        return f"{class_name}::{name}" if class_name else name
    module = re.sub(r"\.py$", "", file).replace("/", ".").replace("\\", ".")
    if f"{class_name}.".startswith(f"{module}."):
        classes = [part for part in class_name.removeprefix(module).split(".") if part]
    else:
        # Inherited from a class in another file: its own class is what tells it from its siblings.
        classes = [class_name] if class_name else []
    return "::".join([file, *classes, name])


def _error_type(text: str) -> str | None:
    """The last location line of pytest ends in the name; else the last line marked with E starts with it."""
    locations = list(_LOCATION.finditer(text))
    if locations and not locations[-1]["rest"].startswith("in "):
        return locations[-1]["rest"].rpartition(".")[2]
    errors = [match["type"].rpartition(".")[2] for match in _ERROR_LINE.finditer(text)]
    return errors[-1] if errors else None


def _raised_in(text: str) -> str | None:
    if syntax_files := _SYNTAX_FILE.findall(text):
        return str(syntax_files[-1])
    locations = list(_LOCATION.finditer(text))
    return locations[-1]["file"] if locations else None

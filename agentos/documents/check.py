"""The mechanical check of a low-level design: pure, apart from the small view of the repository it is given."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from agentos.documents.approval import Changed, verify_approval
from agentos.documents.coverage import Certainty, RequirementNames, coverage
from agentos.documents.files import Change, FileChange
from agentos.documents.findings import Finding, Severity, in_order
from agentos.documents.headings import Outline, Part
from agentos.documents.known_paths import FolderPaths, suggestion, unsafe_reason
from agentos.documents.lines import has_content
from agentos.documents.lld import Lld, issue_of_path, names_no_number
from agentos.documents.markdown import Document, Section
from agentos.documents.questions import OpenQuestion
from agentos.documents.revision import lost_sections
from agentos.documents.vague_text import placeholders, vague_phrase

_ERROR, _WARNING, _INFO = Severity.ERROR, Severity.WARNING, Severity.INFO
_REQUIRED = (Part.CONTEXT, Part.FILES, Part.REQUIREMENTS, Part.SCENARIOS)
_RECOMMENDED = (Part.ALTERNATIVES, Part.SECURITY, Part.RISKS, Part.DEFINITION_OF_DONE)
_STATUSES = frozenset(
    {
        "draft", "proposed", "pending", "in progress", "active", "blocked", "ready", "ready for review", "in review",
        "review", "under review", "awaiting review", "discuss", "revise", "needs revision", "unverified", "rejected",
        "approved", "accepted", "final", "finalized", "implemented", "done", "complete", "completed", "superseded",
        "deprecated", "rehearsed",
    }
)  # fmt: skip
_APPROVED = frozenset({"approved", "accepted", "final", "finalized", "implemented", "done", "complete", "completed"})


def check_lld(
    lld: Lld,
    *,
    repository: FolderPaths | None = None,
    expected_issue: int | None = None,
    is_named: bool = False,
    previous: Document | None = None,
) -> tuple[Finding, ...]:
    """Everything wrong with a design, by line. Without a repository, paths are checked for safety alone.

    `expected_issue` is the issue it was written for, `is_named` says that this goes by a name and has no number (else
    its file name says either), `previous` is the draft it revises.
    """
    has_number = not (is_named or names_no_number(lld.path))
    expected = expected_issue if expected_issue is not None else issue_of_path(lld.path)
    findings = [
        *check_blocks(lld.document),
        *_check_title_and_sections(lld),
        *(_check_issue_number(lld, expected) if has_number or lld.issue is not None else ()),
        *check_path_safety(lld.files, "LLD006"),
        *_check_files(lld, repository),
        *_check_requirements(lld),
        *_check_scenarios(lld),
        *_check_coverage(lld),
        *_check_criteria(lld),
        *check_questions(lld.open_questions, "LLD015", _ERROR),
        *check_placeholders(lld.outline, "LLD016"),
        *_check_status(lld),
        *_check_approval(lld),
    ]
    if previous is not None:
        findings += check_lost_sections(previous, lld.document, "LLD017")
    return in_order(findings)


def check_blocks(document: Document) -> Iterator[Finding]:
    """An unclosed fence or comment hides the rest of a document."""
    for line, what, mark in (
        (document.unclosed_fence_line, "code fence", "the same marks on a line of their own"),
        (document.unclosed_comment_line, "comment", "`-->`"),
    ):
        if line is not None:
            message = f"a {what} is opened here and never closed: everything below it is hidden"
            yield Finding("DOC004", _ERROR, line, message, f"close it with {mark}")


def check_placeholders(outline: Outline, rule: str) -> Iterator[Finding]:
    """Text never filled in. A review log may quote anything, so only its template's blanks are mentioned there."""
    document = outline.document
    for section in document.sections:
        is_log = outline.is_inside(section, Part.REVIEW_LOG)
        if not is_log and not outline.is_own(section):
            continue
        heading = document.lines[section.line - 1]
        for found in placeholders([heading, *document.own_lines(section)]):
            if is_log and not found.text.startswith("{"):
                continue
            severity = _ERROR if found.is_certain and not is_log else _WARNING
            message = f"placeholder {found.text!r} was never filled in"
            yield Finding(rule, severity, found.line, message, "write what belongs there, or remove it")


def check_lost_sections(previous: Document, current: Document, rule: str) -> Iterator[Finding]:
    """Sections of the previous draft that this one has no more, or has emptied."""
    for title in lost_sections(previous, current):
        yield Finding(rule, _ERROR, 1, f"section {title!r} of the previous draft is gone", "put the section back")


def section_is_empty(document: Document, section: Section) -> bool:
    """Whether there is nothing below a heading: no text, no code, no subsection."""
    return section.last_index == section.index and not has_content(document.own_lines(section))


def check_section(outline: Outline, part: Part, rule: str, severity: Severity) -> Iterator[Finding]:
    """The part has a section, and the section says something."""
    found = outline.topmost(part)
    if not found:
        message, fix = f"section {part.value!r} is missing", f"add a section `## {part.value}`"
        yield Finding(rule, severity, 1, message, fix)
    elif all(section_is_empty(outline.document, section) for section in found):
        message, fix = f"section {part.value!r} is empty", "say what belongs there, or why nothing does"
        yield Finding(rule, severity, found[0].line, message, fix)


def check_path_safety(files: Iterable[FileChange], rule: str) -> Iterator[Finding]:
    """Every path stays inside the repository, the new path of a renamed file too."""
    for file in files:
        for path in filter(None, (file.path, file.target)):
            reason = unsafe_reason(path)
            if reason is not None:
                message = f"path {path!r} is not inside the repository: {reason}"
                yield Finding(rule, _ERROR, file.line, message, "give a path relative to the repository, with `/`")


def asked(findings: Sequence[Finding]) -> tuple[str, ...]:
    """The questions that are open, when nothing else is wrong."""
    questions = tuple(finding.question for finding in findings if finding.question is not None)
    return questions if len(questions) == len(findings) else ()


def check_questions(questions: Iterable[OpenQuestion], rule: str, severity: Severity) -> Iterator[Finding]:
    """No question is open."""
    for question in questions:
        if not question.resolved:
            message = f"open question: {question.text}"
            fix = "answer it: `- [x] … **Answer: …**`"
            yield Finding(rule, severity, question.line, message, fix, question.text)


def _check_title_and_sections(lld: Lld) -> Iterator[Finding]:
    if not lld.title:
        yield Finding("LLD001", _ERROR, 1, "there is no title", "start with `# {number} - {title}`")
    for part in (*_REQUIRED, *_RECOMMENDED):
        if lld.outline.topmost(part) or not _is_served_elsewhere(lld, part):
            yield from check_section(lld.outline, part, "LLD002", _ERROR if part in _REQUIRED else _WARNING)


def _is_served_elsewhere(lld: Lld, part: Part) -> bool:
    """A table of files or scenarios counts wherever it stands; an objective sets the context as well."""
    served = {
        Part.FILES: bool(lld.files),
        Part.SCENARIOS: bool(lld.scenarios),
        Part.CONTEXT: bool(lld.outline.topmost(Part.OBJECTIVE)),
    }
    return served.get(part, False)


def _check_issue_number(lld: Lld, expected: int | None) -> Iterator[Finding]:
    if lld.issue is None:
        yield Finding("LLD003", _ERROR, 1, "no issue number", "add a line `* **Issue:** #{number}` below the title")
        return
    if expected is not None and lld.issue != expected:
        message = f"the issue is #{lld.issue}, expected #{expected}"
        yield Finding("LLD004", _ERROR, lld.issue_line, message, f"write `* **Issue:** #{expected}`")
    in_title = lld.title_issue
    # Some number their designs 1106 for issue 106.
    if in_title is not None and not str(in_title).endswith(str(lld.issue)):
        message = f"the title says {in_title}, the issue is #{lld.issue}"
        yield Finding("LLD004", _WARNING, lld.issue_line, message, "use one number")


def _check_files(lld: Lld, repository: FolderPaths | None) -> Iterator[Finding]:
    sections = lld.outline.topmost(Part.FILES)
    if not lld.files:
        if sections:
            message = "no file is named"
            fix = "list each file in a table: `| File | Change Type | Description |`"
            yield Finding("LLD005", _ERROR, sections[0].line, message, fix)
        return
    last_line = {file.path: file.line for file in lld.files}
    for path, count in Counter(file.path for file in lld.files).items():
        if count > 1:
            message = f"{path} is listed {count} times"
            yield Finding("LLD009", _WARNING, last_line[path], message, "list each file once")
    for file in lld.files:
        if file.change is Change.UNKNOWN:
            fix = "write Add, Modify, Delete or Rename"
            yield Finding("LLD009", _WARNING, file.line, f"what happens to {file.path} is not said", fix)
    if repository is not None:
        existence = _Existence(repository, _added_folders(lld.files))
        for file in lld.files:
            yield from existence.check(file)


@dataclass(slots=True)
class _Existence:
    """Paths against the repository, and against the folders the design itself adds."""

    repository: FolderPaths
    added_folders: frozenset[str]
    suggestions_left: int = 20

    def check(self, file: FileChange) -> Iterator[Finding]:
        if unsafe_reason(file.path) is not None:
            return
        is_there = self.repository.exists(file.path)
        if file.change in {Change.MODIFY, Change.DELETE, Change.RENAME} and not is_there:
            message = f"{file.path} does not exist, so it cannot be {_PARTICIPLE[file.change]}"
            yield Finding("LLD007", _ERROR, file.line, message, self._fix(file.path, "change it to Add"))
        elif file.change is Change.ADD and is_there and not file.path.endswith("/"):
            message = f"{file.path} exists already"
            yield Finding("LLD007", _INFO, file.line, message, "Modify, if the file was there before this design")
        new_path = file.target or (
            file.path if file.change in {Change.ADD, Change.UNKNOWN} and not is_there else None
        )
        if new_path is not None and unsafe_reason(new_path) is None:
            yield from self._check_folder(file, PurePosixPath(new_path).parent)

    def _check_folder(self, file: FileChange, folder: PurePosixPath) -> Iterator[Finding]:
        if self._will_exist(folder):
            return
        message = f"folder {folder}/ of {file.target or file.path} does not exist"
        otherwise = f"list `{folder}/` as Add as well"
        severity = _WARNING if file.change is Change.UNKNOWN else _ERROR
        yield Finding("LLD008", severity, file.line, message, self._fix(str(folder), otherwise, folders_only=True))

    def _will_exist(self, folder: PurePosixPath) -> bool:
        """The folder is there, or is added: named itself, or made a package by an `__init__.py`."""
        while str(folder) != "." and not self.repository.exists(str(folder)):
            if str(folder) not in self.added_folders:
                return False
            folder = folder.parent
        return True

    def _fix(self, path: str, otherwise: str, *, folders_only: bool = False) -> str:
        if self.suggestions_left <= 0:
            return otherwise
        self.suggestions_left -= 1
        meant = suggestion(path, self.repository, folders_only=folders_only)
        return f"did you mean {meant}? Else {otherwise}" if meant else otherwise


def _added_folders(files: tuple[FileChange, ...]) -> frozenset[str]:
    paths = [file.path for file in files if file.change in {Change.ADD, Change.UNKNOWN}]
    named = {str(PurePosixPath(path)) for path in paths if path.endswith("/")}
    packages = {str(PurePosixPath(path).parent) for path in paths if PurePosixPath(path).name == "__init__.py"}
    return frozenset(named | packages)


_PARTICIPLE = {Change.MODIFY: "modified", Change.DELETE: "deleted", Change.RENAME: "renamed"}


def _check_requirements(lld: Lld) -> Iterator[Finding]:
    sections = lld.outline.topmost(Part.REQUIREMENTS)
    if sections and not lld.requirements:
        fix = "number them: `1. …`"
        yield Finding("LLD010", _ERROR, sections[0].line, "no requirement is listed", fix)
    yield from _repeated("LLD010", "requirement", [(one.id, one.line) for one in lld.requirements])


def _check_scenarios(lld: Lld) -> Iterator[Finding]:
    sections = lld.outline.topmost(Part.SCENARIOS)
    if sections and not lld.scenarios:
        fix = (
            "list them in a table: `| ID | Scenario | Type | Input | Expected Output | Pass Criteria | Requirement |`"
        )
        yield Finding("LLD011", _ERROR, sections[0].line, "no scenario is listed", fix)
    yield from _repeated("LLD011", "scenario", [(one.id, one.line) for one in lld.scenarios if one.id])
    for scenario in lld.scenarios:
        if not (scenario.expected or scenario.pass_criteria):
            message = f"scenario {scenario.id or scenario.scenario!r} does not say what is expected"
            yield Finding("LLD011", _WARNING, scenario.line, message, "give its expected output and pass criteria")


def _repeated(rule: str, what: str, ids: list[tuple[str, int]]) -> Iterator[Finding]:
    counts = Counter(identifier for identifier, _ in ids)
    last_line = dict(ids)
    for identifier, count in counts.items():
        if count > 1:
            message = f"{what} {identifier} is there {count} times"
            yield Finding(rule, _ERROR, last_line[identifier], message, "give each its own id")


def _check_coverage(lld: Lld) -> Iterator[Finding]:
    if not lld.scenarios:
        return
    is_explicit = lld.has_requirement_column and any(scenario.requirements for scenario in lld.scenarios)
    for match in coverage(lld.requirements, lld.scenarios):
        requirement = match.requirement
        if match.certainty is Certainty.SAID or (match.certainty is Certainty.LIKELY and not is_explicit):
            continue
        fix = f"add a scenario for it, or name requirement {requirement.id} in the scenario that covers it"
        if is_explicit or match.certainty is Certainty.NONE:
            message = f"requirement {requirement.id} is not covered by any scenario"
            yield Finding("LLD012", _ERROR, requirement.line, message, fix)
        else:
            closest = f" (closest: {match.scenario.id or match.scenario.scenario})" if match.scenario else ""
            message = f"requirement {requirement.id} may not be covered by a scenario{closest}"
            yield Finding("LLD012", _WARNING, requirement.line, message, fix)
    yield from _check_references(lld)


def _check_references(lld: Lld) -> Iterator[Finding]:
    names = RequirementNames(lld.requirements)
    for scenario in lld.scenarios if lld.requirements else ():
        for reference in scenario.requirements:
            if not names.resolve(reference):
                message = f"scenario {scenario.id} refers to requirement {reference}, which does not exist"
                yield Finding("LLD013", _WARNING, scenario.line, message, "name a requirement of this document")


def _check_criteria(lld: Lld) -> Iterator[Finding]:
    criteria = [(f"requirement {one.id}", one.text, one.line) for one in lld.requirements]
    for scenario in lld.scenarios:
        for text in (scenario.expected, scenario.pass_criteria):
            criteria.append((f"scenario {scenario.id}", text, scenario.line))
    yield from check_vague_criteria("LLD014", criteria)


def check_vague_criteria(rule: str, criteria: list[tuple[str, str, int]]) -> Iterator[Finding]:
    """Vague words in criteria, each given as (what it is, its text, its line)."""
    for what, text, line in criteria:
        vague = vague_phrase(text)
        if vague is not None:
            severity = _ERROR if vague.is_plain else _WARNING
            fix = "say what can be seen or measured when it holds"
            yield Finding(rule, severity, line, f"{what} is vague: {vague.phrase!r}", fix)


def _check_status(lld: Lld) -> Iterator[Finding]:
    if lld.status is None:
        yield Finding("LLD018", _WARNING, 1, "no status", "add a line `* **Status:** Draft` below the title")
        return
    status = _status_word(lld.status)
    if status not in _STATUSES:
        fix = "use Draft, In Review, Approved, Needs Revision or Implemented"
        yield Finding("LLD018", _WARNING, lld.status_line or 1, f"unknown status {lld.status!r}", fix)
    final = _status_word(lld.final_status or "")
    if final and (final in _APPROVED) != (status in _APPROVED):
        message = f"the status is {lld.status!r}, the final status {lld.final_status!r}"
        yield Finding("LLD018", _WARNING, lld.status_line or 1, message, "make both say the same")


def _status_word(status: str) -> str:
    return " ".join(status.partition("(")[0].replace("_", " ").replace("-", " ").casefold().split()).strip(" .!✅")


def _check_approval(lld: Lld) -> Iterator[Finding]:
    approval = verify_approval(lld.document.text)
    if isinstance(approval, Changed):
        message = f"the document changed since it was approved: {approval.what}"
        yield Finding("LLD019", _ERROR, lld.status_line or 1, message, "undo the change, or have it reviewed again")

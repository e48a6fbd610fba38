"""Check documents on disk: find them, tell designs from issues, and report as text or as data."""

from __future__ import annotations

import glob
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentos.documents.check import check_lld
from agentos.documents.coverage import likely_requirements
from agentos.documents.findings import Finding, Severity, errors
from agentos.documents.headings import Part
from agentos.documents.inline import shown
from agentos.documents.issue import IssueDocument, check_issue, parse_issue
from agentos.documents.known_paths import FolderPaths
from agentos.documents.lld import Lld, parse_lld
from agentos.paths import find_project_dir
from agentos.text.words import counted

_LARGEST_DOCUMENT = 1024 * 1024
_LLD_PARTS = frozenset({Part.FILES, Part.SCENARIOS, Part.CONTEXT, Part.ALTERNATIVES, Part.CHANGES, Part.RISKS})
_ISSUE_PARTS = frozenset(
    {Part.USER_STORY, Part.ACCEPTANCE_CRITERIA, Part.OUT_OF_SCOPE, Part.UX_FLOW, Part.TESTING_NOTES}
)


@dataclass(frozen=True, slots=True)
class Report:
    """One document's check: what it says, and what is wrong with it."""

    path: str
    findings: tuple[Finding, ...]
    data: dict[str, Any] = field(default_factory=dict)

    @property
    def has_errors(self) -> bool:
        return bool(errors(self.findings))


def find_documents(patterns: Sequence[str]) -> tuple[list[Path], list[str]]:
    """The files that names, folders and globs stand for, sorted and once each, and the names that stand for none."""
    found: dict[Path, None] = {}
    missing: list[str] = []
    for pattern in patterns:
        paths = _expand(pattern)
        found.update(dict.fromkeys(paths))
        if not paths:
            missing.append(pattern)
    return list(found), missing


def lint_file(path: Path, kind: str | None, repository: FolderPaths | None) -> Report:
    """One document's report. A file that cannot be read is a finding, never an exception."""
    text = _read(path)
    if isinstance(text, Finding):
        return Report(str(path), (text,))
    lld = parse_lld(text, str(path))
    if (kind or _kind(lld)) == "issue":
        issue = parse_issue(text, str(path))
        return Report(str(path), check_issue(issue, is_draft=False), _issue_data(issue))
    return Report(str(path), check_lld(lld, repository=repository), _lld_data(lld))


def as_data(report: Report) -> dict[str, Any]:
    """A report as plain data. The keys are the same for every document, readable or not."""
    return {
        "path": report.path,
        **dict.fromkeys(("type", "title", "issue", "status")),
        **{name: [] for name in ("files", "requirements", "scenarios", "open_questions")},
        **report.data,
        "findings": _rows(report.findings, "rule", "severity", "line", "message", "fix"),
    }


def as_text(reports: Sequence[Report]) -> str:
    """One line per finding, and a last line that counts them; nothing a document says can steer the terminal."""
    lines = [
        shown(f"{report.path}:{finding.line}: {finding.words()}") for report in reports for finding in report.findings
    ]
    counts = [
        counted(count, severity.value)
        for severity in Severity
        if (count := sum(finding.severity is severity for report in reports for finding in report.findings))
    ]
    documents = counted(len(reports), "document")
    return "".join(
        f"{line}\n" for line in (*lines, f"{documents} checked: {', '.join(counts) or 'nothing to report'}")
    )


class Repositories:
    """The repository around each document, made once for each root."""

    def __init__(self, root: Path | None) -> None:
        self._root = root
        self._made: dict[Path, FolderPaths] = {}

    def of(self, path: Path) -> FolderPaths | None:
        root = self._root or _root_of(path)
        return None if root is None else self._made.setdefault(root, FolderPaths(root))


def _root_of(path: Path) -> Path | None:
    """The project a document is in, else the current folder when it is below that, else none to check paths in."""
    folder = path.absolute().parent
    project = find_project_dir(folder)
    if project != folder or (folder / ".git").exists() or (folder / "agentos.toml").is_file():
        return project
    current = Path.cwd()
    return current if folder.is_relative_to(current) else None


def _expand(pattern: str) -> list[Path]:
    path = Path(pattern)
    try:
        if path.is_dir():
            return sorted(one for one in path.rglob("*.md") if one.is_file())
        if path.exists():
            return [path]
    except (OSError, ValueError):
        return []
    # Path.glob takes no absolute pattern.
    matches = sorted(map(Path, glob.glob(pattern, recursive=True)))  # noqa: PTH207
    return [one for match in matches for one in (_expand(str(match)) if match.is_dir() else [match])]


def _read(path: Path) -> str | Finding:
    try:
        if not path.is_file():
            return _unreadable("DOC001", "it is not a regular file", "give a Markdown file")
        with path.open("rb") as file:
            data = file.read(_LARGEST_DOCUMENT + 1)
    except OSError as error:
        message = f"cannot be read: {error.strerror or error}"
        return _unreadable("DOC001", message, "check that it exists and is readable")
    if len(data) > _LARGEST_DOCUMENT:
        return _unreadable("DOC003", f"is larger than {_LARGEST_DOCUMENT // 1024 // 1024} MB", "split it")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        return _unreadable("DOC002", f"is not UTF-8 (byte {error.start})", "save it as UTF-8 text")
    return _unreadable("DOC002", "is binary: it holds NUL bytes", "give a text file") if "\0" in text else text


def _unreadable(rule: str, message: str, fix: str) -> Finding:
    return Finding(rule, Severity.ERROR, 1, message, fix)


def _kind(lld: Lld) -> str:
    """Designs and issues share sections; those only one of them has decide, then the path."""
    parts = [lld.outline.part(section) for section in lld.outline.own]
    for_lld = sum(part in _LLD_PARTS for part in set(parts)) + bool(lld.scenarios)
    for_issue = sum(part in _ISSUE_PARTS for part in set(parts))
    if for_lld == for_issue:
        return "issue" if "issue" in (lld.path or "").casefold() else "lld"
    return "issue" if for_issue > for_lld else "lld"


def _lld_data(lld: Lld) -> dict[str, Any]:
    scenarios = _rows(lld.scenarios, "id", "scenario", "type", "input", "expected", "pass_criteria", "line")
    covered = likely_requirements(lld.requirements, lld.scenarios)
    for row, scenario, ids in zip(scenarios, lld.scenarios, covered, strict=True):
        row["requirement"] = list(ids)
        row["requirement_is_inferred"] = bool(ids) and not scenario.requirements
        row["columns"] = dict(scenario.columns)
    return {"type": "lld", "final_status": lld.final_status, "scenarios": scenarios, **_shared_data(lld)}


def _issue_data(issue: IssueDocument) -> dict[str, Any]:
    return {
        "type": "issue",
        "acceptance_criteria": _rows(issue.acceptance_criteria, "text", "is_met", "line"),
        "depends_on": list(issue.depends_on),
        **_shared_data(issue),
    }


def _shared_data(document: Lld | IssueDocument) -> dict[str, Any]:
    return {
        "title": document.title,
        "issue": document.issue,
        "status": document.status,
        "files": _rows(document.files, "path", "change", "description", "target", "line"),
        "requirements": _rows(document.requirements, "id", "text", "line"),
        "open_questions": _rows(document.open_questions, "text", "resolved", "answer", "line"),
    }


def _rows(records: Iterable[object], *names: str) -> list[dict[str, Any]]:
    return [{name: getattr(record, name) for name in names} for record in records]

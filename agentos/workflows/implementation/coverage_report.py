"""Coverage out of a file that a test command wrote: Cobertura XML or lcov, read as the untrusted text it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Final

from agentos.errors import AgentosError
from agentos.workflows.implementation.suite_report import FileCoverage
from agentos.workflows.implementation.untrusted_xml import UntrustedXmlError, read_xml

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_Hits = dict[int, int]
"""How often a line ran, by its number."""


class CoverageReportError(AgentosError):
    """A coverage file is none that can be read; says why."""


def parse_coverage(data: bytes, project_path: Path) -> dict[str, FileCoverage]:
    """Coverage by path in the project. Files that are not in the project are left out.

    Raises CoverageReportError when the data is neither Cobertura XML nor lcov.
    """
    data = data.removeprefix(_BYTE_ORDER_MARK)
    if data.lstrip().startswith(b"<"):
        folders, files = _cobertura(data)
    else:
        folders, files = [], list(_lcov(data.decode("utf-8", "replace")))
    merged: dict[str, _Hits] = {}
    for name, hits in files:
        path = _path_in(project_path, folders, name)
        if path is not None:
            known = merged.setdefault(path, {})
            known.update({line: max(count, known.get(line, 0)) for line, count in hits.items()})
    return {path: _file_coverage(hits) for path, hits in merged.items()}


def _file_coverage(hits: Mapping[int, int]) -> FileCoverage:
    missing, executed = (tuple(sorted(line for line in hits if bool(hits[line]) is ran)) for ran in (False, True))
    return FileCoverage(len(hits), missing, executed_lines=executed)


def _cobertura(data: bytes) -> tuple[list[str], list[tuple[str, _Hits]]]:
    """The folders that names may start from, and the lines of each class by the name of its file."""
    try:
        root = read_xml(data, "it", allows_doctype=True)
    except UntrustedXmlError as error:
        raise CoverageReportError(str(error)) from None
    classes = list(root.iter("class"))
    if root.tag != "coverage" or (not classes and root.find("packages") is None):
        raise CoverageReportError(f"it starts with <{root.tag[:40]}> and is not Cobertura XML")
    folders = [source.text.strip() for source in root.iter("source") if source.text]
    files = []
    for element in classes:
        # A class lists its lines, and its methods list theirs again.
        lines = element.findall("lines/line")
        files.append(
            (element.get("filename", ""), dict(_hit(line.get("number"), line.get("hits")) for line in lines))
        )
    return folders, files


def _lcov(text: str) -> Iterator[tuple[str, _Hits]]:
    name, hits, count = "", _Hits(), 0
    for line in text.splitlines():
        kind, _, rest = line.strip().partition(":")
        if kind == "SF":
            name, hits = rest, {}
        elif kind == "DA":
            number, _, times = rest.partition(",")
            hits.update([_hit(number, times.partition(",")[0])])
        elif kind == "end_of_record":
            count += 1
            yield name, hits
    if not count:
        raise CoverageReportError("it is neither Cobertura XML nor lcov")


def _hit(number: str | None, times: str | None) -> tuple[int, int]:
    try:
        return int(number or ""), int(times or "")
    except ValueError:
        raise CoverageReportError(f"it has a line {str(number)[:20]!r} that ran {str(times)[:20]!r} times") from None


def _path_in(project_path: Path, folders: list[str], name: str) -> str | None:
    """The file a report means, which names it from one of its folders, from the project, or from the root."""
    if not name or "\0" in name:
        return None
    root = project_path.resolve()
    for folder in (*folders, ""):
        try:
            path = (root / folder / PurePosixPath(name.replace("\\", "/"))).resolve()
            if path.is_relative_to(root) and path.is_file():
                return path.relative_to(root).as_posix()
        except (OSError, ValueError):
            # A name too long, a loop of links, a NUL in a folder: not a file of the project.
            continue
    return None

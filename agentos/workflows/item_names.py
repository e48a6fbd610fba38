"""Items as people name them: `101`, `#101`, `LLD-101`, or the path of an issue or a document."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from agentos.errors import UsageError
from agentos.settings import Settings
from agentos.sources import FolderSource, ItemKind, parse_source
from agentos.sources.item import without_padding
from agentos.text import globs
from agentos.text.words import one_line
from agentos.workflows.document_paths import document_paths
from agentos.workflows.registry import WORKFLOWS, Workflow, parse_label

Files = Mapping[Path, str]
"""Resolved paths of files, and the ids of their items."""


def item_named(text: str, known: Collection[str], files: Callable[[], Files]) -> str:
    """The known id that somebody means by `text`; a glob, or what is unknown, comes back without its label."""
    if globs.matches(text, known):
        return text
    path = Path(text)
    if path.suffix and path.is_file():
        return files().get(path.resolve()) or _without_label(path.stem)
    plain = without_padding(text.removeprefix("#"))
    if plain in known:
        return plain
    # `issue-*` may be a glob that matches nothing: only what is spelled like a label loses a part of it unseen.
    in_lower_case = _without_label(plain.upper(), plain)
    return in_lower_case if in_lower_case in known else _without_label(plain)


def issue_files(project_dir: Path, settings: Settings) -> dict[Path, str]:
    """The files of issues, where issues are files."""
    return _files_of(settings.sources.issues, ItemKind.ISSUE, project_dir)


def find_item(text: str, project_dir: Path, settings: Settings) -> tuple[Workflow, str]:
    """The workflow and the id of an item that somebody named. Whether anything is known of it is another question.

    Raises UsageError for a file that is not there: no id has a dot.
    """
    path = Path(text)
    if path.suffix and not path.is_file():
        raise UsageError(f"There is no file {one_line(text, 80)} here.")
    if not path.suffix:
        return parse_label(without_padding(text.removeprefix("#")))
    found, by_name = path.resolve(), {"lld": _without_label(path.stem), "implementation": path.parent.name}
    for name, item_id in by_name.items():
        if found in [each.resolve() for each in document_paths(project_dir, settings, name, item_id)]:
            return WORKFLOWS[name], item_id
    if issue := issue_files(project_dir, settings).get(found):
        return WORKFLOWS["lld"], issue
    if brief := _files_of(settings.sources.briefs, ItemKind.BRIEF, project_dir).get(found):
        return WORKFLOWS["issue"], brief
    return parse_label(path.stem)


def _files_of(spec: str, kind: ItemKind, project_dir: Path) -> dict[Path, str]:
    source = parse_source(spec, project_dir=project_dir, kind=kind)
    if not isinstance(source, FolderSource) or not source.directory.is_dir():
        return {}
    return {Path(item.origin).resolve(): item.id for item in source.read().items}


def _without_label(text: str, shown: str | None = None) -> str:
    """`101` of `LLD-101`; of `shown` where that is the same text in another case."""
    prefix = next((each.label_prefix for each in WORKFLOWS.values() if text.startswith(each.label_prefix)), "")
    return (text if shown is None else shown)[len(prefix) :]

"""The documents of one item: what there is, by names of our own, and their text.

A reader names a document by what `listed` called it, never by a path; nothing outside of the project's documents and
its items' histories is opened, also not through a link.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

from agentos.errors import AgentosError, UsageError
from agentos.files import read_regular
from agentos.git.command import Git
from agentos.paths import home_dir
from agentos.records.results import read_results
from agentos.settings import Settings, load_settings
from agentos.text.terminal import clean_block
from agentos.workflows.document_paths import document_paths, lineage_dir
from agentos.workflows.implementation.records import Implemented, read_attempt, read_record
from agentos.workflows.lineage import Lineage
from agentos.workflows.registry import WORKFLOWS

MOST_BYTES: Final = 2 * 1024 * 1024
_REPORTS: Final = {"report:test": "test-report.md", "report:implementation": "implementation-report.md"}
_KIND_WORDS: Final = {
    "final": "the text it ended with",
    "draft": "draft",
    "verdict": "verdict",
    "issue": "the issue it answers",
    "answer": "a person's answer",
    "replaced": "what was replaced",
}


@dataclass(frozen=True, slots=True)
class Document:
    """One document of an item."""

    name: str
    title: str
    kind: str
    words: str
    text: str = ""

    @property
    def is_markdown(self) -> bool:
        return self.title.endswith(".md")


@dataclass(frozen=True, slots=True)
class ItemPlace:
    """Whose documents: an item of a workflow in a project."""

    project_dir: Path
    settings: Settings
    workflow: str
    item_id: str
    run_dir: Path

    @property
    def stages(self) -> tuple[str, ...]:
        """The workflows whose documents the item has."""
        if not is_folder(self.project_dir):
            return ()
        if self.workflow == "pipeline":
            return ("lld", "implementation")
        return (self.workflow,) if self.workflow in WORKFLOWS else ()

    @property
    def has_code(self) -> bool:
        return "implementation" in self.stages

    def branch_record(self) -> Implemented | None:
        """What became of its code."""
        if not self.has_code:
            return None
        return read_record(self.project_dir, self.item_id) or read_attempt(self.project_dir, self.item_id)


def listed(place: ItemPlace) -> list[Document]:
    """All there is to read, without its text."""
    found = []
    for stage in place.stages:
        if stage != "implementation" and (path := _in_place(place, stage)) is not None:
            title = str(path.relative_to(place.project_dir))
            found.append(Document(f"place:{stage}", title, "final", "the document in its place"))
        found += [
            Document(f"lineage:{stage}:{entry.number}:{entry.kind}", entry.path.name, _kind(entry.kind), words)
            for entry in _lineage(place, stage).entries()
            if (words := _KIND_WORDS.get(entry.kind, entry.kind.replace("-", " ")))
        ]
    if place.has_code and place.branch_record():
        found += [Document(name, title, "report", "on its branch") for name, title in _REPORTS.items()]
    if _result(place):
        found.append(Document("result", "result.json", "result", "what its graph came to"))
    return found


def rounds_of(documents: list[Document]) -> list[tuple[str, str]]:
    """Names of drafts and what came of them, each with the next: what is worth comparing."""
    texts = [each.name for kind in ("draft", "final") for each in documents if each.kind == kind]
    # What somebody may have changed since is the last of them.
    return list(pairwise(sorted(texts, key=lambda name: name.startswith("place:"))))


def read(place: ItemPlace, name: str) -> Document | None:
    """A listed document with its text; None when it is not there, or not text."""
    known = {each.name: each for each in listed(place)}
    document = known.get(name)
    if document is None:
        return None
    text = _text(place, name)
    if text is None:
        return None
    return Document(document.name, document.title, document.kind, document.words, safe_text(text))


def _text(place: ItemPlace, name: str) -> str | None:
    kind, _, rest = name.partition(":")
    if kind == "place":
        path = _in_place(place, rest)
        return _read(path) if path else None
    if kind == "lineage":
        stage, number, entry_kind = rest.split(":", 2)
        paths = [e.path for e in _lineage(place, stage).entries(entry_kind) if str(e.number) == number]
        return _read(paths[0]) if paths and is_inside(paths[0], (place.project_dir, home_dir())) else None
    if kind == "report":
        return _report(place, _REPORTS[name])
    return _result(place)


def safe_text(text: str) -> str:
    """Without what steers a terminal or turns the direction of a line; lines stay lines."""
    ended = text.replace("\r\n", "\n").removesuffix("\n") + "\n"
    return clean_block(ended.encode(errors="replace"), keep_colour=False).decode(errors="replace")


def _kind(kind: str) -> str:
    """`verdict-2` is a verdict, `prompt-design` a prompt."""
    return kind.partition("-")[0]


def _in_place(place: ItemPlace, stage: str) -> Path | None:
    for path in document_paths(place.project_dir, place.settings, stage, place.item_id):
        if path.is_file() and is_inside(path, (place.project_dir,)):
            return path
    return None


def _lineage(place: ItemPlace, stage: str) -> Lineage:
    label = WORKFLOWS[stage].label_prefix + place.item_id
    return Lineage(lineage_dir(place.project_dir, place.settings, label))


def settings_of(project_dir: Path) -> Settings:
    """Of a project that is gone, or whose settings are damaged, those that nobody changed."""
    try:
        return load_settings(project_dir) if is_folder(project_dir) else Settings()
    except UsageError:
        return Settings()


def is_folder(path: Path) -> bool:
    """Also of a name that no folder can have, which a damaged record may give."""
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def is_inside(path: Path, folders: tuple[Path, ...]) -> bool:
    """Where the file really is."""
    try:
        real = path.resolve(strict=True)
    except (OSError, RuntimeError):
        return False
    return any(real.is_relative_to(folder.resolve()) for folder in folders)


def _read(path: Path) -> str | None:
    try:
        return read_regular(path, MOST_BYTES).decode(errors="replace")
    except OSError:
        return None


def _report(place: ItemPlace, name: str) -> str | None:
    record = place.branch_record()
    if record is None:
        return None
    try:
        shown = Git(place.project_dir).run(
            "show", f"{record.branch}:./{place.settings.documents.reports_dir}/{place.item_id}/{name}"
        )
    except AgentosError:
        return None
    return shown.stdout[:MOST_BYTES]


def _result(place: ItemPlace) -> str | None:
    if place.workflow in WORKFLOWS:
        return None
    found = next((each for each in read_results(place.run_dir) if each.get("id") == place.item_id), None)
    return None if found is None else json.dumps(found.get("state"), indent=1, ensure_ascii=False) + "\n"

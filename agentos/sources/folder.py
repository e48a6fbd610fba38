"""A folder of Markdown files as a source: issues by number, briefs by name."""

from __future__ import annotations

import contextlib
import re
import unicodedata
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from agentos.documents.markdown import Document, parse
from agentos.errors import InvalidIdentifier, UsageError
from agentos.files import read_regular
from agentos.hints import Hint
from agentos.sources.item import SourceItem, dependency_ids, natural_key, priority_of, without_padding
from agentos.text.identifiers import sanitize_identifier

MAX_FILE_BYTES = 1_000_000
_LEADING_NUMBER = re.compile(r"#?0*([0-9]+)(?:[-_. ]|$)")
_NOT_ITEMS = frozenset({"readme", "index", "template", "contributing"})
_CLOSED_WORDS = frozenset({"closed", "done", "completed", "rejected", "wontfix"})


class ItemKind(Enum):
    """How a file gets its id when its front matter names none."""

    ISSUE = "issue"
    """The number its name starts with, else its name."""
    BRIEF = "brief"
    """Its name."""


@dataclass(frozen=True, slots=True)
class FileProblem:
    """A file that was left out, or a part of it that was, and how to mend it."""

    path: str
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Listing:
    """What a folder held: the items, and what could not be used of it."""

    items: tuple[SourceItem, ...]
    problems: tuple[FileProblem, ...] = ()


class _Unusable(Exception):
    """The file is no item; the text says why, and how to mend it."""


class FolderSource:
    """The Markdown files right in one folder.

    Files whose name starts with `.` or `_`, and README, index and template files, are not items.
    """

    def __init__(self, directory: Path, *, kind: ItemKind = ItemKind.ISSUE, pattern: str = "*.md") -> None:
        self.directory = directory
        self.kind = kind
        self.pattern = pattern

    def items(self) -> tuple[SourceItem, ...]:
        """The items in natural order. See `read` for the files that could not be used."""
        return self.read().items

    def read(self) -> Listing:
        """Every file, in natural order of ids. UsageError when the folder is missing.

        A file that cannot be used stops nobody: it is an item with a `problem`, under the id that its name gives, or
        one of the listing's problems when its name gives none. So is an id that two files claim.
        """
        items: list[SourceItem] = []
        problems: list[FileProblem] = []
        unusable: list[FileProblem] = []
        for path in self._paths():
            text, reason = _read_text(path, self.directory)
            try:
                if reason:
                    raise _Unusable(reason)
                item, notes = _item(path, text, self.kind)
            except (_Unusable, InvalidIdentifier) as error:
                unusable.append(FileProblem(str(path), str(error)))
                continue
            items.append(item)
            problems.extend(FileProblem(str(path), note) for note in notes)
        items = _with_clashes(items)
        for problem in unusable:
            item_id = _free_identifier(Path(problem.path).stem, self.kind, {item.id.lower() for item in items})
            if item_id:
                items.append(_unusable_item(item_id, problem))
            else:
                problems.append(problem)
        return Listing(tuple(sorted(items, key=lambda item: natural_key(item.id))), tuple(problems))

    def _paths(self) -> list[Path]:
        if not self.directory.is_dir():
            raise UsageError(
                f"There is no folder {self.directory}: create it, or name another in agentos.toml "
                f"(`{Hint.WRITE_SETTINGS.line()}` writes one)."
            )
        try:
            found = sorted(self.directory.glob(self.pattern), key=lambda path: natural_key(path.name))
        except (OSError, ValueError, NotImplementedError) as error:
            raise UsageError(f"Cannot list {self.directory}/{self.pattern}: {error}") from error
        return [path for path in found if _may_be_item(path)]


def _may_be_item(path: Path) -> bool:
    is_hidden = path.name.startswith((".", "_"))
    return not is_hidden and path.stem.lower() not in _NOT_ITEMS and not path.is_dir()


def _read_text(path: Path, directory: Path) -> tuple[str, str]:
    """The file's text, or the reason it has none."""
    if path.is_symlink() and not path.resolve().is_relative_to(directory.resolve()):
        return "", "a link that leads out of the folder is not followed"
    try:
        content = read_regular(path, MAX_FILE_BYTES + 1, follow_link=True)
    except OSError as error:
        return "", f"cannot be read ({error.strerror or error})"
    if len(content) > MAX_FILE_BYTES:
        return "", f"larger than {MAX_FILE_BYTES // 1_000_000} MB"
    try:
        return content.decode("utf-8-sig"), ""
    except UnicodeDecodeError as error:
        return "", f"not UTF-8 (byte {error.start + 1}): save it as UTF-8"


def _item(path: Path, text: str, kind: ItemKind) -> tuple[SourceItem, list[str]]:
    """The item in a file, and notes on what of its front matter was not understood."""
    document = parse(text)
    identifier = _identifier(path, document, kind)
    notes: list[str] = []
    priority = priority_of(_value(document, "priority") or "0")
    if priority is None:
        notes.append(
            f"priority {_value(document, 'priority')[:40]!r} is not a number or a word like high; taken as 0"
        )
    state = (_value(document, "state") or _value(document, "status")).lower()
    item = SourceItem(
        id=identifier,
        title=_title(path, document),
        text=text,
        origin=str(path),
        priority=priority or 0,
        depends_on=dependency_ids(text),
        labels=_labels(document),
        state="closed" if state in _CLOSED_WORDS else "open",
    )
    return item, notes


def _identifier(path: Path, document: Document, kind: ItemKind) -> str:
    named = _value(document, "id").removeprefix("#").strip()
    if named:
        return sanitize_identifier(without_padding(named))
    candidate = _identifier_of_name(path.stem, kind)
    if not candidate:
        raise _Unusable("the file's name gives no id; add `id: some-name` to its front matter")
    return sanitize_identifier(candidate)


def _identifier_of_name(stem: str, kind: ItemKind) -> str:
    match = _LEADING_NUMBER.match(stem)
    if kind is ItemKind.ISSUE and match:
        return match[1]
    plain = unicodedata.normalize("NFKD", stem).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9_]+", "-", plain).strip("-")


def _title(path: Path, document: Document) -> str:
    if named := _value(document, "title"):
        return named
    headings = sorted(document.sections, key=lambda section: section.level)
    title = " ".join(headings[0].title.split()) if headings else ""
    return title or re.sub(r"[-_\s]+", " ", path.stem).strip()


def _labels(document: Document) -> tuple[str, ...]:
    value = document.front_matter.get("labels", ())
    names = value.split(",") if isinstance(value, str) else value
    return tuple(name.strip() for name in names if name.strip())


def _value(document: Document, key: str) -> str:
    value = document.front_matter.get(key, "")
    return value.strip() if isinstance(value, str) else ", ".join(value)


def _free_identifier(stem: str, kind: ItemKind, taken: Collection[str]) -> str:
    """An id for a file whose own cannot be used: of its name, and empty when that is not to be had."""
    for rule in (kind, ItemKind.BRIEF):
        candidate = _identifier_of_name(stem, rule)
        with contextlib.suppress(InvalidIdentifier):
            if candidate and candidate.lower() not in taken:
                return sanitize_identifier(candidate)
    return ""


def _unusable_item(item_id: str, problem: FileProblem) -> SourceItem:
    title = Path(problem.path).stem
    return SourceItem(id=item_id, title=title, text="", origin=problem.path, problem=problem.reason)


def _with_clashes(items: Iterable[SourceItem]) -> list[SourceItem]:
    """Of files that claim one id one item that says so. On some machines `A.db` and `a.db` are one file."""
    by_id: dict[str, list[SourceItem]] = {}
    for item in items:
        by_id.setdefault(item.id.lower(), []).append(item)
    return [same[0] if len(same) == 1 else _clash(same) for same in by_id.values()]


def _clash(items: Sequence[SourceItem]) -> SourceItem:
    first, *others = items
    names = ", ".join(Path(item.origin).name for item in others)
    reason = f"{names} has the id {first.id} too: rename one, or give it another `id:` in its front matter"
    return _unusable_item(first.id, FileProblem(first.origin, reason))

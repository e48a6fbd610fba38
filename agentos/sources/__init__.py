"""Sources: where pending items come from."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import parse_qsl, unquote

from agentos.errors import UsageError
from agentos.sources.folder import FileProblem, FolderSource, ItemKind, Listing
from agentos.sources.github import GitHubSource
from agentos.sources.item import Source, SourceItem, natural_key

__all__ = [
    "FileProblem",
    "FolderSource",
    "GitHubSource",
    "ItemKind",
    "Listing",
    "Source",
    "SourceItem",
    "natural_key",
    "parse_source",
]  # fmt: skip

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(.*)", re.DOTALL)
_GITHUB_FORM = "github:owner/repo?label=ready&state=open"


def parse_source(spec: str, *, project_dir: Path, kind: ItemKind = ItemKind.ISSUE) -> FolderSource | GitHubSource:
    """The source a setting names: `github:owner/repo?label=ready`, `docs/issues`, `docs/issues/*.md`, `folder:…`.

    Nothing is read or opened. A relative folder is one of the project's.
    """
    text = spec.strip()
    if not text:
        raise UsageError(f"The source is empty: name a folder such as docs/issues, or {_GITHUB_FORM}.")
    match = _SCHEME.fullmatch(text)
    scheme, rest = (match[1].lower(), match[2]) if match else ("folder", text)
    if scheme == "github":
        return _github_source(spec, rest)
    if scheme == "folder":
        return _folder_source(rest, project_dir, kind)
    raise UsageError(f"Unknown source {scheme[:40]!r} in {spec[:100]!r}: use a folder, or {_GITHUB_FORM}.")


def _github_source(spec: str, rest: str) -> GitHubSource:
    repository, _, query = rest.partition("?")
    options = _options(spec, query)
    return GitHubSource(
        unquote(repository).strip("/"), label=options.get("label", ""), state=options.get("state", "open")
    )


def _options(spec: str, query: str) -> Mapping[str, str]:
    """`label` may be repeated. An address is refused: a project's file must not decide where a user's token goes."""
    options: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name in ("base_url", "token"):
            raise UsageError(f"{name} is not taken from {spec[:60]!r}: use GITHUB_API_URL and GITHUB_TOKEN.")
        if name not in ("label", "labels", "state"):
            raise UsageError(f"Unknown option {name[:40]!r} in {spec[:100]!r}: known are label and state.")
        key = "label" if name == "labels" else name
        options[key] = f"{options[key]},{value}" if key == "label" and key in options else value
    return options


def _folder_source(rest: str, project_dir: Path, kind: ItemKind) -> FolderSource:
    path = Path(rest.strip()).expanduser()
    if not rest.strip() or "\0" in rest:
        raise UsageError("The source names no folder: write folder:docs/issues.")
    is_pattern = any(character in path.name for character in "*?[")
    directory, pattern = (path.parent, path.name) if is_pattern else (path, "*.md")
    if any(character in str(directory) for character in "*?["):
        raise UsageError(f"Only the last part of {rest[:100]!r} may have wildcards: write docs/issues/*.md.")
    return FolderSource(project_dir / directory, kind=kind, pattern=pattern)

"""Names that people may type: of issues, designs, items, runs, workstreams, keys. For completion and hints."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from agentos.errors import AgentosError
from agentos.keys.credentials import load_credentials
from agentos.paths import find_project_dir
from agentos.records.folders import run_dirs
from agentos.settings import Settings, load_settings, setting_names
from agentos.sources import FolderSource, ItemKind, natural_key, parse_source
from agentos.text.suggestions import nearest, suggested
from agentos.workflows.registry import WORKFLOWS

_MOST_RUNS = 30


def known_names(kind: str, here: Path) -> list[str]:
    """The names of a kind, as far as can be told at once and without asking anybody else. Never fails."""
    try:
        project_dir = find_project_dir(here)
        return list(dict.fromkeys(NAMES[kind](project_dir, load_settings(project_dir))))
    except (AgentosError, OSError, ValueError):
        return []


def _issues(project_dir: Path, settings: Settings) -> list[str]:
    # Where issues are not files, those with a design are what is known of them.
    return _in_folder(settings.sources.issues, ItemKind.ISSUE, project_dir) or _designs(project_dir, settings)


def _briefs(project_dir: Path, settings: Settings) -> list[str]:
    return _in_folder(settings.sources.briefs, ItemKind.BRIEF, project_dir)


def _in_folder(spec: str, kind: ItemKind, project_dir: Path) -> list[str]:
    source = parse_source(spec, project_dir=project_dir, kind=kind)
    if not isinstance(source, FolderSource) or not source.directory.is_dir():
        return []
    return [item.id for item in source.read().items]


def _designs(project_dir: Path, settings: Settings) -> list[str]:
    folders = (settings.documents.lld_dir, settings.documents.lld_done_dir)
    paths = [path for folder in folders for path in (project_dir / folder).glob("LLD-*.md")]
    return sorted((path.stem.removeprefix("LLD-") for path in paths), key=natural_key)


def _items(project_dir: Path, settings: Settings) -> Iterable[str]:
    """Labels: every issue may have a design, every design an implementation, every brief an issue."""
    designs = _designs(project_dir, settings)
    by_workflow = {
        "lld": [*_issues(project_dir, settings), *designs],
        "implementation": designs,
        "issue": _briefs(project_dir, settings),
    }
    return [f"{WORKFLOWS[name].label_prefix}{item_id}" for name, ids in by_workflow.items() for item_id in ids]


def _runs(_project_dir: Path, _settings: Settings) -> list[str]:
    return ["last", *(run_dir.name for run_dir in run_dirs()[:_MOST_RUNS])]


def _acts(project_dir: Path, settings: Settings) -> list[str]:
    from agentos.engine.steering import ACTS  # noqa: PLC0415  Of the engine only this is needed, and only here.

    return [*ACTS, *_runs(project_dir, settings)]


def _slugs(project_dir: Path, _settings: Settings) -> list[str]:
    from agentos.workstreams.commands import ProjectWorkstreams  # noqa: PLC0415  Knows git; others need it not.

    # What the registry has, without asking git of each.
    return sorted(ProjectWorkstreams.open(project_dir, load_settings).registry.workstreams())


def _keys(_project_dir: Path, _settings: Settings) -> list[str]:
    credentials = load_credentials()
    return [spec.name for spec in (*credentials.specs, *(each.spec for each in credentials.missing))]


def _setting_names(_project_dir: Path, _settings: Settings) -> list[str]:
    names = setting_names()
    return [*dict.fromkeys(name.partition(".")[0] for name in names), *names]


NAMES: Mapping[str, Callable[[Path, Settings], Iterable[str]]] = {
    "issues": _issues,
    "briefs": _briefs,
    "designs": _designs,
    "items": _items,
    "runs": _runs,
    "acts": _acts,
    "slugs": _slugs,
    "keys": _keys,
    "settings": _setting_names,
}
_KINDS = {
    ("lld", "ids"): "issues",
    ("pipeline", "ids"): "issues",
    ("issue", "ids"): "briefs",
    ("implement", "ids"): "designs",
    ("lld-workflow", "ids"): "issues",
    ("issue-workflow", "ids"): "briefs",
    ("config", "names"): "settings",
    ("ctl", "words"): "acts",
    ("keys", "name"): "keys",
    ("keys", "names"): "keys",
}
_KINDS_OF_ARGUMENTS = {"item": "items", "run_id": "runs", "slugs": "slugs"}


def kind_of_argument(words: Sequence[str], destination: str) -> str | None:
    """What is to be named there: `words` lead to the command, `destination` is the parser's name of the argument."""
    if list(words[1:3]) == ["keys", "add"]:
        return None
    command = words[1] if len(words) > 1 else words[0]
    return _KINDS.get((command, destination)) or _KINDS_OF_ARGUMENTS.get(destination)


def item_hint(label: str, project_dir: Path) -> str:
    """What to say after "nothing is known of this item"."""
    names = known_names("items", project_dir)
    if label in names:
        return ""
    prefixes = [each.label_prefix for each in WORKFLOWS.values() if each.label_prefix]
    kind = next((prefix for prefix in prefixes if label.startswith(prefix)), "")
    # What all labels of a kind begin with makes no two of them alike.
    ids = [name.removeprefix(kind) for name in names if name.startswith(kind)]
    return suggested([f"{kind}{each}" for each in nearest(label.removeprefix(kind), ids)])

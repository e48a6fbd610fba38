"""What `--graph` names: a file or module and an attribute in it, or an entry of a langgraph.json.

Read without loading the graph, so that a dry run and a worker mean the same by the same words.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentos.errors import UsageError
from agentos.text.suggestions import nearest

if TYPE_CHECKING:
    from agentos.engine.store_index import StoreIndex

PROJECT_FILE = "langgraph.json"
_PROJECT = re.compile(r"(?P<path>.+\.json)(?::(?P<name>[^:]+))?")
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_]+")
_MOST_NAME_CHARACTERS = 64


@dataclass(frozen=True, slots=True)
class LanggraphProject:
    """A langgraph.json, as far as it matters here."""

    path: Path
    graphs: Mapping[str, str]
    local_dependencies: tuple[Path, ...] = ()
    """Folders that its author installs before running it."""
    other_dependencies: tuple[str, ...] = ()
    """Packages that the interpreter has to have."""
    env_file: Path | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    store_index: StoreIndex | None = None
    warnings: tuple[str, ...] = ()

    def environment(self) -> dict[str, str]:
        """What it adds to the environment of its graphs. Raises UsageError when its file cannot be read."""
        if self.env_file is None or not self.env_file.exists():
            return dict(self.env)
        try:
            return parse_env(self.env_file.read_text(encoding="utf-8-sig"))
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
            raise UsageError(
                f"{self.path}: env names {self.env_file.name!r}, which cannot be read: {reason}."
            ) from None


@dataclass(frozen=True, slots=True)
class GraphSpec:
    """Where a graph is. `file` is None for a module that only an import finds."""

    text: str
    attribute: str
    file: Path | None
    module: str = ""
    project: LanggraphProject | None = None

    def name_in(self, project_dir: Path) -> str:
        """The `{type}` of file names: `flows/review.py:graph` is `flows-review-graph`.

        Never the same for two graphs: a name that loses anything of the path ends in a hash of all of it.
        """
        place = Path(*self.module.split(".")) if self.file is None else self.file.with_suffix("")
        is_inside = self.file is not None and self.file.is_relative_to(project_dir.resolve())
        parts = place.relative_to(project_dir.resolve()).parts if is_inside else place.parts[-2:]
        name = "-".join([*parts, self.attribute])
        is_exact = is_inside and all(map(_PLAIN_NAME.fullmatch, [*parts, self.attribute]))
        if is_exact and len(name) <= _MOST_NAME_CHARACTERS and "_workflow_" not in name:
            return name
        whole = f"{self.file or self.module}:{self.attribute}"
        digest = hashlib.sha256(os.fsencode(whole)).hexdigest()[:10]
        readable = re.sub(r"[^a-zA-Z0-9]+", "-", name)[-_MOST_NAME_CHARACTERS + 11 :].strip("-")
        return f"{readable}-{digest}" if readable else f"graph-{digest}"

    def places(self, here: Path) -> list[Path]:
        """Folders where its project may keep things: beside the langgraph.json, beside its package, here."""
        beside = [self.project.path.parent] if self.project else []
        return [*beside, *([package_root(self.file)] if self.file else []), here]

    def import_roots(self, here: Path) -> list[Path]:
        """Folders to import from, as its author's own ways of running it have them."""
        roots = [] if self.file is None else [package_root(self.file)]
        dependencies = self.project.local_dependencies if self.project else ()
        for folder in (here, *dependencies):
            roots += [folder, folder / "src"] if (folder / "src").is_dir() else [folder]
        packages = (folder / "__init__.py" for folder in dependencies)
        roots += [package_root(package) for package in packages if package.is_file()]
        return list(dict.fromkeys(root.resolve() for root in roots))


def resolve_graph(text: str, here: Path) -> GraphSpec:
    """`MODULE:ATTR`, `PATH.py:ATTR` or `langgraph.json[:NAME]`. Raises UsageError."""
    if project := _PROJECT.fullmatch(text):
        return _from_project(text, here / project["path"], project["name"] or "")
    target, colon, attribute = text.rpartition(":")
    if not (colon and target and attribute):
        raise UsageError(
            f"--graph {text!r}: expected PATH.py:ATTR, MODULE:ATTR or {PROJECT_FILE}[:NAME], "
            "like flows/review.py:graph."
        )
    if not target.endswith(".py"):
        return _from_module(text, target, attribute, here)
    file = here / target
    if not file.is_file():
        raise UsageError(f"--graph {text!r}: no file {target!r} in {here}.")
    return GraphSpec(text, attribute, file.resolve())


def _from_module(text: str, module: str, attribute: str, here: Path) -> GraphSpec:
    if not all(module.split(".")):
        raise UsageError(f"--graph {text!r}: {module!r} is not a module. For a file, write PATH.py:ATTR.")
    place = Path(*module.split("."))
    for folder in (here, here / "src", *map(Path, filter(None, sys.path))):
        for file in (folder / place.with_suffix(".py"), folder / place / "__init__.py"):
            if file.is_file():
                return GraphSpec(text, attribute, file.resolve(), module)
    return GraphSpec(text, attribute, None, module)


def _from_project(text: str, path: Path, name: str) -> GraphSpec:
    project = read_project(path)
    if not name and len(project.graphs) != 1:
        raise UsageError(f"--graph {text!r}: say which graph: {_choices(text, project.graphs)}.")
    name = name or next(iter(project.graphs))
    if name not in project.graphs:
        close = nearest(name, project.graphs, most=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise UsageError(
            f"--graph {text!r}: {path.name} has no graph {name!r}.{hint} It has {', '.join(project.graphs)}."
        )
    found = resolve_graph(project.graphs[name], project.path.parent)
    return GraphSpec(text, found.attribute, found.file, found.module, project)


def _choices(text: str, names: Mapping[str, str]) -> str:
    return ", ".join(f"{text}:{name}" for name in names)


def read_project(path: Path) -> LanggraphProject:
    """Raises UsageError when it is not there or not what it should be."""
    try:
        document = json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}.") from None
    except ValueError as error:
        raise UsageError(f"{path}: not valid JSON ({error}).") from None
    from agentos.engine.store_index import read_index  # noqa: PLC0415  Only for who has such a file.

    graphs = document.get("graphs") if isinstance(document, dict) else None
    if not isinstance(graphs, dict) or not graphs:
        raise UsageError(f'{path}: no graphs in it. Expected "graphs": {{"agent": "./src/agent.py:graph"}}.')
    folder = path.resolve().parent
    local, others = _dependencies(document.get("dependencies", []), folder)
    env = document.get("env", {})
    env_file = folder / env if isinstance(env, str) else None
    return LanggraphProject(
        path=path.resolve(),
        graphs={str(name): _graph_path(value, name, path) for name, value in graphs.items()},
        local_dependencies=local,
        other_dependencies=others,
        env_file=env_file,
        env={str(n): str(v) for n, v in env.items()} if isinstance(env, dict) else {},
        store_index=read_index(document, path),
        warnings=_warnings(document, env_file),
    )


def _graph_path(value: Any, name: str, path: Path) -> str:
    text = value.get("path") if isinstance(value, dict) else value
    if not isinstance(text, str) or ":" not in text:
        raise UsageError(f'{path}: graph {name!r} is not of the form "./src/agent.py:graph".')
    if text.rpartition(":")[0].endswith((".js", ".ts", ".mjs", ".tsx")):
        raise UsageError(f"{path}: graph {name!r} is JavaScript; only Python graphs run here.")
    return text


def _dependencies(listed: Any, folder: Path) -> tuple[tuple[Path, ...], tuple[str, ...]]:
    names = [str(name) for name in listed] if isinstance(listed, list) else []
    local = [name for name in names if name.startswith(".")]
    return tuple((folder / name).resolve() for name in local), tuple(n for n in names if not n.startswith("."))


def _warnings(document: Mapping[str, Any], env_file: Path | None) -> tuple[str, ...]:
    found = []
    store = document.get("store")
    if isinstance(store, dict) and store.get("ttl"):
        found.append(f"{PROJECT_FILE}: store.ttl is not supported; entries stay until they are deleted")
    if env_file is not None and not env_file.exists():
        found.append(f"{PROJECT_FILE}: its env file {env_file.name} does not exist; none of its variables are set")
    return tuple(found)


def parse_env(text: str) -> dict[str, str]:
    """The variables of an env file: `NAME=value` lines, `export` and quotes as a shell has them."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        name, equals, value = line.strip().removeprefix("export ").partition("=")
        if not equals or name.startswith("#") or not _PLAIN_NAME.fullmatch(name.strip()):
            continue
        found[name.strip()] = _unquoted(value.strip())
    return found


def _unquoted(value: str) -> str:
    if value[:1] in ("'", '"') and value.find(value[0], 1) > 0:
        inner = value[1 : value.find(value[0], 1)]
        return inner.replace("\\n", "\n") if value[0] == '"' else inner
    return re.split(r"\s#", value, maxsplit=1)[0].strip()


def package_root(file: Path) -> Path:
    """The folder from which the file's package is imported; its own folder when it is in none."""
    folder = file.parent
    while (folder / "__init__.py").is_file():
        folder = folder.parent
    return folder


def module_name(file: Path) -> str:
    """What an import calls the file: with its package if it is in one, else by its own name."""
    place = file.relative_to(package_root(file)).with_suffix("")
    parts = place.parts[:-1] if place.name == "__init__" and len(place.parts) > 1 else place.parts
    return ".".join(parts)

"""Keeps the directions of imports: who may know whom, what is pure, and what the start of a command loads."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

import agentos

PACKAGE_DIR = Path(agentos.__file__).parent

HEAVY = {
    "langgraph",
    "langchain_core",
    "pydantic",
    "pydantic_ai",
    "pydantic_settings",
    "openai",
    "anthropic",
    "google",
    "httpx",
    "httpx2",
    "githubkit",
    "keyring",
    "asyncio",
    "psycopg",
    "starlette",
    "uvicorn",
}
"""Slow to import: only for those who use them. Rich is loaded for help alone, by a library of its own."""

INPUT_AND_OUTPUT = {
    "asyncio",
    "fcntl",
    "io",
    "multiprocessing",
    "os",
    "pathlib",
    "selectors",
    "shutil",
    "signal",
    "socket",
    "sqlite3",
    "ssl",
    "subprocess",
    "sys",
    "tempfile",
    "threading",
    "time",
    "urllib",
}

PURE_MODULES = (
    "agentos.dashboard.fold",
    "agentos.dashboard.key_use",
    "agentos.dashboard.needs",
    "agentos.dashboard.payload",
    "agentos.dashboard.view",
    "agentos.events",
    "agentos.errors",
    "agentos.outcomes",
    "agentos.preflight",
    "agentos.engine.plan",
    "agentos.engine.schedule",
    "agentos.engine.item_clock",
    "agentos.engine.messages",
    "agentos.text.terminal",
    "agentos.engine.limits",
    "agentos.keys.pool",
    "agentos.keys.lanes",
    "agentos.keys.pace",
    "agentos.keys.quota",
    "agentos.keys.groups",
    "agentos.keys.budget",
    "agentos.providers.anthropic",
    "agentos.providers.classify",
    "agentos.providers.evidence",
    "agentos.providers.google",
    "agentos.providers.openai",
    "agentos.providers.provider",
    "agentos.providers.replies",
    "agentos.keys.leases",
    "agentos.keys.refusals",
    "agentos.keys.waiting",
    "agentos.wire",
    "agentos.gateway.anthropic",
    "agentos.gateway.dialect",
    "agentos.gateway.google",
    "agentos.gateway.messages",
    "agentos.gateway.openai",
)

ROOMS = (
    "distribution",
    "environment",
    "errors",
    "outcomes",
    "preflight",
    "events",
    "clock",
    "paths",
    "hints",
    "text",
    "files",
    "wire",
    "processes",
    "providers",
    "setting_rules",
    "settings",
    "database",
    "outputs",
    "records",
    "keys",
    "llm",
    "gateway",
    "testing",
    "engine",
    "reporters",
    "dashboard",
    "launch",
    "git",
    "sandbox",
    "documents",
    "codebase",
    "sources",
    "workflows.registry",
    "workflows.prompts",
    "workflows.document_paths",
    "workflows.item_names",
    "workflows.document_checks",
    "workflows.pending",
    "workflows.lineage",
    "workflows.model_options",
    "workflows.context",
    "workflows.stage_records",
    "workflows.node",
    "workflows.drafting",
    "workflows.lld",
    "workflows.issue",
    "workflows.implementation",
    "workflows.pipeline",
    "workflows.done_checks",
    "workflows.still_done",
    "workflows.run_request",
    "workflows.awaiting_review",
    "workflows.parallel",
    "workstreams",
    "page",
    "cli",
)
"""The rooms of the house from the ground up: each imports only rooms above it in this list."""

ROOM_KNOWS_NOTHING_OF = {
    "keys": ("agentos.settings",),
    "llm": ("agentos.engine",),
    "gateway": ("agentos.records",),
    "engine": ("agentos.git", "agentos.documents", "agentos.settings", "agentos.records", "agentos.llm"),
    "reporters": ("agentos.engine", "agentos.keys", "agentos.llm"),
    "dashboard": ("agentos.engine", "agentos.keys", "agentos.llm"),
    "documents": ("agentos.engine", "agentos.git", "agentos.llm"),
    "codebase": ("agentos.engine", "agentos.git", "agentos.llm"),
    "sources": ("agentos.engine", "agentos.git", "agentos.llm"),
}
"""What a room could import by its place and must not know."""


@dataclass(frozen=True)
class Import:
    """One name that a module imports."""

    target: str
    at_import_time: bool
    """Not inside a function: it happens when the module itself is imported."""
    for_types_only: bool


@cache
def modules() -> dict[str, Path]:
    found = {}
    for path in PACKAGE_DIR.rglob("*.py"):
        parts = path.relative_to(PACKAGE_DIR.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports_in(source: str, module: str = "") -> list[Import]:
    return list(_imports(ast.parse(source), module, at_import_time=True, for_types_only=False))


@cache
def imports_of(module: str) -> list[Import]:
    return imports_in(modules()[module].read_text(encoding="utf-8"), module)


def _imports(node: ast.AST, module: str, *, at_import_time: bool, for_types_only: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.Import(names=names):
                for name in names:
                    yield Import(name.name, at_import_time, for_types_only)
            case ast.ImportFrom(module=source, names=names, level=level):
                assert level == 0, f"{module}: a relative import hides where it goes"
                for name in names:
                    full = f"{source}.{name.name}"
                    yield Import(full if full in modules() else str(source), at_import_time, for_types_only)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                yield from _imports(child, module, at_import_time=False, for_types_only=for_types_only)
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                yield from _imports(child, module, at_import_time=at_import_time, for_types_only=True)
            case _:
                yield from _imports(child, module, at_import_time=at_import_time, for_types_only=for_types_only)


def is_within(module: str, packages: tuple[str, ...]) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def top(name: str) -> str:
    return name.partition(".")[0]


def own_imports(module: str) -> list[Import]:
    return [each for each in imports_of(module) if top(each.target) == "agentos"]


def loaded_with(start: str) -> dict[str, str]:
    """Every module that importing `start` imports, and who asked for it first. Parent packages come along."""
    asked_by = {start: ""}
    queue = [start]
    while queue:
        module = queue.pop()
        if module not in modules():
            continue
        targets = [each.target for each in imports_of(module) if each.at_import_time and not each.for_types_only]
        for target in [*targets, module.rpartition(".")[0]]:
            if target and target not in asked_by:
                asked_by[target] = module
                queue.append(target)
    return asked_by


# The rules.


def room_of(module: str) -> str:
    inside = module.removeprefix("agentos").removeprefix(".")
    return ".".join(inside.split(".")[: 2 if inside.startswith("workflows.") else 1])


def test_every_module_has_a_room() -> None:
    homeless = {m for m in modules() if room_of(m) not in ROOMS} - {"agentos", "agentos.workflows"}
    assert {m for m in homeless if not is_within(m, ("agentos.demo",))} == set()


def test_a_room_imports_only_rooms_below_it() -> None:
    """A strict order of rooms: there can be no cycle between packages."""
    guilty = [
        f"{module} imports {each.target}"
        for module in modules()
        if room_of(module) in ROOMS
        for each in own_imports(module)
        if room_of(each.target) in ROOMS and ROOMS.index(room_of(each.target)) > ROOMS.index(room_of(module))
    ]
    assert guilty == []


@pytest.mark.parametrize("room", ROOM_KNOWS_NOTHING_OF)
def test_a_room_does_not_know_what_it_must_not(room: str) -> None:
    guilty = [
        f"{module} imports {each.target}"
        for module in modules()
        if room_of(module) == room
        for each in own_imports(module)
        if is_within(each.target, ROOM_KNOWS_NOTHING_OF[room])
    ]
    assert guilty == []


@pytest.mark.parametrize("module", PURE_MODULES)
def test_a_pure_module_does_no_input_or_output(module: str) -> None:
    guilty = {each.target for each in imports_of(module) if top(each.target) in INPUT_AND_OUTPUT}
    assert guilty == set()
    calls = {
        node.func.id
        for node in ast.walk(ast.parse(modules()[module].read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert calls & {"open", "print", "input", "exec", "eval", "__import__"} == set()


def test_events_outcomes_and_errors_know_nobody_but_each_other() -> None:
    known = [
        {each.target for each in own_imports(f"agentos.{name}")}
        for name in ("errors", "outcomes", "preflight", "events")
    ]
    assert known == [set(), {"agentos.errors"}, set(), {"agentos.outcomes", "agentos.preflight"}]


@pytest.mark.parametrize(
    "start",
    [
        "agentos.cli.main",
        "agentos.launch.launcher",
        "agentos.workflows.parallel",
        "agentos.workflows.parallel.coordinator",
        "agentos.workflows.parallel.credential_coordinator",
        "agentos.engine.worker",
        "agentos.reporters.console",
        "agentos.keys.broker",
        "agentos.keys.local_broker",
    ],
)
def test_light_modules_load_no_heavy_library(start: str) -> None:
    loaded = loaded_with(start)
    heavy = [f"{asked_by} imports {name}" for name, asked_by in loaded.items() if top(name) in HEAVY]
    assert heavy == []


def test_modules_do_not_import_each_other_in_a_circle() -> None:
    graph = {
        module: {
            each.target
            for each in own_imports(module)
            if each.at_import_time and not each.for_types_only and each.target in modules() and each.target != module
        }
        for module in modules()
    }
    while leaves := [module for module, targets in graph.items() if not targets & graph.keys()]:
        for module in leaves:
            del graph[module]
    assert sorted(graph) == []


def test_the_engine_knows_langgraph_where_it_runs_graphs_and_saves_their_state_and_nowhere_else() -> None:
    engine = [
        m for m in modules() if is_within(m, ("agentos.engine", "agentos.launch", "agentos.workflows.parallel"))
    ]
    users = {m for m in engine if any(top(e.target) == "langgraph" and not e.for_types_only for e in imports_of(m))}
    assert users == {
        "agentos.engine.graph",
        "agentos.engine.graph_loading",
        "agentos.engine.shared_store",
        "agentos.engine.store_index",
        "agentos.engine.subgraph_nodes",
        "agentos.engine.checkpoints.item_saver",
        "agentos.engine.checkpoints.lost_nodes",
        "agentos.engine.checkpoints.serializer",
        "agentos.engine.checkpoints.sqlite_saver",
        "agentos.engine.checkpoints.progress",
        "agentos.engine.checkpoints.postgres_saver",
        "agentos.engine.checkpoints.postgres_schema",
    }


def test_only_the_launch_knows_which_backend_there_is() -> None:
    backend = ("agentos.engine.backends.forkserver",)
    outside = [m for m in modules() if not is_within(m, backend)]
    users = {m for m in outside if any(is_within(each.target, backend) for each in imports_of(m))}
    # A cluster's nodes hold the same one as a single machine.
    assert users == {"agentos.launch.workers", "agentos.engine.backends.ray.node"}


def test_only_the_cluster_backend_knows_of_ray() -> None:
    users = {m for m in modules() if any(top(each.target) == "ray" for each in imports_of(m))}
    assert users <= {f"agentos.engine.backends.ray.{name}" for name in ("bridge", "survey", "token_check")}
    inside = ("agentos.engine.backends.ray",)
    known = {m for m in modules() if any(is_within(each.target, inside) for each in imports_of(m))}
    assert {m for m in known if not is_within(m, inside)} == {"agentos.launch.workers", "agentos.cli.cluster"}


def test_only_the_checkpoint_store_knows_what_checkpoints_are_kept_in() -> None:
    users = {m for m in modules() if any(top(each.target) == "sqlite3" for each in imports_of(m))}
    # What graphs keep for themselves, beyond an item, is no checkpoint.
    users -= {"agentos.engine.shared_store", "agentos.engine.vector_connection"}
    assert users == {f"agentos.engine.checkpoints.sqlite{part}" for part in ("", "_checkpoint", "_saver")}
    inside = {m for m in modules() if any("checkpoints.sqlite" in each.target for each in imports_of(m))}
    assert {m for m in inside if not is_within(m, ("agentos.engine.checkpoints",))} == set()


READS_THE_ENVIRONMENT = {"environ", "environb", "getenv", "putenv", "unsetenv"}


def _names_of_os(node: ast.AST) -> set[str]:
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "os":
        return {node.attr}
    return {each.name for each in node.names} if isinstance(node, ast.ImportFrom) and node.module == "os" else set()


def test_one_module_reads_the_environment() -> None:
    """Everybody else is given what it needs, or asks it. Settings are `agentos.settings`' to read."""
    readers = {
        module
        for module, path in modules().items()
        for text in [path.read_text(encoding="utf-8")]
        # A name that is not in the text is not in the tree either, which takes far longer to make.
        if READS_THE_ENVIRONMENT & set(re.findall(r"\w+", text))
        for node in ast.walk(ast.parse(text))
        if READS_THE_ENVIRONMENT & _names_of_os(node)
    }
    assert {m for m in readers if not is_within(m, ("agentos.demo",))} == {"agentos.environment"}


# The finder itself.


def test_the_finder_sees_every_kind_of_import() -> None:
    source = """
import os.path
from agentos import events
from agentos.paths import home_dir
if TYPE_CHECKING:
    import socket
class C:
    import json
    def f(self):
        try:
            import ssl
        except ImportError:
            pass
"""
    assert imports_in(source) == [
        Import("os.path", True, False),
        Import("agentos.events", True, False),
        Import("agentos.paths", True, False),
        Import("socket", True, True),
        Import("json", True, False),
        Import("ssl", False, False),
    ]


# What really happens, in a fresh interpreter.

PROBE = """
import json, sys
from agentos.cli.main import main
status = main(sys.argv[1:])
sys.stdout.flush()
loaded = sorted({name.partition(".")[0] for name in sys.modules} | set(sys.modules))
sys.stderr.write("\\n" + json.dumps({"status": status, "modules": loaded}))
"""


@pytest.mark.parametrize(
    "command",
    [
        ["--help"],
        ["--version"],
        ["run", "--help"],
        ["run", "--graph", "flow.py:graph", "--items", "items.jsonl", "--dry-run"],
        ["run", "--graph", "flow.py:graph", "--items", "items.jsonl", "--dry-run", "--json", "--parallel", "3"],
        ["runs"],
        ["runs", "--help"],
    ],
    ids=" ".join,
)
def test_a_command_that_runs_nothing_loads_neither_langgraph_nor_pydantic_nor_an_sdk(
    tmp_path: Path, command: list[str]
) -> None:
    (tmp_path / "flow.py").write_text("raise SystemExit('a dry run must not load the graph')")
    (tmp_path / "items.jsonl").write_text('{"id": "a1"}\n{"id": "a2"}\n')
    environment = {"AGENTOS_HOME": str(tmp_path / "home"), "PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", PROBE, *command], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    found = json.loads(done.stderr.splitlines()[-1])
    assert found["status"] in (0, None), done.stderr
    assert set(found["modules"]) & HEAVY == set()
    assert "multiprocessing" not in found["modules"]
    # A graph of the user's own has no issues and no designs.
    assert {"agentos.documents", "agentos.sources"} & set(found["modules"]) == set()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["flow.py", "items.jsonl"]

"""A graph under its project's own interpreter: with the packages that are there, and AgentOS not among them."""

from __future__ import annotations

import json
import signal
import site
import sys
import venv
from pathlib import Path

from harness import Finished, Sandbox, eventually, of_type
from test_any_graph import write

GRAPH = """
    import importlib.metadata, importlib.util, os, sys, time
    from pathlib import Path
    from typing import TypedDict
    from langgraph.graph import START, StateGraph
    import only_there

    class State(TypedDict, total=False):
        word: str
        seen: dict

    def first(state):
        with open(os.environ["JOURNAL"], "a") as journal:
            journal.write("first\\n")
        return {"word": only_there.shout(state["word"])}

    def second(state):
        here = os.environ["AGENTOS_ITEM_ID"]
        Path(os.environ["HOLD"], here).touch()
        while not Path(os.environ["HOLD"], "go").exists():
            time.sleep(0.01)
        installed = {name.lower() for name in importlib.metadata.packages_distributions()}
        return {"seen": {
            "prefix": sys.prefix,
            "activated": os.environ.get("VIRTUAL_ENV"),
            "first in PATH": os.environ["PATH"].split(os.pathsep)[0],
            "ours": sorted(installed & {"agentos", "rich", "pytest"}),
            "leaks": importlib.util.find_spec("rich") is not None,
        }}

    graph = StateGraph(State)
    graph.add_node("first", first)
    graph.add_node("second", second)
    graph.add_edge(START, "first")
    graph.add_edge("first", "second")
"""
NOT_THERE = (
    "agentos",
    "__editable__",
    "rich",
    "pytest",
    "_pytest",
    "sqlite_vec",
    "aiosqlite",
    "a1_coverage",
    "langgraph_checkpoint_sqlite",
)
"""Of the packages that AgentOS is installed with, what the project's environment does without."""


def bare_environment(folder: Path) -> Path:
    """A virtual environment with nothing in it. Returns its folder of packages."""
    venv.create(folder, symlinks=True)
    [packages] = folder.glob("lib/python*/site-packages")
    return packages


def own_environment(folder: Path) -> Path:
    """One with LangGraph, but without its SQLite part, and with a package that nobody else has. Its interpreter."""
    packages = bare_environment(folder)
    [ours] = [Path(p) for p in site.getsitepackages() if (Path(p) / "langgraph").is_dir()]
    for entry in ours.iterdir():
        if entry.name != "langgraph" and not entry.name.startswith(NOT_THERE):
            (packages / entry.name).symlink_to(entry)
    for part in ("", "checkpoint", "store"):
        (packages / "langgraph" / part).mkdir()
        for entry in (ours / "langgraph" / part).iterdir():
            if entry.name not in ("checkpoint", "store", "sqlite"):
                (packages / "langgraph" / part / entry.name).symlink_to(entry)
    (packages / "only_there").mkdir()
    (packages / "only_there" / "__init__.py").write_text("def shout(word): return word.upper()\n")
    return folder / "bin" / "python"


def files_in(folder: Path) -> set[Path]:
    return set(folder.rglob("*"))


def test_an_item_is_killed_and_resumes_under_the_projects_own_interpreter(sandbox: Sandbox) -> None:
    python = own_environment(sandbox.project / ".venv")
    write(sandbox, "agent.py", GRAPH)
    sandbox.write_items({"id": "a", "input": {"word": "x"}}, {"id": "b", "input": {"word": "y"}})
    hold = sandbox.root / "hold"
    hold.mkdir()
    before = files_in(sandbox.project / ".venv")
    command = ["--python", ".venv/bin/python", "--parallel", "2"]
    env = {"HOLD": str(hold), "PYTHONDONTWRITEBYTECODE": ""}

    dry = sandbox.run(*command, "--dry-run", graph="agent.py:graph", env=env)
    dry_json = sandbox.run(*command, "--dry-run", "--json", graph="agent.py:graph", env=env)
    for number in (signal.SIGKILL, signal.SIGINT):
        run = sandbox.start(*command, graph="agent.py:graph", env=env)
        eventually(lambda: {"a", "b"} <= {path.name for path in hold.iterdir()}, "both items half way")
        run.kill(number)
        stopped = run.wait()
        for name in ("a", "b"):
            (hold / name).unlink()
    (hold / "go").touch()
    done = sandbox.paste(stopped, env=env)

    assert done.code == 0, done
    assert f"Workers would run under {python} (Python {sys.version_info[0]}." in dry.stdout
    assert json.loads(dry_json.stdout)["python"]["path"] == str(python)
    assert "--python .venv/bin/python" in stopped.stdout
    assert all(r["python"].startswith(f"{python} (Python ") for r in of_type(sandbox.records(), "run_started"))
    assert f"; workers run under {python} (Python " in done.stdout
    results = [json.loads(line) for line in sandbox.command("runs", "result").lines]
    environment_dir = str(sandbox.project / ".venv")
    for line, word in zip(sorted(results, key=lambda each: each["id"]), "XY", strict=True):
        assert line["state"]["word"] == word
        assert line["state"]["seen"] == {
            "prefix": environment_dir,
            "activated": environment_dir,
            "first in PATH": str(python.parent),
            "ours": [],
            "leaks": False,
        }
    assert sandbox.notes().count("first") == 2
    assert files_in(sandbox.project / ".venv") == before


def refusal(sandbox: Sandbox, python: Path | str) -> str:
    done = sandbox.run("--python", str(python))
    assert done.code == 2, done
    assert not sandbox.run_dirs()
    return done.stderr


def test_an_interpreter_that_workers_cannot_run_under_is_refused_with_what_to_do(sandbox: Sandbox) -> None:
    sandbox.write_items({"id": "a"})
    folder = sandbox.root / "bare"
    packages = bare_environment(folder)
    python = folder / "bin" / "python"
    no_python = sandbox.root / "no-python"
    no_python.write_text("#!/bin/sh\necho hello\n")
    old_python = sandbox.root / "old-python"
    answer = json.dumps({"version": [3, 9, 1], "packages": {}, "has_pip": True, "prefix": "", "is_venv": False})
    old_python.write_text(f"#!/bin/sh\necho '{answer}'\n")
    for program in (no_python, old_python):
        program.chmod(0o755)

    assert "No such file or directory. Give a path like .venv/bin/python" in refusal(sandbox, "nowhere/python")
    assert f"a folder. Give its interpreter: --python {python}" in refusal(sandbox, folder)
    assert "it does not answer as a Python does" in refusal(sandbox, no_python)
    assert "Python 3.9.1, and AgentOS needs 3.11 or later" in refusal(sandbox, old_python)
    missing = refusal(sandbox, python)
    assert "it has no langgraph; AgentOS works with 1.2 or later, below 2. Install it there: " in missing
    assert str(python) in missing.partition("Install it there: ")[2]
    (packages / "langgraph-0.6.1.dist-info").mkdir()
    metadata = "Metadata-Version: 2.1\nName: langgraph\nVersion: 0.6.1\n"
    (packages / "langgraph-0.6.1.dist-info" / "METADATA").write_text(metadata)
    assert "it has langgraph 0.6.1; AgentOS works with 1.2 or later, below 2" in refusal(sandbox, python)


def test_an_environment_beside_a_project_is_named_and_not_guessed(sandbox: Sandbox) -> None:
    bare_environment(sandbox.project / ".venv")
    write(sandbox, "agent.py", GRAPH)
    (sandbox.project / "langgraph.json").write_text(
        json.dumps({"dependencies": [".", "only-there"], "graphs": {"agent": "./agent.py:graph"}})
    )
    sandbox.write_items({"id": "a"})

    done: Finished = sandbox.run("--dry-run", graph="langgraph.json:agent")
    failed = sandbox.run(graph="langgraph.json:agent")

    beside = "langgraph.json has an environment beside it: --python .venv/bin/python runs the graph with its packages"
    assert f"Warning: {beside}" in done.stderr
    assert failed.code == 2
    assert (
        "No module named 'only_there'. langgraph.json lists only-there. Run with the interpreter that has it: "
        in (failed.stderr)
    )
    assert "--python .venv/bin/python" in failed.stderr

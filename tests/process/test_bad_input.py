"""Bad input: exit 2, one line that says what is wrong, where, and what to do; nothing runs and nothing is left."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import textwrap
from pathlib import Path

import pytest
from harness import Finished, Sandbox

GOOD = '{"id": "good"}\n'


def refused(sandbox: Sandbox, done: Finished) -> str:
    """Check that it was refused in good form; the message."""
    assert done.code == 2, done
    assert done.stdout == ""
    assert "\x1b" not in done.stderr
    if not done.stderr.startswith("Usage: "):
        [line] = done.stderr.splitlines()
        assert line.startswith("agentos: error: ")
    assert sandbox.notes() == []
    assert not sandbox.home.exists()
    assert sorted(path.name for path in sandbox.project.iterdir()) == ["graphs"]
    return done.stderr


ITEMS = {
    "malformed JSON": (GOOD + '\n{"id": "b",}\n', ["items.jsonl, line 3", "not valid JSON", "one object"]),
    "cut off": (GOOD + '{"id": "b"', ["items.jsonl, line 2", "not valid JSON"]),
    "too deep": ('{"id": "a", "input": {"tasks": ' + "[" * 100_000, ["items.jsonl, line 1", "not valid JSON"]),
    "no object": (GOOD + '["b"]\n', ["items.jsonl, line 2", "expected an object", '{"id": "a1"']),
    "no id": (GOOD + '{"input": {}}\n', ["items.jsonl, line 2", "no id"]),
    "unknown key": ('{"id": "a", "inputs": {}}\n', ["items.jsonl, line 1", "'inputs'", "goes into input."]),
    "id of a wrong kind": ('{"id": null}\n', ["items.jsonl, line 1", "must be a string"]),
    "true as id": ('{"id": true}\n', ["items.jsonl, line 1", "must be a string"]),
    "no input": ('{"id": "a", "input": null}\n', ["items.jsonl, line 1", "input must not be null"]),
    "priority of a wrong kind": ('{"id": "a", "priority": "high"}\n', ["line 1", "priority must be a whole number"]),
    "depends_on of a wrong kind": ('{"id": "a", "depends_on": "b"}\n', ["line 1", "depends_on must be a list"]),
    "unknown dependency": (GOOD + '{"id": "b", "depends_on": ["x"]}\n', ["items.jsonl, line 2", "'x'", "Add it"]),
    "depends on itself": ('{"id": "a", "depends_on": ["a"]}\n', ["a -> a", "Remove"]),
    "same id, other input": (GOOD + '{"id": "good", "input": {"tasks": {}}}\n', ["line 2", "line 1", "another id"]),
    "the same key twice": (GOOD + '{"id": "a", "id": "b"}\n', ["items.jsonl, line 2", "'id' is there twice"]),
    "nothing in it": ("\n\n", ["no items"]),
    "not text": (b'{"id": "good"}\n\xff\xfe\n', ["items.jsonl, line 2", "not UTF-8"]),
}


@pytest.mark.parametrize("case", ITEMS)
def test_a_bad_items_file_is_refused_with_the_line_and_the_remedy(sandbox: Sandbox, case: str) -> None:
    content, pieces = ITEMS[case]
    (sandbox.root / "items.jsonl").write_bytes(content if isinstance(content, bytes) else content.encode())

    message = refused(sandbox, sandbox.run())

    assert [piece for piece in pieces if piece not in message] == [], message
    assert len(message.splitlines()) == 1
    assert not sandbox.home.exists()


def test_ids_that_are_not_safe_in_a_file_name_are_refused(sandbox: Sandbox) -> None:
    """One of each kind; `test_input_sanitizer.py` has them all."""
    unsafe, reserved = ["", "../x", "\u0430", "a\x00b"], ["NUL"]
    for bad in unsafe + reserved:
        sandbox.write_items({"id": "good"}, {"id": bad})

        message = refused(sandbox, sandbox.run())

        assert "items.jsonl, line 2: Invalid identifier" in message
        assert "1 to 128 ASCII letters, digits, '_' or '-'" in message
        assert ("Windows" in message) == (bad in reserved)
        assert message.isascii()
        assert not sandbox.home.exists()


def test_the_longest_and_oddest_ids_that_are_allowed_run(sandbox: Sandbox) -> None:
    allowed = ["x" * 128, "-", "_", "--help", "CON1", "a-B_9"]
    sandbox.write_items(*({"id": name} for name in allowed))

    assert sandbox.run("--parallel", "3").code == 0
    assert sandbox.outcomes() == dict.fromkeys(allowed, "completed")


FLAGS = {
    "no such file of items": (["--items", "missing.jsonl"], ["missing.jsonl", "No such file"]),
    "a directory of items": (["--items", "graphs"], ["'graphs' is a folder", "--input-key"]),
    "unknown id": (["nope"], ["No item matches 'nope'", "good"]),
    "glob without a match": (["x*"], ["No item matches 'x*'"]),
    "parallel 0": (["--parallel", "0"], ["--parallel", "at least 1"]),
    "parallel below 0": (["--parallel", "-3"], ["--parallel"]),
    "parallel in words": (["--parallel", "many"], ["--parallel", "not a whole number"]),
    "no time": (["--timeout-seconds", "0"], ["--timeout-seconds", "positive"]),
    "no number of seconds": (["--timeout-seconds", "nan"], ["--timeout-seconds", "positive"]),
    "retry below 0": (["--retry", "-1"], ["--retry"]),
    "no such project": (["--project", "nowhere"], ["--project", "nowhere", "no such directory"]),
    "the address of a cluster for a run without one": (["--address", "desk:6379"], ["--address", "--backend ray"]),
    "unknown start method": (["--start-method", "magic"], ["--start-method", "magic"]),
    "graph without an attribute": (["--graph", "graphs/steps.py"], ["PATH.py:ATTR"]),
    "graph file that is missing": (["--graph", "graphs/no.py:graph"], ["no file 'graphs/no.py'"]),
}


@pytest.mark.parametrize("case", FLAGS)
def test_a_bad_flag_is_refused_before_anything_is_touched(sandbox: Sandbox, case: str) -> None:
    flags, pieces = FLAGS[case]
    sandbox.write_items({"id": "good"})

    message = refused(sandbox, sandbox.run(*flags))

    assert [piece for piece in pieces if piece not in message] == [], message
    assert not sandbox.home.exists()


GRAPHS = {
    "no such attribute": ("flow.py:grpah", ["no attribute 'grpah'", "Did you mean", "graph"]),
    "not a graph": ("flow.py:number", ["int", "StateGraph"]),
    "function with arguments": ("flow.py:needs_argument", ["needs 'argument'", "`config` or `runtime`"]),
    "function that fails": ("flow.py:fails", ["KeyError", "flow.py"]),
    "graph that does not compile": ("flow.py:broken", ["does not compile", "nowhere"]),
    "no module at all": ("..flows:graph", ["'..flows' is not a module", "PATH.py:ATTR"]),
    "no such module": ("no_such_module:graph", ["no module 'no_such_module'", "PATH.py:ATTR"]),
    "module with a syntax error": ("bad_syntax.py:graph", ["SyntaxError", "bad_syntax.py"]),
    "module that needs another": ("needs_other.py:graph", ["ModuleNotFoundError", "no_such_library"]),
    "module that exits": ("exits.py:graph", ["SystemExit"]),
    "module that fails in colour": ("red.py:graph", ["ValueError: red in two lines", "graphs/red.py, line 1"]),
    "module that dies": ("dies.py:graph", ["died"]),
}

SOURCES = {
    "flow.py": """
        from typing import TypedDict
        from langgraph.graph import START, StateGraph

        class State(TypedDict):
            text: str

        number = 7
        graph = StateGraph(State)
        graph.add_node("n", lambda state: {})
        graph.add_edge(START, "n")
        broken = StateGraph(State)
        broken.add_node("n", lambda state: {})
        broken.add_edge(START, "n")
        broken.add_edge("n", "nowhere")

        def needs_argument(argument): ...
        def fails(): return {}["missing"]
    """,
    "bad_syntax.py": "graph = (",
    "needs_other.py": "import no_such_library",
    "exits.py": "raise SystemExit(0)",
    "red.py": "raise ValueError('\\x1b[31mred\\nin two lines')",
    "dies.py": "import os; os.kill(os.getpid(), 9)",
}


LOADED_IN_PROCESS = (
    "no such attribute",
    "function with arguments",
    "function that fails",
    "graph that does not compile",
    "no such module",
    "module that needs another",
)
"""What loading says of these, tests/unit/engine/test_graph_loading.py shows; the others show that the run says it."""


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=pytest.mark.slow if case in LOADED_IN_PROCESS else ()) for case in GRAPHS]
)
def test_a_graph_that_cannot_be_used_is_refused_with_the_reason(sandbox: Sandbox, case: str) -> None:
    spec, pieces = GRAPHS[case]
    for name, source in SOURCES.items():
        (sandbox.project / "graphs" / name).write_text(textwrap.dedent(source))
    sandbox.write_items({"id": "good"})

    message = refused(sandbox, sandbox.run(graph=spec if ".py" not in spec else f"graphs/{spec}"))

    assert [piece for piece in pieces if piece not in message] == [], message


def test_an_input_key_that_the_state_does_not_have_is_refused_not_dropped(sandbox: Sandbox) -> None:
    sandbox.write_items({"id": "good"}, {"id": "typo", "input": {"taks": {}}})

    message = refused(sandbox, sandbox.run())

    assert "'typo'" in message
    assert "'taks'" in message
    assert "tasks" in message  # The keys there are.


def test_a_graph_of_ones_own_takes_more_than_ten_at_once(sandbox: Sandbox) -> None:
    """Ten are the most for the workflows of documents, see test_cli_parallel_tools.py."""
    sandbox.write_items({"id": "a"})

    done = sandbox.run("--parallel", "50", "--dry-run", "--json")

    assert (done.code, done.stderr) == (0, "")
    assert json.loads(done.stdout)["parallel"] == 50


def test_a_memory_limit_that_is_no_number_or_too_low_is_refused_and_the_least_that_it_names_is_enough(
    sandbox: Sandbox,
) -> None:
    sandbox.write_items({"id": "a"})

    message = refused(sandbox, sandbox.run(env={"AGENTOS_MEMORY_LIMIT_MB": "lots"}))
    assert "AGENTOS_MEMORY_LIMIT_MB='lots'" in message

    message = refused(sandbox, sandbox.run(env={"AGENTOS_MEMORY_LIMIT_MB": "20"}))
    least = re.search(r"AGENTOS_MEMORY_LIMIT_MB=20: too little .* at least (\d+)", message)
    assert least, message
    assert sandbox.run(env={"AGENTOS_MEMORY_LIMIT_MB": least[1]}).code == 0


def test_a_machine_that_gives_too_little_is_said_in_one_line(sandbox: Sandbox) -> None:
    sandbox.write_items({"id": "a"})
    few_files = f"ulimit -n 14; exec agentos {shlex.join(sandbox.arguments())}"
    message = refused(sandbox, sandbox.start_command("-c", few_files, program=Path("/bin/sh")).wait())
    assert "ulimit -n 1024" in message

    gone = f"mkdir gone; cd gone; rmdir ../gone; exec agentos {shlex.join(sandbox.arguments())}"
    message = refused(sandbox, sandbox.start_command("-c", gone, program=Path("/bin/sh")).wait())
    assert "the current folder no longer exists" in message


def test_a_home_that_cannot_be_written_is_said_in_one_line(sandbox: Sandbox) -> None:
    """Files in place of folders: permissions do not bind everybody."""
    sandbox.write_items({"id": "a"})
    a_file = sandbox.root / "file"
    a_file.touch()
    (sandbox.root / "home-2").mkdir()
    (sandbox.root / "home-2" / "logs").touch()
    subprocess.run(["git", "init", "-q"], cwd=sandbox.project, check=True)
    for home in (a_file, a_file / "below", sandbox.root / "home-2"):
        env = {"AGENTOS_HOME": str(home), "A_KEY": "x" * 30}
        commands = [
            sandbox.arguments(),
            ["ws", "list"],
            ["keys", "add", "a", "--provider", "google", "--env", "A_KEY"],
        ]
        for words in commands if home.name != "home-2" else commands[:1]:
            done = sandbox.command(*words, env=env)
            assert (done.code, done.stdout) == (2, ""), done.stderr
            (line,) = done.stderr.splitlines()
            assert str(a_file if "file" in str(home) else home) in line
            assert "Set AGENTOS_HOME to a" in line or "set AGENTOS_HOME to a" in line


def test_a_demo_where_nothing_can_be_made_is_refused_in_one_line(sandbox: Sandbox) -> None:
    (sandbox.root / "a-file").touch()
    message = refused(sandbox, sandbox.command("demo", "--dir", str(sandbox.root / "a-file" / "demo")))
    assert "cannot make the demo in" in message
    assert message.rstrip().endswith("Not a directory. Choose another folder with --dir.")


@pytest.mark.parametrize("more", [(), ("--dry-run",)], ids=["run", "dry-run"])
def test_a_results_file_that_cannot_be_written_is_refused_before_the_start(
    sandbox: Sandbox, more: tuple[str, ...]
) -> None:
    sandbox.write_items({"id": "a"})
    text = sandbox.root / "notes.txt"
    text.write_text("mine\n")
    folder = sandbox.root / "new"
    for output, words in {
        str(folder / "out.jsonl"): f"there is no folder {str(folder)!r}",
        str(sandbox.project): "not a regular file",
        "/dev/null": "not a regular file",
        str(text / "out.jsonl"): f"there is no folder {str(text)!r}",
        str(text): "has something other than results in it",
    }.items():
        message = refused(sandbox, sandbox.run("--output", output, *more))
        assert f"--output {output!r}" in message
        assert words in message
    assert (folder.exists(), text.read_text()) == (False, "mine\n")


def test_a_pipe_in_place_of_keys_or_settings_is_not_waited_for(sandbox: Sandbox) -> None:
    sandbox.write_items({"id": "a"})
    sandbox.home.mkdir(mode=0o700, exist_ok=True)
    for path in (sandbox.home / "credentials.toml", sandbox.home / "agentos.toml", sandbox.project / "agentos.toml"):
        os.mkfifo(path)
        refused = sandbox.run()
        path.unlink()

        assert refused.code == 2
        [line] = refused.stderr.splitlines()
        assert path.name in line
        assert "not a regular file" in line


def test_credentials_nested_too_deeply_are_told_as_that(sandbox: Sandbox) -> None:
    sandbox.home.mkdir(parents=True, exist_ok=True)
    (sandbox.home / "credentials.toml").write_text(f"x = {'[' * 20_000}{']' * 20_000}\n")

    done = sandbox.command("keys")

    assert (done.code, done.stderr.count("\n")) == (2, 1)
    assert "credentials.toml: not valid TOML: nested too deeply" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("gateway", "--port", "99999"), "argument --port: must be at most 65535, got 99999"),
        (("dashboard", "--no-open", "--port", "99999"), "argument --port: must be at most 65535, got 99999"),
        (("ws",), "say what to do: new, rm, cleanup, run, run-all, list, "),
    ],
)
def test_a_command_that_cannot_start_says_why_and_what_it_takes(
    sandbox: Sandbox, words: tuple[str, ...], said: str
) -> None:
    done = sandbox.command(*words, env={"GEMINI_API_KEY": "AIza-key-of-no-server-0000000000000000000"})
    assert (done.code, done.stdout) == (2, "")
    assert f"agentos: error: {said}" in done.stderr
    assert "Traceback" not in done.stderr

"""`agentos run`: any LangGraph graph over many items."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentos.cli import run_command
from agentos.cli.item_files import read_item_text, read_items
from agentos.cli.options import (
    SHUTDOWN_HELP,
    add_engine_options,
    add_parallel_options,
    capped_by_machine,
    project_from,
    setting_flags,
    whole_number,
)
from agentos.cli.run_command import Work
from agentos.engine.checkpoints import store_for
from agentos.engine.checkpoints.protocol import ItemRef
from agentos.engine.done_notes import notes_of
from agentos.engine.graph_config import graph_config, thread_keys, without_thread_keys
from agentos.engine.graph_spec import GraphSpec, resolve_graph
from agentos.engine.plan import Item, is_too_deep, item_hash, select, strict_json
from agentos.environment import environment
from agentos.errors import UsageError
from agentos.settings import load_settings
from agentos.workflows.registry import Workflow

if TYPE_CHECKING:
    from agentos.engine.interpreter import Interpreter

_EPILOG = """\
An items file has one JSON object per line: {"id": "a1", "input": {...}}, and if need be "priority", "depends_on",
"config", "context" and "env". A .json file is an array of such objects; of a .csv file every column but id, priority
and depends_on is input. A state key "outcome" at the end of the graph becomes the item's outcome."""


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Run a LangGraph graph over many items, each in its own process and with its own checkpoint.\n\n"
        + SHUTDOWN_HELP
    )
    parser.epilog = _EPILOG
    parser.add_argument(
        "ids", nargs="*", metavar="ID", help="run only these items; globs like 'b*' are allowed (default: all)"
    )
    parser.add_argument(
        "--graph",
        required=True,
        metavar="SPEC",
        help="PATH.py:ATTR, MODULE:ATTR or langgraph.json[:NAME]: a graph, or a function that returns one",
    )
    parser.add_argument(
        "--items",
        required=True,
        metavar="FILE",
        help="items as JSON Lines, a JSON array or CSV, a folder of files, or - for standard input",
    )
    parser.add_argument(
        "--input-key",
        metavar="KEY",
        help="take each line, array element or file of a folder as the value of KEY in the input, unparsed",
    )
    parser.add_argument(
        "--ignore-dependencies",
        action="store_true",
        help="run the chosen items even if an item they depend on is left out and did not succeed",
    )
    _add_result_options(parser)
    _add_graph_options(parser)
    add_parallel_options(parser, by_machine=True)
    add_engine_options(parser)
    parser.set_defaults(handler=run)


def _add_result_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--output",
        metavar="FILE",
        help="write one JSON object per item as it ends: id, outcome, state, error, usage, seconds, attempts; "
        "- for standard output (default: results are only kept for `agentos runs result`)",
    )
    parser.add_argument("--ordered", action="store_true", help="with --output: write in the order of the items")


def _add_graph_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config", metavar="JSON", help="the graph's config, as LangGraph takes it; a file or JSON text"
    )
    parser.add_argument("--context", metavar="JSON", help="the graph's run context; a file or JSON text")
    parser.add_argument(
        "--python",
        metavar="PATH",
        help="run the graph under this interpreter, like .venv/bin/python, with the packages it has; AgentOS need "
        "not be installed there (default: the one that AgentOS runs under)",
    )
    parser.add_argument(
        "--recursion-limit", type=whole_number, metavar="N", help="steps before LangGraph gives up on an item"
    )
    parser.add_argument(
        "--async",
        dest="is_async",
        action="store_true",
        help="await every node, even where nothing seems to need it (default: only in graphs that need it)",
    )
    parser.add_argument(
        "--pass-env",
        action="append",
        default=[],
        metavar="NAME",
        help="give workers this variable even though it holds a key, for graphs that call models themselves; "
        "repeatable",
    )
    parser.add_argument(
        "--show-tokens", action="store_true", help="print what the graph's models stream (default: only count it)"
    )


def run(arguments: argparse.Namespace) -> int:
    project_dir = project_from(arguments.project, Path.cwd())
    spec = resolve_graph(arguments.graph, Path.cwd())
    _check_output(arguments)
    given = read_item_text(arguments.items)
    common = _options(arguments)
    merged = [_with_options(item, common) for item in read_items(given, arguments.input_key)]
    items = [replace(item, options=without_thread_keys(item.options)) for item in merged]
    workflow = Workflow(spec.name_in(project_dir), arguments.graph)
    chosen = select(items, arguments.ids)
    if not arguments.ignore_dependencies:
        _refuse_unmet(chosen, items, workflow.name, project_dir)
    plan, left = run_command.planned(arguments, chosen)
    python = _interpreter(arguments.python) if arguments.python else None
    return run_command.run(
        Work(
            arguments=arguments,
            workflow=workflow,
            project_dir=project_dir,
            settings=load_settings(project_dir, flags=setting_flags(arguments)),
            cap=capped_by_machine,
            plan=plan,
            skipped=left,
            batch=[item.id for item in items],
            warnings=[*_warnings(spec, python), *_threads_not_taken(merged)],
            notes=[f"Workers would run under {python}."] if python else (),
            details={"python": _document(python)} if python else {},
            environment=python.environment(environment()) if python else {},
            environment_defaults=spec.project.environment() if spec.project else {},
            adjust=lambda request: replace(
                request,
                piped_input=given.piped,
                hands_out_results=True,
                results_target=Path(arguments.output) if arguments.output else None,
                results_in_order=arguments.ordered,
                python=python,
                pass_env=tuple(dict.fromkeys(arguments.pass_env)),
                graph_options={"async": arguments.is_async, "tokens": arguments.show_tokens},
            ),
        )
    )


def _interpreter(text: str) -> Interpreter:
    from agentos.engine.interpreter import check_interpreter  # noqa: PLC0415  Most runs are under ours.

    return check_interpreter(text, Path.cwd())


def _warnings(spec: GraphSpec, python: Interpreter | None) -> list[str]:
    """What to know of a project before its graph runs."""
    if spec.project is None:
        return []
    from agentos.engine.interpreter import python_beside  # noqa: PLC0415  As above.

    beside = None if python else python_beside([spec.project.path.parent])
    own = shlex.quote(os.path.relpath(beside)) if beside else ""
    hint = f"{spec.project.path.name} has an environment beside it: --python {own} runs the graph with its packages"
    return [*spec.project.warnings, *([hint] if beside else [])]


def _threads_not_taken(items: Sequence[Item]) -> list[str]:
    """Configuration is often that of a call by hand, which needs a thread."""
    given = {name: None for item in items for name in thread_keys(item.options)}
    if not given:
        return []
    names = f"{', '.join(given)} {'is' if len(given) == 1 else 'are'}"
    return [f"config: {names} not taken; each item is a thread of its own, named by its id"]


def _document(python: Interpreter) -> dict[str, str]:
    return {"path": str(python.path), "version": python.version, "langgraph": python.langgraph}


def _refuse_unmet(chosen: Sequence[Item], items: Sequence[Item], workflow: str, project_dir: Path) -> None:
    """Raises UsageError for an item that depends on one that was left out and did not end well.

    One that no run has tried counts as done: the user knows why it was left out.
    """
    ids, known = {item.id for item in chosen}, {item.id: item for item in items}
    needed = {name: item.id for item in chosen for name in item.depends_on if name in known and name not in ids}
    if not needed:
        return
    from agentos.reporters.last_run import last_runs  # noqa: PLC0415  Few choose items whose dependencies they leave out.

    notes, checkpoints = notes_of(project_dir, workflow), store_for(project_dir)
    ends = last_runs(project_dir, workflow.__eq__, needed)
    for name, item_id in needed.items():
        note, end = notes.done(name, item_hash(known[name])), ends.get(name)
        if note is not None and note.outcome.is_done:
            continue
        if end is not None and not end.item.outcome.is_done:
            what = f"{end.item.outcome.as_clause()} in run {end.run_dir.name}"
        elif checkpoints.exists(ItemRef(workflow, name)):
            what = "is not finished"
        else:
            continue
        raise UsageError(
            f"{item_id} depends on {name}, which {what}. Name both to run that first, or give --ignore-dependencies."
        )


def graph_workflow(spec: str, project_dir: Path) -> Workflow:
    """A user's graph, checked as far as can be seen without loading it."""
    return Workflow(resolve_graph(spec, Path.cwd()).name_in(project_dir), spec)


def _check_output(arguments: argparse.Namespace) -> None:
    if arguments.ordered and not arguments.output:
        raise UsageError("--ordered needs --output: give a file, or - for standard output.")
    if arguments.output == "-" and arguments.json:
        raise UsageError("--json and --output - both want standard output. Give --output a file.")
    if arguments.output and arguments.output != "-":
        _check_results_file(arguments.output)


def _check_results_file(given: str) -> None:
    """Raises UsageError for a file that results could not be written to, before anything is paid for."""
    path, folder = Path(given), Path(given).parent
    try:
        if not folder.is_dir():
            raise UsageError(
                f"--output {given!r}: there is no folder {str(folder)!r}. Make it, or name another file."
            )
        if path.exists() and not path.is_file():
            raise UsageError(f"--output {given!r}: not a regular file. Name a file, or - for standard output.")
    except (OSError, ValueError) as error:
        raise UsageError(f"--output {given!r}: {error}.") from None
    if not os.access(folder, os.W_OK | os.X_OK) or (path.exists() and not os.access(path, os.R_OK | os.W_OK)):
        raise UsageError(f"--output {given!r}: it cannot be written here. Name a file in a folder of yours.")
    from agentos.records.results import users_spans  # noqa: PLC0415  Only with --output.

    users_spans(path)


def _options(arguments: argparse.Namespace) -> dict[str, Any]:
    """What all items have in common."""
    config = graph_config(_json_object("--config", arguments.config), "--config")
    if arguments.recursion_limit is not None:
        config["recursion_limit"] = arguments.recursion_limit
    return {"config": config, "context": _json_object("--context", arguments.context)}


def _json_object(option: str, text: str | None) -> dict[str, Any]:
    if text is None:
        return {}
    try:
        content = text if text.lstrip()[:1] in ("{", "[") else Path(text).read_text(encoding="utf-8-sig")
        value = strict_json(content)
    except OSError as error:
        raise UsageError(f"{option} {text!r}: {error.strerror}. Give a file, or JSON like '{{...}}'.") from None
    except ValueError as error:
        raise UsageError(f"{option}: not valid JSON ({error}).") from None
    except RecursionError:
        raise UsageError(f"{option}: nested too deeply.") from None
    if not isinstance(value, dict):
        raise UsageError(f"{option}: expected an object like '{{...}}'.")
    if is_too_deep(value):
        raise UsageError(f"{option}: nested too deeply.")
    return value


def _with_options(item: Item, common: Mapping[str, Mapping[str, Any]]) -> Item:
    """What an item says of itself stands before what all have in common."""
    merged = {name: _merged(values, item.options.get(name, {})) for name, values in common.items()}
    return replace(item, options={name: values for name, values in merged.items() if values})


def _merged(common: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    merged = {**common, **own}
    if "configurable" in common and "configurable" in own:
        merged["configurable"] = {**common["configurable"], **own["configurable"]}
    return merged

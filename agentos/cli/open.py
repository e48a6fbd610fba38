"""`agentos open`: an item's document in the user's editor, or its path where there is no terminal."""

from __future__ import annotations

import argparse
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from agentos.cli.graph_items import find_graph_item, is_graph_and_id, only_document
from agentos.cli.known_names import item_hint
from agentos.cli.options import project_from
from agentos.cli.output import say
from agentos.cli.parsing import add_project_option
from agentos.environment import environment
from agentos.errors import ExitCode, UsageError
from agentos.settings import Settings, load_settings
from agentos.text.words import one_line
from agentos.workflows.document_paths import document_paths
from agentos.workflows.item_names import find_item, issue_files
from agentos.workflows.registry import label_of

_EDITORS = ("VISUAL", "EDITOR")


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Open an item's document in the editor that VISUAL or EDITOR names. An item without a document "
        "opens its issue. In a pipe, or without an editor, the path is printed."
    )
    parser.add_argument("item", metavar="ITEM", help="an item, like 42, LLD-42 or ISSUE-login-page")
    parser.add_argument("--issue", action="store_true", help="open the issue it is made from")
    parser.add_argument("--path", action="store_true", help="only print the path")
    add_project_option(parser, "the project the item belongs to")
    parser.set_defaults(handler=run)


def run(arguments: argparse.Namespace) -> int:
    project_dir = project_from(arguments.project, Path.cwd())
    settings = load_settings(project_dir)
    path = _path(project_dir, settings, arguments.item, wants_issue=arguments.issue)
    if arguments.path or not (sys.stdin.isatty() and sys.stdout.isatty()):
        say(str(path))
        return ExitCode.OK
    editor = _editor()
    if not editor:
        say(str(path))
        say("To open it, set EDITOR to your editor: export EDITOR=nano", to_stderr=True)
        return ExitCode.OK
    done = subprocess.run([*editor, str(path)], check=False)
    if done.returncode != 0:
        say(f"{editor[0]} ended with status {done.returncode}; the document is {path}", to_stderr=True)
    return ExitCode.OK if done.returncode == 0 else ExitCode.ITEM_FAILED


def _path(project_dir: Path, settings: Settings, name: str, *, wants_issue: bool) -> Path:
    if is_graph_and_id(name) and (of_graph := find_graph_item(project_dir, name)):
        return only_document(of_graph)
    workflow, item_id = find_item(name, project_dir, settings)
    documents = [] if wants_issue else document_paths(project_dir, settings, workflow.name, item_id)
    issues = [path for path, known in issue_files(project_dir, settings).items() if known == item_id]
    found = next((path for path in (*documents, *issues) if path.is_file()), None)
    if found is not None:
        return found
    if not wants_issue and (of_graph := find_graph_item(project_dir, name)):
        return only_document(of_graph)
    what = "issue" if wants_issue else "document and no issue"
    hint = item_hint(label_of(workflow.name, item_id), project_dir)
    raise UsageError(f"{one_line(name, 60)} has no {what} in a file here.{hint}")


def _editor() -> list[str]:
    """The words of the user's editor; none when they named none. Raises UsageError for one that is not there."""
    for name in _EDITORS:
        if chosen := environment().get(name, "").strip():
            try:
                words = shlex.split(chosen)
            except ValueError as error:
                raise UsageError(
                    f"{name} is {chosen!r}: {error}. Correct it, or print the path with --path."
                ) from None
            if shutil.which(words[0]) is None:
                raise UsageError(
                    f"{name} is {chosen!r}, and there is no program {words[0]!r} on PATH. "
                    f"Set {name} to one that is there, or print the path with --path."
                )
            return words
    return []

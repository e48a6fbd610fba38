"""`agentos pipeline`: issues become designs and designs become code, each item at its own pace."""

from __future__ import annotations

import argparse

from agentos.cli import implement
from agentos.cli import run_command as drafting
from agentos.cli.options import SHUTDOWN_HELP, add_engine_options, add_parallel_options
from agentos.workflows.pipeline.pending import find_items

COMMAND = drafting.DraftingCommand(
    workflow="pipeline",
    noun="issue",
    description="Take each issue all the way: a reviewed design, then a branch with passing tests. No item waits for "
    "another between the stages.",
    find=find_items,
)


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("pipeline", help="take issues all the way: design, tests, code")
    parser.description = f"{COMMAND.description}\n\n{SHUTDOWN_HELP}"
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("ids", nargs="*", metavar="ID", help="work on these issues only; globs too")
    parser.add_argument("--all", action="store_true", help="work on every issue that is not implemented")
    add_parallel_options(parser, default=None)
    implement.add_model_options(parser)
    parser.add_argument(
        "--review",
        choices=("none", "draft", "verdict", "all"),
        help="park designs for a person's decision at the draft, at the verdict, or at both (default: none)",
    )
    implement.add_code_options(parser)
    add_engine_options(parser)
    parser.set_defaults(handler=run, file=False)


def run(arguments: argparse.Namespace) -> int:
    code = implement.with_code_options(drafting.prepare(arguments, COMMAND))
    return implement.run_prepared(code)

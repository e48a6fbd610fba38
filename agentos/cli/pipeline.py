"""`agentos pipeline`: issues become designs and designs become code, each item at its own pace."""

from __future__ import annotations

import argparse

from agentos.cli.documents import DocumentCommand
from agentos.cli.implement import add_code_options, as_code
from agentos.workflows.pipeline.pending import find_items

COMMAND: DocumentCommand = DocumentCommand(
    workflow="pipeline",
    noun="issue",
    description="Take each issue all the way: a reviewed design, then a branch with passing tests. No item waits for "
    "another between the stages.",
    prepare=lambda arguments: as_code(COMMAND.find(arguments, find_items)),
    add_own_options=add_code_options,
)


def add_options(parser: argparse.ArgumentParser) -> None:
    COMMAND.add_options(parser)

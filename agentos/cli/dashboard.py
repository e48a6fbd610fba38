"""`agentos dashboard`: a page to keep open, on this machine alone."""

# Every command builds this parser, few run it.
# ruff: noqa: PLC0415

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from agentos.cli.options import whole_number
from agentos.cli.texts import say
from agentos.distribution import install_line
from agentos.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from agentos.page.server import Addresses

DESCRIPTION = """Serve a page with all runs of this home: what needs you, how far each is, what it does and costs,
its logs, documents and diffs; live, and the same for runs that ended or died. It reads run records and changes
nothing by itself. Two addresses are printed: one to look, one that may also pause, stop, retry and approve. They work
as long as this command runs."""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "dashboard", help="a page to keep open: all runs live, what needs you, control", description=DESCRIPTION
    )
    parser.add_argument(
        "--port", type=whole_number, default=0, metavar="N", help="listen here (default: a free port)"
    )
    parser.add_argument("--no-open", action="store_true", help="print the addresses, and open no browser")
    parser.add_argument("--host", default="127.0.0.1", metavar="ADDRESS", help="listen there (default: 127.0.0.1)")
    parser.add_argument(
        "--allow-remote",
        action="store_true",
        help="allow a --host that other machines can reach: without encryption, so in networks you trust",
    )
    parser.add_argument("--json", action="store_true", help="print the addresses as one JSON object")
    parser.set_defaults(handler=run)


def run(arguments: argparse.Namespace) -> int:
    try:
        from agentos.page.server import Options, serve
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "agentos":
            raise
        raise UsageError(
            f"The dashboard needs {error.name}, which is not installed: {install_line('page')}"
        ) from None
    options = Options(
        host=arguments.host,
        port=arguments.port,
        allow_remote=arguments.allow_remote,
        opens_browser=not (arguments.no_open or arguments.json),
    )
    serve(options, _tell_json if arguments.json else _tell)
    return ExitCode.OK


def _tell(addresses: Addresses) -> None:
    say(
        f"Dashboard on {addresses.base}. Ctrl+C ends it; runs go on.",
        f"  Control:   {addresses.control}",
        f"  Read only: {addresses.read_only}",
    )


def _tell_json(addresses: Addresses) -> None:
    say(json.dumps({"address": addresses.base, "control": addresses.control, "read_only": addresses.read_only}))

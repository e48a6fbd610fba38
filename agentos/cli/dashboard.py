"""`agentos dashboard`: a page to keep open, on this machine alone."""

# Every command builds this parser, few run it.
# ruff: noqa: PLC0415

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from agentos.cli.options import port_number
from agentos.cli.output import say
from agentos.distribution import install_line
from agentos.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from agentos.page.server import Addresses

DESCRIPTION = """Serve a page with all runs of this home, live or ended: what needs you, how far each run is, what it
does and costs, its logs, documents and diffs. The page reads run records and changes nothing by itself. The command
prints two addresses: one to look, one that may also pause, stop, retry and approve. They work as long as it runs."""


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = DESCRIPTION
    parser.add_argument(
        "--port", type=port_number, default=0, metavar="N", help="the port to listen on (default: a free one)"
    )
    parser.add_argument("--no-open", action="store_true", help="print the addresses without opening a browser")
    parser.add_argument(
        "--host", default="127.0.0.1", metavar="ADDRESS", help="the address to listen on (default: 127.0.0.1)"
    )
    parser.add_argument(
        "--allow-remote",
        action="store_true",
        help="allow a --host that other machines can reach; nothing is encrypted, so use it only in networks you "
        "trust",
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
        f"Dashboard on {addresses.base}. Ctrl+C ends it; runs continue.",
        f"  Control:   {addresses.control}",
        f"  Read only: {addresses.read_only}",
    )


def _tell_json(addresses: Addresses) -> None:
    say(json.dumps({"address": addresses.base, "control": addresses.control, "read_only": addresses.read_only}))

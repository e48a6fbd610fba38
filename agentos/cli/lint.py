"""`agentos lint`: check designs and issues, for people and for CI."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from agentos.errors import ExitCode, UsageError

_DEFAULT_PLACE = "docs/lld"


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Check low-level designs and issue documents: sections, paths, coverage of requirements, vague "
        "or missing text. Exits 0 when clean, 1 with findings of severity error, 2 when a file does not exist."
    )
    parser.add_argument(
        "paths", nargs="*", metavar="PATH", help=f"files, folders or globs, ** included (default: {_DEFAULT_PLACE})"
    )
    parser.add_argument("--json", action="store_true", help="print a list with one object per document")
    parser.add_argument(
        "--type", choices=("lld", "issue"), help="what the documents are (default: told from their sections)"
    )
    parser.add_argument(
        "--root",
        type=Path,
        metavar="DIR",
        help="the repository that paths are checked in (default: the document's own)",
    )
    parser.set_defaults(handler=run)


def run(args: argparse.Namespace) -> int:
    """Check the documents and print what was found."""
    # Compiling the parsers' patterns takes time that `agentos --help` does not have.
    from agentos.documents import lint  # noqa: PLC0415
    from agentos.documents.inline import shown  # noqa: PLC0415

    found, missing = lint.find_documents(args.paths or [_DEFAULT_PLACE])
    if missing:
        names = ", ".join(shown(name) for name in missing)
        raise UsageError(f"no such file: {names} (give a Markdown file, a folder or a glob)")
    repositories = lint.Repositories(args.root)
    reports = [lint.lint_file(path, args.type, repositories.of(path)) for path in found]
    if args.json:
        sys.stdout.write(json.dumps([lint.as_data(report) for report in reports], indent=2) + "\n")
    else:
        sys.stdout.write(lint.as_text(reports))
    return ExitCode.ITEM_FAILED if any(report.has_errors for report in reports) else ExitCode.OK

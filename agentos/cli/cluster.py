"""`agentos cluster check`: what would go wrong on a cluster, before it does."""

# What only this command needs is loaded by it: every command builds this parser.
# ruff: noqa: PLC0415

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from agentos.cli.options import add_setting_option, project_from, setting_flags
from agentos.cli.output import say, say_json
from agentos.cli.parsing import add_json_option, add_project_option
from agentos.errors import AgentosError, ExitCode, UsageError

if TYPE_CHECKING:
    from agentos.database import Database
    from agentos.engine.backends.ray.findings import Finding

_DEFAULT_DATABASE_PORT = 5432


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = "Check a Ray cluster before runs use it with --backend ray."
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    check = verbs.add_parser(
        "check",
        help="report what would go wrong on the cluster",
        description="Look at a cluster and at each of its nodes: open ports, a missing token, plain-text "
        "connections, versions that differ, a database that cannot be reached, clocks that are off, too little "
        "memory. Starts one short task per node. Exits 1 if anything is an error.",
    )
    add_setting_option(
        check,
        "--address",
        "cluster.address",
        metavar="HOST:PORT",
        help="the cluster's head (default: address under [cluster])",
    )
    add_json_option(check)
    add_project_option(check)
    check.set_defaults(handler=run)


def run(arguments: argparse.Namespace) -> int:
    found = _findings(arguments)
    is_usable = all(each.level != "error" for each in found)
    if arguments.json:
        from agentos.engine.backends.ray.findings import as_document

        say_json(as_document(found))
    else:
        say(*(f"{each.level.ljust(len('warning'))}  {each.what}: {each.text}" for each in found))
        say("The cluster can be used." if is_usable else "The cluster cannot be used as it is.")
    return ExitCode.OK if is_usable else ExitCode.ITEM_FAILED


def _findings(arguments: argparse.Namespace) -> list[Finding]:
    from agentos.engine.backends.ray.findings import findings
    from agentos.engine.backends.ray.joining import require_ray
    from agentos.engine.backends.ray.survey import survey
    from agentos.environment import environment
    from agentos.settings import load_settings

    require_ray()
    project_dir = project_from(arguments.project, Path.cwd())
    cluster = load_settings(project_dir, flags=setting_flags(arguments)).cluster
    if not cluster.address:
        raise UsageError("Which cluster? Give --address HOST:PORT, or set address under [cluster] in agentos.toml.")
    database, problem = _database(project_dir)
    place = _place(database) if database is not None else ("", 0)
    name = database.name if database is not None else ""
    facts = survey(
        cluster.address,
        place,
        environment(),
        makes_environment=cluster.env == "make",
        database_name=name,
        database_problem=problem,
    )
    return findings(facts)


def _database(project_dir: Path) -> tuple[Database | None, str]:
    """The project's database, None for files; and what is wrong with it, seen from here."""
    from agentos.database import database_of
    from agentos.engine.checkpoints import session_of

    try:
        database = database_of(project_dir)
        if database is not None:
            session_of(database).ask("SELECT 1")
    except (AgentosError, OSError) as error:
        return None, str(error)
    return database, ""


def _place(database: Database) -> tuple[str, int]:
    """Where nodes are to find it; nowhere when it is a socket of this machine."""
    from urllib.parse import urlsplit

    parts = urlsplit(database.url)
    return (parts.hostname, parts.port or _DEFAULT_DATABASE_PORT) if parts.hostname else ("", 0)

"""The PostgreSQL database that a project's state is kept in, if it is not under AGENTOS_HOME.

An address never holds a password: it is shown, recorded and put into variables. The password goes beside it.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import parse_qs, quote, unquote, urlsplit, urlunsplit

from agentos.environment import environment
from agentos.errors import UsageError
from agentos.settings import FILE_NAME, Checkpoints, load_checkpoints, variable_of

_SCHEMES = ("postgresql://", "postgres://")
URL_VARIABLE = variable_of("checkpoints.url")
URL_VARIABLES = (URL_VARIABLE, variable_of("cluster.checkpoints"))
"""Each may hold a password."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Database:
    """A PostgreSQL database, and what a project is called in it."""

    url: str
    """Without a password."""
    project: str
    password: str = field(default="", repr=False)
    patience_seconds: float = 30.0

    def address(self, workflow: str, item_id: str) -> str:
        """Of an item: `postgresql://user@host/database#project/workflow/item`."""
        return f"{self.url}#{'/'.join(quote(part, safe='') for part in (self.project, workflow, item_id))}"

    @property
    def name(self) -> str:
        """For people: `host:port/database`."""
        parts = urlsplit(self.url)
        hosts = parts.netloc.rpartition("@")[2] or ",".join(parse_qs(parts.query).get("host", ["this machine"]))
        return f"{unquote(hosts)}{parts.path}"

    @property
    def is_on_this_machine(self) -> bool:
        """Reached over loopback or a Unix socket alone."""
        parts = urlsplit(self.url)
        named = parts.netloc.rpartition("@")[2].split(",")
        hosts = [_without_port(each) for each in named if each]
        query = parse_qs(parts.query)
        hosts += [host for name in ("host", "hostaddr") for each in query.get(name, ()) for host in each.split(",")]
        return all(_is_local(unquote(host)) for host in hosts)


def database_of(project_dir: Path, environ: Mapping[str, str] | None = None) -> Database | None:
    """The database that a project's checkpoints are in; None when they are under AGENTOS_HOME.

    Raises UsageError when the settings make no sense, or when only the project's file names a stranger's.
    """
    settings, sources = load_checkpoints(project_dir, environment() if environ is None else environ)
    if not settings.url:
        return None
    found = _database(settings)
    if sources.get("checkpoints.url") == FILE_NAME and not found.is_on_this_machine:
        # Part of a state is pickled: whoever writes to that database decides what runs here.
        raise UsageError(
            f"{FILE_NAME} would keep checkpoints in {found.name}, and who writes there can run code as you. "
            f"If you trust it, confirm with: export {URL_VARIABLE}={shlex.quote(found.url)}"
        )
    if not settings.project:
        raise UsageError(
            'Checkpoints in PostgreSQL need a name for this project, the same on every machine: add project = "…" to '
            f"[checkpoints] in {FILE_NAME}, or set {variable_of('checkpoints.project')}."
        )
    return found


def database_at(address: str, password: str, patience_seconds: float) -> Database:
    """The database of an item's address. Raises ValueError for an address that `Database.address` did not make."""
    url, _, item = address.partition("#")
    if not is_database(url) or item.count("/") != 2:
        raise ValueError("not the address of a checkpoint in PostgreSQL")
    project = unquote(item.partition("/")[0])
    return Database(url=url, project=project, password=password, patience_seconds=patience_seconds)


def is_database(address: str) -> bool:
    return address.startswith(_SCHEMES)


def _database(settings: Checkpoints) -> Database:
    parts = urlsplit(settings.url)
    credentials, at, hosts = parts.netloc.rpartition("@")
    user, _, password = credentials.partition(":")
    return Database(
        url=urlunsplit(parts._replace(netloc=f"{user}{at}{hosts}")) if parts.netloc else settings.url,
        project=settings.project,
        password=unquote(password),
        patience_seconds=settings.patience_seconds,
    )


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _is_local(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host in ("", "localhost") or host.startswith(("/", "@"))

"""The schema of our PostgreSQL tables: made and brought up to date here, under a version of its own.

LangGraph's tables are made from its own statements, inside the same schema and the same transaction.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from agentos.errors import AgentosError

if TYPE_CHECKING:
    import psycopg

SCHEMA = "agentos"
STALE_FENCE = "AG001"
"""The SQLSTATE of a write whose claim has passed to somebody else."""
_LOCK_KEY = 0x6167656E746F73
"""Held while the schema is made or changed: two commands may find it missing at once."""

_MIGRATIONS = (
    """
    CREATE TABLE meta (version integer NOT NULL, langgraph integer NOT NULL);
    INSERT INTO meta VALUES (0, -1);

    CREATE TABLE items (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        project text NOT NULL,
        workflow text NOT NULL,
        item text NOT NULL,
        aside text NOT NULL DEFAULT '',
        standing text,
        changed timestamptz NOT NULL DEFAULT clock_timestamp(),
        UNIQUE (project, workflow, item, aside)
    );
    CREATE TABLE facts (
        item_id bigint NOT NULL REFERENCES items ON DELETE CASCADE,
        name text NOT NULL,
        value bytea NOT NULL,
        PRIMARY KEY (item_id, name)
    );
    CREATE TABLE outputs (
        item_id bigint NOT NULL REFERENCES items ON DELETE CASCADE,
        path bytea NOT NULL,
        content bytea NOT NULL,
        PRIMARY KEY (item_id, path)
    );
    CREATE TABLE resumes (
        thread_id text NOT NULL,
        checkpoint_ns text NOT NULL,
        checkpoint_id text NOT NULL,
        task_id text NOT NULL,
        task_path text NOT NULL,
        idx integer NOT NULL,
        channel text NOT NULL,
        type text,
        blob bytea NOT NULL
    );
    CREATE INDEX resumes_thread ON resumes (thread_id);

    CREATE SEQUENCE fences;
    CREATE TABLE claims (
        project text NOT NULL,
        name text NOT NULL,
        fence bigint NOT NULL,
        owner text NOT NULL,
        machine text NOT NULL,
        words text NOT NULL,
        expires timestamptz NOT NULL,
        PRIMARY KEY (project, name)
    );
    CREATE FUNCTION hold_claim(in_project text, in_name text, in_fence bigint) RETURNS void LANGUAGE plpgsql AS $$
    BEGIN
        -- Shared with nobody who takes the claim: that waits for this transaction, or this one sees that it is gone.
        PERFORM 1 FROM agentos.claims WHERE project = in_project AND name = in_name AND fence = in_fence FOR SHARE;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'fence % of % is not the current one', in_fence, in_name USING ERRCODE = 'AG001';
        END IF;
    END $$;
    CREATE FUNCTION hold_unclaimed(in_project text, in_name text) RETURNS void LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM 1 FROM agentos.claims
            WHERE project = in_project AND name = in_name AND expires > clock_timestamp() FOR SHARE;
        IF FOUND THEN
            RAISE EXCEPTION '% is claimed', in_name USING ERRCODE = 'AG001';
        END IF;
    END $$;

    CREATE TABLE done (
        project text NOT NULL,
        workflow text NOT NULL,
        item text NOT NULL,
        note text NOT NULL,
        PRIMARY KEY (project, workflow, item)
    );
    CREATE TABLE spent (
        project text NOT NULL,
        workflow text NOT NULL,
        usd double precision NOT NULL,
        PRIMARY KEY (project, workflow)
    );
    """,
)
"""Each brings the schema one version further. Only ever added to."""
VERSION = len(_MIGRATIONS)


class SchemaTooNew(AgentosError):
    """Another version of AgentOS has changed the schema to one that this one does not know."""


def is_current(connection: psycopg.Connection[Any]) -> bool:
    """Whether the schema is there, and of our version. Raises SchemaTooNew. Changes nothing."""
    if not _is_there(connection, "to_regclass('agentos.meta')"):
        return False
    version, _ = _versions(connection)
    if version > VERSION:
        raise SchemaTooNew(
            f"The schema {SCHEMA} in this database has version {version}, and this AgentOS knows versions up to "
            f"{VERSION}: upgrade AgentOS here to the version that runs elsewhere."
        )
    return version == VERSION


def migrate(connection: psycopg.Connection[Any]) -> None:
    """Make the schema, or bring it up to date: in one transaction, by one command at a time."""
    from langgraph.checkpoint.postgres.base import MIGRATIONS  # noqa: PLC0415  Once per database and version.

    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK_KEY,))
        if not _is_there(connection, "to_regnamespace('agentos')"):
            # Not IF NOT EXISTS, which asks for the right to make one even where somebody has made it for this user.
            connection.execute(f"CREATE SCHEMA {SCHEMA}")
        if not is_current(connection):
            version = _versions(connection)[0] if _is_there(connection, "to_regclass('agentos.meta')") else 0
            for statements in _MIGRATIONS[version:]:
                connection.execute(statements)
            connection.execute("UPDATE meta SET version = %s", (VERSION,))
        _migrate_langgraph(connection, MIGRATIONS)


def has_langgraph_tables(connection: psycopg.Connection[Any]) -> bool:
    """Whether LangGraph's tables are what the installed LangGraph expects. Raises SchemaTooNew."""
    from langgraph.checkpoint.postgres.base import MIGRATIONS  # noqa: PLC0415  For workers, which have it loaded.

    _, langgraph = _versions(connection)
    if langgraph > len(MIGRATIONS) - 1:
        raise SchemaTooNew(
            f"LangGraph's tables in this database have version {langgraph}, and the installed "
            f"langgraph-checkpoint-postgres knows versions up to {len(MIGRATIONS) - 1}: upgrade it here."
        )
    return langgraph == len(MIGRATIONS) - 1


def _is_there(connection: psycopg.Connection[Any], what: str) -> bool:
    row = connection.execute(f"SELECT {what} IS NOT NULL").fetchone()
    return row is not None and bool(row[0])


def _versions(connection: psycopg.Connection[Any]) -> tuple[int, int]:
    row = connection.execute("SELECT version, langgraph FROM agentos.meta").fetchone()
    return (int(row[0]), int(row[1])) if row is not None else (0, -1)


def _migrate_langgraph(connection: psycopg.Connection[Any], migrations: list[str]) -> None:
    """As its own `setup` does, and in our transaction: `CONCURRENTLY`, which allows none, is for tables in use."""
    _, done = _versions(connection)
    for number, statement in enumerate(migrations):
        if number > done:
            connection.execute(re.sub(r"\bCONCURRENTLY\b", "", statement))
            connection.execute("INSERT INTO checkpoint_migrations VALUES (%s) ON CONFLICT DO NOTHING", (number,))
    connection.execute("UPDATE meta SET langgraph = greatest(langgraph, %s)", (len(migrations) - 1,))

"""One connection to a database that may go away: made when it is needed, and again when it was lost.

What is asked of it is asked again until it is answered or patience ends. A transaction whose answer was lost is
repeated whole: all of ours come to the same when they are done twice.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from agentos.database import Database
from agentos.distribution import install_line
from agentos.engine.checkpoints import postgres_schema
from agentos.engine.checkpoints.protocol import FenceRefused, StoreAway, StoreRefuses

if TYPE_CHECKING:
    import psycopg

ResultT = TypeVar("ResultT")
Work = Callable[["psycopg.Cursor[Any]"], ResultT]

_CONNECT_SECONDS = 5
_HURRIED_CONNECT_SECONDS = 2
_SILENT_SECONDS = 20.0
"""The server itself gives up waiting for a lock before that."""
_HURRIED_SILENT_SECONDS = 1.0
_RETRY_SECONDS = 0.2
_GIVEN_UP_SECONDS = 5.0
"""A database that was waited for in vain is not asked again for as long: who ends a run has much to ask."""
_SETTINGS = {
    "search_path": postgres_schema.SCHEMA,
    # A client that hangs or is cut off inside a transaction must not keep a claim from being taken over.
    "idle_in_transaction_session_timeout": "5s",
    # One that is cut off is noticed by the server too.
    "tcp_keepalives_idle": "5",
    "tcp_keepalives_interval": "2",
    "tcp_keepalives_count": "3",
    "lock_timeout": "15s",
    "statement_timeout": "60s",
    "synchronous_commit": "on",
    "client_encoding": "UTF8",
}
_ALIVE = {
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
    "application_name": "agentos",
}
"""What a cut cable is noticed by."""
_PASSING = ("08", "40", "57P", "25P03", "25006", "53300", "55P03", "57014")
"""Beginnings of SQLSTATEs that may be gone the next time: connections, conflicts, shutdowns, time limits."""
_ROOM_SOON = ("starting up", "shutting down", "recovery", "not yet accepting", "too many", "slots", "terminating")
"""What a server says that will let somebody in later."""


@dataclass(frozen=True, slots=True)
class _Manners:
    """How to wait for a database that does not answer."""

    patience_seconds: float
    on_wait: Callable[[str], None]
    is_hurried: Callable[[], bool]


class Session:
    """Safe to use from several threads, one at a time."""

    def __init__(
        self,
        database: Database,
        *,
        patience_seconds: float | None = None,
        on_wait: Callable[[str], None] = lambda _text: None,
        is_hurried: Callable[[], bool] = lambda: False,
    ) -> None:
        """`on_wait` is told once per wait that the database does not answer. Who `is_hurried` waits no longer."""
        self.database = database
        patience = database.patience_seconds if patience_seconds is None else patience_seconds
        self._manners = _Manners(patience, on_wait, is_hurried)
        self._lock = threading.RLock()
        self._connection: psycopg.Connection[Any] | None = None
        self._has_schema = False
        self._has_langgraph = False
        self._given_up: tuple[float, StoreAway] | None = None

    def rows(self, query: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """What a query finds; nothing where the schema was never made. Changes nothing, not even that."""

        def read(connection: psycopg.Connection[Any]) -> list[tuple[Any, ...]]:
            if not self._has_schema:
                self._has_schema = postgres_schema.is_current(connection)
            return connection.execute(query, parameters).fetchall() if self._has_schema else []

        return self._patiently(read)

    def read(self, work: Work[ResultT]) -> ResultT:
        """Like `rows`, for LangGraph: with its tables there, and a cursor as it wants one."""

        def read(connection: psycopg.Connection[Any]) -> ResultT:
            self._require_langgraph(connection)
            return work(_cursor(connection))

        return self._patiently(read)

    def commit(self, work: Work[Any], hold: tuple[str, Sequence[Any]] | None = None) -> None:
        """One transaction. `hold` is its first statement, and may refuse it.

        Not as a pipeline: a client that hangs inside of one keeps its locks, since the server does not count it as
        idle. Raises FenceRefused when it does, StoreAway when the database has not answered in time.
        """

        def transaction(connection: psycopg.Connection[Any]) -> None:
            self._require_schema(connection)
            cursor = _cursor(connection)
            cursor.execute("BEGIN")
            if hold is not None:
                cursor.execute(*hold)
            work(cursor)
            cursor.execute("COMMIT")

        self._patiently(transaction)

    def change(self, query: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """One statement that is a transaction of its own; what it returns."""

        def change(connection: psycopg.Connection[Any]) -> list[tuple[Any, ...]]:
            self._require_schema(connection)
            cursor = connection.execute(query, parameters)
            return cursor.fetchall() if cursor.description else []

        return self._patiently(change)

    def ask(self, query: str) -> tuple[Any, ...]:
        """One row of what the server says of itself."""
        row = self._patiently(lambda connection: connection.execute(query).fetchone())
        return tuple(row or ())

    def prepare(self) -> None:
        """Make the schema ready, and LangGraph's tables in it."""
        self._patiently(self._require_langgraph)

    def give_up(self, away: StoreAway) -> None:
        """It was waited for elsewhere, in vain: whoever asks in the next seconds is told so at once."""
        with self._lock:
            self._given_up = (time.monotonic() + _GIVEN_UP_SECONDS, away)

    def password(self) -> str:
        """The one that was used, wherever libpq found it: another machine has no file of ours."""
        return self._patiently(lambda connection: connection.info.password)

    @contextmanager
    def waiting(
        self, patience_seconds: float, on_wait: Callable[[str], None], is_hurried: Callable[[], bool]
    ) -> Iterator[None]:
        """Wait like this inside."""
        before, self._manners = self._manners, _Manners(patience_seconds, on_wait, is_hurried)
        try:
            yield
        finally:
            self._manners = before

    def close(self) -> None:
        with self._lock:
            self._drop()

    def _patiently(self, work: Callable[[psycopg.Connection[Any]], ResultT]) -> ResultT:
        manners = self._manners
        deadline = time.monotonic() + manners.patience_seconds
        has_told = False
        with self._lock:
            if self._given_up is not None and time.monotonic() < self._given_up[0]:
                raise self._given_up[1]
            while True:
                try:
                    return self._once(work)
                except StoreAway as away:
                    if time.monotonic() >= deadline or manners.is_hurried():
                        self.give_up(away)
                        raise
                    if not has_told:
                        has_told = True
                        manners.on_wait(f"{away}; waiting up to {manners.patience_seconds:.0f} s for it")
                time.sleep(_RETRY_SECONDS)

    def _once(self, work: Callable[[psycopg.Connection[Any]], ResultT]) -> ResultT:
        psycopg = _psycopg()
        try:
            connection = self._connected()
            try:
                return work(connection)
            except psycopg.Error:
                # What fails leaves its transaction open.
                with suppress(psycopg.Error):
                    connection.rollback()
                raise
        except psycopg.Error as error:
            was_lost = self._connection is None or self._connection.closed
            if was_lost:
                self._drop()
            raise self._meaning(error, was_lost=was_lost) from error
        except (FenceRefused, StoreRefuses, postgres_schema.SchemaTooNew):
            raise
        except BaseException:
            # Stopped in the middle: what is open on the connection would be part of the next transaction.
            self._drop()
            raise

    def _meaning(self, error: psycopg.Error, *, was_lost: bool) -> Exception:
        state = error.sqlstate or ""
        if state == postgres_schema.STALE_FENCE:
            return FenceRefused()
        text = _one_line(error)
        # Without a state it is the client's own error: no connection was made, or it was lost.
        if state.startswith(_PASSING) or (not state and was_lost and not _is_turned_away(text)):
            return StoreAway(f"PostgreSQL at {self.database.name} does not answer: {text}")
        return StoreRefuses(f"PostgreSQL at {self.database.name} refuses: {text}")

    def _connected(self) -> psycopg.Connection[Any]:
        if self._connection is None or self._connection.closed:
            self._drop()
            database = self.database
            password = {"password": database.password} if database.password else {}
            limit = _HURRIED_CONNECT_SECONDS if self._manners.is_hurried() else _CONNECT_SECONDS
            connection = _connect(database.url, autocommit=True, connect_timeout=limit, **_ALIVE, **password)
            connection.longest_silence = self._longest_silence
            try:
                names = ", ".join("set_config(%s, %s, false)" for _ in _SETTINGS)
                connection.execute(f"SELECT {names}", [part for pair in _SETTINGS.items() for part in pair])
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    def _longest_silence(self) -> float:
        return _HURRIED_SILENT_SECONDS if self._manners.is_hurried() else _SILENT_SECONDS

    def _require_schema(self, connection: psycopg.Connection[Any]) -> None:
        if not self._has_schema and not postgres_schema.is_current(connection):
            postgres_schema.migrate(connection)
        self._has_schema = True

    def _require_langgraph(self, connection: psycopg.Connection[Any]) -> None:
        self._require_schema(connection)
        if not self._has_langgraph and not postgres_schema.has_langgraph_tables(connection):
            postgres_schema.migrate(connection)
        self._has_langgraph = True

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):
                connection.close()


class SessionProbe:
    """Waits for a database instead of the session that is used: that one is never in the way of anybody."""

    def __init__(self, session: Session, used: Session) -> None:
        self._session = session
        self._used = used

    def wait(self) -> StoreAway | None:
        try:
            self._session.ask("SELECT 1")
        except StoreAway as away:
            return away
        except Exception:
            pass  # It answers; who asks for more hears the same.
        return None

    def give_up(self, why: Exception) -> None:
        if isinstance(why, StoreAway):
            self._used.give_up(why)


def _psycopg() -> Any:
    """Loaded by those who use a database. Raises StoreRefuses where it is not installed."""
    try:
        import psycopg  # noqa: PLC0415  An extra, and slow to import.
    except ImportError as error:
        raise StoreRefuses(f"Checkpoints in PostgreSQL need psycopg ({error}): {install_line('cluster')}") from None
    return psycopg


def _connect(url: str, **options: Any) -> Any:
    _psycopg()
    from agentos.engine.checkpoints.postgres_connection import BoundedConnection  # noqa: PLC0415  Loads psycopg.

    return BoundedConnection.connect(url, **options)


def _is_turned_away(text: str) -> bool:
    """A server answers and lets nobody in: the user, the password or the database is wrong.

    Of an attempt to connect libpq has the server's words alone, no code. Where they are in another language, the
    database is waited for in vain.
    """
    return "FATAL:" in text and not any(word in text for word in _ROOM_SOON)


def _cursor(connection: psycopg.Connection[Any]) -> psycopg.Cursor[Any]:
    from agentos.engine.checkpoints.postgres_cursor import cursor_of  # noqa: PLC0415  Loads psycopg.

    return cursor_of(connection)


def _one_line(error: Exception) -> str:
    """With all that libpq tried: an address may mean several servers."""
    return " ".join(str(error).split()) or type(error).__name__

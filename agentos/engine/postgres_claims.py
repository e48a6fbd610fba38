"""Claims in PostgreSQL: rows with an owner, a lease that the owner renews, and a fence that only ever grows.

The kernel's claim on this machine comes first: who has it knows that no worker of an earlier run is left here, and
may take over a row that a dead run of this machine left behind. A row of another machine is taken when its lease is
over.
"""

from __future__ import annotations

import socket
import threading
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from agentos.engine.checkpoints import fences
from agentos.engine.checkpoints.fences import ClaimRef
from agentos.engine.checkpoints.postgres_session import Session
from agentos.engine.checkpoints.protocol import CheckpointUnwritable, FenceRefused
from agentos.engine.claims import FileClaims

LEASE_SECONDS = 30.0
"""How long a claim outlives a machine that is gone."""
_BEATS_PER_LEASE = 6
_LAST_BEAT_SECONDS = 0.5
_LEASE = "clock_timestamp() + make_interval(secs => %s)"


class PostgresClaims:
    """A thread renews the lease: a loop that is busy, or waits for the database, must not lose its items."""

    def __init__(
        self,
        local: FileClaims,
        session: Session,
        *,
        run_id: str = "",
        lease_seconds: float = LEASE_SECONDS,
    ) -> None:
        self._local = local
        self._session = session
        self._database = session.database
        self._owner = uuid.uuid4().hex
        self._words = f"{run_id or 'a command'} on {socket.gethostname()}"
        self._machine = f"{_boot_id()} {local.path.resolve()}"
        self._lease_seconds = lease_seconds
        self._names: set[str] = set()
        self._is_over = threading.Event()
        self._beat: threading.Thread | None = None

    def fileno(self) -> int:
        return self._local.fileno()

    def take(self, name: str) -> bool:
        if name in self._names:
            return True
        if not self._local.take(name):
            return False
        try:
            found = self._session.change(
                "INSERT INTO claims AS held VALUES (%s, %s, nextval('fences'), %s, %s, %s, " + _LEASE + ") "
                "ON CONFLICT (project, name) DO UPDATE SET (fence, owner, machine, words, expires) = "
                "(EXCLUDED.fence, EXCLUDED.owner, EXCLUDED.machine, EXCLUDED.words, EXCLUDED.expires) "
                # The first: an answer that was lost, and asked for again.
                "WHERE held.owner = EXCLUDED.owner OR held.machine = EXCLUDED.machine "
                "OR held.expires < clock_timestamp() RETURNING fence",
                (self._database.project, name, self._owner, self._machine, self._words, self._lease_seconds),
            )
        except BaseException:
            self._local.give_back(name)
            raise
        if not found:
            self._local.give_back(name)
            return False
        self._names.add(name)
        fences.hold(self._ref(name), found[0][0])
        self._renew_from_now_on()
        return True

    def holder(self, name: str) -> str:
        query = "SELECT words FROM claims WHERE project = %s AND name = %s AND owner <> %s"
        found = self._session.rows(query, (self._database.project, name, self._owner))
        return str(found[0][0]) if found else ""

    def next_fence(self, name: str) -> int:
        found = self._session.change(
            "UPDATE claims SET fence = nextval('fences'), expires = " + _LEASE + " "
            "WHERE project = %s AND name = %s AND owner = %s RETURNING fence",
            (self._lease_seconds, self._database.project, name, self._owner),
        )
        if not found:
            raise FenceRefused
        fence = int(found[0][0])
        fences.hold(self._ref(name), fence)
        return fence

    def give_back(self, name: str) -> None:
        """What the database does not hear of now, it hears of with the next beat, or when the lease is over."""
        self._names.discard(name)
        fences.let_go(self._ref(name))
        with suppress(CheckpointUnwritable):
            self._session.change(
                "DELETE FROM claims WHERE project = %s AND name = %s AND owner = %s",
                (self._database.project, name, self._owner),
            )
        self._local.give_back(name)

    def discard(self) -> None:
        self._local.discard()

    def close(self) -> None:
        self._is_over.set()
        if self._beat is not None:
            # One that waits for a server that says nothing ends with the process.
            self._beat.join(_LAST_BEAT_SECONDS)
            with suppress(CheckpointUnwritable):
                self._session.change("DELETE FROM claims WHERE owner = %s", (self._owner,))
        for name in self._names:
            fences.let_go(self._ref(name))
        self._session.close()
        self._local.close()

    def __enter__(self) -> PostgresClaims:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _ref(self, name: str) -> ClaimRef:
        return ClaimRef(self._database.url, self._database.project, name)

    def _renew_from_now_on(self) -> None:
        if self._beat is None:
            self._beat = threading.Thread(target=self._renew, name="agentos-claims", daemon=True)
            self._beat.start()

    def _renew(self) -> None:
        """With a connection of its own, and without patience: the next beat is another try."""
        session = Session(self._database, patience_seconds=0)
        while not self._is_over.wait(self._lease_seconds / _BEATS_PER_LEASE):
            with suppress(CheckpointUnwritable):
                self._renew_once(session.change)
        session.close()

    def _renew_once(self, change: Callable[..., object]) -> None:
        names = list(self._names)
        owned = (self._owner, names)
        change(
            "UPDATE claims SET expires = " + _LEASE + " WHERE owner = %s AND name = ANY(%s)",
            (self._lease_seconds, *owned),
        )
        change("DELETE FROM claims WHERE owner = %s AND name <> ALL(%s)", owned)


def _boot_id() -> str:
    """This start of this machine, and which of its worlds of processes: a container has one of its own."""
    parts = [socket.gethostname()]
    with suppress(OSError):
        boot, processes = Path("/proc/sys/kernel/random/boot_id"), Path("/proc/self/ns/pid")
        parts = [boot.read_text().strip(), str(processes.readlink())]
    return " ".join(parts)

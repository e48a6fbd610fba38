"""The supervisor: this run's actor on a node. Starts the node process, and carries bytes to it and from it.

It understands nothing of what it carries. The node process ends when the supervisor does, because its socket closes;
a node process that says nothing for too long is killed, because somebody may have suspended it.
"""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import time
from contextlib import suppress

from agentos.engine.backends.ray.environment_check import environment_facts
from agentos.engine.backends.ray.messages import BEAT, START_SECONDS, SUPERVISOR_SILENCE_SECONDS

_MOST_BYTES = 1 << 20
"""What one answer carries. Up to two such pieces wait here, one is on its way and one with the bridge: what nobody
reads yet has to be little, and a call for a piece of this size costs little beside it."""
_ANSWER_WITHIN_SECONDS = 1.0


class Supervisor:
    """Ray makes an actor of it. `up` and `down` are each called by one caller, one call after the other."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "agentos.engine.backends.ray.node", str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            pass_fds=(theirs.fileno(),),
            start_new_session=True,
        )
        theirs.close()
        self._socket = ours
        self._reader: asyncio.StreamReader | None = None
        """Reads on while an answer is on its way, so that the next one carries more: calls cost more than bytes."""
        self._writer: asyncio.StreamWriter | None = None
        self._heard = time.monotonic()
        self._reading: asyncio.Future[bytes] | None = None
        """Goes on from one `up` to the next: one that is given up could take with it what it had just read."""

    async def facts(self, among: list[str] | None) -> dict[str, str]:
        """What this node's Python is made of, and its clock."""
        return environment_facts(among)

    async def speaks(self) -> bool:
        """Once the node process has begun; before `up` and `down`. False if it never does."""
        self._reader, self._writer = await asyncio.open_connection(sock=self._socket, limit=_MOST_BYTES)
        await asyncio.wait([self._read()], timeout=START_SECONDS)
        self._heard = time.monotonic()
        return self._read().done()

    def _read(self) -> asyncio.Future[bytes]:
        assert self._reader is not None
        if self._reading is None:
            self._reading = asyncio.ensure_future(self._reader.read(_MOST_BYTES))
        return self._reading

    async def down(self, data: bytes) -> None:
        """Whole lines for the node process, or nothing: a sign of life in any case."""
        assert self._writer is not None
        with suppress(OSError):  # It is gone, which `up` tells.
            self._writer.write(data or BEAT)
            await self._writer.drain()

    async def up(self) -> bytes | None:
        """What the node process has said by now, possibly nothing; None when it is gone."""
        reading = self._read()
        await asyncio.wait([reading], timeout=_ANSWER_WITHIN_SECONDS)
        if not reading.done():
            if time.monotonic() - self._heard < SUPERVISOR_SILENCE_SECONDS:
                return b""
            self._process.kill()
            return None
        self._reading = None
        self._heard = time.monotonic()
        try:
            return reading.result() or None
        except OSError:
            return None

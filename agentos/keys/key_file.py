"""The file of keys as it changes: looked at when it may matter, read only when it is another one."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from agentos.keys.credentials import CredentialSet, load_credentials
from agentos.paths import credentials_path

CHECK_SECONDS = 0.5
"""How often to look while somebody waits for a key."""
SETTLED_SECONDS = 0.25
"""A file that has just been changed may be written still: many editors empty it first."""


class _State(NamedTuple):
    changed_ns: int
    size: int
    number: int


class KeyFile:
    """`load` reads all keys, also those that come from elsewhere; the file tells when."""

    def __init__(
        self,
        path: Path | None = None,
        load: Callable[[], CredentialSet] = load_credentials,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._path = path or credentials_path()
        self._load = load
        self._clock = clock
        self._state = self._seen = self._stat()
        self._seen_at = clock()

    @property
    def name(self) -> str:
        return self._path.name

    @property
    def is_changing(self) -> bool:
        """Whether it was another one at the last look, and has not been read since."""
        return self._seen != self._state

    def changed_keys(self) -> CredentialSet | None:
        """The keys if the file is another one and nobody writes it now. Raises UsageError if they cannot be read."""
        state = self._stat()
        if state != self._seen:
            self._seen, self._seen_at = state, self._clock()
        if state == self._state or not self._is_settled(state):
            return None
        self._state = state
        return self._load()

    def _is_settled(self, state: _State | None) -> bool:
        """Whether it has looked like this for a while: since it was first seen so, or by its own age."""
        if abs(self._clock() - self._seen_at) >= SETTLED_SECONDS:
            return True
        if state is None or (self._state is not None and state.changed_ns == self._state.changed_ns):
            return False  # About to come back, or emptied this instant: that shows in its size first.
        return self._clock() - state.changed_ns / 1e9 >= SETTLED_SECONDS

    def _stat(self) -> _State | None:
        try:
            status = self._path.stat()
        except OSError:
            return None
        return _State(status.st_mtime_ns, status.st_size, status.st_ino)

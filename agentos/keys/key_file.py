"""The file of keys as it changes: looked at when it may matter, read only when it is another one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from agentos.keys.credentials import CredentialSet, load_credentials
from agentos.paths import credentials_path

CHECK_SECONDS = 1.0
"""How often to look while somebody waits for a key."""


class KeyFile:
    """`load` reads all keys, also those that come from elsewhere; the file tells when."""

    def __init__(self, path: Path | None = None, load: Callable[[], CredentialSet] = load_credentials) -> None:
        self._path = path or credentials_path()
        self._load = load
        self._state = self._stat()

    @property
    def name(self) -> str:
        return self._path.name

    def changed_keys(self) -> CredentialSet | None:
        """The keys if the file has changed since the last look. Raises UsageError if they cannot be read."""
        state = self._stat()
        if state == self._state:
            return None
        self._state = state
        return self._load()

    def _stat(self) -> tuple[int, int, int] | None:
        try:
            status = self._path.stat()
        except OSError:
            return None
        return status.st_mtime_ns, status.st_size, status.st_ino

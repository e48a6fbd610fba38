"""What leaves the server is masked once more: files of the project and of git were written by whoever wrote them."""

from __future__ import annotations

import time
from contextlib import suppress

from agentos.errors import UsageError
from agentos.keys.credentials import load_credentials
from agentos.keys.key_file import CHECK_SECONDS, KeyFile
from agentos.keys.redaction import Redactor, redact_shapes


class Mask:
    """Knows the user's keys, and those that come while it is used."""

    def __init__(self) -> None:
        self._redactor = Redactor()
        self._file = KeyFile()
        self._checked_at = time.monotonic()
        # Keys that cannot be read serve nobody, and are said of where somebody wants to use them.
        with suppress(UsageError):
            self._redactor.add(load_credentials().secrets.values())

    def bytes(self, data: bytes) -> bytes:
        """Every key that the user has, in all its forms."""
        if time.monotonic() - self._checked_at >= CHECK_SECONDS:
            self._checked_at = time.monotonic()
            with suppress(UsageError):
                changed = self._file.changed_keys()
                self._redactor.add(changed.secrets.values() if changed else ())
        return self._redactor.redact(data)

    def text(self, text: str) -> str:
        """Text that no run has written: also what only looks like a key."""
        return redact_shapes(self._redactor.redact_text(text))

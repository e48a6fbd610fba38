"""What leaves the server is masked once more: files of the project and of git were written by whoever wrote them."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from typing import Any

from agentos.errors import UsageError
from agentos.keys.credentials import load_credentials
from agentos.keys.key_file import CHECK_SECONDS, KeyFile
from agentos.keys.key_shapes import redact_shapes
from agentos.keys.redaction import Redactor


class Mask:
    """Knows the user's keys, and those that come while it is used."""

    def __init__(self) -> None:
        self._redactor = Redactor()
        self._file = KeyFile()
        self._checked_at = time.monotonic()
        # Keys that cannot be read serve nobody, and are said of where somebody wants to use them.
        with suppress(UsageError):
            self._redactor.add(load_credentials().secrets.values())

    def answer(self, data: bytes) -> bytes:
        """Every key that the user has, in all its forms."""
        if time.monotonic() - self._checked_at >= CHECK_SECONDS:
            self._checked_at = time.monotonic()
            with suppress(UsageError):
                changed = self._file.changed_keys()
                self._redactor.add(changed.secrets.values() if changed else ())
        return self._redactor.redact(data)

    def output(self, data: bytes) -> bytes:
        """What an item wrote, whichever part of it will be shown: lengths stay as they are."""
        return redact_shapes(self._redactor.redact_coloured(data).decode("latin-1")).encode("latin-1")

    def text(self, text: str) -> str:
        """Text that no run has written: also what only looks like a key."""
        return redact_shapes(self._redactor.redact_text(text))


def encoded(document: Any, mask: Mask) -> bytes:
    """JSON for one line: nobody's text can end it."""
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return mask.answer(text.encode(errors="replace"))

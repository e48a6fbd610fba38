"""Raw output of a process to what people may see: whole lines, without secrets and control sequences."""

from __future__ import annotations

from agentos.keys.redaction import Redactor, StreamRedactor
from agentos.text.output_prefixer import LineAssembler
from agentos.text.terminal import clean_block


class OutputLines:
    """One stream. Each method returns a block that can be shown now, possibly nothing."""

    def __init__(self, redactor: Redactor, *, keep_colour: bool) -> None:
        self._redactor = redactor
        self._stream = StreamRedactor(redactor)
        self._assembler = LineAssembler()
        self._keep_colour = keep_colour

    @property
    def has_partial(self) -> bool:
        """Whether there is a line that waits for its end."""
        return self._assembler.has_partial or self._stream.is_holding

    def feed(self, data: bytes) -> bytes:
        return self._clean(self._assembler.feed(self._stream.feed(data)))

    def flush_partial(self) -> bytes:
        """The line that has no end yet, as it is."""
        lines = self._assembler.feed(self._stream.flush_partial())
        return self._clean(lines + self._assembler.flush_partial())

    def finish(self) -> bytes:
        """The rest: the stream has ended."""
        return self._clean(self._assembler.feed(self._stream.flush()) + self._assembler.finish())

    def _clean(self, block: bytes) -> bytes:
        if not block:
            return b""
        cleaned = clean_block(block, keep_colour=self._keep_colour)
        # Again, because the control sequences that may have stood inside of a secret are gone now.
        return self._redactor.redact_coloured(cleaned) if self._keep_colour else self._redactor.redact(cleaned)

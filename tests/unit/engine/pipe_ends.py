"""A pipe for tests."""

from __future__ import annotations

import os


class Pipe:
    """Ends that a test may close; a number is never closed twice, as it may be somebody else's by then."""

    def __init__(self) -> None:
        self.read, self.write = os.pipe()
        self._open = {self.read, self.write}

    def close(self, *ends: int) -> None:
        for end in ends or (self.read, self.write):
            if end in self._open:
                self._open.remove(end)
                os.close(end)

"""A connection that does not wait for ever for a server that is there and says nothing."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import psycopg
from psycopg.rows import TupleRow


class BoundedConnection(psycopg.Connection[TupleRow]):
    """psycopg's own, and lost when its server has been silent for as many seconds as `longest_silence` says."""

    longest_silence: Callable[[], float] = staticmethod(lambda: float("inf"))

    def wait(self, gen: Any, *args: Any, **kwargs: Any) -> Any:
        return super().wait(self._listening(gen), *args, **kwargs)

    def _listening(self, gen: Any) -> Any:
        heard = time.monotonic()
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                now = time.monotonic()
                if ready:
                    heard = now
                elif now - heard > self.longest_silence():
                    self.close()
                    raise psycopg.OperationalError(f"no answer within {now - heard:.0f} s")
                wanted = gen.send(ready)
        except StopIteration as end:
            return end.value

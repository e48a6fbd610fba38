"""The cursor that LangGraph's saver is given: each statement by itself.

psycopg would make a pipeline of many at once, and a client that hangs inside of one keeps its locks: the server does
not count it as idle.
"""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg.rows import DictRow, dict_row


class OneByOneCursor(psycopg.Cursor[DictRow]):
    def executemany(self, query: Any, params_seq: Any, *, returning: bool = False) -> None:
        for parameters in params_seq:
            self.execute(query, parameters)


def cursor_of(connection: psycopg.Connection[Any]) -> psycopg.Cursor[Any]:
    made = OneByOneCursor(connection, row_factory=dict_row)
    made.format = psycopg.pq.Format.BINARY
    return made

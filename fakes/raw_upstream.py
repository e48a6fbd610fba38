"""A loopback server that gives the bytes it is told to and keeps the requests it got, as they were."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any


@dataclass(frozen=True)
class Canned:
    """One answer: its pieces are sent apart, each after the one before was."""

    pieces: Sequence[bytes] = (b"{}",)
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: {"content-type": "application/json"})
    gate: threading.Event | None = None
    """The last piece waits for it."""


@dataclass(frozen=True)
class Got:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class RawUpstream:
    """A context manager. `answers` is by path; others get an empty object."""

    def __init__(self, answers: Mapping[str, Canned] | None = None) -> None:
        self.answers = dict(answers or {})
        self.next_answers: dict[str, list[Canned]] = {}
        """By path, before its answer: each is given once."""
        self.got: list[Got] = []
        self.lost = threading.Event()
        """A client went away before its answer had ended."""
        upstream = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                upstream.answer(self)

            do_GET = do_DELETE = do_POST

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers.get("content-length", 0)))
        headers = {name.lower(): value for name, value in handler.headers.items()}
        self.got.append(Got(handler.command, handler.path, headers, body))
        path = handler.path.partition("?")[0]
        next_answers = self.next_answers.get(path)
        canned = next_answers.pop(0) if next_answers else self.answers.get(path, Canned())
        handler.send_response(canned.status)
        for name, value in canned.headers.items():
            handler.send_header(name, value)
        handler.send_header("transfer-encoding", "chunked")
        handler.end_headers()
        try:
            for number, piece in enumerate(canned.pieces, start=1):
                if canned.gate is not None and number == len(canned.pieces):
                    self._hold(handler, canned.gate)
                handler.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            handler.wfile.write(b"0\r\n\r\n")
        except OSError:
            self.lost.set()
            handler.close_connection = True

    def _hold(self, handler: BaseHTTPRequestHandler, gate: threading.Event) -> None:
        handler.connection.settimeout(0.05)
        while not gate.is_set():
            try:
                if not handler.connection.recv(1):
                    raise ConnectionResetError
            except TimeoutError:
                continue

    def __enter__(self) -> RawUpstream:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

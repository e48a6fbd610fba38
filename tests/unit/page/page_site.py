"""A home with runs in it, and the page's server over it, asked without a socket."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import httpx

from agentos.clock import stamp, utc_now
from agentos.events import Event, RunStarted, Stamped
from agentos.page.app import make_app
from agentos.page.guard import CONTROL_HEADER, Gate, Role, Tokens
from agentos.records.runs import AUDIT_NAME, hold_run_lock
from agentos.reporters.audit import AuditReporter
from agentos.reporters.summary import SummaryReporter

PORT = 8123


class Site:
    """What a browser would ask, on one loop. `role` None is somebody without a link."""

    def __init__(self, runs_dir: Path) -> None:
        self.runs_dir = runs_dir
        self.tokens = Tokens()
        self.app = Gate(make_app(), self.tokens, port=PORT)
        self._runner = asyncio.Runner()
        self._locks: list[int] = []
        self._written: dict[Path, int] = {}
        self._began: dict[Path, datetime] = {}

    def close(self) -> None:
        self._runner.close()
        for lock in self._locks:
            with suppress(OSError):
                os.close(lock)

    def ask(self, method: str, path: str, *, role: Role | None = Role.READ, **options: Any) -> httpx.Response:
        token = {Role.READ: self.tokens.read, Role.CONTROL: self.tokens.control}.get(role) if role else None
        cookies = {f"agentos_page_{PORT}": token} if token else {}

        async def send() -> httpx.Response:
            transport = httpx.ASGITransport(app=self.app)  # type: ignore[arg-type]
            async with httpx.AsyncClient(transport=transport, base_url=f"http://127.0.0.1:{PORT}") as client:
                client.cookies.update(cookies)
                return await client.request(method, path, **options)

        return self._runner.run(send())

    def get(self, path: str, *, role: Role | None = Role.READ, **options: Any) -> Any:
        answer = self.ask("GET", path, role=role, **options)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def refused(self, path: str, **options: Any) -> tuple[int, dict[str, Any]]:
        answer = self.ask("GET", path, **options)
        return answer.status_code, answer.json()

    def post(self, path: str, document: Any, *, role: Role | None = Role.CONTROL, **headers: str) -> httpx.Response:
        own = {CONTROL_HEADER: "1", "Origin": f"http://127.0.0.1:{PORT}", "Content-Type": "application/json"}
        sent = {name.replace("_", "-"): value for name, value in {**own, **headers}.items() if value}
        return self.ask("POST", path, role=role, content=json.dumps(document), headers=sent)

    def events(self, path: str, **options: Any) -> list[tuple[str, str, Any]]:
        """Id, name and data of each event of a stream that ends."""
        text = self.ask("GET", path, **options).text
        found = []
        for frame in text.split("\n\n"):
            fields = dict(line.split(": ", 1) for line in frame.splitlines() if ": " in line)
            if "data" in fields:
                found.append((fields.get("id", ""), fields["event"], json.loads(fields["data"])))
        return found

    def write_run(
        self,
        events: Sequence[Event],
        *,
        run_id: str = "20261118-021500-000001",
        is_live: bool = False,
        with_summary: bool = False,
        silent_seconds: float = 0.0,
    ) -> Path:
        """One record per second, the last one now or so long ago."""
        run_dir = self.runs_dir / run_id
        self._written[run_dir] = len(events)
        self._began[run_dir] = utc_now() - timedelta(seconds=len(events) - 1 + silent_seconds)
        run_dir.mkdir(parents=True, mode=0o700)
        if is_live:
            self._locks.append(hold_run_lock(run_dir))
        reporters: list[Any] = [AuditReporter(run_dir)]
        if with_summary:
            reporters.append(SummaryReporter(run_dir))
        for place, event in enumerate(events):
            for reporter in reporters:
                reporter.handle(self._stamped(place, run_dir, event))
        for reporter in reporters:
            reporter.close()
        return run_dir

    def write_more(self, run_dir: Path, events: Sequence[Event]) -> None:
        """Later records of a run that is there."""
        audit = AuditReporter(run_dir)
        for place, event in enumerate(events, self._written[run_dir]):
            audit.handle(self._stamped(place, run_dir, event))
        self._written[run_dir] += len(events)
        audit.close()

    def _stamped(self, place: int, run_dir: Path, event: Event) -> Stamped:
        at = self._began[run_dir] + timedelta(seconds=place)
        return Stamped(place + 1, stamp(at, "milliseconds"), run_dir.name, event)

    def let_go(self) -> None:
        """Runs that lived are over."""
        while self._locks:
            os.close(self._locks.pop())

    def append(self, run_dir: Path, line: bytes) -> None:
        with (run_dir / AUDIT_NAME).open("ab") as file:
            file.write(line)


def started(*items: str, project_dir: str = "/shop", workflow: str = "lld", **more: Any) -> RunStarted:
    prefix = {"lld": "LLD-", "implementation": "IMPL-"}.get(workflow, "")
    return RunStarted(
        workflow=workflow, project_dir=project_dir, items=items, parallel=2, pid=1, label_prefix=prefix, **more
    )

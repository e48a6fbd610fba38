"""A real Ray cluster for tests and benchmarks: `ray start`, with a token, a small object store and no dashboard."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from agentos.processes import host

RAY = Path(sys.executable).with_name("ray")
MARK = "AGENTOS_TEST_CLUSTER"
_END_SECONDS = 60.0
_START_SECONDS = 120.0
_STARTS = 3


def has_ray() -> bool:
    return RAY.exists()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def processes_of_session(session: int) -> list[int]:
    pids = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
    return [pid for pid in pids if host.session_of(pid) == session]


class RayCluster:
    """Its head is this machine. `environment` is what lets a command in."""

    def __init__(self, cpus: int = 4, further: Mapping[str, str] | None = None, address: str = "127.0.0.1") -> None:
        # Short: the paths of its sockets have to fit into 107 characters.
        self.folder = Path(tempfile.mkdtemp(prefix="ac", dir="/tmp"))
        self.port = free_port()
        self.environment = {
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(32),
            "RAY_USAGE_STATS_ENABLED": "0",
            **(further or {}),
        }
        self._sessions: list[int] = []
        self._address = address
        self._start(
            "--head",
            f"--node-ip-address={address}",
            f"--port={self.port}",
            f"--num-cpus={cpus}",
            "--node-name=node-1",
        )

    @property
    def address(self) -> str:
        return f"{self._address}:{self.port}"

    def join(self, name: str, cpus: int) -> None:
        """One more node."""
        self._start(f"--address={self.address}", f"--num-cpus={cpus}", f"--node-name={name}")

    def _start(self, *arguments: str) -> None:
        options = ["--disable-usage-stats", "--object-store-memory=80000000"]
        head = ["--include-dashboard=false", f"--temp-dir={self.folder}"] if "--head" in arguments else []
        for _ in range(_STARTS):
            session, is_started = self._try_to_start([RAY, "start", *arguments, *options, *head])
            if is_started:
                self._sessions.append(session)
                return
            _kill(processes_of_session(session))
        said = (self.folder / "start.log").read_text()
        self.close()
        raise AssertionError(said)

    def _try_to_start(self, command: Sequence[str | Path]) -> tuple[int, bool]:
        """Its session, and whether Ray has waited long enough for itself: 30 s are little on a loaded machine."""
        with (self.folder / "start.log").open("ab") as log:
            starting = subprocess.Popen(
                command,
                env={**os.environ, **self.environment, MARK: str(self.folder), "TMPDIR": "/tmp"},
                stdout=log,
                stderr=log,
                # Some of its processes change their environment: they are known by their session.
                start_new_session=True,
            )
        try:
            return starting.pid, starting.wait(_START_SECONDS) == 0
        except subprocess.TimeoutExpired:
            starting.kill()
            starting.wait()
            return starting.pid, False

    def _processes(self) -> set[int]:
        own = {pid for session in self._sessions for pid in processes_of_session(session)}
        return own | set(host.processes_with(MARK, str(self.folder)))

    def lose_head(self) -> None:
        """What knows of all nodes; the nodes themselves live on, for a while."""
        _kill(pid for pid in self._processes() if Path(f"/proc/{pid}/comm").read_text().strip() == "gcs_server")

    def close(self) -> None:
        deadline = time.monotonic() + _END_SECONDS
        while left := self._processes():
            _kill(left)
            if time.monotonic() > deadline:
                raise AssertionError(f"of the cluster, these do not end: {sorted(left)}")
            time.sleep(0.05)
        shutil.rmtree(self.folder, ignore_errors=True)


def _kill(pids: Iterable[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def certificates(folder: Path, addresses: Sequence[str] = ()) -> dict[str, str]:
    """What Ray needs to encrypt: a certificate of this machine and of these addresses, and who signed it."""
    key, authority, request, certificate = (folder / name for name in ("node.key", "ca.crt", "node.csr", "node.crt"))
    authority_key, extension = folder / "ca.key", folder / "names"
    names = ["DNS:localhost", *(f"IP:{address}" for address in ("127.0.0.1", own_address(), *addresses))]
    extension.write_text(f"subjectAltName={','.join(names)}\n")
    of = ["-subj", "/CN=agentos-test", "-days", "2"]
    for arguments in (
        ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", authority_key, "-out", authority, *of],
        ["req", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", request, "-subj", "/CN=localhost"],
        [
            *("x509", "-req", "-in", request, "-CA", authority, "-CAkey", authority_key, "-CAcreateserial"),
            *("-out", certificate, "-days", "2", "-extfile", extension),
        ],
    ):
        subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)
    return {
        "RAY_USE_TLS": "1",
        "RAY_TLS_SERVER_CERT": str(certificate),
        "RAY_TLS_SERVER_KEY": str(key),
        "RAY_TLS_CA_CERT": str(authority),
    }


def own_address() -> str:
    """What Ray takes for this machine's address: the one that leads outside, else loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])

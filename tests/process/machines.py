"""Machines of their own on this one: each with its network, its disk and its processes, joined by cables.

Needs a network and a mount namespace around the tests, which `.ci/with-cluster` makes: there is a bridge in it, and a
cable from the bridge to each machine. A machine does not see the tests' /tmp, where projects and homes are.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from socket import SHUT_RDWR, create_connection, create_server, socket

from harness import eventually

from fakes.ray_cluster import RAY, RayCluster

ALLOWED = "AGENTOS_TEST_NAMESPACES"
"""Set where this process has namespaces of its own: nothing outside of them is touched."""
HOST_ADDRESS = "10.77.0.1"
REPOSITORY = Path(__file__).parents[2]
_SETUP = r"""
set -e
mount --make-rprivate /
hidden=$(mktemp -d /var/tmp/agentos-XXXXXX)
mount --bind "$1" "$hidden"
mount -t tmpfs none /tmp
chmod 1777 /tmp
mkdir -p "$1" /tmp/home
mount --move "$hidden" "$1"
rmdir "$hidden"
ip link set lo up
read -r _go
ip addr add "$2/24" dev "$3"
ip link set "$3" up
shift 3
# Ray's node ends itself when the cluster has given it up: whoever keeps a machine starts it again.
while :; do
    "$@" || true
    sleep 1
done
"""


def has_namespaces() -> bool:
    return bool(os.environ.get(ALLOWED))


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


def make_bridge() -> None:
    """The switch that all machines are plugged into, with the tests' own address."""
    with suppress(subprocess.CalledProcessError):
        ip("link", "set", "lo", "up")
        ip("link", "add", "agentos0", "type", "bridge")
        ip("addr", "add", f"{HOST_ADDRESS}/24", "dev", "agentos0")
        ip("link", "set", "agentos0", "up")


def address_of(number: int) -> str:
    return f"10.77.0.{10 + number}"


class Machine:
    """A node of the cluster. Killing its first process ends all of them, as pulling the plug would."""

    def __init__(self, cluster: RayCluster, number: int, cpus: int, further: Mapping[str, str]) -> None:
        self.name = f"node-{number}"
        self.address = address_of(number)
        self._cable = f"ag{os.getpid() % 10_000}n{number}"
        self._log = (cluster.folder / f"{self.name}.log").open("ab")
        self._environment = {**os.environ, **cluster.environment, "HOME": "/tmp/home", "TMPDIR": "/tmp", **further}
        join = [
            *(str(RAY), "start", "--block", f"--address={HOST_ADDRESS}:{cluster.port}"),
            *(f"--node-ip-address={self.address}", f"--node-name={self.name}", f"--num-cpus={cpus}"),
            *("--object-store-memory=80000000", "--disable-usage-stats"),
        ]
        namespaces = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        setup = ["bash", "-c", _SETUP, "machine", str(REPOSITORY), self.address, self._cable]
        self._command = [*namespaces, *setup, *join]
        self.switch_on()

    def switch_on(self) -> None:
        """With an empty disk."""
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=self._log,
            stderr=self._log,
            env=self._environment,
            start_new_session=True,
        )
        self._plug_in()

    def _plug_in(self) -> None:
        inside = eventually(self._first_process, "the machine's first process")
        eventually(lambda: _net_of(inside) != _net_of(os.getpid()), "the machine's network")
        ip("link", "add", f"{self._cable}b", "type", "veth", "peer", "name", self._cable)
        ip("link", "set", self._cable, "netns", str(inside))
        ip("link", "set", f"{self._cable}b", "master", "agentos0", "up")
        assert self._process.stdin is not None
        self._process.stdin.write(b"go\n")
        self._process.stdin.flush()

    def _first_process(self) -> int:
        text = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        return int(text[0]) if text else 0

    def processes(self) -> list[int]:
        """All of them."""
        first = self._first_process()
        return [pid for pid in _pids() if first and _pids_of(pid) == _pids_of(first)]

    def commands(self) -> list[str]:
        return [_command(pid) for pid in self.processes()]

    def cut(self) -> None:
        """The cable."""
        ip("link", "set", f"{self._cable}b", "down")

    def heal(self) -> None:
        ip("link", "set", f"{self._cable}b", "up")

    def suspend(self) -> None:
        for pid in self.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)

    def wake(self) -> None:
        for pid in self.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def pull_the_plug(self) -> None:
        with suppress(OSError):
            if first := self._first_process():  # 0 would be ourselves.
                os.kill(first, signal.SIGKILL)
        with suppress(OSError):
            self._process.wait(60)
        with suppress(subprocess.CalledProcessError):
            ip("link", "del", f"{self._cable}b")
        if self._process.stdin is not None:
            self._process.stdin.close()

    def close(self) -> None:
        self.pull_the_plug()
        self._process.kill()
        self._process.wait()
        self._log.close()


def _pids() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]


def _net_of(pid: int) -> str:
    with suppress(OSError):
        return str(Path(f"/proc/{pid}/ns/net").readlink())
    return ""


def _pids_of(pid: int) -> str:
    with suppress(OSError):
        return str(Path(f"/proc/{pid}/ns/pid").readlink())
    return str(pid)


def _command(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""


class Forwarder:
    """A port of the tests' own address that leads to one of loopback, such as a database's."""

    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self._refused: set[str] = set()
        self._guests: list[tuple[str, socket]] = []
        self._server = create_server((HOST_ADDRESS, 0))
        self.port = int(self._server.getsockname()[1])
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                guest, (address, _) = self._server.accept()
            except OSError:
                return
            if address in self._refused:
                guest.close()
                continue
            self._guests.append((address, guest))
            try:
                host = create_connection(("127.0.0.1", self._target_port))
            except OSError:
                guest.close()
                continue
            for source, target in ((guest, host), (host, guest)):
                threading.Thread(target=_copy, args=[source, target], daemon=True).start()

    def refuse(self, address: str) -> None:
        """Nothing leads there any more from this address."""
        self._refused.add(address)
        for guest in [guest for each, guest in self._guests if each == address]:
            with suppress(OSError):
                guest.shutdown(SHUT_RDWR)

    def let_in_again(self, address: str) -> None:
        self._refused.discard(address)

    def close(self) -> None:
        self._server.close()


def _copy(source: socket, target: socket) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    for end in (source, target):
        with suppress(OSError):
            end.close()


@contextmanager
def machines(
    count: int,
    *,
    cpus: int = 2,
    head_cpus: int = 0,
    everywhere: Mapping[str, str] | None = None,
    further: Mapping[str, str] | None = None,
) -> Iterator[tuple[RayCluster, list[Machine]]]:
    """A cluster whose head is this machine, without processors of its own unless asked for, and so many others.

    Variables are for all of them, commands too, and `further` ones for the others alone.
    """
    make_bridge()
    cluster = RayCluster(cpus=head_cpus, address=HOST_ADDRESS, further=everywhere)
    made: list[Machine] = []
    try:
        for number in range(2, count + 2):
            made.append(Machine(cluster, number, cpus, further or {}))
        yield cluster, made
    finally:
        for machine in made:
            machine.close()
        cluster.close()

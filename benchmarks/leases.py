"""Eight processes leasing keys from one coordinator over sockets: pairs per second, and how long one takes."""

from __future__ import annotations

import json
import os
import random
import socket
import time

from agentos.engine.gateway import RunGateway
from agentos.engine.lease_server import LeaseServer
from agentos.engine.loop import READ, Loop
from agentos.engine.messages import DownMessage, decode_down, decode_up, encode
from agentos.errors import ExitCode
from agentos.events import Event
from agentos.keys.broker import KeyBroker
from agentos.keys.credentials import Credential, CredentialSet
from agentos.keys.key_file import KeyFile
from agentos.keys.key_spec import KeySpec
from agentos.keys.lease_client import LeaseClient
from agentos.keys.leases import Ask, LeaseAsk, LeaseRequest
from agentos.keys.send_log import SendLog
from agentos.providers.evidence import Succeeded
from agentos.wire import LineBuffer
from benchmarks.harness import scratch, verdict

PROCESSES = 8
SECONDS = 4.0


def main() -> None:
    with scratch():
        pairs, p99 = _measure()
    print(f"   {PROCESSES} processes, {PROCESSES} keys: {pairs:.0f} pairs per second")
    verdict("acquire-release pairs per second", pairs, 5000, at_least=True)
    verdict("p99 of acquire", p99 * 1000, 5, " ms")


class _Run:
    """The coordinator's part that matters here: sockets to workers."""

    def __init__(self) -> None:
        self.sockets: dict[str, socket.socket] = {}

    def node_of(self, item_id: str) -> str:
        return ""

    def send(self, item_id: str, message: DownMessage) -> None:
        self.sockets[item_id].sendall(encode(message))

    def waiting_changed(self, waiting: set[str]) -> None: ...
    def set_parallel(self, parallel: int) -> None: ...
    def request_stop(self, reason: str, *, exit_code: ExitCode) -> None: ...


def _measure() -> tuple[float, float]:
    loop, run = Loop(), _Run()
    specs = [KeySpec(name=f"k{n}", provider="google", group=f"g{n}") for n in range(PROCESSES)]
    credentials = CredentialSet(tuple(Credential(spec, f"secret-number-{n}") for n, spec in enumerate(specs)))
    broker = KeyBroker(credentials, emit=_ignore, key_file=KeyFile(), sends=SendLog(), rng=random.Random(1))
    gateway = RunGateway(loop, served=(), environment={}, passed=(), process_environment={})
    server = LeaseServer(broker, run, loop, _ignore, parallel=PROCESSES, gateway=gateway)
    results, children = os.pipe(), []
    for number in range(PROCESSES):
        ours, theirs = socket.socketpair()
        pid = os.fork()
        if pid == 0:
            ours.close()
            _lease_in_a_loop(theirs, results[1])
            os._exit(0)
        theirs.close()
        children.append(pid)
        run.sockets[f"w{number}"] = ours
        _serve(loop, server, f"w{number}", ours)
    os.close(results[1])
    loop.after(SECONDS + 1.0, loop.stop)
    loop.run()
    with os.fdopen(results[0]) as file:  # Before waiting: a report may be larger than the pipe.
        reports = [json.loads(line) for line in file]
    for pid in children:
        os.waitpid(pid, 0)
    latencies = sorted(value for report in reports for value in report["sample"])
    return sum(report["pairs"] for report in reports) / SECONDS, latencies[int(len(latencies) * 0.99)]


def _serve(loop: Loop, server: LeaseServer, item_id: str, connection: socket.socket) -> None:
    lines = LineBuffer()

    def read(_events: int) -> None:
        data = connection.recv(1 << 16)
        if not data:
            loop.unwatch(connection.fileno())
            return
        for line in lines.feed(data):
            server.take(item_id, decode_up(line))  # type: ignore[arg-type]

    loop.watch(connection.fileno(), READ, read)


def _lease_in_a_loop(connection: socket.socket, report_fd: int) -> None:
    lines = LineBuffer()

    def send(message: LeaseRequest) -> None:
        connection.sendall(encode(message))
        if isinstance(message, LeaseAsk):
            # A worker's listening thread would deliver the answer; here the same thread asks and listens.
            for line in lines.feed(connection.recv(1 << 16)):
                client.deliver(decode_down(line))  # type: ignore[arg-type]

    client = LeaseClient(send)
    sample: list[float] = []
    pairs, ends = 0, time.monotonic() + SECONDS
    while time.monotonic() < ends:
        began = time.perf_counter()
        lease = client.acquire(Ask(provider="google", model="m"))
        sample.append(time.perf_counter() - began)
        client.release(lease, Succeeded())
        pairs += 1
    os.write(report_fd, (json.dumps({"pairs": pairs, "sample": sample[::20]}) + "\n").encode())


def _ignore(_event: Event) -> None:
    """Nobody listens."""

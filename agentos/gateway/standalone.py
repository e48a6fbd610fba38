"""`agentos gateway` itself: the pool, a socket and tokens, until it is stopped or its program has ended."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from agentos.errors import ExitCode, NoUsableKeyError, UsageError
from agentos.events import Listener
from agentos.files import PRIVATE_FILE_MODE
from agentos.gateway.clients import Clients, new_token
from agentos.gateway.environment import client_environment
from agentos.gateway.own_leases import OwnLeases
from agentos.gateway.relay import Relay
from agentos.gateway.routing import Policy
from agentos.gateway.server import GatewayServer
from agentos.gateway.upstream import Upstream
from agentos.hints import Hint
from agentos.keys.broker import KeyBroker
from agentos.keys.budget import Budget
from agentos.keys.credentials import CredentialSet, load_credentials, load_salt, scrubbed
from agentos.keys.day_budget import day_budget
from agentos.keys.key_file import KeyFile
from agentos.keys.memory import LimitMemory
from agentos.keys.refusals import Patience
from agentos.keys.send_log import SendLog
from agentos.keys.shared_pool import shared_pool

HOST = "127.0.0.1"
_BACKLOG = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    port: int = 0
    socket_path: Path | None = None
    clients: tuple[str, ...] = ()
    policy: Policy
    budget_usd: float | None = None
    usd_per_day: float | None = None
    """Of everything with this home."""
    patience: Patience | None = None


@dataclass(frozen=True, slots=True)
class Started:
    """What users need to know."""

    address: str
    providers: tuple[str, ...]
    tokens: tuple[tuple[str, str], ...]
    """Client and token."""
    environments: tuple[tuple[str, dict[str, str]], ...]
    """Client and what its programs need."""


def serve(
    options: Options,
    environ: Mapping[str, str],
    command: Sequence[str],
    *,
    tell: Callable[[Started], None],
    on_event: Listener,
) -> int:
    """Until a stop signal, or the end of `command`. Returns the exit code. Raises UsageError, NoUsableKeyError."""
    credentials = load_credentials(environ=environ)
    if not credentials.credentials:
        raise NoUsableKeyError(f"The gateway has no keys. Add one: `{Hint.ADD_KEY.line(provider='openai')}`.")
    with _listening(options) as listener:
        return asyncio.run(_serve(options, environ, command, credentials, listener, tell, on_event))


async def _serve(
    options: Options,
    environ: Mapping[str, str],
    command: Sequence[str],
    credentials: CredentialSet,
    listener: socket.socket,
    tell: Callable[[Started], None],
    on_event: Listener,
) -> int:
    clients, started = _admitted(options, environ, credentials, _address(listener))
    async with _server(options, environ, credentials, clients, on_event) as server:
        await server.listen(listener)
        stopped = _stop_signals()
        if command:
            only = started.environments[0][1]
            return await _run(command, {**scrubbed(environ, credentials), **only})
        tell(started)
        await stopped.wait()
        return int(ExitCode.INTERRUPTED)


@asynccontextmanager
async def _server(
    options: Options,
    environ: Mapping[str, str],
    credentials: CredentialSet,
    clients: Clients,
    on_event: Listener,
) -> AsyncIterator[GatewayServer]:
    broker = KeyBroker(
        credentials,
        emit=on_event,
        memory=LimitMemory(),
        sends=SendLog(),
        salt=load_salt(),
        pool=shared_pool(credentials, load_salt()),
        budget=None if options.budget_usd is None else Budget(options.budget_usd),
        day_budget=day_budget(options.usd_per_day),
        patience=options.patience,
        key_file=KeyFile(load=lambda: load_credentials(environ=environ)),
    )
    leases, upstream = OwnLeases(broker), Upstream()
    server = GatewayServer(Relay(leases, upstream), clients, options.policy)
    try:
        yield server
    finally:
        await server.close()
        leases.close()
        await upstream.close()


def _admitted(
    options: Options, environ: Mapping[str, str], credentials: CredentialSet, address: str
) -> tuple[Clients, Started]:
    clients = Clients()
    served = tuple(dict.fromkeys(spec.provider for spec in credentials.specs))
    tokens = [(name, new_token()) for name in options.clients or ("client",)]
    for name, token in tokens:
        clients.admit(token, name)
    environments = [(name, client_environment(address, token, served, environ)) for name, token in tokens]
    return clients, Started(address, served, tuple(tokens), tuple(environments))


def _listening(options: Options) -> socket.socket:
    try:
        if options.socket_path is None:
            return socket.create_server((HOST, options.port), backlog=_BACKLOG)
        return _unix_listener(options.socket_path)
    except OSError as error:
        where = options.socket_path or f"port {options.port}"
        raise UsageError(f"The gateway cannot listen on {where}: {error.strerror or error}.") from None


def _unix_listener(path: Path) -> socket.socket:
    """Of mode 0600 from its first moment. One that nobody listens on any longer is replaced."""
    with suppress(FileNotFoundError):
        if path.is_socket() and not _is_answered(path):
            path.unlink()
    listener = socket.socket(socket.AF_UNIX)
    before = os.umask(0o777 & ~PRIVATE_FILE_MODE)
    try:
        listener.bind(str(path))
    finally:
        os.umask(before)
    listener.listen(_BACKLOG)
    return listener


def _is_answered(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            return False
    return True


def _address(listener: socket.socket) -> str:
    if listener.family == socket.AF_UNIX:
        return f"unix:{listener.getsockname()}"
    return f"http://{HOST}:{listener.getsockname()[1]}"


def _stop_signals() -> asyncio.Event:
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    return stopped


async def _run(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """The program in the foreground. Ctrl+C is its own to answer: it gets it from the terminal."""
    try:
        process = await asyncio.create_subprocess_exec(*command, env=environment)
    except OSError as error:
        raise UsageError(f"{command[0]} cannot be started: {error.strerror or error}.") from None
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, _pass_on, process, number)
    code = await process.wait()
    return code if code >= 0 else 128 - code


def _pass_on(process: asyncio.subprocess.Process, number: int) -> None:
    with suppress(ProcessLookupError):
        process.send_signal(number)

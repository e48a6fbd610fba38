"""Serves the page until it is stopped: its socket, its addresses, and how a browser is sent there."""

from __future__ import annotations

import asyncio
import html
import ipaddress
import signal
import socket
import tempfile
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import uvicorn

from agentos.errors import UsageError
from agentos.files import write_private
from agentos.page.app import make_app
from agentos.page.guard import LOOPBACK_NAMES, Gate, Tokens

LOOPBACK: Final = "127.0.0.1"
_BACKLOG: Final = 128
_SECONDS_TO_END: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    host: str = LOOPBACK
    port: int = 0
    allow_remote: bool = False
    opens_browser: bool = True


@dataclass(frozen=True, slots=True)
class Addresses:
    """What people open."""

    base: str
    control: str
    read_only: str


def serve(options: Options, tell: Callable[[Addresses], None]) -> None:
    """Until a stop signal. Raises UsageError when it cannot listen there, or must not."""
    _refuse_beyond_loopback(options)
    with _listening(options) as listener:
        port, tokens = listener.getsockname()[1], Tokens()
        gate = Gate(make_app(), tokens, port=port, hosts=_names(options.host))
        base = f"http://{_in_address(options.host)}:{port}"
        addresses = Addresses(base, f"{base}/?token={tokens.control}", f"{base}/?token={tokens.read}")
        with _browser(addresses.control if options.opens_browser else "") as open_browser:

            def started() -> None:
                tell(addresses)
                open_browser()

            asyncio.run(_serve(gate, listener, started))


async def _serve(gate: Gate, listener: socket.socket, on_start: Callable[[], None]) -> None:
    server = _Server(
        uvicorn.Config(
            gate,
            log_config=None,
            log_level="critical",
            access_log=False,
            lifespan="off",
            ws="none",
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=_SECONDS_TO_END,
        )
    )
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, server.stop)
    loop.call_soon(on_start)
    await server.serve(sockets=[listener])


class _Server(uvicorn.Server):
    """Signals are ours: the loop has them before the server starts."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    def stop(self) -> None:
        self.should_exit = True


def _refuse_beyond_loopback(options: Options) -> None:
    if not options.allow_remote and not _is_loopback(options.host):
        raise UsageError(
            f"--host {options.host} lets other machines in, without encryption. Add --allow-remote if that is meant."
        )


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _names(host: str) -> tuple[str, ...]:
    """What browsers may call this server."""
    if _is_loopback(host):
        return tuple(dict.fromkeys([*LOOPBACK_NAMES, _in_address(host)]))
    return tuple(dict.fromkeys([*LOOPBACK_NAMES, _in_address(host), socket.gethostname(), socket.getfqdn()]))


def _in_address(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _listening(options: Options) -> socket.socket:
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    refusal = f"The dashboard cannot listen on {options.host} port {options.port}"
    try:
        return socket.create_server((options.host, options.port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise UsageError(f"{refusal}: {error.strerror or error}.") from None


@contextmanager
def _browser(address: str) -> Iterator[Callable[[], object]]:
    """Opens the address without showing it to other users, as a command line would: through a private file."""
    if not address:
        yield lambda: None
        return
    with tempfile.TemporaryDirectory(prefix="agentos-dashboard-") as folder:
        page = Path(folder) / "open.html"
        shown = html.escape(address)
        write_private(
            page,
            f'<!doctype html><meta charset="utf-8"><title>AgentOS</title>'
            f'<meta http-equiv="refresh" content="0; url={shown}"><a href="{shown}">Open the dashboard</a>\n',
        )
        yield lambda: asyncio.get_running_loop().run_in_executor(None, webbrowser.open, page.as_uri())

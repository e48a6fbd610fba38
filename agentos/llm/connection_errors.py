"""Why no connection came about, in words that say what to do."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator

from agentos.llm.proxies import address_of, proxy_of

_PROXY_SETTING = "HTTPS_PROXY and NO_PROXY"


_WHILE_WAITING = frozenset({"ReadError", "ReadTimeout", "RemoteProtocolError"})
"""Errors of either HTTP library that come when the request is on its way and its reply is not."""


def may_have_arrived(error: BaseException) -> bool:
    """Whether the request may be answered, and charged for, although no reply will be seen."""
    return type(error).__name__ in _WHILE_WAITING


def connection_problem(error: BaseException, url: str) -> str:
    """The cause of a failed connection on the way to `url`; empty if the error does not tell."""
    address, proxy = address_of(url), proxy_of(url)
    asked = f"the proxy {proxy}" if proxy else address
    for cause in _causes(error):
        match cause:
            case socket.gaierror():
                setting = _PROXY_SETTING if proxy else "the base URL"
                return f"no address is known for {asked} (DNS): check the network and {setting}"
            case ConnectionRefusedError():
                setting = _PROXY_SETTING if proxy else "the base URL"
                return f"{asked} refused the connection: check {setting} and that a server listens there"
            case ssl.SSLCertVerificationError():
                return (
                    f"the certificate of {address} is not trusted ({_reason(cause)}): if a proxy or a company "
                    "signs it, set SSL_CERT_FILE or REQUESTS_CA_BUNDLE to a file with its certificates"
                )
            case ssl.SSLError():
                return f"{address} does not speak TLS as expected ({_reason(cause)})"
            case ConnectionResetError():
                return f"{asked} closed the connection"
            case _ if type(cause).__name__ == "ProxyError":  # Of either HTTP library.
                return f"{asked} lets no call through to {address} ({cause}): check {_PROXY_SETTING}"
    return ""


def _reason(error: ssl.SSLError) -> str:
    """Its attributes are there only if OpenSSL itself raised it."""
    return str(getattr(error, "verify_message", "") or getattr(error, "reason", "") or "handshake failed")


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and what led to it, nearest first."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        cause = waiting.pop(0)
        if cause is None or id(cause) in seen:
            continue
        seen.add(id(cause))
        yield cause
        waiting += [cause.__cause__, cause.__context__]
        if isinstance(cause, BaseExceptionGroup):
            waiting += cause.exceptions

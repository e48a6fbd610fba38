"""Why no connection came about, in words that say what to do. Pure."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator


def connection_problem(error: BaseException, address: str) -> str:
    """The cause of a failed connection to `address`; empty if the error does not tell."""
    for cause in _causes(error):
        match cause:
            case socket.gaierror():
                return f"no address is known for {address} (DNS): check the network and the base URL"
            case ConnectionRefusedError():
                return f"{address} refused the connection: check the base URL and that a server listens there"
            case ssl.SSLCertVerificationError():
                return (
                    f"the certificate of {address} is not trusted ({_reason(cause)}): if a proxy or a company "
                    "signs it, set SSL_CERT_FILE or REQUESTS_CA_BUNDLE to a file with its certificates"
                )
            case ssl.SSLError():
                return f"{address} speaks no TLS that we understand ({_reason(cause)})"
            case ConnectionResetError():
                return f"{address} closed the connection"
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

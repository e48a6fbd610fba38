"""Proxies that the user has for the world outside: calls on this machine never go by way of one."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from agentos.providers.addresses import is_on_this_machine

_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
DIRECT: Final = {f"{scheme}://{host}": None for scheme in ("http", "https") for host in _LOOPBACK}
"""As the `mounts` of an HTTP client."""


def address_of(url: str) -> str:
    """Host and port, without a password."""
    return urlsplit(url).netloc.rpartition("@")[2]


def proxy_of(url: str) -> str:
    """Host and port of the proxy that the environment names for this address; empty for none."""
    from urllib.request import getproxies, proxy_bypass  # noqa: PLC0415  Slow to import, and most calls go well.

    found, parts = getproxies(), urlsplit(url)
    host = parts.hostname or ""
    if not host or is_on_this_machine(url) or proxy_bypass(host):
        return ""
    return address_of(found.get(parts.scheme, "") or found.get("all", ""))

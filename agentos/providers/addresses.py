"""Which addresses are on this machine: whoever wrote them, nothing sent there leaves it."""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import urlsplit


def is_on_this_machine(url: str) -> bool:
    # Programs disagree about what a backslash in a URL means.
    host = "" if "\\" in url else urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"

"""Where the page may listen."""

from __future__ import annotations

import socket

import pytest

from agentos.errors import UsageError
from agentos.page.server import Addresses, Options, serve


def never(_addresses: Addresses) -> None:
    pytest.fail("it listens")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.invalid"])
def test_other_machines_are_let_in_only_when_that_is_meant(host: str) -> None:
    with pytest.raises(UsageError, match="--allow-remote"):
        serve(Options(host=host, opens_browser=False), never)


def test_a_port_that_is_taken_is_said() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(UsageError, match="cannot listen on"):
        serve(Options(port=taken.getsockname()[1], opens_browser=False), never)

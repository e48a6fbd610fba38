"""Who owns a home's pool: everybody finds an owner, whatever becomes of the last one."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agentos.keys.home_messages import Hello, to_owner
from agentos.keys.home_pool import Delivery, HomePool
from agentos.keys.home_socket import HomeSocket

DEADLINE_SECONDS = 120.0


@contextmanager
def client(folder: Path, pool: type[HomePool] = HomePool) -> Iterator[HomeSocket]:
    home = HomeSocket(folder, lambda survivors: pool(survivors=survivors))
    home.open()
    try:
        yield home
    finally:
        home.close()


def hello(home: HomeSocket) -> bytes:
    return to_owner.encode(Hello(client=home.client, keys=()))


def is_kept(connection: socket.socket, words: bytes, seconds: float) -> bool:
    """Whether the owner listens, and goes on listening: there is nothing to tell this client."""
    connection.settimeout(seconds)
    try:
        connection.sendall(words)
        assert connection.recv(1) == b""
    except TimeoutError:
        return True
    except ConnectionError:
        return False  # It was gone before it had read everything.
    return False


class BrokenPool(HomePool):
    def turn(self) -> list[Delivery]:
        raise RuntimeError("a fault of ours")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_owner_whose_pool_fails_leaves_its_place_to_others(tmp_path: Path) -> None:
    with client(tmp_path, BrokenPool) as broken, client(tmp_path) as other:
        with broken.connect() as connection:
            assert not is_kept(connection, hello(broken), DEADLINE_SECONDS)

        deadline = time.monotonic() + DEADLINE_SECONDS
        while True:
            with other.connect() as next_one:
                if is_kept(next_one, hello(other), 0.3):
                    break
            assert time.monotonic() < deadline, "the place of the owner that failed stayed empty"


def test_clients_come_while_new_owners_look_who_lives(tmp_path: Path) -> None:
    is_over = threading.Event()
    failures: list[BaseException] = []

    def keep_changing_owners() -> None:
        try:
            while not is_over.is_set():
                with client(tmp_path) as home:
                    home.connect().close()
        except BaseException as error:
            failures.append(error)

    owners = [threading.Thread(target=keep_changing_owners) for _ in range(3)]
    for owner in owners:
        owner.start()
    try:
        for _ in range(200):
            with client(tmp_path) as home:
                assert (tmp_path / "clients" / home.client).exists()
    finally:
        is_over.set()
        for owner in owners:
            owner.join()
    assert failures == []

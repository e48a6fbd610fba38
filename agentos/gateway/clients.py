"""Who may use the gateway: a token for each client, valid while the client lives."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable

PREFIX = "agentos-"
"""Some clients check that there is a key at all, none what it looks like."""

FindOwner = Callable[[int], str | None]
"""The port that a connection comes from to the owner of the process that made it."""


def new_token() -> str:
    return PREFIX + secrets.token_urlsafe(32)


class Clients:
    """Tokens and whose they are."""

    def __init__(self, find_owner: FindOwner = lambda _port: None) -> None:
        self._owners: dict[str, str] = {}
        self._shared_token = ""
        self._takes_own_keys = False
        self._find_owner = find_owner
        self._on_gone: Callable[[str], None] = lambda _owner: None

    def on_gone(self, callback: Callable[[str], None]) -> None:
        """Told the name of a client whose token is no longer valid: its calls are to end."""
        self._on_gone = callback

    def share(self, token: str, *, takes_own_keys: bool = False) -> None:
        """This token is good for every process whose owner `find_owner` knows.

        With `takes_own_keys`, so is what is no token at all: a program may have put its own key over ours.
        """
        self._shared_token = token
        self._takes_own_keys = takes_own_keys

    def admit(self, token: str, owner: str) -> None:
        self._owners[token] = owner

    def dismiss(self, owner: str) -> None:
        for token in [token for token, whose in self._owners.items() if whose == owner]:
            del self._owners[token]
        self._on_gone(owner)

    def owner(self, token: str, peer_port: int) -> str | None:
        """Whose call it is. Tokens are compared in the same time whatever is given: guessing learns nothing."""
        if self._shared_token and _is_same(token, self._shared_token):
            return self._find_owner(peer_port)
        if self._takes_own_keys and token and not token.startswith(PREFIX):
            return self._find_owner(peer_port)
        matches = [owner for known, owner in self._owners.items() if _is_same(token, known)]
        return matches[0] if matches else None


def _is_same(given: str, known: str) -> bool:
    return hmac.compare_digest(given.encode(errors="replace"), known.encode())

"""A provider for the sandbox: the loopback server, keys in credentials.toml, and the endpoint in agentos.toml."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from harness import Sandbox

from agentos.testing.provider_server import Key, ProviderServer


@dataclass(frozen=True, kw_only=True)
class PoolKey:
    """A key as the user has it in the file, and as the provider sees it."""

    name: str
    group: str = ""
    provider: str = "google"
    is_valid: bool = True
    max_concurrent: int = 1
    edition: int = 1
    """A new edition is a new secret."""
    env: str = ""
    """The variable that holds the secret, when the file does not."""

    @property
    def secret(self) -> str:
        digest = hashlib.sha256(f"{self.name} {self.edition}".encode()).digest()
        return "AIzaSy" + base64.b64encode(digest).decode().rstrip("=").replace("+", "-").replace("/", "_")

    def to_toml(self) -> str:
        source = f'env = "{self.env}"' if self.env else f'secret = "{self.secret}"'
        return (
            f'[[key]]\nname = "{self.name}"\nprovider = "{self.provider}"\ngroup = "{self.group or self.name}"\n'
            f"max_concurrent = {self.max_concurrent}\n{source}\n"
        )

    def to_server_key(self) -> Key:
        return Key(name=self.name, secret=self.secret, group=self.group or self.name, is_valid=self.is_valid)


def write_keys(sandbox: Sandbox, *keys: PoolKey, text: str = "") -> None:
    """Replace credentials.toml in one step, as an editor does."""
    sandbox.home.mkdir(mode=0o700, exist_ok=True)
    path = sandbox.home / "credentials.toml"
    written = path.with_suffix(".new")
    descriptor = os.open(written, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text or "".join(key.to_toml() for key in keys))
    written.replace(path)


@contextmanager
def provider(sandbox: Sandbox, *keys: PoolKey, **config: Any) -> Iterator[ProviderServer]:
    """Serve while the block runs; the sandbox's project finds the server, its home has the keys."""
    write_keys(sandbox, *keys)
    with ProviderServer(keys=[key.to_server_key() for key in keys], accepts_unknown_keys=False, **config) as server:
        settings = "".join(f'[providers.{p}]\nbase_url = "{server.base_url(p)}"\n' for p in ("google", "openai"))
        (sandbox.project / "agentos.toml").write_text(settings)
        yield server


def add_server_key(server: ProviderServer, key: PoolKey) -> None:
    """A key the user makes while a run is under way."""
    server.desk.add_key(key.to_server_key())


def limit_hits(server: ProviderServer) -> int:
    """How often the provider had to refuse for a limit."""
    return int(server.stats()["by_status"].get("429", 0))

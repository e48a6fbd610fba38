"""The login of a coding CLI as a key of the pool: without a secret, with limits, for one call at a time."""

from __future__ import annotations

from dataclasses import replace

from agentos.keys.credentials import Credential, CredentialSet
from agentos.keys.key_spec import KeySpec

CLI_LOGIN = Credential(KeySpec(name="cli-login", provider="cli", group="cli-login"), secret="")


def with_cli_login(credentials: CredentialSet) -> CredentialSet:
    """The same keys and the CLI's login, so that `cli:claude` is leased like any other model."""
    return replace(credentials, credentials=(*credentials.credentials, CLI_LOGIN))

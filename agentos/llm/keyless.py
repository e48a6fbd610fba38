"""Models that are called without a key, as keys of the pool without a secret: so that their calls are leased as well.

A coding CLI has a login of its own, a server on the user's machine asks for nothing.
"""

from __future__ import annotations

from dataclasses import replace

from agentos.keys.credentials import Credential, CredentialSet
from agentos.keys.key_spec import KeySpec
from agentos.providers.provider import Provider
from agentos.providers.registry import providers

CLI_LOGIN = Credential(KeySpec(name="cli-login", provider="cli", group="cli-login"), secret="")


def with_keyless(credentials: CredentialSet) -> CredentialSet:
    """The same keys, the CLI's login, and one for each provider that needs none and has none."""
    served = {spec.provider for spec in credentials.specs}
    local = [_without_secret(each) for each in providers().values() if not each.needs_key and each.name not in served]
    return replace(credentials, credentials=(*credentials.credentials, CLI_LOGIN, *local))


def _without_secret(provider: Provider) -> Credential:
    name = f"no-key-{provider.name}"
    spec = KeySpec(name=name, provider=provider.name, group=name, max_concurrent=provider.max_concurrent)
    return Credential(spec, secret="")

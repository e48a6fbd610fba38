"""What AgentOS knows of one provider: the record that a file of this package fills in."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """A provider of models that are called with a key."""

    name: str
    """As in `provider:model` and `agentos keys add --provider`."""
    rank: int = 100
    """Place in lists; with keys of several providers and no model chosen, the first one's default model is used."""
    key_variables: tuple[str, ...]
    """Environment variables a key is read from when credentials.toml has none of this provider."""
    default_model: str
    check_model: str
    """A cheap one, for `agentos keys check`."""
    quota_owner: str
    """What the provider counts quota by: keys of one such owner belong to one group."""

    @property
    def base_url_variable(self) -> str:
        """The environment variable that sends calls to another address."""
        return base_url_variable(self.name)


def base_url_variable(provider: str) -> str:
    return f"AGENTOS_PROVIDERS__{provider.upper()}__BASE_URL"

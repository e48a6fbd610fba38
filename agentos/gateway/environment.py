"""How clients find the gateway: the variables that SDKs, LangChain and coding agents read. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from agentos.providers.registry import providers

BASE_URL_VARIABLES = {
    # The second ones win in LangChain; LiteLLM's programs know OpenAI's alone.
    "anthropic": ("ANTHROPIC_BASE_URL", "ANTHROPIC_API_URL"),
    "openai": ("OPENAI_BASE_URL", "OPENAI_API_BASE"),
    "google": ("GOOGLE_GEMINI_BASE_URL",),
}
_CODEX_KEY = "CODEX_API_KEY"
"""What `codex exec` reads in the place of a login."""
_PROXIES = ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy")
_DIRECT = ("NO_PROXY", "no_proxy")


def client_url(provider: str, root: str) -> str:
    return f"{root}/v1" if provider == "openai" else root


def client_environment(
    root: str, token: str, served: Collection[str], environ: Mapping[str, str], passed: Collection[str] = ()
) -> dict[str, str]:
    """What a client's environment needs on top of `environ` to call the `served` providers through `root`.

    A provider one of whose variables is `passed` on as it is keeps its own way.
    """
    found: dict[str, str] = {}
    for provider, urls in BASE_URL_VARIABLES.items():
        keys = providers()[provider].key_variables
        if provider not in served or any(name in passed for name in (*keys, *urls)):
            continue
        found |= dict.fromkeys(urls, client_url(provider, root))
        found |= dict.fromkeys([name for name in keys if name in environ] or keys[:1], token)
    if "OPENAI_BASE_URL" in found:
        found[_CODEX_KEY] = token
    if found and any(environ.get(name) for name in _PROXIES):
        for name in _DIRECT:
            found[name] = ",".join(filter(None, [environ.get(name, ""), "127.0.0.1", "localhost"]))
    return found


def upstream_urls(
    environ: Mapping[str, str], configured: Mapping[str, str], served: Collection[str]
) -> dict[str, str]:
    """Where calls of each provider go: as configured, else where its SDK would be sent."""
    found = dict(configured)
    for provider, urls in BASE_URL_VARIABLES.items():
        if provider in served and provider not in found:
            own = next((environ[name] for name in urls if environ.get(name)), "")
            found[provider] = own or _own_url(provider)
    return found


def _own_url(provider: str) -> str:
    from agentos.gateway.routing import DIALECTS  # noqa: PLC0415  The protocols: only where there are keys.

    return str(DIALECTS[provider].base_url)

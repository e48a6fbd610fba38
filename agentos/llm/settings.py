"""Settings of model calls: default model, endpoints, offline latency, recordings. The one place that reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from agentos.environment import environment
from agentos.errors import UsageError
from agentos.llm.endpoints import refuse_unconfirmed, unconfirmed_urls
from agentos.paths import find_project_dir
from agentos.providers.provider import Endpoint, base_url_variable
from agentos.providers.registry import providers
from agentos.settings import FROZEN_VARIABLE, load_settings, thaw

_project_urls: Mapping[str, str] = {}
_project_prices: tuple[tuple[str, ...], str] = ((), "")


def use_base_urls(urls: Mapping[str, str]) -> None:
    """Where a project's file sends the calls of a provider; the environment wins, as for every setting."""
    global _project_urls
    _project_urls = urls


def base_url(provider: str) -> str | None:
    """None means the provider's own endpoint."""
    return environment().get(base_url_variable(provider)) or _project_urls.get(provider)


def endpoint(provider: str) -> Endpoint:
    """As the user says, else as the provider's record says. Raises UsageError if nobody says where."""
    known = providers()[provider]
    url = base_url(provider) or known.base_url
    if url is None and known.needs_base_url:
        variable = base_url_variable(provider)
        raise UsageError(
            f"No address for {provider} calls: export {variable}=https://…, or set base_url in "
            f"[providers.{provider}] of agentos.toml. Beyond this machine it counts once {variable} names it too."
        )
    return Endpoint(url, known.api_version)


def declare_for_worker() -> None:
    """In a worker, or the gateway of its run: know the providers that the run's settings declare."""
    frozen = environment().get(FROZEN_VARIABLE, "")
    if '"providers": {"' in frozen:
        thaw(frozen)


def declare_for(provider: str) -> None:
    """Outside a run: know what the project's file here says of a provider that is not known well enough to call."""
    known = providers().get(provider)
    is_enough = known is not None and (base_url(provider) or known.base_url or not known.needs_base_url)
    if is_enough or FROZEN_VARIABLE in environment():
        return
    urls = load_settings(find_project_dir(Path.cwd())).provider_urls
    refuse_unconfirmed(unconfirmed_urls(urls, environment()), [provider])
    use_base_urls({**_project_urls, **{name: url for name, url in urls.items() if name == provider}})


def default_model() -> str | None:
    return environment().get("AGENTOS_MODEL") or None


MODEL_PRICES_VARIABLE = "AGENTOS_PRICES__MODELS"
UNPRICED_VARIABLE = "AGENTOS_PRICES__UNPRICED"


def use_prices(models: Sequence[str], unpriced: str) -> None:
    """What a project's settings say that models cost, in a process that was not started with them."""
    global _project_prices
    _project_prices = (tuple(models), unpriced)


def prices() -> tuple[tuple[str, ...], str]:
    """The user's own prices of models, and that of models without one, as written."""
    models = [entry.strip() for entry in environment().get(MODEL_PRICES_VARIABLE, "").split(",")]
    of_project, unpriced = _project_prices
    return of_project or tuple(filter(None, models)), unpriced or environment().get(UNPRICED_VARIABLE, "")


def offline_latency_seconds() -> float:
    text = environment().get("AGENTOS_OFFLINE_LATENCY_SECONDS", "0")
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise UsageError(f"AGENTOS_OFFLINE_LATENCY_SECONDS is '{text}': give a number of seconds, 0 or more.")
    return seconds


def recorded_dir() -> Path | None:
    """Where the model `recorded` reads its answers."""
    return _path_variable("AGENTOS_RECORDED_DIR")


def record_dir() -> Path | None:
    """Where answers of live models are saved, if they are."""
    return _path_variable("AGENTOS_RECORD_DIR")


def _path_variable(name: str) -> Path | None:
    text = environment().get(name)
    return Path(text).expanduser() if text else None

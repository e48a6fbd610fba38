"""Where the workers of a run are made, and what they are sent: settings, addresses, no keys."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from agentos.engine import removed_variables
from agentos.engine.backends.forkserver.backend import ForkServerBackend
from agentos.engine.backends.protocol import Backend, BackendEvents, WorkerSetup
from agentos.engine.checkpoints import store_for
from agentos.engine.checkpoints.protocol import ItemRef
from agentos.engine.claims import Claims
from agentos.engine.gateway import RunGateway
from agentos.engine.loop import Loop
from agentos.engine.plan import Item, Plan
from agentos.errors import UsageError
from agentos.gateway.environment import upstream_urls
from agentos.keys.redaction import Redactor
from agentos.launch.keys import RunKeys
from agentos.launch.request import RunRequest
from agentos.llm import in_worker
from agentos.llm.endpoints import refuse_unconfirmed, unconfirmed_urls
from agentos.llm.settings import MODEL_PRICES_VARIABLE, UNPRICED_VARIABLE
from agentos.processes import host
from agentos.providers.addresses import is_on_this_machine
from agentos.providers.provider import base_url_variable
from agentos.providers.registry import providers
from agentos.settings import FROZEN_VARIABLE, Settings, freeze, with_environment
from agentos.text.words import listed


def make_backend(
    request: RunRequest, loop: Loop, events: BackendEvents, setup: WorkerSetup, claims: Claims, redactor: Redactor
) -> Backend:
    fork = request.start_method == "forkserver" and host.CAN_FORK_SAFELY
    if request.settings.cluster.backend == "ray":
        return _ray_backend(request, loop, events, setup, claims, redactor)
    return ForkServerBackend(loop, events, setup, fork=fork, claims_fd=claims.fileno(), redactor=redactor)


def _ray_backend(
    request: RunRequest, loop: Loop, events: BackendEvents, setup: WorkerSetup, claims: Claims, redactor: Redactor
) -> Backend:
    from agentos.engine.backends.ray.backend import RayBackend  # noqa: PLC0415  Few runs have a cluster.
    from agentos.engine.backends.ray.joining import cluster_plan  # noqa: PLC0415

    cluster = request.settings.cluster
    return RayBackend(
        loop,
        events,
        setup,
        cluster_plan(
            cluster.address,
            parallel=request.parallel,
            max_per_node=cluster.max_per_node,
            resources=cluster.resources,
            makes_environment=cluster.env == "make",
        ),
        project_dir=request.project_dir,
        fork=request.start_method == "forkserver",
        claims_fd=claims.fileno(),
        redactor=redactor,
    )


def worker_setup(
    request: RunRequest, run_id: str, urls: Mapping[str, str], keys: RunKeys, gateway: RunGateway
) -> WorkerSetup:
    environment = _workers_environment(request, urls, keys.providers)
    clients = gateway.shared_environment()
    return WorkerSetup(
        run_id=run_id,
        graph=request.graph,
        search_dir=request.search_dir,
        checkpoint_address=store_for(request.project_dir).address(ItemRef(request.workflow, "")),
        environment=_without_keys(environment, keys, request.pass_env, clients),
        python=request.python.path if request.python else None,
        extension=in_worker.EXTENSION,
        extension_options=_preloads(request, keys.providers, gateway),
        service_port=gateway.port,
        service_variables=frozenset(clients),
    )


def _without_keys(
    environment: dict[str, str], keys: RunKeys, passed: Collection[str], clients: Mapping[str, str]
) -> dict[str, str]:
    """What workers get: tokens for keys. Those who miss a variable are told that it was taken away."""
    kept = {**keys.scrub(environment), **clients, **{name: environment[name] for name in passed}}
    removed = sorted(name for name in environment if name not in kept)
    return {**kept, removed_variables.VARIABLE: ",".join(removed)}


def passing_on(request: RunRequest) -> list[str]:
    """What to tell of variables that workers get though they may hold keys. Raises UsageError for one not set."""
    for name in request.pass_env:
        if name not in request.environment:
            raise UsageError(f"--pass-env {name}: it is not set. Export it, or put it into the env file.")
    if not request.pass_env:
        return []
    unseen = "the pool and the budget do not see" if request.has_budget else "the pool does not see"
    return [f"workers get {listed(list(request.pass_env))}: {unseen} what they call with it"]


def _preloads(request: RunRequest, held: Sequence[str], gateway: RunGateway) -> dict[str, Any]:
    """Whose SDKs to load before workers are made: what the command says, else what its model and keys suggest."""
    callable_names = [*held, *(name for name, each in providers().items() if not each.needs_key and name not in held)]
    port = gateway.port if held else 0
    if request.preload_providers is not None:
        called = [name for name in callable_names if name in request.preload_providers]
        return in_worker.preload_options(providers=called, gateway_port=port)
    default = request.environment.get("AGENTOS_MODEL", "").partition(":")[0]
    likely = [name for name in callable_names if default == name or (name in held and not default)]
    is_unseen = request.has_budget and not held
    return in_worker.preload_options(if_used=likely, has_budget=is_unseen, gateway_port=port)


def _workers_environment(request: RunRequest, urls: Mapping[str, str], held: Collection[str]) -> dict[str, str]:
    """What the command decided, with the settings of the run and the base URLs its calls go to.

    All of them: the variables that an SDK would look at lead its clients to the gateway.
    """
    endpoints = {base_url_variable(name): url for name, url in upstream_urls(request.environment, urls, held).items()}
    prices = request.settings.prices
    own_prices = {MODEL_PRICES_VARIABLE: ",".join(prices.models), UNPRICED_VARIABLE: prices.unpriced}
    return {**request.environment, **endpoints, **own_prices, FROZEN_VARIABLE: freeze(request.settings)}


def with_own_settings(plan: Plan, settings: Settings) -> Plan:
    """Items whose environment sets something are sent settings of their own."""
    return replace(plan, items=tuple(_with_settings(item, settings) for item in plan.items))


def _with_settings(item: Item, settings: Settings) -> Item:
    if not item.environment:
        return item
    own = with_environment(settings, item.environment)
    return item if own == settings else replace(item, environment={**item.environment, FROZEN_VARIABLE: freeze(own)})


def usable_urls(request: RunRequest, held: Collection[str]) -> tuple[dict[str, str], list[str]]:
    """Base URLs for this run, and what to tell of them. Raises UsageError when keys would go to a stranger."""
    urls = request.settings.provider_urls
    unconfirmed = unconfirmed_urls(urls, request.environment)
    refuse_unconfirmed(unconfirmed, held)
    told = [
        f"agentos.toml sends {name} calls, and your {name} keys with them, to {url}"
        for name, url in unconfirmed.items()
        if name in held
    ]
    # A key that is added while the run goes on must not go there either.
    usable = {n: url for n, url in urls.items() if n not in unconfirmed or is_on_this_machine(url)}
    return usable, told


def make_gateway(request: RunRequest, keys: RunKeys, loop: Loop, urls: Mapping[str, str]) -> RunGateway:
    """For model calls of workers, and for clients of the graph's own, of the providers that there are keys of."""
    return RunGateway(
        loop,
        served=_served(request, keys),
        environment=request.environment,
        passed=request.pass_env,
        process_environment=keys.scrub(_workers_environment(request, urls, keys.providers)),
    )


def _served(request: RunRequest, keys: RunKeys) -> list[str]:
    """Of whom clients find the gateway. Where the models are known, clients have a login of their own."""
    return keys.providers if request.preload_providers is None else []

"""What is looked at before a run starts: its models, the keys that can serve them, what it will cost."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentos.errors import AgentosError, NoUsableKeyError
from agentos.events import PreflightDone
from agentos.hints import Hint
from agentos.keys.credentials import CredentialSet, load_credentials
from agentos.keys.overview import serving_keys
from agentos.providers.registry import needs_key
from agentos.records.runs import past_costs
from agentos.settings import Settings
from agentos.text.words import listed
from agentos.workflows.registry import Workflow


@dataclass(frozen=True, slots=True)
class Preflight:
    """What was found, and why nothing could start, if so."""

    found: PreflightDone
    problem: AgentosError | None = None


def look_ahead(
    workflow: Workflow, settings: Settings, project_dir: Path, environ: Mapping[str, str], *, count: int
) -> Preflight:
    """Reads keys and records; calls nobody and writes nothing. `count` items are to be run."""
    models: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    problem: AgentosError | None = None
    try:
        credentials = load_credentials(environ=environ)
        models = _models(workflow, settings, credentials, environ)
        keys = _keys(credentials, models)
    except AgentosError as error:
        problem = error
    costs = past_costs(project_dir, workflow.name, models)
    # Of calls that no past run has counted nothing is known: a graph may make them by itself, or now for once.
    expected = statistics.fmean(costs) * count if any(costs) else None
    if models and not _providers(models):
        expected = 0.0
    found = PreflightDone(models=models, keys=keys, expected_cost_usd=expected, past_items=len(costs))
    return Preflight(found, problem)


def _models(
    workflow: Workflow, settings: Settings, credentials: CredentialSet, environ: Mapping[str, str]
) -> tuple[str, ...]:
    """The models of a workflow, once each. Raises what a run would."""
    if not workflow.models:
        return ()
    from agentos.workflows.run_request import checked_models  # noqa: PLC0415  Knows the engine; few need it.

    chosen = checked_models(settings.models, workflow.models, credentials, environ)
    return tuple(dict.fromkeys(getattr(chosen, role) for role in workflow.models))


def _keys(credentials: CredentialSet, models: Sequence[str]) -> tuple[str, ...]:
    """Names of the keys for these models. Raises NoUsableKeyError when all of a provider's were rejected."""
    wanted = _providers(models)
    serving = [spec for spec in serving_keys(credentials) if not models or spec.provider in wanted]
    unserved = [provider for provider in wanted if provider not in {spec.provider for spec in serving}]
    if unserved:
        names = listed([spec.name for spec in credentials.specs if spec.provider == unserved[0]])
        check = Hint.CHECK_KEYS.line()
        raise NoUsableKeyError(f"Every {unserved[0]} key was rejected by its provider: {names}. Try again: {check}")
    return tuple(spec.name for spec in serving)


def _providers(models: Sequence[str]) -> list[str]:
    """Whose keys these models need."""
    return [name for name in dict.fromkeys(model.partition(":")[0] for model in models) if needs_key(name)]

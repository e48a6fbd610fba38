"""What is looked at before a run starts: its models, the keys that can serve them, what it will cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentos.errors import AgentosError, NoUsableKeyError
from agentos.hints import Hint
from agentos.keys.credentials import CredentialSet, load_credentials
from agentos.keys.key_spec import KeySpec
from agentos.keys.overview import serving_keys
from agentos.preflight import PreflightDone
from agentos.providers.registry import needs_key
from agentos.records.past import past_costs
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
    keys: tuple[KeySpec, ...] = ()
    problem: AgentosError | None = None
    try:
        credentials = load_credentials(environ=environ)
        models = _models(workflow, settings, credentials, environ)
        keys = _keys(credentials, models)
    except AgentosError as error:
        problem = error
    costs = past_costs(project_dir, workflow.name, models)
    # Of calls that no past run has counted nothing is known: a graph may make them by itself, or now for once.
    expected = sum(costs) / len(costs) * count if any(costs) else None
    if models and not _providers(models):
        expected = 0.0
    day_budget = settings.budget.usd_per_day
    found = PreflightDone(
        models=models,
        keys=tuple(spec.name for spec in keys),
        key_providers=tuple(spec.provider for spec in keys),
        key_groups=tuple(spec.group for spec in keys),
        expected_cost_usd=expected,
        past_items=len(costs),
        day_budget_usd=day_budget,
        spent_today_usd=0.0 if day_budget is None else _spent_today_usd(),
    )
    return Preflight(found, problem)


def _spent_today_usd() -> float:
    from agentos.keys.day_budget import spent_today_usd  # noqa: PLC0415  Few have a budget.

    return spent_today_usd()


def _models(
    workflow: Workflow, settings: Settings, credentials: CredentialSet, environ: Mapping[str, str]
) -> tuple[str, ...]:
    """The models of a workflow, once each. Raises what a run would."""
    if not workflow.models:
        return ()
    from agentos.workflows.run_request import checked_models  # noqa: PLC0415  Knows the engine; few need it.

    chosen = checked_models(settings.models, workflow.models, credentials, environ)
    return tuple(dict.fromkeys(getattr(chosen, role) for role in workflow.models))


def _keys(credentials: CredentialSet, models: Sequence[str]) -> tuple[KeySpec, ...]:
    """The keys for these models. Raises NoUsableKeyError when none serves one before the user acts."""
    wanted = _providers(models)
    serving = [spec for spec in serving_keys(credentials) if not models or spec.provider in wanted]
    unserved = [provider for provider in wanted if provider not in {spec.provider for spec in serving}]
    if unserved:
        names = listed([spec.name for spec in credentials.specs if spec.provider == unserved[0]])
        check = Hint.CHECK_KEYS.line()
        raise NoUsableKeyError(f"Every {unserved[0]} key was rejected by its provider: {names}. Try again: {check}")
    if not models:
        return tuple(serving)
    names_by_model = {model: _serving_names(credentials, model) for model in models if _providers([model])}
    for model, able in names_by_model.items():
        if not able:
            spent = [spec.name for spec in serving if spec.provider == model.partition(":")[0]]
            without = f"{listed(spent)} {'has' if len(spent) == 1 else 'have'} no quota for it"
            again = Hint.RESET_KEY.line(name=spent[0])
            raise NoUsableKeyError(f"No key can serve {model}: {without}. Once that is settled: {again}")
    able_names = {name for names in names_by_model.values() for name in names}
    return tuple(spec for spec in serving if spec.name in able_names)


def _serving_names(credentials: CredentialSet, model: str) -> list[str]:
    provider, _, name = model.partition(":")
    return [spec.name for spec in serving_keys(credentials, provider, name)]


def _providers(models: Sequence[str]) -> list[str]:
    """Whose keys these models need."""
    return [name for name in dict.fromkeys(model.partition(":")[0] for model in models) if needs_key(name)]

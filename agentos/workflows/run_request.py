"""A run of a workflow, put together in one way for every command and for the API: models, settings, environment."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from agentos.engine.plan import Plan
from agentos.errors import NoUsableKeyError, UsageError
from agentos.hints import Hint
from agentos.keys.credentials import CredentialSet, load_credentials
from agentos.launch.request import RunRequest
from agentos.llm.errors import require_cli, require_sdk
from agentos.providers.model_name import CODING_CLI, ModelName
from agentos.providers.registry import default_model, needs_key, providers
from agentos.settings import Models, Settings
from agentos.workflows.registry import Workflow
from agentos.workflows.still_done import still_done

RECORD_VARIABLE = "AGENTOS_RECORD_DIR"
RECORDINGS_VARIABLE = "AGENTOS_RECORDED_DIR"
_FOLDER_VARIABLES = ("AGENTOS_HOME", RECORD_VARIABLE, RECORDINGS_VARIABLE)


def request_for(
    workflow: Workflow,
    plan: Plan,
    project_dir: Path,
    settings: Settings,
    environ: Mapping[str, str],
    credentials: CredentialSet | None = None,
) -> RunRequest:
    """A run of the plan. How many at once, how long and what people see is for the caller to say.

    `credentials` are keys to use instead of the user's own. Raises NoUsableKeyError for a model that has no key.
    """
    called: list[str] | None = None
    needed: list[str] = []
    if workflow.models:
        keys = load_credentials(environ=environ) if credentials is None else credentials
        settings = replace(settings, models=checked_models(settings.models, workflow.models, keys, environ))
        needed = [getattr(settings.models, role) for role in workflow.models]
        called = [model.partition(":")[0] for model in needed]
    return RunRequest(
        plan=plan,
        workflow=workflow.name,
        graph=workflow.graph,
        project_dir=project_dir,
        search_dir=project_dir if workflow.models else Path.cwd(),
        settings=settings,
        label_prefix=workflow.label_prefix,
        environment=_environment(workflow, environ),
        still_done=still_done(workflow.name, project_dir, settings),
        preload_providers=called,
        needed_models=needed,
        credentials=credentials,
        stages=workflow.nodes,
    )


def require_parts(model: str, environ: Mapping[str, str]) -> None:
    """Raises UsageError when what a model answers with is not here: its SDK, its program, its recordings."""
    name = ModelName.parse(model)
    if name.provider in providers():
        require_sdk(name.provider)
    elif name.provider == CODING_CLI:
        require_cli(name.program, environ.get("PATH"))
    elif name.provider == "recorded":
        _require_recordings(environ)


def _require_recordings(environ: Mapping[str, str]) -> None:
    folder = environ.get(RECORDINGS_VARIABLE, "")
    if not (folder and Path(folder).expanduser().is_dir()):
        problem = f"{RECORDINGS_VARIABLE}={folder} is no folder" if folder else f"{RECORDINGS_VARIABLE} is not set"
        raise UsageError(f"The model `recorded` has no recordings: {problem}. Set it to what --record DIR saved.")


def checked_models(chosen: Models, roles: Sequence[str], keys: CredentialSet, environ: Mapping[str, str]) -> Models:
    """The models that these keys can serve, each with what it takes to call it.

    Raises NoUsableKeyError for a model without a key, UsageError for one whose name or parts are not known here.
    """
    try:
        models = choose_models(chosen, roles, {spec.provider for spec in keys.specs})
    except NoUsableKeyError as error:
        wanted = {getattr(chosen, role).partition(":")[0] for role in roles} - {""}
        reasons = [each.reason for each in keys.missing if not wanted or each.spec.provider in wanted]
        raise NoUsableKeyError(". ".join([*reasons, str(error)])) from None
    for model in dict.fromkeys(getattr(models, role) for role in roles):
        require_parts(model, environ)
    return models


def choose_models(chosen: Models, roles: Sequence[str], with_keys: Collection[str]) -> Models:
    """Models as chosen, else by the providers there are keys of. Raises NoUsableKeyError for a model without one."""
    writer = chosen.drafter or default_model(with_keys)
    if "drafter" not in roles:
        writer = chosen.coder or writer
    if not writer:
        raise NoUsableKeyError(
            f"No model chosen and no key. Either add a key (`{Hint.ADD_KEY.line(provider='google')}`), "
            "or work without network: --drafter offline --reviewer offline."
        )
    models = Models(drafter=writer, reviewer=chosen.reviewer or writer, coder=chosen.coder or writer)
    _check_keys({role: getattr(models, role) for role in roles}, with_keys)
    return models


def _check_keys(models: Mapping[str, str], with_keys: Collection[str]) -> None:
    chosen = {role: ModelName.parse(model).provider for role, model in models.items()}
    missing = [role for role, provider in chosen.items() if needs_key(provider) and provider not in with_keys]
    if missing:
        first = missing[0]
        raise NoUsableKeyError(
            f"No key for {models[first]}. Add one: `{Hint.ADD_KEY.line(provider=chosen[first])}`; "
            f"or work without network: {' '.join(f'--{role} offline' for role in missing)}."
        )


def _environment(workflow: Workflow, environ: Mapping[str, str]) -> dict[str, str]:
    """The user's environment. Our own workflows file issues only where the command says so, so they get no token."""
    environment = dict(environ)
    if workflow.models:
        # Readers of documents, which a graph of the user's own has no use for.
        from agentos.workflows.context import FILE_VARIABLE  # noqa: PLC0415
        from agentos.workflows.issue.filing import TOKEN_VARIABLES  # noqa: PLC0415

        for name in (*TOKEN_VARIABLES, FILE_VARIABLE):
            environment.pop(name, None)
    for name in _FOLDER_VARIABLES:
        if environment.get(name):
            # Workers work in the project's folder, whatever folder the user is in.
            environment[name] = str(Path(environment[name]).expanduser().absolute())
    return environment

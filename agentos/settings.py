"""Settings: flags win over the environment, the environment over `agentos.toml`, that over defaults.

The one place that reads `agentos.toml`. A command reads it once; its run's workers get what was read, so that a run
does not change under way because a file or a variable did.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from agentos.environment import environment
from agentos.errors import UsageError
from agentos.providers.registry import providers
from agentos.text.suggestions import nearest
from agentos.text.toml import MOST_CHARACTERS, NotToml, parse_toml

FILE_NAME = "agentos.toml"
FROZEN_VARIABLE = "AGENTOS_SETTINGS"
"""What a worker is sent: the settings its run was started with, as JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    issues: str = "docs/issues"
    """A folder of Markdown files, or `github:owner/repo?label=ready`."""
    briefs: str = "ideas/active"
    briefs_done: str = "ideas/done"


@dataclass(frozen=True, slots=True, kw_only=True)
class Documents:
    issues_dir: str = "docs/issues"
    """Where issues written from briefs go."""
    lld_dir: str = "docs/lld/active"
    lld_done_dir: str = "docs/lld/done"
    reports_dir: str = "docs/reports"
    lineage: str = ""
    """A folder in the repository; empty keeps drafts and verdicts under AGENTOS_HOME."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Models:
    drafter: str = ""
    reviewer: str = ""
    coder: str = ""
    """Writes tests and code; empty means the drafter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    parallel: int = 1
    max_rounds: int = 5
    context_tokens: int = 6000


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """In dollars per million tokens, in and out: `2/12`."""

    models: tuple[str, ...] = ()
    """`provider:model IN/OUT` each; they win over the built-in table."""
    unpriced: str = ""
    """`IN/OUT` for every model that has no price; empty: such a model and a budget exclude each other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewGates:
    gate: str = "none"
    """`none`, `draft`, `verdict` or `all`: where a person decides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Implementation:
    test: str = ""
    """The command that runs the tests; empty means pytest."""
    python: str = ""
    """The interpreter that has pytest; empty means the project's virtual environment, else ours."""
    junit: str = ""
    """A pattern of JUnit files that the test command writes; empty means the exit code decides."""
    coverage: str = ""
    """A pattern of coverage files that the test command writes, Cobertura XML or lcov; pytest needs none."""
    base: str = "HEAD"
    commits: str = "squash"
    """`squash` leaves one commit on the branch, `stacked` one per round."""
    coverage_target: int = 90
    max_rounds: int = 5
    test_timeout_seconds: int = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class Workstreams:
    dir: str = ""
    """Where worktrees are made; empty means under AGENTOS_HOME."""
    copy: tuple[str, ...] = ()
    link: tuple[str, ...] = ()
    ports: tuple[str, ...] = ()
    """Environment variables; every workstream gets a port of its own for each."""
    names: tuple[str, ...] = ()
    """Environment variables; every workstream gets a name of its own for each, such as a database's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything a project may set. Unknown names are refused: a typo must not pass for a default."""

    sources: Sources = Sources()
    documents: Documents = Documents()
    models: Models = Models()
    limits: Limits = Limits()
    prices: Prices = Prices()
    review: ReviewGates = ReviewGates()
    implementation: Implementation = Implementation()
    workstreams: Workstreams = Workstreams()
    provider_urls: Mapping[str, str] = field(default_factory=dict)
    """Provider to base URL."""


_SHORT_VARIABLES = {
    "AGENTOS_DRAFTER": "models.drafter",
    "AGENTOS_REVIEWER": "models.reviewer",
    "AGENTOS_CODER": "models.coder",
    "AGENTOS_REVIEW": "review.gate",
    "AGENTOS_MAX_ROUNDS": "limits.max_rounds",
}
CHOICES: Mapping[str, tuple[str, ...]] = {
    "review.gate": ("none", "draft", "verdict", "all"),
    "implementation.commits": ("squash", "stacked"),
}
"""Settings that take one of a few words."""
FURTHER_VARIABLES: Mapping[str, str] = {
    "AGENTOS_HOME": "where runs, checkpoints, keys and worktrees are kept",
    "AGENTOS_MODEL": "the model of `generate` in a graph that names none",
    "AGENTOS_CREDENTIAL_LIMIT": "use only the first N keys",
    "AGENTOS_MEMORY_LIMIT_MB": "memory of each worker, in megabytes",
    "AGENTOS_RECORD_DIR": "where answers of live models are saved",
    "AGENTOS_RECORDED_DIR": "where the model `recorded` finds its answers",
    "AGENTOS_OFFLINE_LATENCY_SECONDS": "how long the offline model thinks",
    "AGENTOS_SIMULATE_429": "true: the first call of each process meets a rate limit",
}
"""Variables that are no setting of a project, and what each is for."""
_BETWEEN_PROCESSES = frozenset(
    f"AGENTOS_{name}"
    for name in (
        *("SETTINGS", "ITEM_ID", "RUN_ID", "WORKFLOW_DB", "LEASED_VARIABLES", "ALLOW_UNAPPROVED", "FILE_ISSUES"),
        "REMOVED_VARIABLES",
        *("SANDBOX", "GIT_WORKTREE", "CLI_CALL", "JUNIT_XML", "HINT_PROJECT", "HINT_PREFIX"),
    )
)
"""What commands tell their workers, and workers their children."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """The settings that hold in a project, and what set them."""

    settings: Settings
    sources: Mapping[str, str]
    """Of each setting that is not a default, like `models.drafter`: the file, a variable or `a flag`."""


def load_settings(
    project_dir: Path, environ: Mapping[str, str] | None = None, flags: Mapping[str, Any] | None = None
) -> Settings:
    """The settings that hold in a project. Raises UsageError with the file, the name and the fix.

    `flags` are values by the setting's name, like `models.drafter`.
    """
    return load_with_sources(project_dir, environment() if environ is None else environ, flags or {}).settings


def load_with_sources(project_dir: Path, environ: Mapping[str, str], flags: Mapping[str, Any]) -> Loaded:
    """Like `load_settings`, and where each value comes from."""
    document = _read(project_dir)
    settings = with_environment(_from_document(document), environ)
    for setting, value in flags.items():
        settings = _with_value(settings, setting, value)
    for setting, choices in CHOICES.items():
        if (value := value_of(settings, setting)) not in choices:
            raise UsageError(f"{setting} is {value!r}: use one of {', '.join(choices)}.")
    sources = {
        **dict.fromkeys(_names_in(document), FILE_NAME),
        **{setting: variable for variable, setting in _variables(environ)},
        **dict.fromkeys(flags, "a flag"),
    }
    return Loaded(settings, sources)


def setting_names() -> list[str]:
    """Every setting, like `models.drafter`, in the order of the file."""
    defaults = Settings()
    sections = [each.name for each in fields(Settings) if each.name != "provider_urls"]
    own = [f"{section}.{each.name}" for section in sections for each in fields(getattr(defaults, section))]
    return [*own, *(f"providers.{name}.base_url" for name in providers())]


def value_of(settings: Settings, setting: str) -> Any:
    """The value of the setting with this name; None for an address that nobody set."""
    section, _, name = setting.partition(".")
    if section == "providers":
        return settings.provider_urls.get(name.removesuffix(".base_url"))
    return getattr(getattr(settings, section), name)


def unknown_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Variables that look like ours and are not, each with what may have been meant."""
    known = {*FURTHER_VARIABLES, *_SHORT_VARIABLES, *map(variable_of, setting_names())}
    unknown = [name for name in environ if name.startswith("AGENTOS_") and name not in known | _BETWEEN_PROCESSES]
    return {name: next(iter(nearest(name, known, most=1)), "") for name in sorted(unknown)}


def variable_of(setting: str) -> str:
    """The environment variable that sets it: `AGENTOS_MODELS__DRAFTER`."""
    return f"AGENTOS_{setting.replace('.', '__')}".upper()


def freeze(settings: Settings) -> str:
    """The settings as a worker is sent them."""
    document = asdict(settings)
    urls = document.pop("provider_urls")
    return json.dumps(document | {"providers": {name: {"base_url": url} for name, url in urls.items()}})


def thaw(frozen: str) -> Settings:
    """The settings that a worker was sent."""
    return _from_document(json.loads(frozen))


def _read(project_dir: Path) -> dict[str, Any]:
    try:
        with (project_dir / FILE_NAME).open(encoding="utf-8") as file:
            return parse_toml(file.read(MOST_CHARACTERS + 1))
    except FileNotFoundError:
        return {}
    except (NotToml, UnicodeDecodeError) as error:
        raise UsageError(f"{FILE_NAME}: not valid TOML: {error}.") from None
    except OSError as error:
        raise UsageError(f"{FILE_NAME} cannot be read: {error.strerror}.") from None


def _from_document(document: Mapping[str, Any]) -> Settings:
    settings = Settings()
    for name, values in document.items():
        settings = _with_section(settings, name, values)
    return settings


def _with_section(settings: Settings, name: str, values: Any) -> Settings:
    if name == "providers":
        return replace(settings, provider_urls=_provider_urls(values))
    sections = [known.name for known in fields(Settings) if known.name != "provider_urls"]
    if name not in sections:
        raise UsageError(f"{FILE_NAME}: unknown section [{name}].{_hint(name, [*sections, 'providers'])}")
    if not isinstance(values, dict):
        raise UsageError(f"{FILE_NAME}: [{name}] must be a table.")
    section = getattr(settings, name)
    known_names = [known.name for known in fields(section)]
    changes: dict[str, Any] = {}
    for key, value in values.items():
        if key not in known_names:
            raise UsageError(f"{FILE_NAME}: [{name}] has no setting {key!r}.{_hint(key, known_names)}")
        changes[key] = _checked(value, getattr(section, key), f"{FILE_NAME}: {name}.{key}")
    return replace(settings, **{name: replace(section, **changes)})


def _provider_urls(values: Any) -> dict[str, str]:
    urls: dict[str, str] = {}
    if not isinstance(values, dict):
        raise UsageError(f"{FILE_NAME}: [providers] must be a table.")
    for provider, options in values.items():
        if provider not in providers():
            hint = _hint(provider, list(providers()))
            raise UsageError(f"{FILE_NAME}: unknown provider [providers.{provider}].{hint}")
        for key, value in options.items() if isinstance(options, dict) else [("", None)]:
            if key != "base_url" or not isinstance(value, str):
                raise UsageError(
                    f'{FILE_NAME}: [providers.{provider}] takes base_url = "https://…" and nothing else.'
                )
            urls[provider] = value
    return urls


def with_environment(settings: Settings, environ: Mapping[str, str]) -> Settings:
    """The settings with those that variables set."""
    for variable, setting in _variables(environ):
        settings = _with_text(settings, setting, environ[variable], variable)
    return settings


def _variables(environ: Mapping[str, str]) -> list[tuple[str, str]]:
    """The variables that set something, each with what it sets; a later one wins."""
    long = [(variable_of(setting), setting) for setting in setting_names()]
    return [(variable, setting) for variable, setting in (*long, *_SHORT_VARIABLES.items()) if environ.get(variable)]


def _names_in(document: Mapping[str, Any]) -> list[str]:
    named = [f"{section}.{name}" for section, values in document.items() for name in values]
    return [f"{name}.base_url" if name.startswith("providers.") else name for name in named]


def _with_value(settings: Settings, setting: str, value: Any) -> Settings:
    section, _, name = setting.partition(".")
    if section == "providers":
        urls = {**settings.provider_urls, name.removesuffix(".base_url"): value}
        return replace(settings, provider_urls=urls)
    return replace(settings, **{section: replace(getattr(settings, section), **{name: value})})


def _with_text(settings: Settings, setting: str, text: str, where: str) -> Settings:
    default = value_of(settings, setting)
    value: Any = text
    if isinstance(default, int):
        try:
            value = int(text)
        except ValueError:
            raise UsageError(f"{where} must be a whole number, got {text!r}.") from None
    elif isinstance(default, tuple):
        value = [part.strip() for part in text.split(",") if part.strip()]
    return _with_value(settings, setting, value if default is None else _checked(value, default, where))


def _checked(value: Any, default: Any, where: str) -> Any:
    if isinstance(default, tuple):
        if not isinstance(value, list) or not all(isinstance(entry, str) for entry in value):
            raise UsageError(f"{where} must be a list of strings.")
        return tuple(value)
    if type(value) is not type(default):
        wanted = {int: "a whole number", str: "a string"}[type(default)]
        raise UsageError(f"{where} must be {wanted}, got {value!r}.")
    if isinstance(value, int) and value < 1:
        raise UsageError(f"{where} must be at least 1, got {value}.")
    return value


def _hint(name: str, known: list[str]) -> str:
    close = nearest(name, known, most=1)
    return f" Did you mean {close[0]!r}?" if close else f" Known: {', '.join(known)}."

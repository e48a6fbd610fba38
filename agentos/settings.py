"""Settings: flags win over the environment, the environment over `agentos.toml`, that over defaults.

`[notify]` and `[budget]` are different: no project decides of them, so they come from the user's own `agentos.toml`
under AGENTOS_HOME.

The one place that reads either file. A command reads it once; its run's workers get what was read, so that a run
does not change under way because a file or a variable did.
"""

from __future__ import annotations

import json
import posixpath
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from agentos.environment import environment
from agentos.errors import UsageError
from agentos.files import read_regular_text
from agentos.paths import own_settings_path
from agentos.providers.addresses import is_on_this_machine
from agentos.providers.registry import COMPATIBLE_KIND, Declared, declare, known_providers, providers
from agentos.setting_rules import NOTIFY_REASONS, OWN_PROVIDER, rule_of
from agentos.text.suggestions import nearest
from agentos.text.toml import MOST_CHARACTERS, NotToml, line_of, parse_toml

FILE_NAME = "agentos.toml"
OWN_SECTIONS: Mapping[str, str] = {
    "notify": "[notify] runs a command with your rights",
    "budget": "[budget] is what you may spend, over all projects",
}
"""What is read from the user's own file alone, under AGENTOS_HOME, and why."""
FROZEN_VARIABLE = "AGENTOS_SETTINGS"
"""What a worker is sent: the settings its run was started with, as JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Where items come from."""

    issues: str = "docs/issues"
    """A folder of Markdown files, or `github:owner/repo?label=ready`."""
    briefs: str = "ideas/active"
    briefs_done: str = "ideas/done"


@dataclass(frozen=True, slots=True, kw_only=True)
class Documents:
    """Where documents go."""

    issues_dir: str = "docs/issues"
    """Where issues written from briefs go."""
    lld_dir: str = "docs/lld/active"
    lld_done_dir: str = "docs/lld/done"
    reports_dir: str = "docs/reports"
    lineage: str = ""
    """A folder in the repository; empty keeps drafts and verdicts under AGENTOS_HOME."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Models:
    """Who writes, reviews and codes: `provider:model` each."""

    drafter: str = ""
    reviewer: str = ""
    coder: str = ""
    """Writes tests and code; empty means the drafter."""

    @property
    def who_reviews(self) -> str:
        return self.reviewer or self.drafter

    @property
    def who_codes(self) -> str:
        return self.coder or self.drafter


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How many items at once, and how much each may take."""

    parallel: int = 1
    max_rounds: int = 5
    context_tokens: int = 6000


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """In dollars per million tokens, in and out: `2/12`."""

    models: tuple[str, ...] = ()
    """`provider:model IN/OUT` each; they win over the built-in table."""
    unpriced: str = ""
    """`IN/OUT` for every model that has no price; empty: such a model cannot be used with a budget."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewGates:
    gate: str = "none"
    """`none`, `draft`, `verdict` or `all`: where a person decides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Implementation:
    """How code is tested, committed and kept within bounds."""

    test: str = ""
    """The command that runs the tests; empty means pytest."""
    python: str = ""
    """The interpreter that has pytest; empty means the project's virtual environment, else ours."""
    junit: str = ""
    """A pattern of JUnit files that the test command writes; empty means the exit code decides."""
    coverage: str = ""
    """A pattern of coverage files that the test command writes, Cobertura XML or lcov; pytest needs none."""
    base: str = "HEAD"
    stacking: str = "yes"
    """`no`: items that change the same file each start from the base, not from the branch of the one before."""
    commits: str = "squash"
    """`squash` leaves one commit on the branch, `stacked` one per round."""
    coverage_target: int = 90
    max_rounds: int = 5
    test_timeout_seconds: int = 600
    sandbox: str = "strongest"
    """Where tests run: the strongest sandbox that the machine has, or the one named."""
    readable: tuple[str, ...] = ()
    """What code in the sandbox may read beside the project and installed programs."""
    memory_mb: int = 4096
    processes: int = 1024
    open_files: int = 4096
    file_mb: int = 1024
    disk_mb: int = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Workstreams:
    """What a new worktree is given."""

    dir: str = ""
    """Where worktrees are made; empty means under AGENTOS_HOME."""
    copy: tuple[str, ...] = ()
    setup: str = ""
    """A command that makes a clean checkout ready for tests; runs in the sandbox, as the tests do."""
    setup_network: str = "no"
    """`yes` lets that command use the network."""
    link: tuple[str, ...] = ()
    ports: tuple[str, ...] = ()
    """Environment variables; every workstream gets a port of its own for each."""
    names: tuple[str, ...] = ()
    """Environment variables; every workstream gets a name of its own for each, such as a database's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notify:
    """Whom to tell while nobody watches. A user's own: no project can set it."""

    command: tuple[str, ...] = ()
    """A program and its arguments; gets what happened as JSON on standard input."""
    on: tuple[str, ...] = NOTIFY_REASONS
    """What is told."""
    desktop: bool = False
    """Tell it by a notification of the desktop, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetSettings:
    """What everything with this home may spend together. A user's own: no project can set it."""

    usd_per_day: float | None = None
    """Per UTC day; None is no cap."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoints:
    """Where items' state is kept when it is not under AGENTOS_HOME."""

    url: str = field(default="", repr=False)
    """`postgresql://user@host/database`; it may hold a password. Empty: one SQLite file per item."""
    project: str = ""
    """What this project is called in that database, on every machine that works on it."""
    patience_seconds: int = 30
    """How long a node waits for a database that does not answer before its run stops."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Where workers run when one machine is not enough."""

    backend: str = "local"
    """`local`: on this machine; `ray`: on the nodes of a Ray cluster."""
    address: str = ""
    """HOST:PORT of its head."""
    env: str = "same"
    """`same`: nodes have the same Python and packages, which is checked; `make`: Ray makes it on each node."""
    max_per_node: int = 1000
    """Items at once on one node, as far as its processors carry them."""
    resources: tuple[str, ...] = ("CPU=1",)
    """What one item takes of a node, each like `CPU=1` or `GPU=0.5`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderSettings:
    """Of a provider that has another address, or of one that the user declares."""

    kind: str = ""
    """The provider it is like, such as `openai`; empty for one that is known."""
    base_url: str = ""
    """Where calls go, and keys with them; empty means the provider's own."""
    api_version: str = ""
    """Of providers that want one in every request."""
    needs_key: bool | None = None
    """Whether calls wait for a key; unset: not on this machine."""
    max_concurrent: int | None = None
    """Calls at once where there is no key."""


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
    notify: Notify = Notify()
    budget: BudgetSettings = BudgetSettings()
    checkpoints: Checkpoints = Checkpoints()
    cluster: Cluster = Cluster()
    providers: Mapping[str, ProviderSettings] = field(default_factory=dict)

    @property
    def provider_urls(self) -> dict[str, str]:
        """Provider to base URL, of those that have another one."""
        return {name: each.base_url for name, each in self.providers.items() if each.base_url}


_SHORT_VARIABLES = {
    "AGENTOS_DRAFTER": "models.drafter",
    "AGENTOS_REVIEWER": "models.reviewer",
    "AGENTOS_CODER": "models.coder",
    "AGENTOS_REVIEW": "review.gate",
    "AGENTOS_MAX_ROUNDS": "limits.max_rounds",
    "AGENTOS_CLUSTER__CHECKPOINTS": "checkpoints.url",
}
OTHER_NAMES: Mapping[str, str] = {"cluster.checkpoints": "checkpoints.url"}
"""Settings that may stand in another section as well: with a cluster's, one of them is looked for there."""
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
        *("REMOVED_VARIABLES", "ALLOW_UNSANDBOXED", "TERMINAL_GROUP", "FORK_SERVER"),
        *("SANDBOX", "GIT_WORKTREE", "CLI_CALL", "JUNIT_XML", "HINT_PROJECT", "HINT_PREFIX"),
    )
)
"""What commands tell their workers, and workers their children."""


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with a setting, in a sentence that begins with where it stands."""

    setting: str
    """Like `models.drafter`; empty for a name that is none."""
    text: str


@dataclass(frozen=True, slots=True)
class Loaded:
    """The settings that hold in a project, and what set them."""

    settings: Settings
    sources: Mapping[str, str]
    """Of each setting that is not a default, like `models.drafter`: the file, a variable or `a flag`."""
    problems: tuple[Problem, ...] = ()
    """What was refused: a default, or what another source says, holds in its place."""


def load_settings(
    project_dir: Path, environ: Mapping[str, str] | None = None, flags: Mapping[str, Any] | None = None
) -> Settings:
    """The settings that hold in a project. Raises UsageError with the file, the name and the fix.

    `flags` are values by the setting's name, like `models.drafter`.
    """
    return load_with_sources(project_dir, environment() if environ is None else environ, flags or {}).settings


def load_with_sources(project_dir: Path, environ: Mapping[str, str], flags: Mapping[str, Any]) -> Loaded:
    """Like `load_settings`, and where each value comes from."""
    loaded = look_at_settings(project_dir, environ, flags)
    if loaded.problems:
        raise UsageError(loaded.problems[0].text)
    return loaded


def look_at_settings(project_dir: Path, environ: Mapping[str, str], flags: Mapping[str, Any]) -> Loaded:
    """Like `load_with_sources`, with all that is wrong. Raises UsageError for a file that cannot be read at all."""
    file = _read(project_dir / FILE_NAME, FILE_NAME)
    _declare_named(file.document, environ)
    in_files = [*_in_own_file(own_settings_path()), *_in_document(file.document, file.place_of)]
    entries = [*in_files, *_in_environment(environ), *_in_flags(flags)]
    settings, problems = _settled(Settings(), entries)
    problems += [*_without_address(settings, file.place_of), *_in_one_folder(settings, file.place_of)]
    declare_providers(settings)
    sources = {each.setting: each.source for each in entries if isinstance(each, _Entry)}
    return Loaded(settings, sources, tuple(problems))


def load_checkpoints(project_dir: Path, environ: Mapping[str, str]) -> tuple[Checkpoints, Mapping[str, str]]:
    """Where checkpoints are kept, and what set it: the one section that more than the command asks for.

    Raises UsageError for what is wrong in it, or for a file that cannot be read.
    """
    file = _read(project_dir / FILE_NAME, FILE_NAME)
    sections = {"checkpoints": file.document.get("checkpoints", {})}
    cluster = file.document.get("cluster")
    if isinstance(cluster, dict) and "checkpoints" in cluster:
        sections["cluster"] = {"checkpoints": cluster["checkpoints"]}
    entries = [
        *_in_document(sections, file.place_of),
        *(entry for entry in _in_environment(environ) if entry.setting.startswith("checkpoints.")),
    ]
    sources = {each.setting: each.source for each in entries if isinstance(each, _Entry)}
    return _right(Settings(), entries).checkpoints, sources


def load_own_settings(environ: Mapping[str, str]) -> Settings:
    """What the user has set for all projects. Raises UsageError for what is wrong in it."""
    own = (each for each in _in_environment(environ) if each.setting.partition(".")[0] in OWN_SECTIONS)
    return _right(Settings(), [*_in_own_file(own_settings_path()), *own])


def setting_names() -> list[str]:
    """Every setting, like `models.drafter`, in the order of the file."""
    defaults = Settings()
    sections = [each.name for each in fields(Settings) if each.name != "providers"]
    own = [f"{section}.{each.name}" for section in sections for each in fields(getattr(defaults, section))]
    return [*own, *(f"providers.{name}.{option}" for name in providers() for option in provider_options(name))]


def provider_options(name: str) -> list[str]:
    """What may be set of a provider: of one that is known, what makes a difference to it."""
    known = known_providers().get(name)
    if known is None:
        return [each.name for each in fields(ProviderSettings)]
    versioned = ["api_version"] if known.api_version else []
    return ["base_url", *versioned, *([] if known.needs_key else ["needs_key", "max_concurrent"])]


def declare_providers(settings: Settings) -> None:
    """Know the providers of these settings in this process, as they are there."""
    declare(
        {
            name: Declared(
                kind=each.kind or name,
                needs_key=_needs_key(each),
                api_version=each.api_version,
                max_concurrent=each.max_concurrent,
            )
            for name, each in settings.providers.items()
        }
    )


def _needs_key(provider: ProviderSettings) -> bool | None:
    """What is declared on this machine is called without a key if there is none."""
    is_local = bool(provider.kind) and is_on_this_machine(provider.base_url)
    return False if provider.needs_key is None and is_local else provider.needs_key


def value_of(settings: Settings, setting: str) -> Any:
    """The value of the setting with this name; None for one of a provider that nobody set."""
    section, _, name = setting.partition(".")
    if section == "providers":
        provider, _, option = name.partition(".")
        value = getattr(settings.providers.get(provider, ProviderSettings()), option)
        return None if value == "" else value
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
    """The settings as a worker is sent them, in a variable: nothing that may hold a password is among them."""
    document = asdict(settings)
    for section in OWN_SECTIONS:
        del document[section]  # Of no use to a worker, and an address in a command may be a secret.
    del document["checkpoints"]
    for name, options in document["providers"].items():
        document["providers"][name] = {option: value for option, value in options.items() if value not in (None, "")}
    return json.dumps(document)


def thaw(frozen: str) -> Settings:
    """The settings that a worker was sent, as they are: the command has checked them. Their providers are known."""
    settings, document = Settings(), json.loads(frozen)
    _declare_named(document, {})
    for entry in _in_document(document, lambda *_names: FROZEN_VARIABLE):
        if isinstance(entry, _Entry):
            settings = _with_value(settings, entry.setting, entry.value)
    declare_providers(settings)
    return settings


def with_environment(settings: Settings, environ: Mapping[str, str]) -> Settings:
    """The settings with those that variables set. Raises UsageError for what is wrong in one."""
    return _right(settings, _in_environment(environ))


_PlaceOf = Callable[..., str]
"""Names, from the outermost in, to where they stand: `agentos.toml, line 3`."""


class _Entry(NamedTuple):
    """A setting as somebody wrote it."""

    setting: str
    value: Any
    source: str
    where: Callable[[], str]
    """To find a line takes a while, and only what is wrong needs it."""


class _File(NamedTuple):
    """One of the two files, and what it says."""

    name: str
    text: str
    document: Mapping[str, Any]

    def place_of(self, *names: str) -> str:
        line = line_of(self.text, names)
        return self.name if line is None else f"{self.name}, line {line}"


def _read(path: Path, name: str) -> _File:
    try:
        text = read_regular_text(path, MOST_CHARACTERS + 1)
        return _File(name, text, parse_toml(text))
    except (FileNotFoundError, NotADirectoryError):
        return _File(name, "", {})
    except (NotToml, UnicodeDecodeError) as error:
        raise UsageError(f"{name}: not valid TOML: {error}.") from None
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {error.strerror or error}.") from None


def _in_own_file(path: Path) -> Iterator[_Entry | Problem]:
    """What the user has set for all projects, and no project may."""
    file = _read(path, str(path))
    if file.document and _is_others_to_write(path):
        yield Problem("", f"{path}: others can write it, and what it says is yours to say. Run: chmod go-w {path}")
        return
    for section, values in file.document.items():
        if section not in OWN_SECTIONS:
            where, own = file.place_of(section), " and ".join(f"[{name}]" for name in OWN_SECTIONS)
            yield Problem(
                "", f"{where}: only {own} are read from here. Put [{section}] into a project's {FILE_NAME}."
            )
        elif not isinstance(values, dict):
            yield Problem("", f"{file.place_of(section)}: [{section}] must be a table.")
        else:
            known = [each.name for each in fields(getattr(Settings(), section))]
            for name, value in values.items():
                yield from _in_section(section, name, value, known, file.place_of, str(path))


def _is_others_to_write(path: Path) -> bool:
    return bool(path.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH))


def _settled(settings: Settings, entries: Iterable[_Entry | Problem]) -> tuple[Settings, list[Problem]]:
    """The settings with what the entries set; a later one wins. What a rule refuses changes nothing."""
    problems: list[Problem] = []
    for entry in entries:
        if isinstance(entry, Problem):
            problems.append(entry)
            continue
        rule = rule_of(entry.setting)
        if rule.refusal("", entry.value):
            problems.append(Problem(entry.setting, rule.refusal(entry.where(), entry.value)))
        else:
            settings = _with_value(settings, entry.setting, entry.value)
    return settings, problems


def _right(settings: Settings, entries: Iterable[_Entry | Problem]) -> Settings:
    """The settings with what the entries set. Raises UsageError for the first that is wrong."""
    settings, problems = _settled(settings, entries)
    if problems:
        raise UsageError(problems[0].text)
    return settings


def _in_document(document: Mapping[str, Any], place_of: _PlaceOf) -> Iterator[_Entry | Problem]:
    known = {"providers": list(providers())}
    for setting in setting_names():
        section, _, name = setting.partition(".")
        if section != "providers":
            known.setdefault(section, []).append(name)
    for section, values in document.items():
        if section not in known:
            hint = _hint(section, list(known))
            yield Problem("", f"{place_of(section)}: unknown section [{section}].{hint}")
        elif section in OWN_SECTIONS:
            yield Problem("", f"{place_of(section)}: {_not_a_projects(section)}")
        elif not isinstance(values, dict):
            yield Problem("", f"{place_of(section)}: [{section}] must be a table.")
        else:
            for name, value in values.items():
                yield from _in_section(section, name, value, known[section], place_of)
    yield from _named_twice(document, place_of)


def _named_twice(document: Mapping[str, Any], place_of: _PlaceOf) -> Iterator[Problem]:
    for other, setting in OTHER_NAMES.items():
        places = [name.split(".") for name in (other, setting)]
        if all(isinstance(document.get(section), dict) and name in document[section] for section, name in places):
            yield Problem(setting, f"{place_of(*places[0])}: {other} is the same as {setting}: keep one of them.")


def _not_a_projects(section: str) -> str:
    return f"{OWN_SECTIONS[section]}, so no project can set it. Move it to your own {own_settings_path()}."


def _in_section(
    section: str, name: str, value: Any, known: list[str], place_of: _PlaceOf, source: str = FILE_NAME
) -> Iterator[_Entry | Problem]:
    place = partial(place_of, section, name)
    own_name = f"{section}.{name}"
    if own_name in OTHER_NAMES:
        yield _Entry(OTHER_NAMES[own_name], value, source, partial(_in_file, place_of, own_name))
    elif name not in known and section == "providers":
        yield Problem("", f"{place()}: {_undeclared(name, value, known)}")
    elif name not in known:
        yield Problem("", f"{place()}: [{section}] has no setting {name!r}.{_hint(name, known)}")
    elif section != "providers":
        yield _Entry(own_name, value, source, partial(_in_file, place_of, own_name))
    elif isinstance(value, dict):
        yield from _in_provider(name, value, place_of)
    else:
        yield Problem("", f"{place()}: [providers.{name}] must be a table.")


def _in_provider(name: str, options: Mapping[str, Any], place_of: _PlaceOf) -> Iterator[_Entry | Problem]:
    allowed = provider_options(name)
    for option, value in options.items():
        place = partial(place_of, "providers", name, option)
        if option in allowed:
            setting = f"providers.{name}.{option}"
            yield _Entry(setting, value, FILE_NAME, partial(_in_file, place_of, setting))
        elif option != "kind":
            hint = _hint(option, allowed)
            yield Problem("", f"{place()}: [providers.{name}] has no setting {option!r}.{hint}")
        elif value != name and not (value == COMPATIBLE_KIND and known_providers()[name].extra == value):
            yield Problem("", f"{place()}: {name} is a provider of its own: give one of kind {value!r} another name.")


def _undeclared(name: str, options: Any, known: list[str]) -> str:
    """Why there is no provider of this name, and how to declare one."""
    kind = options.get("kind") if isinstance(options, dict) else None
    if kind is None:
        how = 'To declare one of your own, add kind = "openai" and base_url = "https://…".'
        return f"unknown provider [providers.{name}].{_hint(name, known)} {how}"
    if kind not in known_providers():
        return f"[providers.{name}] has the unknown kind {kind!r}.{_hint(str(kind), list(known_providers()))}"
    return f"[providers.{name}]: name it with lower-case letters, digits and '_', beginning with a letter."


_KIND_VARIABLE = re.compile(r"AGENTOS_PROVIDERS__([A-Z][A-Z0-9_]*?)__KIND")


def _declare_named(document: Mapping[str, Any], environ: Mapping[str, str]) -> None:
    """Know the providers that the file and variables declare, as far as their names go: so that they can be named."""
    tables = document.get("providers")
    kinds = {match[1].lower(): environ[match[0]] for match in map(_KIND_VARIABLE.fullmatch, environ) if match}
    if isinstance(tables, dict):
        kinds |= {name: each["kind"] for name, each in tables.items() if isinstance(each, dict) and "kind" in each}
    declare(
        {
            name: Declared(kind=kind)
            for name, kind in kinds.items()
            if kind in known_providers() and name not in known_providers() and re.fullmatch(OWN_PROVIDER, name)
        }
    )


def _without_address(settings: Settings, place_of: _PlaceOf) -> Iterator[Problem]:
    for name, each in settings.providers.items():
        if each.kind and not each.base_url and _wants_address(each.kind):
            words = f'[providers.{name}] needs base_url = "https://…": where its calls go.'
            yield Problem(f"providers.{name}.base_url", f"{place_of('providers', name)}: {words}")


_APART = (("sources.briefs", "sources.briefs_done"), ("documents.lld_dir", "documents.lld_done_dir"))
"""What is done leaves the first folder for the second: in one folder it would be taken for a copy of itself."""


def _in_one_folder(settings: Settings, place_of: _PlaceOf) -> Iterator[Problem]:
    for active, done in _APART:
        places = [posixpath.normpath(str(value_of(settings, name))) for name in (active, done)]
        if places[0] == places[1]:
            words = f"{done} must be another folder than {active}, and both are {places[0]!r}."
            yield Problem(done, f"{place_of(*done.split('.'))}: {words}")


def _wants_address(kind: str) -> bool:
    return kind == COMPATIBLE_KIND or known_providers()[kind].needs_base_url


def _in_file(place_of: _PlaceOf, setting: str) -> str:
    return f"{place_of(*setting.split('.'))}: {setting}"


def _in_environment(environ: Mapping[str, str]) -> Iterator[_Entry]:
    long = [(variable_of(setting), setting) for setting in setting_names()]
    for variable, setting in (*long, *_SHORT_VARIABLES.items()):
        if text := environ.get(variable):
            yield _Entry(setting, rule_of(setting).read(text), variable, partial(str, variable))


def _in_flags(flags: Mapping[str, Any]) -> Iterator[_Entry]:
    for setting, value in flags.items():
        section, _, name = setting.partition(".")
        yield _Entry(setting, value, "a flag", partial(str, f"--{name}" if section == "models" else setting))


def _with_value(settings: Settings, setting: str, value: Any) -> Settings:
    section, _, name = setting.partition(".")
    value = tuple(value) if isinstance(value, list) else value
    if section == "providers":
        provider, _, option = name.partition(".")
        changed = replace(settings.providers.get(provider, ProviderSettings()), **{option: value})
        return replace(settings, providers={**settings.providers, provider: changed})
    return replace(settings, **{section: replace(getattr(settings, section), **{name: value})})


def _hint(name: str, known: list[str]) -> str:
    close = nearest(name, known, most=1)
    return f" Did you mean {close[0]!r}?" if close else f" Known: {', '.join(known)}."

"""What `agentos doctor` looks at: one method per subject, each with what it found and what to do about it."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from agentos.cli.config import unknown_words
from agentos.cli.database_trial import try_database
from agentos.distribution import DISTRIBUTION, clash, install_line
from agentos.engine.limits import MEMORY_LIMIT_VARIABLE
from agentos.errors import AgentosError, NoUsableKeyError
from agentos.git.command import GitMissingError
from agentos.git.worktrees import NoCheckoutError
from agentos.hints import Hint
from agentos.keys.credentials import CredentialSet, load_credentials
from agentos.keys.day_budget import spent_today_usd
from agentos.llm.endpoints import refuse_unconfirmed, unconfirmed_urls
from agentos.llm.model_names import misspelling_words
from agentos.paths import home_dir
from agentos.processes import host
from agentos.providers.model_name import ModelName
from agentos.providers.registry import providers
from agentos.sandbox.isolation import Isolation
from agentos.sandbox.sandbox import strongest_isolation
from agentos.settings import FILE_NAME, Loaded, Models, Settings, look_at_settings
from agentos.sources import FolderSource, parse_source
from agentos.text.words import counted, dollars, listed, one_line
from agentos.workflows.implementation.branch import open_repository
from agentos.workflows.implementation.suite_trial import try_suite
from agentos.workflows.run_request import choose_models, require_parts

Level = Literal["ok", "warning", "error"]
_LEAST_FREE_BYTES = 200 * 1024**2
_LITTLE_FREE_BYTES = 2 * 1024**3
_ROLES = {"drafter": "writes", "reviewer": "reviews", "coder": "writes tests and code"}


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report."""

    area: str
    level: Level
    text: str
    fix: str = ""
    """What to do; empty where nothing is wrong."""

    def to_document(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Checkup:
    """A look at everything a run from here would need."""

    project_dir: Path
    environ: Mapping[str, str]
    makes_calls: bool = True
    runs_suite: bool = True
    on_suite: Callable[[float], None] = lambda _most_seconds: None
    """Told before the project's tests run: nothing else takes that long."""

    def findings(self) -> Iterator[Finding]:
        """Each as soon as it is known. Without settings that can be read, what depends on them is left out."""
        yield from self._installation()
        yield from self._home()
        yield self._terminal()
        try:
            loaded = look_at_settings(self.project_dir, self.environ, {})
        except AgentosError as error:
            yield Finding("settings", "error", str(error), f"Correct {self.project_dir / FILE_NAME} or the variable.")
            return
        yield from self._settings(loaded)
        yield from self._checkpoints()
        yield self._issues(loaded.settings)
        yield from self._git(loaded.settings)
        yield self._isolation()
        yield self._tests(loaded.settings)
        if not any(problem.setting.startswith("models.") for problem in loaded.problems):
            yield from self._models_and_keys(loaded.settings)

    def _installation(self) -> Iterator[Finding]:
        version = importlib.metadata.version(DISTRIBUTION)
        python = ".".join(map(str, sys.version_info[:3]))
        yield Finding("installation", "ok", f"{DISTRIBUTION} {version}, Python {python} in {sys.prefix}")
        if text := clash():
            yield Finding("installation", "error", text, "Uninstall the other one, then install this one again.")
        if not host.CAN_FORK_SAFELY:
            yield Finding(
                "installation", "warning", "not Linux: workers start more slowly and are watched less closely"
            )

    def _home(self) -> Iterator[Finding]:
        home = home_dir()
        nearest = next(each for each in (home, *home.parents) if each.exists())
        if not os.access(nearest, os.W_OK | os.X_OK):
            fix = "Set AGENTOS_HOME to a folder you can write to."
            yield Finding("home", "error", f"{home} cannot be written to", fix)
        else:
            yield Finding("home", "ok", f"{home}")
        free = shutil.disk_usage(nearest).free
        text = f"{free / 1024**3:.1f} GB free for {home}"
        level: Level = "error" if free < _LEAST_FREE_BYTES else "warning" if free < _LITTLE_FREE_BYTES else "ok"
        fix = "Free some space, or set AGENTOS_HOME to a folder on another disk."
        yield Finding("disk", level, text, "" if level == "ok" else fix)
        limit = self.environ.get(MEMORY_LIMIT_VARIABLE, "")
        if limit and not (limit.isdecimal() and int(limit) > 0):
            fix = f"Give a number of megabytes: {MEMORY_LIMIT_VARIABLE}=2000"
            yield Finding("home", "error", f"{MEMORY_LIMIT_VARIABLE} is {limit!r}", fix)

    def _terminal(self) -> Finding:
        encoding = (sys.stdout.encoding or "").lower().replace("-", "")
        if encoding != "utf8":
            fix = "Set PYTHONIOENCODING=utf-8, or a UTF-8 locale."
            return Finding("terminal", "warning", f"writes {sys.stdout.encoding}: some characters are replaced", fix)
        if not sys.stdout.isatty():
            return Finding("terminal", "ok", "none, a pipe or a file: plain lines")
        columns, rows = shutil.get_terminal_size()
        kind = self.environ.get("TERM", "")
        if kind in ("", "dumb"):
            return Finding("terminal", "ok", f"{columns} by {rows}, TERM is {kind or 'not set'}: plain lines")
        return Finding("terminal", "ok", f"{columns} by {rows}, {kind}")

    def _settings(self, loaded: Loaded) -> Iterator[Finding]:
        by_source: dict[str, list[str]] = {}
        for setting, source in loaded.sources.items():
            by_source.setdefault(source, []).append(setting)
        words = [f"{listed(names)} from {source}" for source, names in by_source.items()]
        if not loaded.problems:
            yield Finding("settings", "ok", "; ".join(words) or "all defaults")
        for problem in loaded.problems:
            yield Finding("settings", "error", problem.text, f"Correct {FILE_NAME}, or the variable that it names.")
        for line in unknown_words(self.environ):
            yield Finding("settings", "warning", line, "Correct its name, or unset it.")

    def _checkpoints(self) -> Iterator[Finding]:
        for level, text, fix in try_database(self.project_dir):
            yield Finding("checkpoints", level, text, fix)

    def _issues(self, settings: Settings) -> Finding:
        try:
            source = parse_source(settings.sources.issues, project_dir=self.project_dir)
            if not isinstance(source, FolderSource):
                return Finding("issues", "ok", f"{settings.sources.issues} (not contacted)")
            if not source.directory.is_dir():
                fix = "Write one Markdown file per issue there, or name another source in agentos.toml."
                return Finding("issues", "warning", f"no folder {settings.sources.issues} yet", fix)
            listing = source.read()
        except AgentosError as error:
            return Finding("issues", "error", str(error), "Correct sources.issues, or the file.")
        found = f"{counted(len(listing.items), 'issue')} in {settings.sources.issues}"
        unusable = [f"{Path(item.origin).name}: {item.problem}" for item in listing.items if item.problem]
        unusable += map(str, listing.problems)
        if unusable:
            return Finding("issues", "warning", f"{found}; not usable: {listed(unusable, 3)}", "Correct these files.")
        return Finding("issues", "ok", found)

    def _git(self, settings: Settings) -> Iterator[Finding]:
        try:
            repository = open_repository(self.project_dir, settings)
            version = repository.git.text("--version").removeprefix("git version ")
            commit = repository.git.resolve(settings.implementation.base)
        except GitMissingError as error:
            yield Finding("git", "error", str(error), "Install git.")
            return
        except AgentosError:
            text = f"{self.project_dir} is not a repository; designs work without, implementations need one"
            yield Finding("git", "warning", text, Hint.GIT_INIT.line(folder=self.project_dir))
            return
        if commit is None:
            text = f"{settings.implementation.base} names no commit in {repository.project_dir}"
            fix = "Make a first commit, or set implementation.base: implementations start from it."
            yield Finding("git", "warning", text, fix)
        else:
            yield Finding("git", "ok", f"{version}, {repository.project_dir} at {commit[:10]}")

    def _isolation(self) -> Finding:
        isolation = strongest_isolation()
        is_whole = isolation in (Isolation.BWRAP, Isolation.NAMESPACES)
        fix = "" if is_whole else "Install bubblewrap, or let users make namespaces."
        return Finding("isolation", "ok" if is_whole else "warning", isolation.words(), fix)

    def _tests(self, settings: Settings) -> Finding:
        fix = "Set implementation.test to what runs your tests, or implementation.python to a Python that has pytest."
        try:
            report = try_suite(self.project_dir, settings, runs=self.runs_suite, on_start=self.on_suite)
        except NoCheckoutError:
            text = "not run: they run on a clean checkout, and this is not a git repository"
            return Finding("tests", "warning", text, Hint.GIT_INIT.line(folder=self.project_dir))
        except AgentosError as error:
            return Finding("tests", "warning", one_line(str(error)), fix)
        if report is None:
            command = settings.implementation.test or "pytest"
            return Finding("tests", "ok", f"{command}, not run")
        took = f"{report.command} in {report.seconds:.1f} s"
        if report.timed_out:
            return Finding("tests", "warning", f"{took}: timed out", "Raise implementation.test_timeout_seconds.")
        if report.exit_code == _PYTEST_FOUND_NONE and not settings.implementation.test:
            return Finding("tests", "warning", f"{took}: no tests yet", "Implementations bring their own.")
        if not report.is_success:
            failing = listed([one_line(name, 80) for name in sorted(report.failing)], 3)
            return Finding("tests", "warning", f"{took}: fails before any change: {failing}", "Fix them first.")
        return Finding("tests", "ok", f"{took}: {counted(len(report.passed), 'test')} passed")

    def _models_and_keys(self, settings: Settings) -> Iterator[Finding]:
        try:
            credentials = load_credentials(environ=self.environ)
        except AgentosError as error:
            yield Finding("keys", "error", str(error), "Correct the file; see its line.")
            return
        for warning in credentials.warnings:
            yield Finding("keys", "warning", warning)
        try:
            models = choose_models(settings.models, tuple(_ROLES), {spec.provider for spec in credentials.specs})
        except NoUsableKeyError as error:
            yield from _missing(credentials, is_needed=True)
            yield Finding(
                "models", "error", str(error), "Or export the variable of a provider, such as GEMINI_API_KEY."
            )
            return
        except AgentosError as error:
            yield Finding("models", "error", str(error), "Correct models.drafter, models.reviewer or models.coder.")
            return
        yield from _day_budget(settings.budget.usd_per_day)
        yield from _models(models, self.environ)
        yield from _missing(credentials, is_needed=False)
        yield from self._keys(settings, credentials, models)

    def _keys(self, settings: Settings, credentials: CredentialSet, models: Models) -> Iterator[Finding]:
        if not credentials.credentials:
            yield Finding("keys", "ok", "none, and none needed")
            return
        if not self.makes_calls:
            names = [f"{spec.name} ({spec.provider})" for spec in credentials.specs]
            yield Finding("keys", "ok", f"{listed(names)}; not tried")
            return
        urls = settings.provider_urls
        try:
            refuse_unconfirmed(unconfirmed_urls(urls, self.environ), {spec.provider for spec in credentials.specs})
        except AgentosError as error:
            yield Finding("keys", "error", str(error), "Confirm the address, or take it out of agentos.toml.")
            return
        from agentos.cli.key_trial import try_keys  # noqa: PLC0415  Loads the SDKs.

        for area, level, text, fix in try_keys(credentials, _called(models), urls):
            yield Finding(area, level, text, fix)


_PYTEST_FOUND_NONE = 5


def _day_budget(cap_usd: float | None) -> Iterator[Finding]:
    if cap_usd is not None:
        spent = spent_today_usd()
        text = f"{dollars(spent)} of {dollars(cap_usd)} spent or reserved today, in UTC, by everything with this home"
        fix = "Wait for 00:00 UTC, or raise usd_per_day under [budget] in your own agentos.toml."
        yield Finding("budget", "warning", text, fix) if spent >= cap_usd else Finding("budget", "ok", text)


def _models(models: Models, environ: Mapping[str, str]) -> Iterator[Finding]:
    from agentos.llm.pricing import cost_usd  # noqa: PLC0415  Loads the table of prices.

    for model, roles in _by_model(models).items():
        name = ModelName.parse(model)
        words = f"{model} {', '.join(_ROLES[role] for role in roles)}"
        price = cost_usd(name, 1_000_000, 1_000_000)
        try:
            require_parts(model, environ)
        except AgentosError as error:
            known = providers().get(name.provider)
            fix = install_line(known.extra) if known else "Install or set what is missing, or choose another model."
            yield Finding("models", "error", f"{words}: {error}", fix)
            continue
        if price is None:
            fix = misspelling_words(model) or "Check its name. Without a price, costs are not counted."
            yield Finding("models", "warning", f"{words}; no price is known for it", fix)
        else:
            yield Finding("models", "ok", f"{words}; {_price_words(name)}")


def _price_words(name: ModelName) -> str:
    from agentos.llm.pricing import cost_usd  # noqa: PLC0415

    into, out = cost_usd(name, 1_000_000, 0), cost_usd(name, 0, 1_000_000)
    return "costs nothing" if not into and not out else f"${into or 0:.2f} in, ${out or 0:.2f} out per million tokens"


def _by_model(models: Models) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for role in _ROLES:
        found.setdefault(getattr(models, role), []).append(role)
    return found


def _called(models: Models) -> list[str]:
    """The models that are called with a key."""
    return [model for model in _by_model(models) if model.partition(":")[0] in providers()]


def _missing(credentials: CredentialSet, *, is_needed: bool) -> Iterator[Finding]:
    for each in credentials.missing:
        level: Level = "error" if is_needed else "warning"
        yield Finding("keys", level, each.reason, "Set the variable where you start AgentOS, or remove the key.")

"""`agentos init`: a commented `agentos.toml`, and what was found in the project."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from agentos.cli.options import project_from
from agentos.cli.output import say
from agentos.cli.parsing import add_project_option
from agentos.errors import AgentosError, UsageError
from agentos.hints import Hint
from agentos.keys.credentials import CredentialSet, load_credentials
from agentos.providers.registry import default_models
from agentos.setting_rules import rule_of
from agentos.settings import FILE_NAME, OWN_SECTIONS, Settings
from agentos.sources import FolderSource, ItemKind, parse_source
from agentos.text.words import counted, listed

_INTRODUCTION = """\
# AgentOS settings of this project. Every line that is commented out shows its default.
# Flags win over the environment (AGENTOS_LIMITS__PARALLEL=5), the environment over this file.
"""
SECTION_WORDS = {
    "sources": "Where work comes from.",
    "documents": "Where documents go, relative to the project.",
    "models": "Which models write and review: provider:model, or offline. Empty: by the keys you have.",
    "limits": "How much at once, and how long to keep trying.",
    "prices": "Prices of models that the built-in table does not know, in dollars per million tokens in/out.",
    "review": "Where a person decides.",
    "implementation": "How designs are implemented and tested.",
    "workstreams": "Git worktrees in which items are implemented.",
    "notify": "Whom to tell while nobody watches; only in your own agentos.toml, under ~/.agentos.",
    "budget": "What everything with this home may spend; only in your own agentos.toml, under ~/.agentos.",
    "checkpoints": "Where unfinished items are kept, when several machines work on them.",
    "cluster": "Where workers run, when one machine is not enough.",
}
SETTING_WORDS = {
    "sources.issues": 'a folder of Markdown files, or "github:owner/repo?label=ready"',
    "sources.briefs": "a folder with one Markdown file per brief",
    "sources.briefs_done": "where a brief goes when its issue is filed",
    "documents.issues_dir": "issues written from briefs",
    "documents.lld_dir": "low-level designs",
    "documents.lld_done_dir": "designs that are implemented",
    "documents.reports_dir": "reports of implementations and tests",
    "documents.lineage": "a folder for drafts, prompts and verdicts; empty keeps them under ~/.agentos",
    "models.drafter": f"writes: {', '.join(default_models())}, offline, recorded",
    "models.reviewer": "reviews; empty means the drafter",
    "models.coder": "writes tests and code; empty means the drafter",
    "limits.parallel": "items at once without --parallel; maximum 10",
    "limits.max_rounds": "drafts of a document before it needs revision",
    "limits.context_tokens": "how much of the code base a prompt may hold",
    "prices.models": 'a list like ["google:my-tuned-model 2/12"]',
    "prices.unpriced": "for every other model without a price, like 2/12; empty: --budget refuses such a model",
    "review.gate": "none, draft, verdict or all",
    "implementation.test": "the command that runs the tests; empty means pytest",
    "implementation.python": "the interpreter that has pytest; empty means the project's virtual environment",
    "implementation.junit": "a pattern of JUnit files that the test command writes; empty: its exit code decides",
    "implementation.coverage": "a pattern of coverage files that the test command writes: Cobertura XML or lcov",
    "implementation.base": "the commit that implementations start from",
    "implementation.stacking": "yes: an item that changes the same file as another starts from its branch",
    "implementation.commits": "squash leaves one commit on the branch, stacked one per round",
    "implementation.coverage_target": "percent of changed lines that tests must reach",
    "implementation.max_rounds": "attempts to make the tests pass",
    "implementation.test_timeout_seconds": "the longest a test run may take",
    "implementation.sandbox": "strongest, or one by name: bwrap, namespaces, landlock, none",
    "implementation.readable": "files and folders that tests may read besides the project and installed programs",
    "implementation.memory_mb": "memory of a test run, all its processes together",
    "implementation.processes": "processes and threads of a test run",
    "implementation.open_files": "files that one process of a test run may have open",
    "implementation.file_mb": "the largest file that a test run may write",
    "implementation.disk_mb": "all files together that a test run may write",
    "workstreams.dir": "where worktrees are made; empty means under ~/.agentos",
    "workstreams.copy": "ignored files a new worktree gets a copy of",
    "workstreams.setup": "a command that makes a clean checkout ready for tests, in the sandbox",
    "workstreams.setup_network": "yes: that command may use the network",
    "workstreams.link": "ignored files or folders a new worktree gets a link to",
    "workstreams.ports": "variables like WEB_PORT: each workstream gets a port of its own for each",
    "notify.command": "a program and its arguments; gets what happened as JSON on standard input",
    "notify.on": "what to tell: needs_review, failed, paused, done",
    "notify.desktop": "true: by a notification of the desktop, too",
    "budget.usd_per_day": "dollars per UTC day for all runs, gateways and notebooks together; unset: no cap",
    "workstreams.names": "variables like TEST_DB: each workstream gets a name of its own for each",
    "checkpoints.url": "postgresql://user@host/database; empty keeps one file per item under ~/.agentos",
    "checkpoints.project": "what this project is called in that database, on every machine",
    "checkpoints.patience_seconds": "how long nodes wait for a database that does not answer, before the run stops",
    "cluster.backend": '"ray": on the nodes of a Ray cluster',
    "cluster.address": "HOST:PORT of the cluster's head",
    "cluster.env": '"make": let Ray make our Python environment on nodes; "same": it is there already; checked',
    "cluster.max_per_node": "maximum items at once on one node; fewer if it has fewer processors",
    "cluster.resources": "what one item needs on a node, like CPU=2 or GPU=0.5",
}
"""What each setting is, in a line. A test sees to it that none is missing."""
_FLAGS = {
    "sources.issues": "--issues",
    "sources.briefs": "--briefs",
    "documents.lld_dir": "--lld-dir",
    "models.drafter": "--drafter",
    "models.reviewer": "--reviewer",
}
_PROVIDERS = """\
# Other addresses of providers, for a gateway or a proxy. Keys are sent there: beyond this machine only if the user's
# environment names the same address, in AGENTOS_PROVIDERS__GOOGLE__BASE_URL.
# [providers.google]
# base_url = "https://gateway.example/gemini"
#
# A provider of your own, called like the one that `kind` names; its models are acme:MODEL, its key is ACME_API_KEY
# or one of `provider = "acme"` in credentials.toml. On this machine it needs no key.
# [providers.acme]
# kind = "openai"
# base_url = "http://127.0.0.1:8000/v1"
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = "Write a commented agentos.toml into the project and show what was found there."
    parser.add_argument("--issues", metavar="SOURCE", help="a folder, or github:owner/repo?label=ready")
    parser.add_argument("--briefs", metavar="DIR", help="the folder of briefs")
    parser.add_argument("--lld-dir", metavar="DIR", help="the folder for low-level designs")
    parser.add_argument("--drafter", metavar="MODEL", help="the model that writes")
    parser.add_argument("--reviewer", metavar="MODEL", help="the model that reviews")
    parser.add_argument("--force", action="store_true", help="overwrite an agentos.toml that is there")
    add_project_option(parser)
    parser.set_defaults(handler=run)


def run(arguments: argparse.Namespace) -> int:
    project_dir = project_from(arguments.project, Path.cwd())
    chosen = _chosen(arguments, project_dir)
    path = project_dir / FILE_NAME
    try:
        with path.open("w" if arguments.force else "x", encoding="utf-8") as file:
            file.write(settings_text(chosen))
    except FileExistsError:
        raise UsageError(f"{path} exists: edit it, or overwrite it with --force.") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}.") from None
    say(f"Wrote {path}")
    for line in _found(project_dir, chosen):
        say(line)
    return 0


def settings_text(chosen: Mapping[str, Any]) -> str:
    """The file: what was chosen as it is, everything else as comments with its default."""
    parts = [_INTRODUCTION]
    for section in fields(Settings):
        if section.name in ("providers", *OWN_SECTIONS):
            continue
        lines = [f"# {SECTION_WORDS[section.name]}", f"[{section.name}]"]
        defaults = getattr(Settings(), section.name)
        for setting in fields(defaults):
            name = f"{section.name}.{setting.name}"
            lines.append(f"# {SETTING_WORDS.get(name, setting.name)}")
            is_chosen = name in chosen
            value = chosen[name] if is_chosen else getattr(defaults, setting.name)
            lines.append(f"{'' if is_chosen else '# '}{setting.name} = {_toml(value)}")
        parts.append("\n".join(lines) + "\n")
    return "\n".join([*parts, _PROVIDERS])


def _toml(value: Any) -> str:
    """Strings, numbers and lists of strings are written alike in TOML and JSON."""
    return json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False)


def _chosen(arguments: argparse.Namespace, project_dir: Path) -> dict[str, Any]:
    given = {name: getattr(arguments, flag[2:].replace("-", "_")) for name, flag in _FLAGS.items()}
    chosen = {name: value for name, value in given.items() if value is not None}
    for name, value in chosen.items():
        if refusal := rule_of(name).refusal(_FLAGS[name], value):
            raise UsageError(refusal)
    if arguments.issues:
        parse_source(arguments.issues, project_dir=project_dir)  # A typo is said now, not in the first run.
    return chosen


def _found(project_dir: Path, chosen: Mapping[str, Any]) -> list[str]:
    settings = Settings()
    issues = chosen.get("sources.issues", settings.sources.issues)
    briefs = chosen.get("sources.briefs", settings.sources.briefs)
    lld_dir = chosen.get("documents.lld_dir", settings.documents.lld_dir)
    keys = _keys()
    needs_offline = isinstance(keys, CredentialSet) and not keys.credentials and "models.drafter" not in chosen
    return [
        f"  git:    {_git_words(project_dir)}",
        f"  issues: {_source_words(issues, project_dir, ItemKind.ISSUE)}",
        f"  briefs: {_source_words(briefs, project_dir, ItemKind.BRIEF)}",
        f"  LLDs:   {counted(len(list((project_dir / lld_dir).glob('LLD-*.md'))), 'design')} in {lld_dir}",
        f"  keys:   {_key_words(keys)}",
        f"Next: {_next_step(issues, project_dir, options=' --drafter offline' if needs_offline else '')}",
    ]


def _git_words(project_dir: Path) -> str:
    if not (project_dir / ".git").exists():
        make = Hint.GIT_INIT.line(folder=project_dir)
        return f"not a repository; designs work without, implementations need one: {make}"
    return f"repository {project_dir.name}"


def _source_words(spec: str, project_dir: Path, kind: ItemKind) -> str:
    source = parse_source(spec, project_dir=project_dir, kind=kind)
    if not isinstance(source, FolderSource):
        return f"{spec} (not looked at)"
    if not source.directory.is_dir():
        return f"no folder {spec} yet: one Markdown file each"
    try:
        listing = source.read()
    except AgentosError as error:
        return str(error)
    unusable = [f"{Path(item.origin).name}: {item.problem}" for item in listing.items if item.problem]
    unusable += [f"{Path(problem.path).name}: {problem.reason}" for problem in listing.problems]
    words = f"{len(listing.items)} in {spec}"
    return "; ".join([words if not unusable else f"{words}, {counted(len(unusable), 'problem')}", *unusable])


def _keys() -> CredentialSet | AgentosError:
    try:
        return load_credentials()
    except AgentosError as error:
        return error


def _key_words(keys: CredentialSet | AgentosError) -> str:
    """Names only: no part of a key is ever shown."""
    if isinstance(keys, AgentosError):
        return str(keys)
    names = [f"{credential.spec.name} ({credential.spec.provider})" for credential in keys.credentials]
    return listed(names) or f"none; `{Hint.ADD_KEY.line(provider='google')}` adds one, --drafter offline needs none"


def _next_step(issues: str, project_dir: Path, *, options: str) -> str:
    has_issues = issues.startswith("github:") or (project_dir / issues).is_dir()
    return f"{'' if has_issues else 'write an issue, then '}{Hint.PREVIEW_DESIGNS.line(options=options)}"

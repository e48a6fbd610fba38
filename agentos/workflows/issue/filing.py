"""Filing issues on GitHub: where they go, and with whose token. Knows no LangGraph: the command asks it first."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from agentos.errors import UsageError
from agentos.git.command import Git
from agentos.sources import GitHubSource, parse_source
from agentos.sources.github import is_repository_name
from agentos.sources.github_token import api_url, find_token
from agentos.workflows.context import FILE_VARIABLE, REPOSITORY_VARIABLE

TOKEN_VARIABLES = ("GITHUB_TOKEN", "GH_TOKEN", "GITHUB_ENTERPRISE_TOKEN", "GH_ENTERPRISE_TOKEN")
_REMOTE = re.compile(r"[/:]([\w.-]+/[\w.-]+?)(?:\.git)?/?$")


def filing_environment(project_dir: Path, issues_source: str, environ: Mapping[str, str]) -> dict[str, str]:
    """What workers need to file issues. Raises UsageError before anything starts when they could not."""
    repository = repository_name(project_dir, issues_source, environ)
    token = find_token(api_url(environ), environ)
    if token is None:
        raise UsageError(
            f"Filing issues in {repository} needs a GitHub token: set GITHUB_TOKEN, or log in with gh auth login."
        )
    return {FILE_VARIABLE: "1", "GITHUB_TOKEN": token, REPOSITORY_VARIABLE: repository}


def repository_name(project_dir: Path, issues_source: str, environ: Mapping[str, str]) -> str:
    """`owner/name`: from the settings, the environment, or the remote called origin."""
    if issues_source.startswith("github:"):
        source = parse_source(issues_source, project_dir=project_dir)
        if isinstance(source, GitHubSource):
            return source.repository
    named = environ.get(REPOSITORY_VARIABLE, "").strip()
    if not named:
        remote = Git(project_dir).run("remote", "get-url", "origin", ok=(0, 2, 128))
        match = _REMOTE.search(remote.stdout.strip())
        named = match[1] if match else ""
    if not is_repository_name(named):
        raise UsageError(
            "No GitHub repository to file issues in: set GITHUB_REPOSITORY=owner/name, or issues = "
            '"github:owner/name" in agentos.toml.'
        )
    return named

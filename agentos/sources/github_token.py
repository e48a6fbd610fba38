"""Finds the GitHub token and address a user already has, without ever asking or showing it."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from agentos.environment import environment
from agentos.errors import UsageError
from agentos.processes.children import run_child

DEFAULT_API_URL = "https://api.github.com"
GH_TIMEOUT_SECONDS = 10.0
# What `gh` needs to find its own configuration. Nothing else, least of all a provider's key, reaches the child.
_GH_ENVIRONMENT = (
    "PATH", "HOME", "USER", "LANG", "TMPDIR", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "GH_CONFIG_DIR", "GH_TOKEN",
    "GH_ENTERPRISE_TOKEN", "GH_HOST", "DBUS_SESSION_BUS_ADDRESS", "SYSTEMROOT", "APPDATA", "LOCALAPPDATA",
)  # fmt: skip
_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


def api_url(environ: Mapping[str, str] | None = None) -> str:
    """The API's base address: GITHUB_API_URL for an enterprise server, else github.com's."""
    return (environment() if environ is None else environ).get("GITHUB_API_URL", "").strip() or DEFAULT_API_URL


def check_api_url(url: str) -> str:
    """The address without a trailing slash. Plain http is for loopback only: no token crosses a network bare."""
    parts = urlsplit(url)
    if parts.scheme not in ("https", "http") or not parts.hostname or parts.username or parts.password:
        raise UsageError(
            "The GitHub API address is not usable: give it as https://host/api/v3, without a name or password in it"
            " (GITHUB_API_URL)."
        )
    if parts.scheme == "http" and parts.hostname not in _LOOPBACK:
        raise UsageError(
            f"The GitHub API address http://{parts.hostname} is not encrypted: use https (GITHUB_API_URL)."
        )
    return url.rstrip("/")


def find_token(base_url: str, environ: Mapping[str, str] | None = None) -> str | None:
    """GITHUB_TOKEN, else what `gh auth token` has for the host, else None."""
    environ = environment() if environ is None else environ
    configured = environ.get("GITHUB_TOKEN", "").strip()
    return check_token(configured) if configured else _token_of_gh(base_url, environ)


def check_token(token: str) -> str:
    """The token, fit for a header. An HTTP library would quote an unfit one in its error: refuse it here, unseen."""
    if not re.fullmatch(r"[\x21-\x7e]+", token):
        raise UsageError(
            "The GitHub token has blanks, line breaks or other odd characters in it: copy it again (GITHUB_TOKEN)."
        )
    return token


def _token_of_gh(base_url: str, environ: Mapping[str, str]) -> str | None:
    command = shutil.which("gh", path=environ.get("PATH"))
    if command is None:
        return None
    host = (urlsplit(base_url).hostname or "").removeprefix("api.")
    child_environment = {name: environ[name] for name in _GH_ENVIRONMENT if name in environ}
    child_environment |= {"GH_PROMPT_DISABLED": "1", "GH_NO_UPDATE_NOTIFIER": "1", "NO_COLOR": "1"}
    argv = [command, "auth", "token", "--hostname", host]
    try:
        done = run_child(argv, cwd=Path.cwd(), env=child_environment, timeout_seconds=GH_TIMEOUT_SECONDS)
    except OSError:
        return None
    token = done.stdout.text().strip()
    return check_token(token) if done.exit_code == 0 and token else None

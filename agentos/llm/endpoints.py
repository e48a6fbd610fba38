"""Where calls go, and with them the user's keys: who may decide that."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping

from agentos.errors import UsageError
from agentos.providers.addresses import is_on_this_machine
from agentos.providers.provider import base_url_variable
from agentos.settings import FILE_NAME


def unconfirmed_urls(urls: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """Base URLs that only a project's file names. Whoever wrote that file would get the user's keys."""
    return {provider: url for provider, url in urls.items() if environ.get(base_url_variable(provider)) != url}


def refuse_unconfirmed(urls: Mapping[str, str], providers: Collection[str]) -> None:
    """Keys leave this machine only for places the user has named. Raises UsageError that says how to name one."""
    for provider, url in urls.items():
        if provider in providers and not is_on_this_machine(url):
            raise UsageError(
                f"{FILE_NAME} would send your {provider} keys to {url}. If you trust it, confirm with: "
                f"export {base_url_variable(provider)}={shlex.quote(url)}"
            )

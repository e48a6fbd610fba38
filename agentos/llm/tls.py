"""Certificates that users behind a company's proxy have named for other tools."""

from __future__ import annotations

import ssl
from pathlib import Path

from agentos.environment import environment
from agentos.errors import UsageError


def bundle_context() -> ssl.SSLContext | None:
    """With the certificates of REQUESTS_CA_BUNDLE; None when the HTTP library's own way finds the right ones."""
    environ = environment()
    bundle = environ.get("REQUESTS_CA_BUNDLE", "")
    if not bundle or environ.get("SSL_CERT_FILE") or environ.get("SSL_CERT_DIR"):
        return None
    is_folder = Path(bundle).is_dir()
    try:
        return ssl.create_default_context(capath=bundle if is_folder else None, cafile=None if is_folder else bundle)
    except OSError as error:
        raise UsageError(f"REQUESTS_CA_BUNDLE={bundle}: {error.strerror or error}. Correct or unset it.") from None

"""Certificates that users behind a company's proxy have named, for this or for other tools."""

from __future__ import annotations

import ssl
from pathlib import Path

from agentos.environment import environment
from agentos.errors import UsageError

_FOLDERS = "SSL_CERT_DIR"
_VARIABLES = ("SSL_CERT_FILE", _FOLDERS, "REQUESTS_CA_BUNDLE")


def bundle_context() -> ssl.SSLContext | None:
    """With all certificates that variables name; None when none does, and the HTTP library brings its own."""
    environ = environment()
    named = {name: environ[name] for name in _VARIABLES if environ.get(name)}
    if not named:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # Several variables often name one file, and reading it takes as long as reading a large module.
    for place, name in {place: name for name, place in reversed(named.items())}.items():
        # One of folders may name several, and some that are not there.
        is_folder = name == _FOLDERS or Path(place).is_dir()
        try:
            context.load_verify_locations(**{"capath" if is_folder else "cafile": place})
        except OSError as error:
            raise UsageError(f"{name}={place}: {error.strerror or error}. Correct or unset it.") from None
    return context

"""How this package is installed: under which name, how its extras come in, and who else uses its import name."""

from __future__ import annotations

import shlex
import sys

DISTRIBUTION = "agentos-workflows"
OTHER_DISTRIBUTION = "agentos"
"""An unrelated product on the public index that installs a package of the same import name."""


def install_line(extra: str) -> str:
    """A command that adds what an optional part needs to the very environment this runs in."""
    from importlib import metadata  # noqa: PLC0415  only a hint needs it

    wanted = f'extra == "{extra}"'
    try:
        requirements = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        return f"pip install '.[{extra}]' in a clone of AgentOS"
    names = [text.partition(";")[0].strip() for text in requirements if text.endswith(wanted)]
    return shlex.join([sys.executable, "-m", "pip", "install", *names])


def clash() -> str:
    """What to say when the other product is installed in this environment as well; empty when it is not."""
    from importlib import metadata  # noqa: PLC0415  slow to load, and rarely asked

    try:
        version = metadata.version(OTHER_DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return ""
    return (
        f"Another product, {OTHER_DISTRIBUTION} {version}, is installed in this environment, and the two overwrite "
        f"each other's files: pip uninstall {OTHER_DISTRIBUTION}, then install {DISTRIBUTION} again."
    )

"""How this package is installed: under which name, how its extras come in, and who else uses its import name."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence

DISTRIBUTION = "agentos-workflows"
OTHER_DISTRIBUTION = "agentos"
"""An unrelated product on the public index that installs a package of the same import name."""

_OTHER_METADATA = re.compile(r"agentos-(?P<version>[0-9][^-]*?)(?:-py[0-9.]+)?\.(?:dist|egg)-info")


def install_line(extra: str) -> str:
    """A command that adds what an optional part needs to the very environment this runs in."""
    import shutil  # noqa: PLC0415  Only a hint needs all this; every command comes by.
    from importlib import metadata, util  # noqa: PLC0415

    wanted = f'extra == "{extra}"'
    try:
        requirements = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        return f"pip install '.[{extra}]' in a clone of AgentOS"
    names = [text.partition(";")[0].strip() for text in requirements if text.endswith(wanted)]
    has_uv = shutil.which("uv") is not None
    return install_command(names, python=sys.executable, has_pip=util.find_spec("pip") is not None, has_uv=has_uv)


def install_command(names: Sequence[str], *, python: str, has_pip: bool, has_uv: bool) -> str:
    """What installs these for that interpreter. Environments that `uv` makes, for tools too, have no pip."""
    import shlex  # noqa: PLC0415  Only a hint needs it.

    pip = [python, "-m", "pip", "install", *names]
    if not has_pip and has_uv:
        return shlex.join(["uv", "pip", "install", "--python", python, *names])
    return shlex.join(pip) if has_pip else f"{shlex.join([python, '-m', 'ensurepip'])} && {shlex.join(pip)}"


def clash() -> str:
    """What to say when the other product is installed in this environment as well; empty when it is not."""
    version = _other_version()
    if not version:
        return ""
    return (
        f"Another product, {OTHER_DISTRIBUTION} {version}, is installed in this environment, and the two overwrite "
        f"each other's files: pip uninstall {OTHER_DISTRIBUTION}, then install {DISTRIBUTION} again."
    )


def _other_version() -> str:
    """By the names of folders alone: every command asks, and to read metadata would take longer than its start."""
    for folder in sys.path:
        try:
            names = os.listdir(folder or ".")  # noqa: PTH208  `pathlib` would take longer to load than this to do.
        except OSError:
            continue
        if found := [match for name in names if (match := _OTHER_METADATA.fullmatch(name))]:
            return found[0]["version"]
    return ""

"""AgentOS itself as a wheel, made of the files that run here: a node gets the very same, whatever an index has."""

from __future__ import annotations

import base64
import hashlib
import re
import zipfile
from importlib import metadata
from pathlib import Path

import agentos
from agentos.distribution import DISTRIBUTION

_WHEEL = "Wheel-Version: 1.0\nGenerator: agentos\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def write_own_wheel(folder: Path) -> Path:
    """Its version ends with a digest of its content: another one is installed over what is there."""
    package_dir = Path(agentos.__file__).parent
    found = sorted(path for path in package_dir.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    files = {f"agentos/{path.relative_to(package_dir).as_posix()}": path.read_bytes() for path in found}
    version = f"{agentos.__version__}+{_digest_of(files)}"
    name = DISTRIBUTION.replace("-", "_")
    info = f"{name}-{version}.dist-info"
    files[f"{info}/METADATA"] = _own_metadata(version).encode()
    files[f"{info}/WHEEL"] = _WHEEL.encode()
    record = "".join(f"{each},sha256={_hash_of(content)},{len(content)}\n" for each, content in files.items())
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for each, content in files.items():
            wheel.writestr(each, content)
    return path


def _own_metadata(version: str) -> str:
    installed = metadata.distribution(DISTRIBUTION).read_text("METADATA") or ""
    return re.sub(r"(?m)^Version: .*$", f"Version: {version}", installed, count=1)


def _digest_of(files: dict[str, bytes]) -> str:
    whole = hashlib.sha256()
    for name, content in files.items():
        whole.update(f"{name} {len(content)}\n".encode() + content)
    return whole.hexdigest()[:16]


def _hash_of(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")

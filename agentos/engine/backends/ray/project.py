"""How a project travels to a node that has another disk, and how branches that were made there travel back.

Commits go as a git bundle, what is not committed as an archive beside it; each is kept on the node under a name made
of what is in it, so that it travels once. A project without git goes as one archive.
"""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from agentos.errors import AgentosError
from agentos.files import write_whole

MOST_BYTES = 1 << 30
"""Of one part of a project: more than this is better put there by other means."""
_GIT_SECONDS = 600.0
_GIT = ("git", "-c", "core.hooksPath=/dev/null", "-c", "protocol.file.allow=always")


class ProjectUnfit(AgentosError):
    """The project cannot travel, for this reason."""


@dataclass(frozen=True, slots=True)
class Part:
    """What travels: commits or files."""

    key: str
    """What it is kept under on the node."""
    content: bytes


@dataclass(frozen=True, slots=True)
class Packed:
    """A project as it stands."""

    commits: Part | None
    """None without git."""
    files: Part
    """What is not in the commits; the archive's comment has no secrets but those of the project's own files."""
    deleted: tuple[str, ...]
    head: str
    """The commit that is checked out."""


def _git(folder: Path, *arguments: str, stdin: bytes = b"") -> bytes:
    """Raises ProjectUnfit with git's own words."""
    try:
        done = subprocess.run(
            [*_GIT, *arguments], cwd=folder, input=stdin, capture_output=True, timeout=_GIT_SECONDS, check=True
        )
    except subprocess.CalledProcessError as error:
        lines = error.stderr.decode(errors="replace").strip().splitlines()
        raise ProjectUnfit(f"git {arguments[0]}: {lines[-1] if lines else error.returncode}") from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ProjectUnfit(f"git {arguments[0]}: {error}") from None
    return done.stdout


def pack(project_dir: Path) -> Packed:
    """The project with its commits and with what is not committed. Raises ProjectUnfit."""
    try:
        head = _git(project_dir, "rev-parse", "--verify", "HEAD").decode().strip()
        top = Path(os.fsdecode(_git(project_dir, "rev-parse", "--show-toplevel")).strip())
    except ProjectUnfit:
        return Packed(None, _archive(project_dir, _all_files(project_dir)), (), "")
    if top.resolve() != project_dir.resolve():
        # Part of a larger repository: what lies around it is not needed to run.
        return Packed(None, _archive(project_dir, _listed(project_dir, "-c", "-o", "--exclude-standard")), (), "")
    references = _git(project_dir, "for-each-ref", "--format=%(objectname) %(refname)", "refs/heads")
    key = hashlib.sha256(references + head.encode()).hexdigest()
    bundle = _git(project_dir, "bundle", "create", "--quiet", "-", "HEAD", "--branches")
    changed = _listed(project_dir, "-m", "-o", "--exclude-standard")
    files = _archive(project_dir, [path for path in changed if (project_dir / path).exists()])
    return Packed(Part(key, _checked(bundle)), files, tuple(_listed(project_dir, "-d")), head)


def _listed(folder: Path, *which: str) -> list[str]:
    return sorted(os.fsdecode(name) for name in _git(folder, "ls-files", "-z", *which).split(b"\0") if name)


def _all_files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file() or path.is_symlink())


def _archive(folder: Path, paths: Iterable[str]) -> Part:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for path in paths:
            archive.add(folder / path, arcname=path, recursive=False)
            if buffer.tell() > MOST_BYTES:
                raise ProjectUnfit(f"{folder} has more than {MOST_BYTES >> 20} MB that no commit has")
    content = buffer.getvalue()
    return Part(hashlib.sha256(content).hexdigest(), content)


def _checked(content: bytes) -> bytes:
    if len(content) > MOST_BYTES:
        raise ProjectUnfit(f"its commits are more than {MOST_BYTES >> 20} MB")
    return content


def keep(cache_dir: Path, key: str, content: bytes) -> None:
    cache_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_whole(cache_dir / key, content)


def unpack(cache_dir: Path, commits: str, files: str, deleted: Iterable[str], head: str, target: Path) -> None:
    """Make the project from what is kept. Raises ProjectUnfit, OSError."""
    target.mkdir(parents=True, mode=0o700)
    if commits:
        _git(target, "init", "--quiet")
        _git(target, "fetch", "--quiet", str(cache_dir / commits), "+refs/heads/*:refs/remotes/coordinator/*", "HEAD")
        _git(target, "checkout", "--quiet", "--detach", head)
        for name, commit in references(target, "refs/remotes/coordinator/").items():
            _git(target, "update-ref", f"refs/heads/{name}", commit)
        _git(target, "config", "user.name", "agentos")
        _git(target, "config", "user.email", "agentos@localhost")
    for path in deleted:
        (target / path).unlink(missing_ok=True)
    with tarfile.open(cache_dir / files) as archive:
        archive.extractall(target, filter="data")


def references(folder: Path, prefix: str = "refs/heads/") -> dict[str, str]:
    """Branch to commit; none where there is no git."""
    try:
        text = _git(folder, "for-each-ref", "--format=%(objectname) %(refname)", prefix).decode()
    except ProjectUnfit:
        return {}
    pairs = [line.split(" ", 1) for line in text.splitlines()]
    return {name.removeprefix(prefix): commit for commit, name in pairs}


def pack_branches(folder: Path, before: Mapping[str, str]) -> tuple[bytes, dict[str, str]]:
    """A bundle of the branches that are new or elsewhere than before, and where they are. Raises ProjectUnfit."""
    now = references(folder)
    moved = {name: commit for name, commit in now.items() if before.get(name) != commit}
    if not moved:
        return b"", {}
    known = "".join(f"^{commit}\n" for commit in set(before.values()))
    wanted = "".join(f"refs/heads/{name}\n" for name in moved)
    return _git(folder, "bundle", "create", "--quiet", "-", "--stdin", stdin=(wanted + known).encode()), moved


def take_branches(
    project_dir: Path, bundle_path: Path, moved: Mapping[str, str], *, forced: bool = False
) -> list[str]:
    """Fetch them; unless `forced`, never over something that is not their ancestor. Returns what was refused."""
    refused = []
    for name in moved:
        refspec = f"{'+' if forced else ''}refs/heads/{name}:refs/heads/{name}"
        try:
            _git(project_dir, "fetch", "--quiet", str(bundle_path), refspec)
        except ProjectUnfit as error:
            refused.append(f"branch {name} was not taken: {error}")
    return refused

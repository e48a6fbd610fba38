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
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from agentos.engine.backends.ray.messages import TakeProject
from agentos.errors import AgentosError
from agentos.files import remove_empty, write_whole

MOST_BYTES = 1 << 30
"""Of one part of a project: more than this is better put there by other means."""
_GIT_SECONDS = 600.0
_KEPT_SECONDS = 30 * 86_400
"""How long a part that no run needs is kept."""
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
    shallow: tuple[str, ...] = ()
    """Commits whose parents a shallow clone does not have."""


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
    shallow = _shallow(project_dir)
    key = hashlib.sha256(references + head.encode() + "".join(shallow).encode()).hexdigest()
    bundle = _git(project_dir, "bundle", "create", "--quiet", "-", "HEAD", "--branches")
    files = _archive(project_dir, _differing(project_dir, "d") + _listed(project_dir, "-o", "--exclude-standard"))
    return Packed(Part(key, _checked(bundle)), files, tuple(_differing(project_dir, "D")), head, shallow)


def _listed(folder: Path, *which: str) -> list[str]:
    return _names(_git(folder, "ls-files", "-z", *which))


def _differing(folder: Path, filter_letter: str) -> list[str]:
    """Tracked files that are not as in the commit, staged or not."""
    options = ("--name-only", "-z", "--no-renames", "--no-ext-diff", "--ignore-submodules=all")
    return _names(_git(folder, "diff", *options, f"--diff-filter={filter_letter}", "HEAD"))


def _names(listing: bytes) -> list[str]:
    return sorted(os.fsdecode(name) for name in listing.split(b"\0") if name)


def _shallow(folder: Path) -> tuple[str, ...]:
    path = folder / os.fsdecode(_git(folder, "rev-parse", "--git-path", "shallow")).strip()
    return tuple(path.read_text().split()) if path.exists() else ()


def _all_files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file() or path.is_symlink())


def _archive(folder: Path, paths: Iterable[str]) -> Part:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for path in paths:
            # What is there no more when its turn comes was somebody's temporary file.
            with suppress(FileNotFoundError):
                archive.add(folder / path, arcname=path, recursive=False)
            if buffer.tell() > MOST_BYTES:
                raise ProjectUnfit(f"{folder} has more than {MOST_BYTES >> 20} MB that are in no commit")
    content = buffer.getvalue()
    return Part(hashlib.sha256(content).hexdigest(), content)


def _checked(content: bytes) -> bytes:
    if len(content) > MOST_BYTES:
        raise ProjectUnfit(f"its commits are more than {MOST_BYTES >> 20} MB")
    return content


def keep(cache_dir: Path, key: str, content: bytes) -> None:
    cache_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_whole(cache_dir / key, content)


def is_kept(cache_dir: Path, key: str) -> bool:
    """If it is, it is in use from now on."""
    with suppress(FileNotFoundError):
        os.utime(cache_dir / key)
        return True
    return False


def remove_unused(cache_dir: Path, now: float) -> None:
    for path in cache_dir.iterdir():
        with suppress(OSError):
            if now - path.stat().st_mtime > _KEPT_SECONDS:
                path.unlink()


def unpack(cache_dir: Path, take: TakeProject, target: Path) -> None:
    """Make the project from what is kept. Raises ProjectUnfit, OSError."""
    target.mkdir(parents=True, mode=0o700)
    if take.commits:
        _git(target, "init", "--quiet")
        if take.shallow:
            (target / ".git" / "shallow").write_text("".join(f"{commit}\n" for commit in take.shallow))
        commits = str(cache_dir / take.commits)
        _git(target, "fetch", "--quiet", commits, "+refs/heads/*:refs/remotes/coordinator/*", "HEAD")
        _git(target, "checkout", "--quiet", "--detach", take.head)
        for name, commit in references(target, "refs/remotes/coordinator/").items():
            _git(target, "update-ref", f"refs/heads/{name}", commit)
        _git(target, "config", "user.name", "agentos")
        _git(target, "config", "user.email", "agentos@localhost")
    for path in take.deleted:
        (target / path).unlink(missing_ok=True)
        remove_empty((target / path).parent)
    try:
        with tarfile.open(cache_dir / take.files) as archive:
            for member in archive:
                # A link of the commit that is a file by now would be followed.
                if (target / member.name).is_symlink():
                    (target / member.name).unlink()
                archive.extract(member, target, filter="tar")
    except tarfile.TarError as error:
        raise ProjectUnfit(str(error)) from None


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

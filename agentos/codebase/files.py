"""Which files a project has, and their text: never a secret, a binary, or anything outside the project."""

from __future__ import annotations

import os
import re
import stat
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from agentos.environment import environment
from agentos.files import read_regular
from agentos.processes.children import run_child

MAX_FILES = 50_000
MAX_READ_BYTES = 200_000
GIT_TIMEOUT_SECONDS = 15.0
_GIT_OUTPUT_BYTES = 20_000_000
_GIT_NEEDS = frozenset({"PATH", "HOME", "SYSTEMROOT", "TMPDIR"})

# Never part of what a person wrote, even where it is committed.
_VENDORED_DIRS = frozenset({".git", "node_modules", "__pycache__", ".venv", "site-packages"})
# Left out where there is no git to say what is ignored.
_BUILD_DIRS = _VENDORED_DIRS | {
    ".hg", ".svn", ".tox", ".nox", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".idea", ".vscode", ".next",
    ".gradle", ".cache", "venv", "env", "dist", "build", "target", "out", "coverage", "htmlcov",
}  # fmt: skip
_SECRET_DIRS = frozenset({".ssh", ".aws", ".gnupg", ".docker", ".kube"})
_SECRET_NAMES = (
    ".env", ".env.*", "*.env", ".envrc", "*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.keystore", "*.kdbx", "*.ppk",
    "*.asc", "*.gpg", "id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", "credentials*", "secret.*", "secrets.*",
    ".netrc", "_netrc", ".npmrc", ".pypirc", ".htpasswd", ".pgpass", ".git-credentials", "*.tfvars", "*.tfstate*",
    "service-account*", "service_account*", "kubeconfig*", "token.json", "tokens.json", "auth.json",
)  # fmt: skip
# `credentials.py` is source code; only its signatures are ever shown.
_SOURCE_SUFFIXES = frozenset({
    ".py", ".pyi", ".js", ".jsx", ".mjs", ".ts", ".tsx", ".go", ".rs", ".java", ".kt", ".scala", ".cs", ".c",
    ".h", ".cc", ".cpp", ".hpp", ".rb", ".php", ".swift", ".md",
})  # fmt: skip
_BINARY_SUFFIXES = frozenset({
    ".png", ".jpg", ".jpeg", ".gif", ".webp", ".ico", ".bmp", ".svg", ".pdf", ".zip", ".gz", ".tgz", ".bz2",
    ".xz", ".7z", ".tar", ".jar", ".war", ".whl", ".so", ".dll", ".dylib", ".exe", ".o", ".a", ".class", ".pyc",
    ".pyo", ".wasm", ".bin", ".dat", ".db", ".sqlite", ".sqlite3", ".woff", ".woff2", ".ttf", ".otf", ".eot",
    ".mp3", ".mp4", ".mov", ".avi", ".wav", ".parquet", ".npy", ".npz", ".pkl", ".pt", ".onnx", ".lock", ".map",
})  # fmt: skip


def list_files(project_dir: Path) -> list[str]:
    """The project's files as sorted POSIX paths, secrets left out; at most MAX_FILES.

    Git says what is ignored; without a repository the folder is walked. Links are not followed.
    """
    listed = _files_of_git(project_dir)
    kept = [path for path in listed if not _is_in(path, _VENDORED_DIRS)] if listed else _walk(project_dir)
    return sorted(path for path in kept if not is_secret(path))[:MAX_FILES]


def is_secret(path: str) -> bool:
    """Whether the file's name or folder says that it holds credentials."""
    parts = PurePosixPath(path.lower())
    if _is_in(path.lower(), _SECRET_DIRS):
        return True
    if not any(fnmatchcase(parts.name, pattern) for pattern in _SECRET_NAMES):
        return False
    return parts.suffix not in _SOURCE_SUFFIXES


def is_binary(path: str) -> bool:
    """Whether the file's name says that there is no source text in it."""
    return PurePosixPath(path.lower()).suffix in _BINARY_SUFFIXES or path.lower().endswith((".min.js", ".min.css"))


def read_text(project_dir: Path, path: str) -> str | None:
    """The text of one of the project's files; None when it is not to be read: binary, huge, a link, or gone."""
    full_path = project_dir / path
    if is_secret(path) or is_binary(path) or not _is_inside(full_path, project_dir):
        return None
    try:
        content = read_regular(full_path, MAX_READ_BYTES + 1)
    except OSError:
        return None
    if len(content) > MAX_READ_BYTES or b"\0" in content:
        return None
    return re.sub(r"\r\n?", "\n", content.decode("utf-8", "replace"))


def _is_inside(path: Path, project_dir: Path) -> bool:
    """Whether no folder on the way is a link that leads out. Git still lists files below a folder made a link."""
    try:
        return path.parent.resolve(strict=True).is_relative_to(project_dir.resolve())
    except (OSError, RuntimeError, ValueError):
        return False


def _is_in(path: str, directories: frozenset[str]) -> bool:
    return not directories.isdisjoint(PurePosixPath(path).parts[:-1])


def _files_of_git(project_dir: Path) -> list[str]:
    """What git tracks and what it does not ignore; empty when there is no usable repository."""
    # A repository's own configuration may name a program to run for this; it must not.
    command = ["git", "-c", "core.fsmonitor=false", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    given = {name: value for name, value in environment().items() if name in _GIT_NEEDS}
    try:
        done = run_child(
            command,
            cwd=project_dir,
            env={**given, "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"},
            timeout_seconds=GIT_TIMEOUT_SECONDS,
            limit_bytes=_GIT_OUTPUT_BYTES,
        )
    except OSError:
        return []
    if done.exit_code != 0 or done.timed_out or done.stdout.dropped_bytes:
        return []
    names = set((done.stdout.head + done.stdout.tail).split(b"\0")) - {b""}
    return [path for path in sorted(map(os.fsdecode, names))[:MAX_FILES] if _is_regular(project_dir / path)]


def _is_regular(path: Path) -> bool:
    """False for links, submodules, and files that are gone though git still tracks them."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


def _walk(project_dir: Path) -> list[str]:
    """Files in a stable order, breadth first, so that a cut-off keeps what is near the top."""
    found: list[str] = []
    folders = [""]
    while folders and len(found) < MAX_FILES:
        below: list[str] = []
        for folder in folders:
            files, subfolders = _entries(project_dir, folder)
            found.extend(files)
            below.extend(subfolders)
        folders = below
    return found


def _entries(project_dir: Path, folder: str) -> tuple[list[str], list[str]]:
    """The files and the folders right in one folder."""
    files, folders = [], []
    try:
        with os.scandir(project_dir / folder) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                path = f"{folder}/{entry.name}" if folder else entry.name
                if entry.is_dir(follow_symlinks=False):
                    if entry.name not in _BUILD_DIRS and entry.name not in _SECRET_DIRS:
                        folders.append(path)
                elif entry.is_file(follow_symlinks=False):
                    files.append(path)
    except OSError:
        # A folder that cannot be listed has nothing to say.
        return [], []
    return files, folders

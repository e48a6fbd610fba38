"""What code in the sandbox sees of the file system: a list of what is shown. All else is not there."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_SYSTEM: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store")
_ALSO: Final = ("/sys/devices/system/cpu",)
# Names, addresses and how programs find their libraries. Not all of /etc: root may read the rest of it.
_ETC: Final = (
    *("passwd", "group", "hosts", "nsswitch.conf", "host.conf", "gai.conf", "protocols", "services", "networks"),
    *(
        "ld.so.cache",
        "ld.so.conf",
        "ld.so.conf.d",
        "alternatives",
        "localtime",
        "timezone",
        "locale.conf",
        "os-release",
    ),
    *("mime.types", "magic", "terminfo", "inputrc", "fonts", "hostname", "debian_version", "default/locale"),
    *(
        "ssl/certs",
        "ssl/openssl.cnf",
        "ca-certificates",
        "pki/tls/certs",
        "pki/ca-trust/extracted",
        "crypto-policies",
    ),
    *("python3", "java", "maven", "perl", "php", "R", "ImageMagick-6", "ImageMagick-7"),
)
PROC_OF_THE_MACHINE: Final = ("sys", "sysrq-trigger", "irq", "bus", "fs", "acpi", "scsi")
"""What root may write in /proc without any capability: shown, and not to be written."""
_TEMPORARY: Final = ("/tmp", "/var/tmp", "/dev/shm")
_TOOL_FOLDERS: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(("JAVA_HOME", "GOROOT", "GOMODCACHE", "RUSTUP_HOME", "NODE_PATH"), ("",)),
    # The rest of these may hold what logs in to a registry.
    "GOPATH": ("bin", "pkg"),
    "CARGO_HOME": ("bin", "registry", "git"),
}
_MOST_LINKS: Final = 40


@dataclass(frozen=True, slots=True)
class View:
    """Absolute paths, links resolved. Later kinds are shown over earlier ones where they overlap."""

    scratch: str
    read_only: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    sealed: tuple[str, ...] = ()
    """Inside of a writable folder, and not to be written."""
    temporary: tuple[str, ...] = _TEMPORARY
    """Empty, writable, and gone with the command."""
    empty: tuple[str, ...] = ("/run",)
    links: tuple[tuple[str, str], ...] = ()
    """Path and where it leads."""


def make_view(
    worktree: Path,
    scratch: Path,
    *,
    program: str,
    readable: Iterable[Path],
    homes: Iterable[Path],
    environment: Mapping[str, str],
    allow_network: bool,
) -> View:
    """The view for one command. `environment` is the command's own: what its PATH names is shown."""
    private = [home.resolve() for home in homes]
    wanted = [
        *map(Path, (*_SYSTEM, *_ALSO)),
        *(Path("/etc", name) for name in _ETC),
        *_search_folders(environment.get("PATH", ""), private),
        *_tool_folders(environment),
        *_program_folders(Path(program), private),
        *(folder for path in readable for folder in (path, *_interpreter_folders(path, private))),
        *(folder for home in private for folder in (home / ".local/lib").glob("python3*")),
        *([Path("/etc/resolv.conf")] if allow_network else []),
    ]
    there = [path for path in (*wanted, worktree, scratch) if _is_there(path)]
    writable = (str(worktree.resolve()), str(scratch.resolve()))
    read_only = _outermost([path.resolve() for path in there], without=writable)
    shown = [Path(path) for path in (*read_only, *writable)]
    git_link = worktree.resolve() / ".git"
    return View(
        scratch=writable[1],
        read_only=read_only,
        writable=writable,
        # A link leads to the user's repository. A folder is a copy's own, which goes with it.
        sealed=(str(git_link),) if git_link.is_file() and not git_link.is_symlink() else (),
        empty=("/run", *(str(home) for home in private if not _is_within(home, shown))),
        links=tuple(
            (str(path), str(path.resolve()))
            for path in dict.fromkeys(there)
            if path.resolve() != path and not _is_within(path.parent.resolve(), shown)
        ),
    )


def _outermost(paths: list[Path], *, without: tuple[str, ...]) -> tuple[str, ...]:
    """What is in none of the others, nor in what is shown anyway."""
    known = {*map(str, paths), *without}
    return tuple(
        str(path)
        for path in dict.fromkeys(paths)
        if str(path) not in without and not any(str(parent) in known for parent in path.parents)
    )


def _is_within(path: Path, folders: list[Path]) -> bool:
    return any(path.is_relative_to(folder) for folder in folders)


def _is_there(path: Path) -> bool:
    """False also of what may not even be asked about: a PATH may name folders of others."""
    try:
        return path.exists()
    except OSError:
        return False


def _is_private(path: Path, private: Iterable[Path]) -> bool:
    """Whether showing a folder would show a home, or much more than a tool."""
    return any(home == path or path in home.parents or path == home / ".local" for home in private) or path == Path(
        "/"
    )


def _search_folders(search_path: str, private: list[Path]) -> Iterator[Path]:
    for name in search_path.split(os.pathsep):
        folder = Path(name)
        if not name or _is_private(folder.resolve(), private):
            continue
        if folder.parts[:2] == ("/", "opt") and len(folder.parts) > 2:
            yield Path(*folder.parts[:3])
        elif _is_environment(folder.parent):
            yield folder.parent
            yield from _interpreter_folders(folder.parent, private)
        else:
            yield folder


def _is_environment(folder: Path) -> bool:
    return _is_there(folder / "pyvenv.cfg")


def _tool_folders(environment: Mapping[str, str]) -> Iterator[Path]:
    for variable, folders in _TOOL_FOLDERS.items():
        if (value := environment.get(variable, "")).startswith("/"):
            yield from (Path(value, folder) for folder in folders)


def _interpreter_folders(folder: Path, private: list[Path]) -> Iterator[Path]:
    """What a virtual environment was made from, as far as its own file says so."""
    try:
        lines = (folder / "pyvenv.cfg").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return
    for name, _, value in (line.partition("=") for line in lines):
        if name.strip() == "home" and value.strip().startswith("/"):
            yield from _program_folders(Path(value.strip(), "python3"), private)


def _program_folders(program: Path, private: list[Path]) -> Iterator[Path]:
    """A program with every link to it, and for an interpreter what belongs to it."""
    for _ in range(_MOST_LINKS):
        if _is_environment(program.parent.parent):
            yield program.parent.parent
            yield from _interpreter_folders(program.parent.parent, private)
        if not _is_there(program) or not program.is_symlink():
            break
        yield program
        program = Path(os.path.normpath(program.parent / program.readlink()))
    prefix = program.parent.parent
    if not any((prefix / "lib").glob("python3*")):
        yield program
    elif _is_private(prefix, private):
        yield program.parent
        yield from (prefix / "lib").glob("*python3*")
    else:
        yield prefix

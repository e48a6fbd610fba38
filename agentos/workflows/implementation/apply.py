"""Carries out file operations inside a directory that no path, link or race can leave."""

from __future__ import annotations

import contextlib
import difflib
import errno
import os
import secrets
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from agentos.workflows.implementation.file_operations import (
    CreateFile,
    DeleteFile,
    Edit,
    EditFile,
    FileOperation,
    FileOperationsError,
    Mistake,
    Policy,
    ReplaceFile,
    path_problem,
)

_DIRECTORY_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MAX_EXISTING_BYTES: Final = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class AppliedChange:
    """What happened to one file."""

    path: str
    verb: str
    """`created`, `replaced`, `edited` or `deleted`."""


class _Refused(Exception):
    """One operation cannot be carried out."""


def apply_operations(
    root_path: Path, operations: Sequence[FileOperation], policy: Policy | None = None
) -> tuple[AppliedChange, ...]:
    """Carry out all operations below `root_path`, or none: every one is tried on the files as they are first.

    Raises FileOperationsError with every mistake. A kill in between leaves some files written whole and others not.
    """
    root = os.open(root_path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        planned, mistakes = [], []
        for operation in operations:
            try:
                planned.append((operation, _new_content(root, operation, policy)))
            except _Refused as refusal:
                mistakes.append(Mistake(operation.path, str(refusal)))
        if mistakes:
            raise FileOperationsError(mistakes)
        return tuple(_carry_out(root, operation, content) for operation, content in planned)
    finally:
        os.close(root)


def read_confined(root_path: Path, path: str) -> bytes | None:
    """A file below `root_path`, for a path that somebody else chose; None unless it is a plain file behind no link.

    What may hold secrets is not shown either.
    """
    if path_problem(path, Policy(protected=())):
        return None
    root = os.open(root_path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return _read(root, path)
    except _Refused:
        return None
    finally:
        os.close(root)


def _new_content(root: int, operation: FileOperation, policy: Policy | None) -> str | None:
    """The file's content after the operation, None when it is deleted."""
    if mistake := path_problem(operation.path, policy):
        raise _Refused(mistake)
    existing = _read(root, operation.path)
    match operation:
        case CreateFile(content=content):
            if existing is not None:
                raise _Refused("exists already: use <edit> or <replace>")
            return content
        case ReplaceFile() | EditFile() | DeleteFile() if existing is None:
            raise _Refused("does not exist: use <create> for a new file")
        case ReplaceFile(content=content):
            return content
        case EditFile(edits=edits):
            return edited(_decoded(existing or b""), edits)
        case DeleteFile():
            return None


def _decoded(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise _Refused("is not UTF-8 text and cannot be edited") from None


def edited(text: str, edits: Sequence[Edit]) -> str:
    """The text with every edit made, in order, in the line ends it has."""
    is_dos = "\r\n" in text
    for number, edit in enumerate(edits, 1):
        search, replacement = (part.replace("\n", "\r\n") if is_dos else part for part in (edit.search, edit.replace))
        if not text.endswith("\n") and text.endswith(search.rstrip("\r\n")):
            # The last line of a file may lack its line end; a part of an <edit> never does.
            search, replacement = search.rstrip("\r\n"), replacement.rstrip("\r\n")
        count = text.count(search)
        if count == 0:
            raise _Refused(f"SEARCH part {number} is not in the file{_nearest(text, edit.search)}")
        if count > 1:
            raise _Refused(
                f"SEARCH part {number} is in the file {count} times: add lines around it until it is unique"
            )
        text = text.replace(search, replacement)
    return text


def _nearest(text: str, search: str) -> str:
    first = next((line for line in search.splitlines() if line.strip()), "")
    lines = text.splitlines()
    close = difflib.get_close_matches(first, lines[:5000], n=1, cutoff=0.6)
    if not close:
        return ": copy it exactly, spaces included"
    return f": the nearest to its first line is line {lines.index(close[0]) + 1}, {close[0][:120]!r}"


@contextlib.contextmanager
def _parent(root: int, path: str, *, create: bool) -> Iterator[tuple[int, str]]:
    """The directory a path is in, opened one component at a time without following links, and the file's name.

    Raises FileNotFoundError when a directory is missing and `create` is false.
    """
    *directories, name = path.split("/")
    descriptor = os.dup(root)
    try:
        for directory in directories:
            if create:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(directory, dir_fd=descriptor)
            inner = _open_directory(descriptor, directory)
            os.close(descriptor)
            descriptor = inner
        yield descriptor, name
    finally:
        os.close(descriptor)


def _open_directory(parent: int, name: str) -> int:
    try:
        descriptor = os.open(name, _DIRECTORY_FLAGS, dir_fd=parent)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise _Refused(f"{name!r} in its path is a link or a file, not a directory") from None
        raise
    if _lstat(descriptor, ".git") is not None:
        os.close(descriptor)
        raise _Refused(f"{name!r} in its path is a repository of its own")
    return descriptor


def _lstat(directory: int, name: str) -> os.stat_result | None:
    try:
        return os.lstat(name, dir_fd=directory)
    except FileNotFoundError:
        return None


def _read(root: int, path: str) -> bytes | None:
    """The file's bytes, None when there is none; anything but a regular file is refused."""
    try:
        with _parent(root, path, create=False) as (directory, name):
            found = _lstat(directory, name)
            if found is None:
                return None
            if not stat.S_ISREG(found.st_mode):
                raise _Refused("is a link, a directory or a device, not a file")
            if found.st_size > _MAX_EXISTING_BYTES:
                raise _Refused(f"is larger than {_MAX_EXISTING_BYTES} bytes")
            # O_NONBLOCK: should a pipe take the file's place in between, opening it must not wait.
            descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
            with os.fdopen(descriptor, "rb") as stream:
                return stream.read(_MAX_EXISTING_BYTES + 1)
    except FileNotFoundError:
        return None


def _carry_out(root: int, operation: FileOperation, content: str | None) -> AppliedChange:
    verbs = {CreateFile: "created", ReplaceFile: "replaced", EditFile: "edited", DeleteFile: "deleted"}
    try:
        with _parent(root, operation.path, create=content is not None) as (directory, name):
            if content is None:
                os.unlink(name, dir_fd=directory)
            else:
                _write(directory, name, content.encode())
    except _Refused as refusal:
        raise FileOperationsError([Mistake(operation.path, str(refusal))]) from None
    return AppliedChange(operation.path, verbs[type(operation)])


def _write(directory: int, name: str, data: bytes) -> None:
    """Through a new file and a rename: never through a link, hard or symbolic, and never half."""
    found = _lstat(directory, name)
    mode = stat.S_IMODE(found.st_mode) & 0o777 if found is not None else None
    temporary_name = f".agentos-{secrets.token_hex(8)}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(temporary_name, flags, 0o666, dir_fd=directory)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
            if mode is not None:
                os.fchmod(stream.fileno(), mode)
        os.replace(temporary_name, name, src_dir_fd=directory, dst_dir_fd=directory)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary_name, dir_fd=directory)
        raise

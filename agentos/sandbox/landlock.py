"""Landlock: a process gives up every file but those it names, for itself and for all it starts."""

from __future__ import annotations

import ctypes
import os
import stat
import struct
from collections.abc import Iterable
from typing import Final

from agentos.sandbox import kernel

_CREATE_RULESET: Final = 444
_ADD_RULE: Final = 445
_RESTRICT_SELF: Final = 446
_ASK_FOR_VERSION: Final = 1
_PATH_BENEATH: Final = 1

_EXECUTE: Final = 1 << 0
_WRITE_FILE: Final = 1 << 1
_READ_FILE: Final = 1 << 2
_READ_DIR: Final = 1 << 3
_FIRST_RIGHTS: Final = (1 << 13) - 1
_REFER: Final = 1 << 13
_TRUNCATE: Final = 1 << 14
_DEVICE_IOCTL: Final = 1 << 15
_OF_FILES: Final = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _DEVICE_IOCTL
_SCOPE_ABSTRACT_SOCKETS: Final = 1 << 0
_SCOPE_SIGNALS: Final = 1 << 1
TRUNCATE_VERSION: Final = 3
"""The first that keeps files from being cut short by their name."""
SCOPE_VERSION: Final = 6
"""The first that keeps signals and abstract sockets inside."""


def version() -> int:
    """What the kernel offers, 0 when that is nothing."""
    try:
        return kernel.call(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint(_ASK_FOR_VERSION))
    except OSError:
        return 0


def rights(offered: int) -> int:
    """All rights over files that this version knows (pure)."""
    known = _FIRST_RIGHTS
    for since, right in ((2, _REFER), (TRUNCATE_VERSION, _TRUNCATE), (5, _DEVICE_IOCTL)):
        known |= right if offered >= since else 0
    return known


def confine(readable: Iterable[str], writable: Iterable[str]) -> None:
    """From now on nothing but these can be opened; signals and abstract sockets stay inside where that is known."""
    offered = version()
    known = rights(offered)
    scopes = _SCOPE_ABSTRACT_SOCKETS | _SCOPE_SIGNALS if offered >= SCOPE_VERSION else 0
    ruleset = _new_ruleset(offered, known, scopes)
    for path in readable:
        _allow(ruleset, path, _EXECUTE | _READ_FILE | _READ_DIR)
    for path in writable:
        _allow(ruleset, path, known)
    _enforce(ruleset)


def confine_sockets() -> bool:
    """Keep abstract sockets inside, and nothing else. False where the kernel cannot."""
    offered = version()
    if offered < SCOPE_VERSION:
        return False
    _enforce(_new_ruleset(offered, 0, _SCOPE_ABSTRACT_SOCKETS))
    return True


def _new_ruleset(offered: int, handled: int, scopes: int) -> int:
    attributes = struct.pack("=QQQ", handled, 0, scopes)[: 24 if offered >= SCOPE_VERSION else 8]
    size = ctypes.c_size_t(len(attributes))
    return kernel.call(_CREATE_RULESET, attributes, size, ctypes.c_uint(0), what="landlock")


def _allow(ruleset: int, path: str, wanted: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        # Not there, so there is nothing to allow.
        return
    try:
        is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        rule = struct.pack("=Qi", wanted if is_folder else wanted & _OF_FILES, descriptor)
        fd, kind = ctypes.c_int(ruleset), ctypes.c_int(_PATH_BENEATH)
        kernel.call(_ADD_RULE, fd, kind, rule, ctypes.c_uint(0), what=f"landlock rule for {path}")
    finally:
        os.close(descriptor)


def _enforce(ruleset: int) -> None:
    try:
        kernel.call(_RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint(0), what="landlock")
    finally:
        os.close(ruleset)

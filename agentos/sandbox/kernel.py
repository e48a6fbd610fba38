"""The few system calls that Python has no name for. Linux, on x86-64 and on 64-bit ARM."""

from __future__ import annotations

import ctypes
import os
import platform
from pathlib import Path
from typing import Final

CLONE_NEWNS: Final = 0x00020000
CLONE_NEWCGROUP: Final = 0x02000000
CLONE_NEWUTS: Final = 0x04000000
CLONE_NEWIPC: Final = 0x08000000
CLONE_NEWUSER: Final = 0x10000000
CLONE_NEWPID: Final = 0x20000000
CLONE_NEWNET: Final = 0x40000000
MS_NOSUID: Final = 0x2
MS_NODEV: Final = 0x4
MS_NOEXEC: Final = 0x8
MS_BIND: Final = 0x1000
MS_REC: Final = 0x4000
MS_PRIVATE: Final = 0x40000
MOUNT_READ_ONLY: Final = 0x1
MOUNT_NO_SUID: Final = 0x2
MOUNT_NO_DEVICES: Final = 0x4
_MNT_DETACH: Final = 2
_AT_FDCWD: Final = -100
_AT_RECURSIVE: Final = 0x8000
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_DUMPABLE: Final = 4
_PR_SET_SECCOMP: Final = 22
_PR_CAPBSET_DROP: Final = 24
_PR_SET_SECUREBITS: Final = 28
_PR_SET_CHILD_SUBREAPER: Final = 36
_PR_SET_NO_NEW_PRIVS: Final = 38
_PR_CAP_AMBIENT: Final = 47
_PR_CAP_AMBIENT_CLEAR_ALL: Final = 4
_SECCOMP_MODE_FILTER: Final = 2
# Root is a user like any other, and no program changes that.
_SECUREBITS_NO_ROOT_LOCKED: Final = 0x2F
_CAPABILITY_VERSION_3: Final = 0x20080522

MACHINE: Final = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}.get(
    platform.machine().lower(), ""
)
"""Empty where system calls have numbers that are not known here."""
_PIVOT_ROOT: Final = {"x86_64": 155, "aarch64": 41}
# The same on every machine: they are newer than the day the numbers were unified.
_MOUNT_SETATTR: Final = 442

_libc = ctypes.CDLL(None, use_errno=True)


def call(number: int, *arguments: object, what: str = "") -> int:
    """A system call by its number. Raises OSError."""
    return _checked(_libc.syscall(ctypes.c_long(number), *arguments), what or f"system call {number}")


def _checked(result: int, what: str) -> int:
    if result == -1:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def _prctl(option: int, first: object = 0, second: object = 0, *, what: str) -> None:
    zero = ctypes.c_ulong(0)
    one = ctypes.c_ulong(first) if isinstance(first, int) else first
    two = ctypes.c_ulong(second) if isinstance(second, int) else second
    _checked(_libc.prctl(ctypes.c_int(option), one, two, zero, zero), what)


def unshare(flags: int) -> None:
    _checked(_libc.unshare(ctypes.c_int(flags)), "unshare")


def mount(source: str, target: str, kind: str = "", flags: int = 0, data: str = "") -> None:
    texts = [os.fsencode(text) if text else None for text in (source, target, kind, data)]
    done = _libc.mount(texts[0], texts[1], texts[2], ctypes.c_ulong(flags), texts[3])
    _checked(done, f"mount {kind or 'bind'} on {target}")


def detach(target: str) -> None:
    _checked(_libc.umount2(os.fsencode(target), _MNT_DETACH), f"detach {target}")


def pivot_root(new_root: str, old_root: str) -> None:
    call(_PIVOT_ROOT[MACHINE], os.fsencode(new_root), os.fsencode(old_root), what="pivot_root")


def restrict_mount(target: str, attributes: int, *, recursive: bool = True) -> None:
    """Add `MOUNT_…` attributes to a mount and all below it."""
    wanted = (ctypes.c_uint64 * 4)(attributes, 0, 0, 0)
    flags = ctypes.c_uint(_AT_RECURSIVE if recursive else 0)
    size = ctypes.c_size_t(ctypes.sizeof(wanted))
    path = os.fsencode(target)
    call(_MOUNT_SETATTR, ctypes.c_int(_AT_FDCWD), path, flags, wanted, size, what=f"restrict {target}")


def die_with_parent(signal_number: int) -> None:
    """Get a signal when the thread that started this process ends."""
    _prctl(_PR_SET_PDEATHSIG, signal_number, what="parent-death signal")


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1, what="subreaper")


def hide_from_others() -> None:
    """Let no other process of the user look into this one."""
    _prctl(_PR_SET_DUMPABLE, 0, what="not dumpable")


def forbid_new_privileges() -> None:
    _prctl(_PR_SET_NO_NEW_PRIVS, 1, what="no new privileges")


def drop_capabilities() -> None:
    """Have no capability, and no way to get one."""
    last = int(Path("/proc/sys/kernel/cap_last_cap").read_text())
    for capability in range(last + 1):
        _prctl(_PR_CAPBSET_DROP, capability, what="bounding set")
    _prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, what="ambient set")
    _prctl(_PR_SET_SECUREBITS, _SECUREBITS_NO_ROOT_LOCKED, what="secure bits")
    give_up_capabilities()


def give_up_capabilities() -> None:
    """Have no capability now. Root gets them back with the next program unless the bounding set is empty."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    _checked(_libc.capset(header, (ctypes.c_uint32 * 6)()), "capset")


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p)]


def filter_system_calls(program: bytes) -> None:
    """Install a seccomp filter, in the kernel's own format, for this process and all it starts."""
    described = _Program(len(program) // 8, program)
    _prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(described), what="seccomp")

"""Our own namespaces: a root of our making, no network, no other process, no capability. Needs no program."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import struct
from pathlib import Path
from typing import Final

from agentos.sandbox import kernel
from agentos.sandbox.view import PROC_OF_THE_MACHINE, View

_DEVICES: Final = ("null", "zero", "full", "random", "urandom")
_DESCRIPTORS: Final = {"fd": "", "stdin": "/0", "stdout": "/1", "stderr": "/2"}
_FIRST_WITH_OWN_PID_LIMIT: Final = (6, 14)
_LOWEST_PID_LIMIT: Final = 400
_SIOCSIFFLAGS: Final = 0x8914
_IFF_UP_AND_RUNNING: Final = 0x41
_OLD: Final = "/.outside"


def enter(*, allow_network: bool) -> None:
    """New namespaces for this process; the next child is the first process of its own. Raises OSError."""
    user_id, group_id = os.geteuid(), os.getegid()
    flags = kernel.CLONE_NEWUSER | kernel.CLONE_NEWNS | kernel.CLONE_NEWPID | kernel.CLONE_NEWIPC
    flags |= kernel.CLONE_NEWUTS | kernel.CLONE_NEWCGROUP
    kernel.unshare(flags if allow_network else flags | kernel.CLONE_NEWNET)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user_id} {user_id} 1")
    Path("/proc/self/gid_map").write_text(f"{group_id} {group_id} 1")
    if not allow_network:
        _bring_loopback_up()


def _bring_loopback_up() -> None:
    """A new network has its loopback down, and tests talk to themselves over it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("16sh", b"lo", _IFF_UP_AND_RUNNING))


def build_root(view: View, *, temporary_bytes: int, most_processes: int) -> None:
    """Make the view this process's whole file system. For the first process of the namespaces."""
    kernel.mount("", "/", "", kernel.MS_REC | kernel.MS_PRIVATE)
    # Any folder serves: once it is the root, what it was mounted over is as before.
    place = view.scratch
    kernel.mount("tmpfs", place, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, "size=16m,mode=755")
    os.mkdir(place + _OLD, 0o700)  # noqa: PTH102 - a text all the way
    kernel.pivot_root(place, place + _OLD)
    os.chdir("/")
    _make_proc(most_processes)
    _make_devices()
    options = f"size={temporary_bytes},mode=1777"
    mounts = [(path, "tmpfs", options) for path in view.temporary]
    mounts += [(path, "", "read-only") for path in view.read_only] + [(path, "", "") for path in view.writable]
    # From the top down: what is mounted later would hide what is below it.
    for path, kind, how in sorted(mounts, key=lambda each: each[0].count("/")):
        if kind:
            Path(path).mkdir(parents=True, exist_ok=True)
            kernel.mount(kind, path, kind, kernel.MS_NOSUID | kernel.MS_NODEV, how)
        else:
            _show(path, read_only=bool(how))
    for path in view.sealed:
        kernel.mount(path, path, "", kernel.MS_BIND)
        kernel.restrict_mount(path, kernel.MOUNT_READ_ONLY)
    _finish(view)


def _finish(view: View) -> None:
    for path in view.empty:
        Path(path).mkdir(parents=True, exist_ok=True)
    for path, target in view.links:
        if not os.path.lexists(path):
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            Path(path).symlink_to(target)
    kernel.detach(_OLD)
    Path(_OLD).rmdir()
    kernel.restrict_mount("/", kernel.MOUNT_READ_ONLY, recursive=False)


def _show(path: str, *, read_only: bool) -> None:
    source = _OLD + path
    if not os.path.lexists(source):
        return
    if os.path.isdir(source):  # noqa: PTH112 - a text all the way
        Path(path).mkdir(parents=True, exist_ok=True)
    elif not os.path.lexists(path):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).touch()
    kernel.mount(source, path, "", kernel.MS_BIND | kernel.MS_REC)
    attributes = kernel.MOUNT_NO_SUID | kernel.MOUNT_NO_DEVICES
    kernel.restrict_mount(path, attributes | kernel.MOUNT_READ_ONLY if read_only else attributes)


def _make_proc(most_processes: int) -> None:
    Path("/proc").mkdir()
    kernel.mount("proc", "/proc", "proc", kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC)
    _limit_processes(most_processes)
    for name in PROC_OF_THE_MACHINE:
        path = f"/proc/{name}"
        if Path(path).exists():
            kernel.mount(path, path, "", kernel.MS_BIND | kernel.MS_REC)
            kernel.restrict_mount(path, kernel.MOUNT_READ_ONLY)


def _limit_processes(most: int) -> None:
    """A limit that a fork bomb cannot outrun, root or not.

    Only on kernels that count process ids by namespace: on others it is one number for the whole machine.
    """
    major, minor = (int(part) for part in os.uname().release.split(".")[:2])
    if (major, minor) >= _FIRST_WITH_OWN_PID_LIMIT:
        with contextlib.suppress(OSError):
            Path("/proc/sys/kernel/pid_max").write_text(str(max(most, _LOWEST_PID_LIMIT)))


def _make_devices() -> None:
    Path("/dev/pts").mkdir(parents=True)
    for name in _DEVICES:
        Path(f"/dev/{name}").touch()
        kernel.mount(f"{_OLD}/dev/{name}", f"/dev/{name}", "", kernel.MS_BIND)
    for name, target in _DESCRIPTORS.items():
        Path(f"/dev/{name}").symlink_to(f"/proc/self/fd{target}")
    options = "newinstance,ptmxmode=0666,mode=620"
    kernel.mount("devpts", "/dev/pts", "devpts", kernel.MS_NOSUID | kernel.MS_NOEXEC, options)
    Path("/dev/ptmx").symlink_to("pts/ptmx")

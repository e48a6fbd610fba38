"""Bubblewrap's command line for a view (pure)."""

from __future__ import annotations

from collections.abc import Iterator

from agentos.sandbox.view import PROC_OF_THE_MACHINE, View


def bubblewrap_arguments(view: View, *, allow_network: bool, temporary_bytes: int) -> list[str]:
    """Everything but the program, the command and its folder. Folders in memory hold `temporary_bytes` each."""
    return [
        *("--die-with-parent", "--new-session", "--cap-drop", "ALL"),
        *("--unshare-user-try", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"),
        *(() if allow_network else ("--unshare-net",)),
        *("--proc", "/proc", "--dev", "/dev"),
        *_mounts(view, str(temporary_bytes)),
        *(word for name in PROC_OF_THE_MACHINE for word in ("--ro-bind-try", f"/proc/{name}", f"/proc/{name}")),
        # Files in memory belong to no process and would count as nobody's.
        *("--remount-ro", "/dev", "--remount-ro", "/"),
    ]


def _mounts(view: View, temporary_bytes: str) -> Iterator[str]:
    """From the top down: what is mounted later would hide what is below it."""
    kinds = dict.fromkeys(view.temporary, "--tmpfs")
    kinds |= dict.fromkeys(view.read_only, "--ro-bind") | dict.fromkeys(view.writable, "--bind")
    for path, kind in sorted(kinds.items(), key=lambda each: each[0].count("/")):
        yield from ("--size", temporary_bytes, kind, path) if kind == "--tmpfs" else (kind, path, path)
    for path in view.sealed:
        yield from ("--ro-bind", path, path)
    for path in view.empty:
        yield from ("--dir", path)
    for path, target in view.links:
        yield from ("--symlink", target, path)

"""What loading a graph leaves open in its process, and what forked workers must not share."""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

_HARMLESS = re.compile(r"/dev/(null|zero|u?random|full)|/proc/.*")
_GPU = ("/dev/nvidia", "/dev/kfd", "/dev/dri")
_MOST_NAMED = 3


@dataclass(frozen=True, slots=True)
class OpenThings:
    """A process at one moment: open descriptors with what they are, and threads."""

    files: dict[int, str]
    threads: int

    @classmethod
    def now(cls) -> OpenThings:
        """Empty where there is no /proc: workers are not forked there."""
        files = {}
        with suppress(OSError):
            for name in os.listdir("/proc/self/fd"):  # noqa: PTH208  Names only.
                # The folder's own descriptor is closed again by now.
                with suppress(OSError):
                    files[int(name)] = os.readlink(f"/proc/self/fd/{name}")  # noqa: PTH115  Hot path.
        return cls(files, _threads())


def left_open(before: OpenThings, after: OpenThings) -> list[str]:
    """In words, what is there now that was not before and does not survive a fork. Empty: nothing."""
    new = {fd: what for fd, what in after.files.items() if before.files.get(fd) != what}
    kinds = [_kind(what) for what in new.values() if not _HARMLESS.fullmatch(what)]
    extra = after.threads - before.threads
    if extra > 0:
        kinds += ["a thread"] * extra
    return _counted(kinds)


def new_descriptors(before: OpenThings, after: OpenThings) -> list[int]:
    return [fd for fd, what in after.files.items() if before.files.get(fd) != what]


def _kind(what: str) -> str:
    if what.startswith("socket:"):
        return "a connection"
    if what.startswith(_GPU):
        return "a GPU"
    if "eventpoll" in what or "io_uring" in what:
        return "an event loop"
    if what.startswith("pipe:"):
        return "a pipe"
    if what.startswith("/"):
        return f"the file {os.path.basename(what)}"  # noqa: PTH119  A name to show.
    return what.partition(":")[2].strip("[]") or what


def _counted(kinds: Iterable[str]) -> list[str]:
    counts: dict[str, int] = {}
    for kind in kinds:
        counts[kind] = counts.get(kind, 0) + 1
    words = []
    for kind, count in counts.items():
        plural = re.sub(r"^an? ", "", kind) + "s"
        words.append(kind if count == 1 or kind.startswith("the ") else f"{count} {plural}")
    return words if len(words) <= _MOST_NAMED else [*words[:_MOST_NAMED], f"{len(words) - _MOST_NAMED} more"]


def _threads() -> int:
    """All of them, but for those that OpenBLAS makes on import and remakes after a fork by itself."""
    try:
        found = len(os.listdir("/proc/self/task"))  # noqa: PTH208  Names only.
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:  # noqa: PTH123  Hot path.
            libraries = {line.split(None, 5)[5].strip() for line in maps if "openblas" in line}
    except OSError:
        return threading.active_count()
    known = len(libraries) * max(0, len(os.sched_getaffinity(0)) - 1)
    return max(threading.active_count(), found - known)


def reseed_random_generators() -> None:
    """No two forked workers may draw the same numbers. Python's own `random` and OpenSSL see to that themselves."""
    seed = int.from_bytes(os.urandom(4), "big")
    # Whatever has put itself in a library's place is the graph's own business.
    with suppress(Exception):
        if (numpy := sys.modules.get("numpy")) is not None:
            numpy.random.seed(seed)
    with suppress(Exception):
        if (torch := sys.modules.get("torch")) is not None:
            torch.seed()

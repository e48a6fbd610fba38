"""What loading a graph leaves open in its process, and what forked workers must not share."""

from __future__ import annotations

import atexit
import os
import re
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

_HARMLESS = re.compile(r"/dev/(null|zero|u?random|full)|/proc/.*")
_GPU = ("/dev/nvidia", "/dev/kfd", "/dev/dri")
_MOST_NAMED = 3
_LONGEST_CHOSEN_SEED = 1 << 64
_FOREIGN = ("<", f"{Path(os.__file__).parent}{os.sep}", f"{Path(__file__).parents[3]}{os.sep}")
"""How the names of files begin that are Python's own, or ours."""
_INSTALLED = re.compile(r"[/\\](site|dist)-packages[/\\]")


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


@dataclass(slots=True)
class Loading:
    """What is done while the graph is loaded that no descriptor and no thread tells of."""

    exit_functions: int = 0
    """That the project's own code wants to be called. Those of libraries look after themselves."""
    drawn: weakref.WeakSet[Random] = field(default_factory=weakref.WeakSet)
    """Random generators whose seed nobody has chosen."""

    def not_to_share(self) -> list[str]:
        """What a worker that ends would take from the others, and numbers they would all draw; as `left_open`."""
        finalizers = [each.peek() for each in getattr(weakref.finalize, "_registry", ())]
        folders = sum(type(each[0]).__name__ == "TemporaryDirectory" for each in finalizers if each)
        kinds = ["a temporary folder"] * folders + ["a function to call at exit"] * self.exit_functions
        return _counted(kinds + ["a random generator"] * _numpy_generators())


@contextmanager
def watched_loading() -> Iterator[Loading]:
    loading = Loading()
    register, seed = atexit.register, Random.seed

    def noted_register(function: Callable[..., Any], *args: Any, **named: Any) -> Any:
        loading.exit_functions += is_own(sys._getframe(1).f_code.co_filename)
        return register(function, *args, **named)

    def noted_seed(generator: Random, a: Any = None, version: int = 2) -> None:
        seed(generator, a, version)
        (loading.drawn.add if a is None else loading.drawn.discard)(generator)

    atexit.register, Random.seed = noted_register, noted_seed  # type: ignore[assignment, method-assign]
    try:
        yield loading
    finally:
        atexit.register, Random.seed = register, seed  # type: ignore[method-assign]


def _numpy_generators() -> int:
    """In the project's own modules, with a seed so long that nobody may have chosen it. Who has loses nothing: it is
    the same again when a worker loads it."""
    kind = getattr(getattr(sys.modules.get("numpy"), "random", None), "Generator", ())
    found: dict[int, Any] = {}
    for module in list(sys.modules.values()):
        if is_own(getattr(module, "__file__", None) or "<"):
            found |= {id(each): each for each in vars(module).values() if isinstance(each, kind)}
    seeds = [getattr(each.bit_generator.seed_seq, "entropy", 0) for each in found.values()]
    return sum(isinstance(seed, int) and seed > _LONGEST_CHOSEN_SEED for seed in seeds)


def is_own(file: str) -> bool:
    """Whether a file of code is the project's, and not a library's, Python's or ours."""
    return not file.startswith(_FOREIGN) and not _INSTALLED.search(file)


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


def reseed_random_generators(drawn: Iterable[Random]) -> None:
    """No two forked workers may draw the same numbers. Python's own `random` and OpenSSL see to that themselves."""
    for generator in drawn:
        generator.seed()
    seed = int.from_bytes(os.urandom(4), "big")
    # Whatever has put itself in a library's place is the graph's own business.
    with suppress(Exception):
        if (numpy := sys.modules.get("numpy")) is not None:
            numpy.random.seed(seed)
    with suppress(Exception):
        if (torch := sys.modules.get("torch")) is not None:
            torch.seed()

"""Runs pytest and reports each test as it ends, into memory that only the process that started this one reads.

Pytest and its plugins are loaded before the project's folders are importable: no file of the project takes their
place, and none of its metadata names a plugin.
"""

from __future__ import annotations

import builtins
import contextlib
import importlib
import importlib.util
import mmap
import os
import pkgutil
import sys
import threading
from collections.abc import Callable, Iterator
from os import getcwd, getpid
from os.path import normpath
from pathlib import Path, PurePath
from sys import _getframe
from types import ModuleType
from typing import Any
from zlib import crc32 as checksum


def private(name: str) -> Any:
    """A copy of a module that nobody else has: what code under test changes in its own is not changed here."""
    shared = {each: sys.modules.pop(each) for each in list(sys.modules) if f"{each}.".startswith(f"{name}.")}
    ours = importlib.import_module(name)
    for each in [each for each in sys.modules if f"{each}.".startswith(f"{name}.")]:
        del sys.modules[each]
    sys.modules.update(shared)
    return ours


json = private("json")
to_json = json.dumps
MOST_CHARACTERS = 4_000
MOST_DESCRIPTORS = 256
MOST_OF_A_COPY = 1024
PR_SET_DUMPABLE = 4
PRELOADED = ("iniconfig", "packaging", "doctest")
PRELOADED_WHOLE = ("_pytest", "pytest", "pluggy", "unittest")
GUARDED = ("_pytest", "pytest", "pluggy", "unittest", "doctest", "math", "operator", "ast", "inspect", "importlib")
REPLACED_BY_HONEST_TESTS = ("open", "print", "input", "breakpoint", "__import__")
ENDING = "agentos.ending"
FRAMES = ("tb_frame", "gi_frame", "cr_frame", "ag_frame", "f_back")
MEANS = frozenset(
    {
        *("sys._getframe", "sys._current_frames", "sys._current_exceptions", "sys.settrace", "sys.setprofile"),
        "sys.addaudithook",
        *("gc.get_objects", "gc.get_referrers", "gc.get_referents", "object.__setattr__", "object.__getattr__"),
        *("code.__new__", "exec", "compile", "open", "os.listdir", "os.scandir", "os.fork", "os.forkpty", "os.exec"),
        *("os.link", "os.symlink", "os.rename", "os.remove", "os.truncate"),
        *("sys.monitoring.register_callback", "cpython.PyInterpreterState_New"),
    }
)
"""What the interpreter announces, and code can find or change with what runs it."""
PASSING_ON = ("inspect.py", "contextlib.py", "functools.py", "timeit.py", "runpy.py", "threading.py", "thread.py")
LIBRARY = os.path.dirname(os.__file__) + os.sep  # noqa: PTH120 - a text all the way
ON_FILES = {
    **dict.fromkeys(("open", "os.listdir", "os.scandir", "os.remove", "os.truncate"), 1),
    **dict.fromkeys(("os.link", "os.symlink", "os.rename"), 2),
}
"""Events about files, and how many of their arguments are paths."""
CHANGING = ("os.link", "os.symlink", "os.rename", "os.remove", "os.truncate")
INSTALLED = ("<frozen", LIBRARY, *(path + os.sep for path in sys.path if path))
"""Where the interpreter's own code and that of its packages is. Whatever is elsewhere came with the tests."""
IMPORTING = "<frozen importlib"
LOADED = ("get_data", "get_source", "get_code")
LOOKING_AT_CODE = ("/dis.py", "/bdb.py", "/asyncio/base_tasks.py")
SHOWING_SOURCE = ("/traceback.py", "/warnings.py", "/doctest.py", "/pdb.py")
"""What reads source to print where an error or a warning came from."""
HANDING_OUT = (
    *("walk_tb", "line", "_set_lines", "__init__", "formatwarning", "_formatwarnmsg_impl"),
    *("testfile", "_load_testfile"),
)
"""Functions there that give it, or frames, to whoever calls them."""


def preload(*names: str) -> None:
    """Import what pytest would import later, so that it does not come from the project.

    The modules of a package come from where the package came from. Those that decide about tests are all loaded, so
    that they can be looked after.
    """
    for name in names:
        with contextlib.suppress(ImportError):
            package = importlib.import_module(name)
            if name not in PRELOADED_WHOLE:
                continue
            for module in pkgutil.iter_modules(getattr(package, "__path__", ()), f"{name}."):
                if not module.name.endswith(("__main__", "win32")):
                    with contextlib.suppress(Exception):
                        importlib.import_module(module.name)


def put_before_packages(folders: list[str]) -> None:
    """Behind the standard library and before installed packages, one of which may be the user's own checkout."""
    places = [n for n, path in enumerate(sys.path) if "site-packages" in path or "dist-packages" in path]
    place = places[0] if places else len(sys.path)
    sys.path[place:place] = folders


def close_to_others() -> None:
    """Keep programs that tests start from looking into this process: nobody announces what they do."""
    with contextlib.suppress(OSError, AttributeError, ImportError):
        import ctypes  # noqa: PLC0415  Not every interpreter has it.

        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


def memory_of(descriptor: int) -> mmap.mmap:
    """The memory to report into. No descriptor leads there any more, to be written to, read or replaced."""
    file = os.fstat(descriptor)
    memory = mmap.mmap(descriptor, 0)
    # The interpreter keeps a copy of the descriptor, for sizes that nobody asks for.
    for each in range(MOST_DESCRIPTORS):
        with contextlib.suppress(OSError):
            if os.path.samestat(os.fstat(each), file):
                os.close(each)
    return memory


def sender(memory: mmap.mmap, copies_bytes: int, token: str) -> Callable[[dict[str, Any]], None]:
    """Says a record after those before it. A copy of this process says it apart, in a place that chance gives it."""
    owner, process, chance, from_bytes = getpid(), getpid, os.urandom, int.from_bytes
    append, put, size, used = memory.write, memory.__setitem__, len(memory), memory.tell
    places = copies_bytes // MOST_OF_A_COPY

    def send(record: dict[str, Any]) -> None:
        data = f"{token} {to_json({name: short(value) for name, value in record.items()})}\n".encode(
            "ascii", "backslashreplace"
        )
        if process() != owner:
            place = size - (1 + from_bytes(chance(2), "big") % places) * MOST_OF_A_COPY
            put(slice(place, place + len(data[:MOST_OF_A_COPY])), data[:MOST_OF_A_COPY])
        elif used() + len(data) < size - copies_bytes:
            # In one step, whatever interrupts.
            append(data)

    return send


def short(value: Any) -> Any:
    """A text that goes on and on, as the name of a test may, cut and told from others by a number at its end."""
    if isinstance(value, list):
        return [short(each) for each in value]
    if not isinstance(value, str) or len(value) <= MOST_CHARACTERS:
        return value
    return f"{value[:MOST_CHARACTERS]}~{checksum(value.encode('utf-8', 'replace')):08x}]"


def tell_means(send: Callable[[dict[str, Any]], None], root: str) -> None:
    """Say when code of the project reaches for what runs it, before it has it. Nobody can take an audit hook away.

    A test of ours says here how its body ended, before anybody around it hears of that.
    """
    folder, told, inside = root + os.sep, set(), threading.local()

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        is_of_use = event == ENDING or event in MEANS or event.startswith("ctypes.")
        if not is_of_use or getattr(inside, "is_asking", False):
            return
        inside.is_asking = True
        # Whoever makes this fail, at the end of the stack or by a signal, does not get what it asked for.
        try:
            if event == ENDING:
                send({"said": str(arguments[0]), "path": _getframe(1).f_code.co_filename[len(folder) :]})
                return
            what = meant(event, arguments, folder)
            path, line = asking(_getframe(1), folder, event, what) if what else ("", 0)
            if path and (what, path, line) not in told:
                is_inside = path.startswith(folder)
                own = {"reached": what, "path": path[len(folder) :], "line": line}
                send(own if is_inside else {"reached": f"{what}, in {path}", "path": "", "line": 0})
                told.add((what, path, line))
        finally:
            inside.is_asking = False

    sys.addaudithook(hook)


def meant(event: str, arguments: tuple[Any, ...], folder: str) -> str:
    """What an event gives to whoever causes it, in a word or two; empty when it is of no use to a cheat."""
    if event in ON_FILES:
        # Without a look at the disk: the event came before one.
        paths = [whole_path(each) for each in arguments[: ON_FILES[event]]]
        changed = paths if event in CHANGING or (event == "open" and is_writing(arguments)) else []
        found = [
            *(path[:40] for path in paths if path.startswith(("/proc", "/dev/fd"))),
            *(
                "changing " + path[len(folder) :]
                for path in changed
                if path.startswith(folder) and ("test" in path or path.endswith(".py"))
            ),
            *(
                "the source of " + path[len(folder) :]
                for path in paths
                if path.startswith(folder) and path.endswith(".py")
            ),
        ]
        return found[0] if found else ""
    if event.startswith("object."):
        name = str(arguments[1])
        return name if name in FRAMES or name in ("__code__", "__defaults__") else ""
    return event


def whole_path(path: Any) -> str:
    """As far as it can be told without looking; empty for a descriptor."""
    # Its own text: somebody may have made another kind of text, which says what it likes.
    text = str.__str__(path) if isinstance(path, str) else os.fsdecode(bytes(path)) if isinstance(path, bytes) else ""
    if not text or text.startswith("/"):
        return normpath(text) if text else ""
    with contextlib.suppress(OSError):  # Somebody removed the folder.
        return normpath(f"{getcwd()}/{text}")  # noqa: PTH109 - a text all the way
    return text


def is_writing(arguments: tuple[Any, ...]) -> bool:
    return bool(arguments[2] & (os.O_WRONLY | os.O_RDWR)) if isinstance(arguments[2], int) else False


def asking(frame: Any, folder: str, event: str, what: str) -> tuple[str, int]:
    """The file and line that cause an event, by themselves or through what only passes on.

    The project's, or else one that came from anywhere; empty when neither does.
    """
    foreign = ("", 0)
    while frame is not None:
        path, name = frame.f_code.co_filename, frame.f_code.co_name
        if path.startswith(folder) and "site-packages" not in path:
            return path, frame.f_lineno
        if not path.startswith((*INSTALLED, "<")):
            foreign = path, frame.f_lineno
        elif path.startswith(INSTALLED) and not passes_on(path, name, event, what):
            break
        frame = frame.f_back
    return foreign


def passes_on(path: str, name: str, event: str, what: str) -> bool:
    """Whether a function causes an event for whoever calls it."""
    if event in ON_FILES:
        return passes_files_on(path, name)
    if event == "sys._getframe":
        is_logging = path.endswith("__init__.py") and name in ("currentframe", "<lambda>")
        return is_logging or path.endswith(("/traceback.py", *PASSING_ON))
    if event == "object.__getattr__" and path.endswith("/inspect.py"):
        # A signature is read from code, for many an honest reason.
        return what in FRAMES
    return path.endswith((*PASSING_ON, *LOOKING_AT_CODE)) or hands_out(path, name)


def passes_files_on(path: str, name: str) -> bool:
    """Whether a function opens files for others: the standard library's do, imports and tracebacks apart."""
    if path.startswith(IMPORTING):
        return name in LOADED
    if path.startswith((LIBRARY, "<frozen")) and "-packages/" not in path:
        return not path.endswith(SHOWING_SOURCE) or hands_out(path, name)
    return name == "get_data"


def hands_out(path: str, name: str) -> bool:
    return path.endswith(SHOWING_SOURCE) and name in HANDING_OUT


class Judges:
    """One module or class whose functions decide about tests, as it was before any code of the project ran."""

    def __init__(self, name: str, holder: Any) -> None:
        self.name = name
        self.members = vars(holder)
        self.size = len(self.members)
        self.known = self._functions()

    def _functions(self) -> dict[str, Any]:
        return {name: value for name, value in list(self.members.items()) if self._counts(name, value)}

    def _counts(self, name: str, value: Any) -> bool:
        if self.name == "builtins":
            return callable(value) and name not in REPLACED_BY_HONEST_TESTS
        return callable(value) or isinstance(value, (property, staticmethod, classmethod))

    def replaced(self) -> list[str]:
        """Names of what is another one now, each told once."""
        members = self.members
        if len(members) == self.size and all(members.get(name) is value for name, value in self.known.items()):
            return []
        known, self.size, self.known = self.known, len(members), self._functions()
        names = [name for name in {**known, **self.known} if known.get(name) is not members.get(name)]
        return [f"{self.name}.{name}" for name in names if not is_plugins(members.get(name))]


def judges() -> list[Judges]:
    found = [Judges("builtins", sys.modules["builtins"])]
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in GUARDED:
            own = [each for each in vars(module).values() if isinstance(each, type) and each.__module__ == name]
            found += [Judges(name, module), *(Judges(f"{name}.{each.__qualname__}", each) for each in own)]
    return found


def is_plugins(value: Any) -> bool:
    """Whether it is from an installed plugin, or one that pytest itself puts in a place of its own."""
    function = getattr(value, "fget", None) or getattr(value, "__func__", value)
    path = getattr(getattr(function, "__code__", None), "co_filename", "")
    is_pytests = "/_pytest/" in path and path.endswith(("/legacypath.py", "/assertion/__init__.py"))
    return is_pytests or ("-packages/" in path and "/_pytest/" not in path and "/pluggy/" not in path)


def looker(send: Callable[[dict[str, Any]], None]) -> Callable[[], None]:
    """Says which functions that decide about tests are others than they were before any code of the project."""
    replaced = [each.replaced for each in judges()]

    def look() -> None:
        for name in [name for each in replaced for name in each()]:
            send({"reached": f"{name}, which it replaces", "path": "", "line": 0})

    return look


def reporter(send: Callable[[dict[str, Any]], None], look: Callable[[], None], folders: list[str]) -> Any:
    """What pytest says about each test. A plugin of functions: there is no class or attribute of it to change."""
    parts: dict[str, int] = {}

    def tell(report: Any, phase: str, name: str = "") -> None:
        text = "" if report.outcome == "passed" else str(getattr(report, "longreprtext", "") or report.longrepr)
        is_expected = hasattr(report, "wasxfail")
        record = {"id": name or report.nodeid, "phase": phase, "outcome": report.outcome, "expected": is_expected}
        send({**record, "text": text[-MOST_CHARACTERS:]})

    def pytest_runtest_call() -> Iterator[None]:
        yield
        look()

    def pytest_load_initial_conftests() -> None:
        put_before_packages(folders)

    def pytest_collection_finish(session: Any) -> None:
        look()
        send({"collected": [item.nodeid for item in session.items]})

    def pytest_collectreport(report: Any) -> None:
        if report.outcome != "passed":
            tell(report, "collect")

    def pytest_runtest_logstart(nodeid: str) -> None:
        send({"running": nodeid})

    def pytest_runtest_logreport(report: Any) -> None:
        part: Any = getattr(report, "context", None)
        if not hasattr(part, "kwargs"):
            tell(report, report.when)
        elif report.outcome == "failed":
            # A part of a test: pytest counts those that fail, each for itself, and by default no others.
            values = ", ".join(f"{name}={value}" for name, value in part.kwargs.items())
            name = f"{report.nodeid} ({part.msg or values})"
            parts[name] = parts.get(name, 0) + 1
            tell(report, report.when, f"{name} #{parts[name]}")

    import pytest  # noqa: PLC0415  The one of the project's interpreter.

    pytest.hookimpl(hookwrapper=True, tryfirst=True)(pytest_runtest_call)
    plugin = ModuleType("reporter")
    vars(plugin).update((name, hook) for name, hook in locals().items() if name.startswith("pytest_"))
    return plugin


def only_here(send: Callable[[dict[str, Any]], None]) -> Callable[[dict[str, Any]], None]:
    """Silent in copies of this process, which run the same tests once more."""
    owner, process = getpid(), getpid
    return lambda record: send(record) if process() == owner else None


def options(asked: dict[str, Any]) -> list[str]:
    """Options that win over the project's own: whole results, no early stop, no files in the project."""
    has = importlib.util.find_spec
    return [
        *("-p", "no:cacheprovider", "--color=no", "--tb=long", "--maxfail=0", "--continue-on-collection-errors"),
        f"--rootdir={asked['root']}",
        # Named, so that they know these options also where the project's own leave them out.
        *(("-p", "pytest_cov", "--no-cov") if has("pytest_cov") else ()),
        *(("-p", "xdist", "-n0") if has("xdist") else ()),
        *asked["options"],
    ]


def started_coverage(asked: dict[str, Any]) -> Any:
    from coverage import Coverage  # noqa: PLC0415  The project's interpreter may have none.

    coverage = Coverage(data_file=asked["coverage_data"], config_file=False, branch=True, include=asked["measured"])
    coverage.start()
    # `Coverage.current()` would hand out what it measures.
    getattr(Coverage, "_instances", []).clear()
    return coverage


class OnlyAsked:
    """Keeps pytest to the files it was asked for: it is given the folder of a file with a bracket in its name.

    On the command line a bracket would begin the parameters of a test.
    """

    def __init__(self, root: str, tests: list[str]) -> None:
        self._files = {str(Path(root, test)) for test in tests}

    def pytest_ignore_collect(self, collection_path: Any) -> Any:
        is_other = collection_path.is_file() and str(collection_path) not in self._files
        return True if is_other and collection_path.name != "conftest.py" else None


def with_folders(root: str, tests: list[str]) -> tuple[list[str], list[Any]]:
    """What pytest is given for `tests`, and the plugin that it needs for that."""
    if not any("[" in test.partition("::")[0] for test in tests):
        return tests, []
    given = [str(PurePath(test).parent) if "[" in test.partition("::")[0] else test for test in tests]
    return list(dict.fromkeys(given)), [OnlyAsked(root, tests)]


def main() -> None:
    asked = json.load(sys.stdin)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    preload(*PRELOADED_WHOLE, *PRELOADED, *(["coverage"] if asked["coverage_data"] else []))
    import pytest  # noqa: PLC0415  The one of the project's interpreter.

    memory, copies_bytes = memory_of(asked.pop("memory")), asked.pop("copies_bytes")
    tests, only_asked = with_folders(asked["root"], asked["tests"])
    arguments = [*options(asked), *tests]
    sys.argv = ["pytest", *arguments]
    if asked["is_plugin"]:
        put_before_packages(asked["folders"])
    # The same once more, among names and built-in functions of its own: no function that pytest holds leads there.
    apart: dict[str, Any] = {"__name__": "apart", "__builtins__": dict(vars(builtins))}
    exec(asked.pop("child"), apart)
    voice = apart["sender"](memory, copies_bytes, asked.pop("voice"))
    plugin = reporter(
        only_here(sender(memory, copies_bytes, asked.pop("token"))),
        apart["looker"](voice),
        [] if asked["is_plugin"] else asked["folders"],
    )
    coverage = started_coverage(asked) if asked["coverage_data"] else None
    end = os._exit
    if asked["is_closed"]:
        close_to_others()
    sys.modules["__main__"] = ModuleType("__main__")
    apart["tell_means"](voice, asked["root"])
    code = int(pytest.main(arguments, plugins=[plugin, *only_asked]))
    if coverage is not None:
        coverage.stop()
        coverage.save()
    sys.stdout.flush()
    # What code under test wants to do at the end comes after the results, and could change them.
    end(code)


if __name__ == "__main__":
    main()

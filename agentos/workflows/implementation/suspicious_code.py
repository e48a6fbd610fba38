"""What code can tell with that it is tested, or change how it is judged: found in its source, for a person (pure).

No gate can see into code that was written for these very gates. Such code needs one of a few means, and hardly any
other code does: where new lines use one, the report says so before anything else.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from agentos.workflows.implementation.assertions import UNREADABLE

_MODULES: Final = frozenset({"_pytest", "__main__", "coverage", "ctypes", "cffi", "_cffi_backend", "gc", "linecache"})
_MODULES_OF_TESTS: Final = frozenset(
    {"pytest", "unittest", "doctest", "hypothesis", "builtins", "atexit", "conftest", "test", "tests"}
)
"""What a test may use and code has no reason to."""
_ATTRIBUTES: Final = frozenset(
    {
        *("_getframe", "_current_frames", "currentframe", "settrace", "setprofile", "monitoring", "meta_path"),
        *("path_hooks", "_exit", "f_back", "f_globals", "f_locals", "f_code", "co_consts", "tb_frame", "gi_frame"),
        *("__globals__", "__code__", "__closure__", "__subclasses__", "__builtins__", "get_objects", "get_referrers"),
        *("getppid", "getsource", "getsourcelines", "getsourcefile", "fork", "forkpty", "memfd_create"),
        *("execv", "execve", "execvp", "execl", "abort", "_Exit", "gettrace", "getprofile", "addaudithook"),
        *("pluginmanager", "callspec", "runtest", "_hookimpls"),
    }
)
_CALLS: Final = frozenset({"exec", "eval", "compile", "__import__"})
_TEXT: Final = re.compile(r"pytest|agentos|conftest|/proc/|\btests?/|\btest_\w+\.py", re.IGNORECASE)
_TEXT_IN_A_TEST: Final = re.compile(r"agentos|/proc/", re.IGNORECASE)
_NAMES: Final = _MODULES | _MODULES_OF_TESTS | _ATTRIBUTES | _CALLS
_COMPARING: Final = frozenset(
    {"__eq__", "__ne__", "__lt__", "__gt__", "__le__", "__ge__", "__contains__", "__bool__"}
)
_MOST_TOLD: Final = 6


@dataclass(frozen=True, slots=True)
class Trick:
    """A means to tell or to change how code is judged, and where it is used."""

    line: int
    what: str


def modules_among_tests(tests: Collection[str], others: Collection[str]) -> frozenset[str]:
    """Names that can be imported where pytest runs these test files, and nowhere else.

    It makes folders of tests importable, as far as they are no packages themselves.
    """
    paths = [PurePosixPath(test) for test in tests]
    packages = {path.parent for path in paths if path.name == "__init__.py"}
    folders = {path.parent for path in paths} - packages
    found = {
        path.relative_to(folder).parts[0].removesuffix(".py")
        for path in paths
        for folder in path.parents
        if folder in folders
    }
    return frozenset(found - {part.removesuffix(".py") for path in others for part in PurePosixPath(path).parts})


def find_tricks(
    source: str, lines: Collection[int], *, is_test: bool, among_tests: Collection[str] = ()
) -> tuple[Trick, ...]:
    """Those in the given lines, in order. What cannot be read is one itself. Code has no business `among_tests`."""
    try:
        tree = ast.parse(source)
        statements = (node.value for node in ast.walk(tree) if isinstance(node, ast.Expr))
        prose = {id(value) for value in statements if isinstance(value, ast.Constant)}
        found = [
            Trick(int(getattr(node, "lineno", 0)), what)
            for node in ast.walk(tree)
            if id(node) not in prose
            for what in _used(node, is_test, () if is_test else among_tests)
        ]
    except UNREADABLE as error:
        return (Trick(1, f"source that cannot be read ({type(error).__name__})"),)
    return tuple(sorted((trick for trick in set(found) if trick.line in lines), key=lambda trick: trick.line))


def in_words(tricks: Collection[Trick]) -> str:
    """One line."""
    told = [f"{trick.what} (line {trick.line})" for trick in tricks]
    more = f" and {len(told) - _MOST_TOLD} more" if len(told) > _MOST_TOLD else ""
    return ", ".join(told[:_MOST_TOLD]) + more


def _used(node: ast.AST, is_test: bool, among_tests: Collection[str]) -> Iterator[str]:
    modules = _MODULES if is_test else _MODULES | _MODULES_OF_TESTS
    if (text := _put_together(node)) and (_TEXT.search(text) or text.partition(".")[0] in _NAMES):
        yield f"{text!r}, put together"
    match node:
        case ast.Import(names=names):
            yield from (name.name for name in names if name.name.partition(".")[0] in {*modules, *among_tests})
        case ast.ImportFrom(module=str(module), names=names, level=level):
            if module.partition(".")[0] in (modules if level else {*modules, *among_tests}):
                yield module
            yield from (f"{module}.{name.name}" for name in names if name.name in _ATTRIBUTES)
        case ast.Attribute(attr=attribute) if attribute in _ATTRIBUTES:
            yield ast.unparse(node)[-40:]
        case ast.Attribute(value=ast.Name(id="sys") | ast.Attribute(attr="sys"), attr="modules"):
            yield "sys.modules"
        case ast.Call(func=ast.Name(id=name)) if name in _CALLS:
            yield f"{name}()"
        case ast.Name(id="__builtins__"):
            yield "__builtins__"
        case ast.Attribute(value=ast.Name(id="request"), attr="session"):
            yield "request.session"
        case ast.Call(func=ast.Name(id="open"), args=[ast.Name(id="__file__"), *_]):
            yield "its own source"
        case ast.Attribute(value=ast.Call(args=[ast.Name(id="__file__")]), attr="read_text" | "read_bytes" | "open"):
            yield "its own source"
        case ast.Subscript(value=ast.Call(func=ast.Name(id="globals" | "vars" | "locals")), ctx=ast.Store()):
            yield "names made while it runs"
        case ast.Constant(value="CI") if not is_test:
            # The variable is set where tests run.
            yield "'CI'"
        case ast.Constant(value=str(text)) if (_TEXT_IN_A_TEST if is_test else _TEXT).search(text):
            yield repr(text[:40])
        case ast.FunctionDef(name=name) if name in _COMPARING and not _looks_at_itself(node):
            yield f"{name} that looks at nothing of its own"


def _put_together(node: ast.AST) -> str:
    """A text that is written in parts, which only somebody does who wants it not to be found; else empty."""
    match node:
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            parts = [left, right]
        case ast.JoinedStr(values=values):
            parts = [part.value if isinstance(part, ast.FormattedValue) else part for part in values]
        case ast.Call(func=ast.Attribute(value=ast.Constant(value=""), attr="join"), args=[ast.List(elts=elements)]):
            parts = elements
        case _:
            return ""
    texts = [str(part.value) if isinstance(part, ast.Constant) else _put_together(part) for part in parts]
    return "".join(texts) if len(texts) > 1 and all(texts) else ""


def _looks_at_itself(method: ast.FunctionDef) -> bool:
    arguments = [*method.args.posonlyargs, *method.args.args]
    own = arguments[0].arg if arguments else ""
    return any(isinstance(node, ast.Name) and node.id == own for node in ast.walk(method))

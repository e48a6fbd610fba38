"""Changes that a good test notices: one small mistake in one changed line of code (pure).

A few operators of our own: mutation libraries run whole suites over whole projects, with runners, caches and
configuration of their own; what is asked here is whether the new tests notice anything at all.
"""

from __future__ import annotations

import ast
import copy
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from agentos.workflows.implementation.assertions import UNREADABLE
from agentos.workflows.implementation.judging import module_name
from agentos.workflows.implementation.suspicious_code import find_tricks

_COMPUTING: Final = frozenset(
    {
        *("__future__", "abc", "bisect", "collections", "contextlib", "copy", "dataclasses", "decimal", "enum"),
        *("fractions", "functools", "itertools", "json", "math", "numbers", "operator", "pytest", "re", "statistics"),
        *("string", "textwrap", "typing", "typing_extensions", "unittest"),
    }
)
"""Modules that give a test or code nothing but values."""
_LOOKING_NAMES: Final = frozenset(
    {
        *("open", "exec", "eval", "compile", "getattr", "hash", "id", "vars", "globals", "locals", "importorskip"),
        *("attrgetter", "methodcaller", "getrepr"),
    }
)
"""Functions that lead further, under whatever other name they are called."""
_LOOKING: Final = re.compile(
    rf"\b(?:{'|'.join(sorted(_LOOKING_NAMES))})\s*\("
    r"|\b_?(?:os|sys|inspect|builtins|modules|tmp\w+|request|pytestconfig|pytester|testdir|cache)\b"
    r"|__(?!init__|post_init__|future__|all__)\w+__"
)
_OF_NO_EFFECT: Final = "0 < 1"
"""A statement that changes what code looks like, its size, what it is compiled to, and nothing that it does."""
_SWAPPED: Final[dict[type[ast.AST], type[ast.AST]]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.And: ast.Or, ast.Or: ast.And,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Add,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Mutant:
    """A file with one mistake in it."""

    path: str
    line: int
    what: str
    source: str


def mutants(path: str, source: str, lines: Collection[int], most: int) -> list[Mutant]:
    """At most `most` of them, no two in a line before every changed line of a function has one; strongest first."""
    try:
        return _found(path, ast.parse(source), source, lines, most)
    except UNREADABLE:
        return []


def only_computes(text: str, own: Collection[str]) -> bool:
    """Whether code or a test has no means to look at a file, a clock or chance; `own` are the project's modules."""
    try:
        nodes = list(ast.walk(ast.parse(text)))
    except UNREADABLE:
        return False
    others = sys.stdlib_module_names - _COMPUTING
    imported = {name.name for node in nodes if isinstance(node, ast.Import) for name in node.names}
    imported |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom) and not node.level}
    # A module of the project that is called `os` may not be the one that is imported.
    if not {name.partition(".")[0] for name in imported} <= _COMPUTING.union(own) - others:
        return False
    # Modules that compute have imported others, which are found as their attributes.
    parts = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    parts |= {name.name for node in nodes if isinstance(node, ast.ImportFrom) for name in node.names}
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    if _LOOKING.search(text) or not parts.isdisjoint(others) or not _LOOKING_NAMES.isdisjoint(parts | names):
        return False
    return not find_tricks(text, range(1, text.count("\n") + 2), is_test=True)


def with_imports(paths: Iterable[str], known: Iterable[str], text: Callable[[str], str]) -> frozenset[str]:
    """Files with those of the project that they import, and what these import: all that can give them means."""
    by_name: dict[str, list[str]] = {}
    for path in known:
        # Folders of tests are importable themselves.
        for name in {module_name(path) or "", PurePosixPath(path).stem}:
            by_name.setdefault(name, []).append(path)
    found: set[str] = set()
    waiting = list(paths)
    while waiting:
        path = waiting.pop()
        if path not in found:
            found.add(path)
            waiting += [each for name in _imports(path, text(path)) for each in by_name.get(name, ())]
    return frozenset(found)


def _imports(path: str, source: str) -> Iterator[str]:
    """Dotted names of everything that a file may import, packages on the way there included."""
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except UNREADABLE:
        return
    folders = (module_name(str(PurePosixPath(path).with_name("x.py"))) or "").split(".")[:-1]
    for node in nodes:
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [name.name for name in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = folders[: len(folders) - node.level + 1] if node.level else []
            start = ".".join([*above, *([node.module] if node.module else [])])
            names = [f"{start}.{name.name}" for name in node.names]
        yield from (".".join(name.split(".")[:end]) for name in names for end in range(1, name.count(".") + 2))


def rewritten(source: str) -> str | None:
    """The same code in other words, with other instructions. None when this Python cannot read or write it.

    Tests of what code does hold for it; tests of its text, its file or its instructions, and code that looks at its
    own, do not.
    """
    try:
        tree = ast.parse(source)
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                node.body.insert(ast.get_docstring(node) is not None, _statement_of_no_effect())
        tree.body.append(_statement_of_no_effect())
        return ast.unparse(ast.fix_missing_locations(tree)) + "\n"
    except UNREADABLE:
        return None


def _statement_of_no_effect() -> ast.stmt:
    return ast.parse(_OF_NO_EFFECT).body[0]


def _found(path: str, tree: ast.Module, source: str, lines: Collection[int], most: int) -> list[Mutant]:
    found: list[Mutant] = []
    ignored = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}  # Docstrings.
    places = [
        (node, kind)
        for node in ast.walk(tree)
        for kind in _kinds(node)
        if getattr(node, "lineno", 0) in lines and id(node) not in ignored
    ]
    places.sort(key=lambda place: (_RANK[place[1]], _line(place[0])))
    used: set[int] = set()
    for fresh_lines_only in (True, False):
        for node, kind in places:
            if len(found) >= most:
                return found
            line = _line(node)
            if (line in used) == fresh_lines_only:
                continue
            mutated = _mutated(tree, node, kind)
            if mutated != source and all(mutated != other.source for other in found):
                used.add(line)
                found.append(Mutant(path, line, _WORDS[kind], mutated))
    return found


def _line(node: ast.AST) -> int:
    return int(getattr(node, "lineno", 0))


_WORDS: Final = {
    "return": "returns nothing",
    "raise": "no longer raises",
    "if": "takes the other branch",
    "swap": "has another operator",
    "constant": "has another value",
    "call": "is left out",
    "assign": "is set to nothing",
}
_RANK: Final = {kind: rank for rank, kind in enumerate(_WORDS)}


def _kinds(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Return(value=value) if value is not None and not _is_none(value):
            yield "return"
        case ast.Raise():
            yield "raise"
        case ast.If() | ast.IfExp() | ast.While():
            yield "if"
        case ast.Compare(ops=[op]) if type(op) in _SWAPPED:
            yield "swap"
        case ast.BinOp(op=op) | ast.BoolOp(op=op) | ast.AugAssign(op=op) if type(op) in _SWAPPED:
            yield "swap"
        case ast.Constant(value=bool() | int() | float() | str()):
            yield "constant"
        case ast.Expr(value=ast.Call()):
            yield "call"
        case ast.Assign(value=value) if not _is_none(value):
            yield "assign"


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _mutated(tree: ast.Module, node: ast.AST, kind: str) -> str:
    changed = copy.deepcopy(tree)
    twin = next(b for a, b in zip(ast.walk(tree), ast.walk(changed), strict=True) if a is node)
    replacement = _replacement(twin, kind)
    if replacement is not twin:
        _Putting(twin, replacement).visit(changed)
    return ast.unparse(ast.fix_missing_locations(changed))


class _Putting(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self._old = old
        self._new = new

    def visit(self, node: ast.AST) -> ast.AST:
        return self._new if node is self._old else self.generic_visit(node)


def _replacement(node: ast.AST, kind: str) -> ast.AST:
    match node, kind:
        case ((ast.Return() | ast.Assign()), _):
            node.value = ast.Constant(None)
        case ((ast.Raise() | ast.Expr()), _):
            return ast.copy_location(ast.Pass(), node)
        case ((ast.If() | ast.IfExp() | ast.While()), _):
            node.test = ast.UnaryOp(ast.Not(), node.test)
        case ast.Compare(ops=[op]), _:
            node.ops = [_SWAPPED[type(op)]()]  # type: ignore[list-item]
        case ((ast.BinOp() | ast.BoolOp() | ast.AugAssign()), _):
            node.op = _SWAPPED[type(node.op)]()  # type: ignore[assignment]
        case ast.Constant(value=value), _:
            return ast.copy_location(ast.Constant(_another(value)), node)
    return node


def _another(value: object) -> bool | int | float | str:
    match value:
        case bool():
            return not value
        case int() | float():
            return value + 1
        case _:
            return f"{value}!"

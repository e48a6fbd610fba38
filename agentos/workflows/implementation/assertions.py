"""Which tests can fail at all: read from their source, never run (pure)."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

UNREADABLE: Final = (SyntaxError, ValueError, RecursionError, MemoryError)
"""What reading source may come to that somebody made to be read by nobody, or for another Python."""
_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
# Calls that fail a test by themselves, by the last part of their name: `self.assertEqual`, `pytest.raises`.
_CHECKING: Final = re.compile(
    r"_?(?:assert|expect|verify|check|should|raises|warns|deprecated_call|fail)(?![a-z])\w*"
)
_OF_MOCKS: Final = re.compile(r"assert_(?:any_call|has_(?:calls|awaits)|(?:not_|any_)?(?:called|await)\w*)")
_CAMEL: Final = re.compile(r"(?:assert|expect|verify|check|should|fail)[A-Z]\w*")


def test_functions(source: str) -> dict[str, _Function]:
    """The tests a Python file defines, `TestX::test_y`; empty when it cannot be parsed."""
    try:
        tree = ast.parse(source)
    except UNREADABLE:
        return {}
    return {"::".join(names): node for names, node in functions_in(tree.body, ())}


def functions_in(body: Sequence[ast.stmt], classes: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], _Function]]:
    """Test functions with their classes, as pytest finds them by its own habit of naming, under an `if` as well."""
    for node in body:
        if isinstance(node, _Function):
            if node.name.startswith("test"):
                yield (*classes, node.name), node
        elif isinstance(node, ast.ClassDef):
            if _is_test_class(node):
                yield from functions_in(node.body, (*classes, node.name))
        else:
            for inner in _blocks(node):
                yield from functions_in(inner, classes)


def _blocks(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """The statements inside of an `if`, a `try`, a `with` or a loop."""
    for _, value in ast.iter_fields(node):
        if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
            yield value
        elif isinstance(value, list):
            for entry in value:
                if isinstance(entry, ast.ExceptHandler | ast.match_case):
                    yield entry.body


def _is_test_class(node: ast.ClassDef) -> bool:
    bases = [base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "") for base in node.bases]
    return node.name.startswith("Test") or any(base.endswith("TestCase") for base in bases)


def without_assertion(
    source: str, others: Mapping[str, str], former: str = "", *, under_test: Collection[str] = ()
) -> tuple[str, ...]:
    """Tests of a file that can only fail by accident; those that `former` has just so are not asked again.

    `others` are the project's further test files: a test may leave its assertion to a helper in one of them. What is
    imported from a module `under_test` asserts nothing, whatever it is called: it is what has to be asserted about.
    """
    helpers: dict[str, list[_Function]] = {}
    for text in (source, *others.values()):
        for function in _functions(text):
            helpers.setdefault(function.name, []).append(function)
    known = {name: ast.dump(node) for name, node in test_functions(former).items()}
    return tuple(
        name
        for name, node in test_functions(source).items()
        if known.get(name) != ast.dump(node)
        and not _asserts(node, helpers, frozenset({node.name}), names_from(source, under_test))
    )


def names_from(source: str, modules: Collection[str]) -> frozenset[str]:
    """Names in a Python file that are imported from modules, or made of such."""
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except UNREADABLE:
        return frozenset()
    found = {name for node in nodes for name in _imported(node, modules)}
    while more := {name for node in nodes for name in _made_of(node, found)} - found:
        found |= more
    return frozenset(found)


def _imported(node: ast.AST, modules: Collection[str]) -> Iterator[str]:
    match node:
        case ast.Import(names=names):
            yield from (name.asname or name.name.partition(".")[0] for name in names if name.name in modules)
        case ast.ImportFrom(module=str(module), names=names, level=0):
            yield from (
                name.asname or name.name for name in names if module in modules or f"{module}.{name.name}" in modules
            )


def _made_of(node: ast.AST, known: Collection[str]) -> Iterator[str]:
    match node:
        case ast.Assign(targets=targets, value=value) if _root(value) in known:
            yield from (target.id for target in targets if isinstance(target, ast.Name))
        case ast.ClassDef(name=name, bases=bases) if any(_root(base) in known for base in bases):
            yield name


def _root(node: ast.AST) -> str:
    """The name that a chain of attributes, calls and indices begins with."""
    while isinstance(node, ast.Attribute | ast.Call | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def function_names(source: str) -> set[str]:
    """Every function that a Python file defines, wherever; empty when it cannot be parsed."""
    return {function.name for function in _functions(source)}


def _functions(source: str) -> Iterator[_Function]:
    try:
        tree = ast.parse(source)
    except UNREADABLE:
        return
    yield from (node for node in ast.walk(tree) if isinstance(node, _Function))


def _asserts(
    function: _Function,
    helpers: Mapping[str, Sequence[_Function]],
    seen: frozenset[str],
    under_test: Collection[str],
) -> bool:
    for node in _reachable(function.body):
        if isinstance(node, ast.Assert) and not _is_always_true(node.test):
            return True
        if isinstance(node, ast.Raise) and "AssertionError" in ast.dump(node):
            return True
        if isinstance(node, ast.Call) and _call_asserts(node, helpers, seen, under_test):
            return True
    return False


def _call_asserts(
    call: ast.Call,
    helpers: Mapping[str, Sequence[_Function]],
    seen: frozenset[str],
    under_test: Collection[str],
) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if name in seen:
        return False
    if own := helpers.get(name):
        # A helper of the project counts by what it does, whatever it is called.
        return any(_asserts(helper, helpers, seen | {name}, under_test) for helper in own)
    if _root(call.func) in under_test and not _OF_MOCKS.fullmatch(name):
        return False
    if _CHECKING.fullmatch(name) or _CAMEL.fullmatch(name):
        asks_a_mock = isinstance(call.func, ast.Attribute) and getattr(call.func.value, "id", "") != "self"
        says_something = not call.args or not all(map(_is_constant, call.args))
        return asks_a_mock or says_something or "fail" in name.lower()
    return False


def _reachable(body: Sequence[ast.stmt]) -> Iterator[ast.AST]:
    """Every node that may run: not behind a return, not under `if False`, not in a function that is only defined."""
    for statement in body:
        match statement:
            case ast.If(test=ast.Constant(value=value)):
                yield from _reachable(statement.body if value else statement.orelse)
            case ast.While(test=ast.Constant(value=value)) if not value:
                yield from _reachable(statement.orelse)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                continue
            case _:
                yield from _parts(statement)
        if isinstance(statement, ast.Return | ast.Raise):
            return


def _parts(statement: ast.stmt) -> Iterator[ast.AST]:
    yield statement
    for _, value in ast.iter_fields(statement):
        if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
            yield from _reachable(value)
        elif isinstance(value, list):
            for entry in value:
                if isinstance(entry, ast.ExceptHandler | ast.match_case):
                    yield from _reachable(entry.body)
                elif isinstance(entry, ast.AST):
                    yield from ast.walk(entry)
        elif isinstance(value, ast.AST):
            yield from ast.walk(value)


def _is_always_true(test: ast.expr) -> bool:
    match test:
        case ast.Tuple(elts=elements) | ast.List(elts=elements) | ast.Set(elts=elements):
            return any(not isinstance(element, ast.Starred) for element in elements)
        case ast.Dict(keys=keys):
            return any(key is not None for key in keys)
        case ast.JoinedStr(values=values):
            return any(isinstance(value, ast.Constant) for value in values)
        case ast.Lambda() | ast.GeneratorExp():
            return True
        case ast.BoolOp(op=ast.Or(), values=values):
            return any(_is_constant(value) for value in values)
        case ast.Compare(left=left, ops=[ast.Eq() | ast.Is() | ast.LtE() | ast.GtE()], comparators=[right]):
            return ast.dump(left) == ast.dump(right) or (_is_constant(left) and _is_constant(right))
        case _:
            return _is_constant(test)


def _is_constant(node: ast.expr) -> bool:
    """Whether nothing that a test could find out is part of an expression."""
    return not any(isinstance(part, ast.Name | ast.Call | ast.Attribute | ast.Await) for part in ast.walk(node))

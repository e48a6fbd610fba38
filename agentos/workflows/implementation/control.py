"""Tests made to fail: where one of them passes all the same, something decides about tests that should not (pure).

Every test gets a last statement that raises, under its own name and in its own file. Whoever patches pytest, flips
outcomes in a conftest or ends the process says that these pass, too. On the way each comparison is asked further
questions, which nothing but a value that lies about itself answers with yes.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable
from typing import Final

from agentos.errors import AgentosError
from agentos.workflows.implementation.assertions import UNREADABLE, functions_in
from agentos.workflows.implementation.suite_report import CaseStatus, SuiteReport, without_parameters

_LIES: Final = "equals everything"
_ASKED: Final = (ast.Eq, ast.NotEq, ast.In, ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_PRELUDE: Final = """
import operator as _operator_{mark}
import os as _os_{mark}
import sys as _sys_{mark}

_found_{mark} = []
_seen_{mark} = []


def _others_{mark}(wanted):
    kind = type(wanted)
    if kind is bool:
        others = [not wanted]
    elif kind in (int, float, complex):
        others = [wanted + 1, wanted - 1, wanted + 7919]
    elif kind is str:
        others = [wanted + "{mark}", wanted[:-1], "{mark}"]
    elif kind is bytes:
        others = [wanted + b"{mark}", wanted[:-1]]
    elif kind in (list, tuple):
        others = [wanted + kind(["{mark}"]), wanted[:-1]]
    elif kind is dict:
        others = [{{**wanted, "{mark}": "{mark}"}}]
    elif kind in (set, frozenset):
        others = [wanted | {{"{mark}"}}]
    else:
        return [object(), "{mark}"]
    others += [one for one in _seen_{mark} if type(one) is kind]
    _seen_{mark}.append(wanted)
    return [other for other in others if not other == wanted]


def _is_ours_{mark}(value):
    module = _sys_{mark}.modules.get(type(value).__module__)
    path = _os_{mark}.path.relpath(getattr(module, "__file__", None) or "/", _os_{mark}.getcwd())
    return not path.startswith("..") and "test" not in path.lower()


def _ask_{mark}(value, wanted, line, besides=()):
    try:
        others = [other for other in _others_{mark}(wanted) if not any(other == one for one in besides)]
        says_yes = value == wanted or not value != wanted
        if says_yes and any(value == other or not value != other for other in others):
            _found_{mark}.append(line)
    except Exception:
        pass


def _pair_{mark}(left, right, line):
    _ask_{mark}(left, right, line)
    if _is_ours_{mark}(right):
        _ask_{mark}(right, left, line)
    return left, right


def _compared_{mark}(name, left, right, line):
    if name == "in":
        for one in right if type(right) in (list, tuple, set, frozenset) else ():
            _ask_{mark}(left, one, line, right)
        return left in right
    result = getattr(_operator_{mark}, name)(left, right)
    if name in ("eq", "ne"):
        _pair_{mark}(left, right, line)
    else:
        try:
            if left < right and left > right:
                _found_{mark}.append(line)
        except Exception:
            pass
    return result
"""


class NotChangeable(AgentosError):
    """A test file cannot be made to fail: nobody can tell whether its results are pytest's own."""


def made_to_fail(source: str, mark: str) -> str | None:
    """The test file with every test failing at its end; None when there is no test in it.

    Raises NotChangeable for what this Python cannot read or write again.
    """
    try:
        tree = ast.parse(source)
        tests = [node for _, node in functions_in(tree.body, ())]
        return ast.unparse(_failing(tree, tests, mark)) if tests else None
    except UNREADABLE as error:
        raise NotChangeable(f"{type(error).__name__}: {error}") from None


def _failing(tree: ast.Module, tests: Iterable[ast.FunctionDef | ast.AsyncFunctionDef], mark: str) -> ast.Module:
    _Asking(mark).visit(tree)
    ending = ast.parse(f"raise AssertionError({mark!r} + ({_LIES!r} + str(_found_{mark}) if _found_{mark} else ''))")
    for test in tests:
        start = ast.parse(f"_found_{mark}.clear()").body
        test.body = [*start, ast.Try(body=test.body, handlers=[], orelse=[], finalbody=ending.body)]
    place = _after_future_imports(tree.body)
    tree.body[place:place] = ast.parse(_PRELUDE.format(mark=mark)).body
    return ast.fix_missing_locations(tree)


def _after_future_imports(body: list[ast.stmt]) -> int:
    place = 0
    for number, node in enumerate(body):
        is_docstring = number == 0 and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        is_future = isinstance(node, ast.ImportFrom) and node.module == "__future__"
        if is_docstring or is_future:
            place = number + 1
    return place


class _Asking(ast.NodeTransformer):
    """Asks the values that `assert a == b` and `assertEqual(a, b)` compare; each side is evaluated once."""

    def __init__(self, mark: str) -> None:
        self._mark = mark
        self._is_asserted = False

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        self._is_asserted = True
        node.test = self.visit(node.test)
        self._is_asserted = False
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        if not self._is_asserted or len(node.ops) != 1 or not isinstance(node.ops[0], _ASKED):
            return node
        name = {ast.NotEq: "ne", ast.LtE: "le", ast.GtE: "ge"}.get(
            type(node.ops[0]), type(node.ops[0]).__name__.lower()
        )
        return self._call("compared", [ast.Constant(name), *_asked_first(node.left, node.comparators[0], name)], node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        is_comparing = name.startswith("assert") and name.endswith("Equal") and "Not" not in name
        if is_comparing and len(node.args) >= 2 and not any(isinstance(each, ast.Starred) for each in node.args[:2]):
            pair = self._call("pair", list(_asked_first(node.args[0], node.args[1], "eq")), node)
            node.args[:2] = [ast.Starred(pair, ast.Load())]
        return node

    def _call(self, name: str, arguments: list[ast.expr], node: ast.expr) -> ast.Call:
        function = ast.Name(f"_{name}_{self._mark}", ast.Load())
        return ast.Call(function, [*arguments, ast.Constant(node.lineno)], [])


def _asked_first(left: ast.expr, right: ast.expr, name: str) -> tuple[ast.expr, ast.expr]:
    """The side to ask comes first: `8 == double(4)` is about what is no literal."""
    is_turned = name in ("eq", "ne") and isinstance(left, ast.Constant)
    return (right, left) if is_turned else (left, right)


def control_problem(
    real: Iterable[SuiteReport], control: SuiteReport, changed: Collection[str], mark: str
) -> str | None:
    """What is wrong with a run of tests that were all made to fail, in words; None when they all did (pure).

    `changed` are the ids, without parameters, of the tests that were made to.
    """
    passed = {case.id for report in real for case in report.cases or () if case.status is CaseStatus.PASSED}
    cases = {case.id: case for case in control.cases or ()}
    for case_id in sorted(case_id for case_id in passed if without_parameters(case_id) in changed):
        case = cases.get(case_id)
        if case is None or not case.is_failing:
            how = "is gone" if case is None else case.status.value
            how_judged = "code on the branch changes how tests are judged"
            return f"{case_id} was made to fail and is reported as {how}: {how_judged}"
        if f"{mark}{_LIES}" in case.message:
            return f"{case_id} compares something that {_LIES}: what it says about the code is worth nothing"
    return None

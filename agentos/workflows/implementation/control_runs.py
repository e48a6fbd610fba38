"""Tests made to fail: where one of them passes all the same, something decides about tests that should not (pure).

Every test gets a last statement that raises, under its own name and in its own file. Whoever patches pytest, flips
outcomes in a conftest or ends the process says that these pass, too. On the way each comparison is asked further
questions, which nothing but a value that lies about itself answers with yes.

Whoever tells our files from the project's, by their size, age, lines or names, and behaves in ours, gains nothing: a
test says itself how its body ended, before anybody around it hears of that, and ours does not cover its own failure.
A test that passes as it is written and did not get to its end here is one whose failure was hidden there, or one
of code that looked up what the test wants: ours do not show that.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable
from typing import Final

from agentos.errors import AgentosError
from agentos.workflows.implementation.assertions import UNREADABLE, functions_in
from agentos.workflows.implementation.hidden_literals import PRELUDE, hide_literals
from agentos.workflows.implementation.suite_report import CaseStatus, SuiteReport, without_parameters

_LIES: Final = "equals everything"
_ASKED: Final = (ast.Eq, ast.NotEq, ast.In, ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_ENDED: Final = "ended"
_RAISED: Final = "raised"
_EVENT: Final = "agentos.ending"
"""What the program beside pytest listens to (`inside/pytest_child.py`)."""
_PRELUDE: Final = """
import operator as _operator_{mark}
import os as _os_{mark}
import sys as _sys_{mark}
from sys import audit as _audit_{mark}

from pytest import fail as _fail_{mark}

_failures_{mark} = (AssertionError, _fail_{mark}.Exception)
_all_{mark} = BaseException

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


def _agrees_{mark}(value, wanted):
    try:
        return any(value == other for other in _others_{mark}(wanted))
    except Exception:
        return False


def _pair_{mark}(left, right, line):
    if _agrees_{mark}(left, right) and left == right:
        _found_{mark}.append(line)
    _ask_{mark}(left, right, line)
    if _is_ours_{mark}(right):
        _ask_{mark}(right, left, line)
    return left, right


def _compared_{mark}(name, left, right, line):
    if name == "in":
        for one in right if type(right) in (list, tuple, set, frozenset) else ():
            _ask_{mark}(left, one, line, right)
        return left in right
    agrees = name == "eq" and _agrees_{mark}(left, right)
    result = getattr(_operator_{mark}, name)(left, right)
    if agrees and result:
        _found_{mark}.append(line)
    if name in ("eq", "ne"):
        _ask_{mark}(left, right, line)
        if _is_ours_{mark}(right):
            _ask_{mark}(right, left, line)
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
    """The test file with every test failing at its end, if it gets there; None when there is no test in it.

    Raises NotChangeable for what this Python cannot read or write again.
    """
    try:
        tree = ast.parse(source)
        # A name may be given twice, under two conditions.
        tests = [("::".join(names), node) for names, node in functions_in(tree.body, ())]
        return ast.unparse(_failing(tree, tests, mark)) if tests else None
    except UNREADABLE as error:
        raise NotChangeable(f"{type(error).__name__}: {error}") from None


_ENDING: Final = """
_found_{mark}.clear()
_raised_{mark} = False
try:
    pass
except {kinds}_{mark}:
    _raised_{mark} = True
    _audit_{mark}({event!r}, {raised!r})
    raise
finally:
    if not _raised_{mark}:
        _audit_{mark}({event!r}, {ended!r})
        raise AssertionError({mark!r} + ({lies!r} + str(_found_{mark}) if _found_{mark} else ""))
"""


def _failing(
    tree: ast.Module, tests: Iterable[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]], mark: str
) -> ast.Module:
    _Asking(mark).visit(tree)
    hide_literals(tree, mark)
    for name, test in tests:
        said = {"raised": _said(mark, name, _RAISED), "ended": _said(mark, name, _ENDED)}
        # What is around a test may want it to raise something; a failed assertion nobody wants.
        kinds = "_all" if all(map(_is_mark, test.decorator_list)) else "_failures"
        *start, attempt = ast.parse(_ENDING.format(mark=mark, kinds=kinds, event=_EVENT, lies=_LIES, **said)).body
        assert isinstance(attempt, ast.Try)
        attempt.body = test.body
        test.body = [*start, attempt]
    place = _after_future_imports(tree.body)
    tree.body[place:place] = ast.parse((PRELUDE + _PRELUDE).format(mark=mark)).body
    return ast.fix_missing_locations(tree)


def _said(mark: str, name: str, how: str) -> str:
    """With its own name: whoever has another test run in its place has that one speak."""
    return f"{mark} {name} {how}"


def _is_mark(decorator: ast.expr) -> bool:
    return ast.unparse(decorator).startswith(("pytest.mark.", "mark."))


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
    cases = {case.id: case for case in control.cases or ()}
    for case_id in _asked(real, changed):
        case = cases.get(case_id)
        if case is None or not case.is_failing:
            how = "is gone" if case is None else case.status.value
            how_judged = "code on the branch changes how tests are judged"
            return f"{case_id} was made to fail and is reported as {how}: {how_judged}"
        if f"{mark}{_LIES}" in case.message:
            return f"{case_id} compares something that {_LIES}: what it says about the code is worth nothing"
    return None


def hidden_failures(
    real: Iterable[SuiteReport], control: SuiteReport, changed: Collection[str], mark: str
) -> tuple[str, ...]:
    """Tests that pass as they are written and did not get to their end in ours, which assert the same (pure)."""
    said = {(each.test, each.path, each.words) for each in control.endings}
    in_part = control.with_failing_part

    def is_hidden(test: str) -> bool:
        path, _, name = without_parameters(test).partition("::")
        ended, raised = ((test, path, _said(mark, name, how)) for how in (_ENDED, _RAISED))
        # Ours fail at their end: a part that does, fails by itself.
        return ended not in said or raised in said or test in in_part

    return tuple(test for test in _asked(real, changed) if is_hidden(test))


def _asked(real: Iterable[SuiteReport], changed: Collection[str]) -> list[str]:
    passed = {case.id for report in real for case in report.cases or () if case.status is CaseStatus.PASSED}
    return sorted(case_id for case_id in passed if without_parameters(case_id) in changed)

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
_ASKING_FOR_TRUTH: Final = ("all", "any", "bool", "assertTrue", "assertFalse")
_MOST_SEEN: Final = 100
"""Values that others were compared with, to ask the next ones about."""
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
_plain_kinds_{mark} = frozenset((bool, int, float, complex, str, bytes, type(None)))


def _is_plain_{mark}(value):
    if type(value) in _plain_kinds_{mark}:
        return True
    if type(value) is dict:
        value = [*value, *value.values()]
    return type(value) in (list, tuple, set, frozenset) and all(map(_is_plain_{mark}, value))


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
    del _seen_{mark}[:-{most_seen}]
    return [other for other in others if not other == wanted]


def _is_ours_{mark}(value):
    kind = type(value)
    module = _sys_{mark}.modules.get(kind.__module__)
    code = getattr(getattr(kind, "__eq__", None), "__code__", None)
    file = code.co_filename if code else getattr(module, "__file__", None)
    path = _os_{mark}.path.relpath(file or "/", _os_{mark}.getcwd())
    *folders, name = path.lower().split(_os_{mark}.sep)
    is_test = name.startswith("test_") or name.endswith("_test.py") or name == "conftest.py"
    return not is_test and not {{"..", "site-packages", "test", "tests", "testing", "spec", "specs"}} & {{*folders}}


def _ask_{mark}(value, wanted, line, besides=()):
    try:
        others = [other for other in _others_{mark}(wanted) if not any(other == one for one in besides)]
        says_yes = value == wanted or not value != wanted
        if says_yes and any(value == other or not value != other for other in others):
            _found_{mark}.append(line)
    except Exception:
        pass


def _ask_parts_{mark}(value, wanted, line):
    pairs = ()
    if type(value) is dict and type(wanted) is dict:
        pairs = [(one, wanted[name]) for name, one in value.items() if name in wanted]
    elif type(value) in (list, tuple) and type(wanted) in (list, tuple):
        pairs = zip(value, wanted)
    for one, other in pairs:
        _ask_parts_{mark}(one, other, line)
        if not _is_plain_{mark}(one) and _is_ours_{mark}(one):
            _ask_{mark}(one, other, line)


def _ask_both_{mark}(left, right, line):
    _ask_{mark}(left, right, line)
    _ask_parts_{mark}(left, right, line)
    _ask_parts_{mark}(right, left, line)
    if not _is_plain_{mark}(right) and _is_ours_{mark}(right):
        _ask_{mark}(right, left, line)


def _agrees_{mark}(value, wanted):
    try:
        return any(value == other for other in _others_{mark}(wanted))
    except Exception:
        return False


def _ask_in_{mark}(value, those, line):
    for one in those if type(those) in (list, tuple, set, frozenset, dict) else ():
        _ask_{mark}(value, one, line, those)


def _ask_order_{mark}(left, right, line):
    try:
        if left < right and left > right:
            _found_{mark}.append(line)
    except Exception:
        pass


def _ask_distance_{mark}(value, wanted, line):
    try:
        if round(value - wanted, 7) == 0 and any(round(value - one, 7) == 0 for one in _others_{mark}(wanted)):
            _found_{mark}.append(line)
    except Exception:
        pass


def _pair_{mark}(name, left, right, line):
    if _is_plain_{mark}(left) and _is_plain_{mark}(right):
        pass
    elif name == "in":
        _ask_in_{mark}(left, right, line)
    elif name == "order":
        _ask_order_{mark}(left, right, line)
    else:
        if _agrees_{mark}(left, right) and left == right:
            _found_{mark}.append(line)
        _ask_both_{mark}(left, right, line)
        _ask_distance_{mark}(left, right, line)
        _ask_distance_{mark}(right, left, line)
    return left, right


def _compared_{mark}(name, left, right, line, is_truth):
    if name == "in":
        if not _is_plain_{mark}(left):
            _ask_in_{mark}(left, right, line)
        return left in right
    is_plain = _is_plain_{mark}(left) and _is_plain_{mark}(right)
    agrees = is_truth and not is_plain and name == "eq" and _agrees_{mark}(left, right)
    result = getattr(_operator_{mark}, name)(left, right)
    if agrees and result:
        _found_{mark}.append(line)
    # What is no truth may be a question to a database, say.
    if not is_plain and (is_truth or type(result) is bool):
        (_ask_both_{mark} if name in ("eq", "ne") else _ask_order_{mark})(left, right, line)
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
    tree.body[place:place] = ast.parse((PRELUDE + _PRELUDE).format(mark=mark, most_seen=_MOST_SEEN)).body
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
    """Asks the values that `a == b` and `assertEqual(a, b)` compare, wherever; each side is evaluated once."""

    def __init__(self, mark: str) -> None:
        self._mark = mark
        self._is_truth = False
        """Whether the truth of an expression is what is asked for."""

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        return self._with_test(node)

    def visit_If(self, node: ast.If) -> ast.AST:
        return self._with_test(node)

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        return self._with_test(node)

    def visit_While(self, node: ast.While) -> ast.AST:
        return self._with_test(node)

    def _with_test(self, node: ast.Assert | ast.If | ast.IfExp | ast.While) -> ast.AST:
        test = self._visit(node.test, is_truth=True)
        node.test = ast.Constant(None)
        self._visit(node, is_truth=False, only_parts=True)
        node.test = test
        return node

    def _visit(self, node: ast.AST, *, is_truth: bool, only_parts: bool = False) -> ast.expr:
        before, self._is_truth = self._is_truth, is_truth
        visited: ast.expr = self.generic_visit(node) if only_parts else self.visit(node)  # type: ignore[assignment]
        self._is_truth = before
        return visited

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self._visit(node, is_truth=False, only_parts=True)
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        is_truth = self._is_truth
        self._visit(node, is_truth=False, only_parts=True)
        if len(node.ops) != 1 or not isinstance(node.ops[0], _ASKED):
            return node
        name = {ast.NotEq: "ne", ast.LtE: "le", ast.GtE: "ge"}.get(
            type(node.ops[0]), type(node.ops[0]).__name__.lower()
        )
        sides = _asked_first(node.left, node.comparators[0], name)
        return self._call("compared", [ast.Constant(name), *sides], node, ast.Constant(is_truth))

    def visit_Call(self, node: ast.Call) -> ast.AST:
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        self._visit(node, is_truth=called in _ASKING_FOR_TRUTH, only_parts=True)
        name = _asked_by_a_call(called) if isinstance(node.func, ast.Attribute) else ""
        if name and len(node.args) >= 2 and not any(isinstance(each, ast.Starred) for each in node.args[:2]):
            pair = self._call("pair", [ast.Constant(name), *_asked_first(node.args[0], node.args[1], name)], node)
            node.args[:2] = [ast.Starred(pair, ast.Load())]
        return node

    def _call(self, name: str, arguments: list[ast.expr], node: ast.expr, *further: ast.expr) -> ast.Call:
        function = ast.Name(f"_{name}_{self._mark}", ast.Load())
        return ast.Call(function, [*arguments, ast.Constant(node.lineno), *further], [])


def _asked_by_a_call(method: str) -> str:
    """What an assertion of unittest's asks of its first two arguments; empty when it is about something else."""
    if not method.startswith("assert") or "Not" in method:
        return ""
    if method.startswith(("assertGreater", "assertLess")):
        return "order"
    return "in" if method == "assertIn" else "eq" if method.endswith("Equal") else ""


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

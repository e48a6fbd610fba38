"""Tests made to fail: where one of them passes all the same, something decides about tests that should not (pure).

Every test gets a last statement that raises, under its own name and in its own file. Whoever patches pytest, flips
outcomes in a conftest or ends the process says that these pass, too. On the way each comparison is asked a second
question, which nothing but a value that equals everything answers with yes.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable
from typing import Final

from agentos.workflows.implementation.assertions import functions_in
from agentos.workflows.implementation.suite_report import CaseStatus, SuiteReport

_EQUAL_TO_ALL: Final = "equal to everything"
_PRELUDE: Final = """
_found_{mark} = []


def _other_{mark}(wanted):
    kind = type(wanted)
    if kind is bool:
        return not wanted
    if kind in (int, float, complex):
        return wanted + 7919
    if kind is str:
        return wanted + "{mark}"
    if kind is bytes:
        return wanted + b"{mark}"
    if kind in (list, tuple):
        return wanted + kind(["{mark}"])
    if kind is dict:
        return {{**wanted, "{mark}": "{mark}"}}
    if kind in (set, frozenset):
        return wanted | {{"{mark}"}}
    return object()


def _ask_{mark}(value, wanted, line):
    try:
        if (value == _other_{mark}(wanted)) is True:
            _found_{mark}.append(line)
    except Exception:
        pass
    return value
"""


def made_to_fail(source: str, mark: str) -> str | None:
    """The test file with every test failing at its end; None when there is nothing in it to change."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return None
    tests = [node for _, node in functions_in(tree.body, ())]
    if not tests:
        return None
    _Asking(mark).visit(tree)
    ending = ast.parse(
        f"raise AssertionError({mark!r} + ({_EQUAL_TO_ALL!r} + str(_found_{mark}) if _found_{mark} else ''))"
    )
    for test in tests:
        start = ast.parse(f"_found_{mark}.clear()").body
        test.body = [*start, ast.Try(body=test.body, handlers=[], orelse=[], finalbody=ending.body)]
    place = _after_future_imports(tree.body)
    tree.body[place:place] = ast.parse(_PRELUDE.format(mark=mark)).body
    return ast.unparse(ast.fix_missing_locations(tree))


def _after_future_imports(body: list[ast.stmt]) -> int:
    place = 0
    for number, node in enumerate(body):
        is_docstring = number == 0 and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        is_future = isinstance(node, ast.ImportFrom) and node.module == "__future__"
        if is_docstring or is_future:
            place = number + 1
    return place


class _Asking(ast.NodeTransformer):
    """Wraps the left side of `assert a == b` and `assertEqual(a, b)`."""

    def __init__(self, mark: str) -> None:
        self._mark = mark

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        for compare in ast.walk(node.test):
            if isinstance(compare, ast.Compare) and len(compare.ops) == 1 and isinstance(compare.ops[0], ast.Eq):
                compare.left, compare.comparators[0] = self._asked(compare.left, compare.comparators[0])
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.func, ast.Attribute) and node.func.attr == "assertEqual" and len(node.args) >= 2:
            node.args[0], node.args[1] = self._asked(node.args[0], node.args[1])
        return node

    def _asked(self, left: ast.expr, right: ast.expr) -> tuple[ast.expr, ast.expr]:
        """The side that is no literal is asked; the other one says what it should not be equal to."""
        if isinstance(left, ast.Constant):
            return (left, self._call(right, left)) if not isinstance(right, ast.Constant) else (left, right)
        if _is_plain(right):
            return self._call(left, right), right
        return left, right

    def _call(self, value: ast.expr, wanted: ast.expr) -> ast.expr:
        function = ast.Name(f"_ask_{self._mark}", ast.Load())
        return ast.Call(function, [value, wanted, ast.Constant(getattr(value, "lineno", 0))], [])


def _is_plain(node: ast.expr) -> bool:
    """Whether evaluating it twice does nothing: literals, names, and what is made of them."""
    return not any(
        isinstance(part, ast.Call | ast.Await | ast.Yield | ast.NamedExpr | ast.GeneratorExp)
        for part in ast.walk(node)
    )


def control_problem(
    real: Iterable[SuiteReport], control: SuiteReport, changed: Collection[str], mark: str
) -> str | None:
    """What is wrong with a run of tests that were all made to fail, in words; None when they all did (pure).

    `changed` are the ids, without parameters, of the tests that were made to.
    """
    passed = {case.id for report in real for case in report.cases or () if case.status is CaseStatus.PASSED}
    cases = {case.id: case for case in control.cases or ()}
    wanted = sorted(case_id for case_id in passed if case_id.partition("[")[0] in changed)
    for case_id in wanted:
        case = cases.get(case_id)
        if case is None or not case.is_failing:
            how = "is gone" if case is None else case.status.value
            how_judged = "code on the branch changes how tests are judged"
            return f"{case_id} was made to fail and is reported as {how}: {how_judged}"
        if f"{mark}{_EQUAL_TO_ALL}" in case.message:
            return (
                f"{case_id} compares something that equals everything: what it says about the code is worth nothing"
            )
    return None

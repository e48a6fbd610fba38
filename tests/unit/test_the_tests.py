"""Tests check something, and drive what the product shows: nothing in tests reaches for a private name."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from test_import_directions import PACKAGE_DIR

TESTS_DIR = Path(__file__).parents[1]

OTHERS = {"_exit", "_replace", "_actions", "_SubParsersAction"}
"""Of Python's own library."""
PROMISED = {"_handle_shutdown_signal"}
"""By issue 106."""
CHECKS = {"raises", "fail", "warns"}
MOST_LINES = 60


def trees(folder: Path) -> Iterator[tuple[Path, ast.Module]]:
    for path in sorted(folder.rglob("*.py")):
        yield path.relative_to(folder), ast.parse(path.read_text(encoding="utf-8"))


def is_private(name: object) -> bool:
    last = str(name).rpartition(".")[2]
    return last.startswith("_") and not last.startswith("__") and last not in OTHERS | PROMISED


def private_names(node: ast.AST) -> list[str]:
    """What this reaches for that is not its own."""
    match node:
        case ast.ImportFrom(module=str(module)) if module.startswith(("agentos", "fakes")):
            return [name for name in (*module.split("."), *(each.name for each in node.names)) if is_private(name)]
        case ast.Attribute(value=ast.Name(id="self" | "cls")):
            return []
        case ast.Attribute(attr=name) if is_private(name):
            return [name]
        case ast.Call(func=ast.Name(id="setattr" | "getattr") | ast.Attribute(attr="setattr" | "delattr")):
            return [each.value for each in node.args if isinstance(each, ast.Constant) and is_private(each.value)]
    return []


def test_nothing_in_tests_reaches_for_a_private_name() -> None:
    found = [
        f"{path}:{getattr(node, 'lineno', '')} {name}"
        for path, tree in trees(TESTS_DIR)
        for node in ast.walk(tree)
        for name in private_names(node)
    ]
    assert found == []


def called_in(function: ast.AST) -> set[str]:
    called = [node.func for node in ast.walk(function) if isinstance(node, ast.Call)]
    return {func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "") for func in called}


def checks_something(function: ast.AST) -> bool:
    """Itself, or by a helper that says so in its name."""
    is_asserting = any(isinstance(node, ast.Assert) for node in ast.walk(function))
    return is_asserting or any(name in CHECKS or name.startswith(("check", "assert")) for name in called_in(function))


def idle_tests(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Tests that check nothing, nor call a helper beside them that does."""
    checking = {each.name for each in functions(tree) if checks_something(each)}
    for test in functions(tree):
        if test.name.startswith("test_") and test.name not in checking and not called_in(test) & checking:
            yield test


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def test_every_test_checks_something() -> None:
    idle = [
        f"{path}:{test.lineno} {test.name}"
        for path, tree in trees(TESTS_DIR)
        if path.name.startswith("test_")
        for test in idle_tests(tree)
    ]
    assert idle == []


def test_no_function_of_the_product_is_longer_than_a_screen() -> None:
    long = [
        f"{path}:{each.lineno} {each.name}"
        for path, tree in trees(PACKAGE_DIR)
        for each in functions(tree)
        if (each.end_lineno or 0) - each.lineno >= MOST_LINES
    ]
    assert long == []


def test_unit_tests_lie_in_the_folders_of_what_they_test() -> None:
    unit = TESTS_DIR / "unit"
    folders = {path.parent.relative_to(unit) for path in unit.rglob("test_*.py")}
    assert [str(each) for each in folders if not (PACKAGE_DIR / each).is_dir()] == []


def test_no_two_files_of_tests_have_the_same_name() -> None:
    """Pytest collects neither when they do, and every command that runs all tests fails."""
    names = Counter(path.name for path in TESTS_DIR.rglob("test_*.py"))
    assert [name for name, count in names.items() if count > 1] == []

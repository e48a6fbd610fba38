"""Test files that do not show what they expect (pure).

Code can find what a test wants of it without computing anything: in its file, in its constants, by a program that
nobody watches. In tests of ours each written value is made when it is needed, after what it is compared with.
"""

from __future__ import annotations

import ast
import random
from typing import Final

_KINDS: Final = (bool, int, float, complex, str, bytes)
_SPARE_BITS: Final = 16
"""A key is longer than what it hides: small numbers are not to be told from large ones."""
PRELUDE: Final = """
_kinds_{mark} = {{"bool": "True".__eq__, "float": float, "complex": complex, "str": str}}


def _plain_{mark}(kind, hidden, key):
    if kind == "int":
        return hidden ^ key
    data = (int.from_bytes(hidden, "big") ^ int.from_bytes(key, "big")).to_bytes(len(key), "big")
    return data if kind == "bytes" else _kinds_{mark}[kind](data.decode("utf-8", "surrogatepass"))
"""
"""What a changed file needs to have its values back."""


def hide_literals(tree: ast.Module, mark: str) -> None:
    """Change a file so that its values, wherever Python allows it, are made while it runs."""
    _Hiding(mark).visit(tree)


class _Hiding(ast.NodeTransformer):
    def __init__(self, mark: str) -> None:
        self._mark = mark
        self._random = random.Random(mark)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if type(node.value) not in _KINDS:
            return node
        function = ast.Name(f"_plain_{self._mark}", ast.Load())
        parts = (type(node.value).__name__, *self._hidden(node.value))
        return ast.copy_location(ast.Call(function, [ast.Constant(part) for part in parts], []), node)

    def _hidden(self, value: object) -> tuple[int, int] | tuple[bytes, bytes]:
        """A value and its key, neither of which says anything without the other."""
        if type(value) is int:
            number_key = self._random.getrandbits(value.bit_length() + _SPARE_BITS)
            return value ^ number_key, number_key
        data = value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")
        key = self._random.randbytes(len(data))
        return bytes(one ^ other for one, other in zip(data, key, strict=True)), key

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        # A documentation string is one only as it is written.
        return node if isinstance(node.value, ast.Constant) else self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        node.value = self.visit(node.value) if node.value else None
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self._without_returns(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return self._without_returns(node)

    def _without_returns(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        returns, node.returns = node.returns, None
        self.generic_visit(node)
        node.returns = returns
        return node

    def visit_arg(self, node: ast.arg) -> ast.AST:
        # Tools read annotations as they are written.
        return node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        # Not every Python can write an expression with quotes in it there.
        return node

    def visit_MatchValue(self, node: ast.MatchValue) -> ast.AST:
        return node

    def visit_MatchMapping(self, node: ast.MatchMapping) -> ast.AST:
        return node

"""What a source file offers to others, in a few lines: public signatures, headings, targets. Pure."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator
from pathlib import PurePosixPath

from agentos.documents.markdown import parse

MAX_OUTLINE_LINES = 200
MAX_LINE_CHARACTERS = 160
_MAX_SCANNED_LINE = 400
_MAX_STRING_DEFAULT = 20
# What a signature must not give away, whatever default value it has.
_SECRET_NAME = re.compile(r"passw|secret|token|api_?key|credential|private_?key", re.IGNORECASE)

_JS = re.compile(
    r"\s{0,4}(?:export\s+(?:default\s+)?|module\.exports|(?:async\s+)?function\b|(?:abstract\s+)?class\s+\w"
    r"|interface\s+\w|type\s+\w+\s*[=<]|enum\s+\w|(?:const|let|var)\s+\w+\s*=\s*(?:async\s*)?(?:\(|function\b))"
)
_JVM = re.compile(
    r"\s{0,8}(?:(?:public|protected|internal|export|static|abstract|final|sealed|open|data|override|suspend|async)\s+)*"
    r"(?:(?:class|interface|enum|record|object|trait|namespace|struct|fun|def)\s+\w"
    r"|(?<=\s)[\w<>\[\],.?]+\s+\w+\s*\()"
)
_C = re.compile(
    r"(?:typedef\b|struct\s+\w|union\s+\w|enum\s+\w|class\s+\w|namespace\s+\w|template\s*<|#define\s+\w+\("
    r"|[A-Za-z_][\w\s*&:<>,~]*\([^;]*\)?[^;]*$)"
)
_PATTERNS = {
    **dict.fromkeys((".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx", ".vue", ".svelte"), _JS),
    **dict.fromkeys((".java", ".kt", ".scala", ".cs", ".groovy"), _JVM),
    **dict.fromkeys((".c", ".h", ".cc", ".cpp", ".cxx", ".hh", ".hpp", ".m"), _C),
    **dict.fromkeys((".sh", ".bash", ".zsh"), re.compile(r"\s{0,4}(?:function\s+[\w:-]+|[\w:-]+\s*\(\)\s*\{?)")),
    ".go": re.compile(r"(?:func\s|type\s+\w|package\s+\w)"),
    ".rs": re.compile(r"\s{0,8}(?:pub\b|impl\b|trait\s+\w|macro_rules!|mod\s+\w)"),
    ".rb": re.compile(r"\s{0,8}(?:class|module|def)\s+\w"),
    ".php": re.compile(r"\s{0,8}(?:(?:abstract|final|public|static)\s+)*(?:class|interface|trait|function)\s+\w"),
    ".swift": re.compile(
        r"\s{0,8}(?:(?:public|open|static|final)\s+)*(?:class|struct|enum|protocol|func|extension)\s+\w"
    ),
    ".sql": re.compile(
        r"\s*create\s+(?:or\s+replace\s+)?(?:table|view|function|procedure|index|type)\b", re.IGNORECASE
    ),
    ".proto": re.compile(r"\s{0,4}(?:message|service|rpc|enum)\s+\w"),
    ".toml": re.compile(r"\[\[?[\w.\"'-]+\]?\]"),
    ".tf": re.compile(r"(?:resource|module|variable|output|data)\s+\""),
    "makefile": re.compile(r"[A-Za-z][\w.-]*\s*:(?!=)"),
    "dockerfile": re.compile(r"(?:FROM|ENTRYPOINT|CMD|EXPOSE)\s", re.IGNORECASE),
}
_MARKDOWN = frozenset({".md", ".markdown", ".mdx"})
_KEYWORDS_OF_STATEMENTS = re.compile(
    r"\s*(?:if|for|while|switch|catch|return|else|do|new|throw|await|synchronized)\b"
)


def is_outlinable(path: str) -> bool:
    """Whether the file's kind is one that `outline` has something to say about."""
    return _kind(path) in _PATTERNS or _kind(path) in _MARKDOWN or _kind(path) in (".py", ".pyi")


def outline(path: str, text: str) -> list[str]:
    """Lines that describe the file, most of them as they stand in it; at most MAX_OUTLINE_LINES."""
    kind = _kind(path)
    if kind in (".py", ".pyi"):
        lines = _python(text)
    elif kind in _MARKDOWN:
        lines = _headings(text)
    else:
        lines = _matching(text, _PATTERNS[kind]) if kind in _PATTERNS else []
    shown = [_clip(line) for line in lines[:MAX_OUTLINE_LINES]]
    return [*shown, "..."] if len(lines) > MAX_OUTLINE_LINES else shown


def _kind(path: str) -> str:
    name = PurePosixPath(path).name.lower()
    return PurePosixPath(name).suffix if name not in ("makefile", "dockerfile") else name


def _clip(line: str) -> str:
    line = line.rstrip()
    return line if len(line) <= MAX_LINE_CHARACTERS else line[: MAX_LINE_CHARACTERS - 3] + "..."


def _matching(text: str, pattern: re.Pattern[str]) -> list[str]:
    found = []
    for line in text.splitlines():
        line = line[:_MAX_SCANNED_LINE]
        if pattern.match(line) and not _KEYWORDS_OF_STATEMENTS.match(line):
            found.append(_without_literals(line.rstrip().removesuffix("{").rstrip()))
    return found


def _without_literals(line: str) -> str:
    """Quoted text that is long, or next to a telling name, may be a secret; a signature reads as well without it."""
    shortest = 1 if _SECRET_NAME.search(line) else _MAX_STRING_DEFAULT
    return re.sub(rf"([\"'`])(?:(?!\1).){{{shortest},}}\1", '"..."', line)


def _headings(text: str) -> list[str]:
    """Headings outside code, with the marks that show their level."""
    return [f"{'#' * section.level} {section.heading}" for section in parse(text).sections if section.level <= 4]


_PYTHON_FALLBACK = re.compile(r"\s{0,8}(?:async\s+def|def|class)\s+[A-Za-z]\w*")


def _python(text: str) -> list[str]:
    try:
        with warnings.catch_warnings():
            # A file with an odd escape in a string warns while it is parsed; that is its author's affair.
            warnings.simplefilter("ignore")
            return list(_python_module(ast.parse(text)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return _matching(text, _PYTHON_FALLBACK)


def _python_module(module: ast.Module) -> Iterator[str]:
    if summary := _summary(module):
        yield f'"""{summary}"""'
    for node in module.body:
        match node:
            case ast.ClassDef(name=name) if _is_public(name):
                yield from _python_class(node)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) if _is_public(name):
                yield from _python_function(node, "")
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation) if _is_public(name):
                yield f"{name}: {ast.unparse(annotation)}"
            case ast.Assign(targets=[ast.Name(id=name)]) if _is_public(name) and name.isupper():
                yield f"{name} = ..."


def _python_class(node: ast.ClassDef) -> Iterator[str]:
    bases = ", ".join(ast.unparse(base) for base in node.bases)
    yield f"class {node.name}({bases}):" if bases else f"class {node.name}:"
    if summary := _summary(node):
        yield f'    """{summary}"""'
    for member in node.body:
        match member:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) if (
                _is_public(name) or name == "__init__"
            ):
                yield from _python_function(member, "    ")
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation) if _is_public(name):
                yield f"    {name}: {ast.unparse(annotation)}"


def _python_function(node: ast.FunctionDef | ast.AsyncFunctionDef, indent: str) -> Iterator[str]:
    keyword = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    for decorator in node.decorator_list:
        if isinstance(decorator, ast.Name | ast.Attribute):
            yield f"{indent}@{ast.unparse(decorator)}"
    yield f"{indent}{keyword} {node.name}({_arguments(node.args)}){returns}"
    if summary := _summary(node):
        yield f'{indent}    """{summary}"""'


def _arguments(arguments: ast.arguments) -> str:
    """The parameters as written, but for defaults that may hold a secret or a page of text."""
    positional = [*arguments.posonlyargs, *arguments.args]
    pairs = zip(reversed(positional), reversed(arguments.defaults), strict=False)
    arguments.defaults = [_safe_default(name.arg, value) for name, value in pairs][::-1]
    arguments.kw_defaults = [
        None if value is None else _safe_default(name.arg, value)
        for name, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    ]
    return ast.unparse(arguments)


def _safe_default(name: str, value: ast.expr) -> ast.expr:
    constants = [node.value for node in ast.walk(value) if isinstance(node, ast.Constant)]
    is_long = any(isinstance(text, str | bytes) and len(text) > _MAX_STRING_DEFAULT for text in constants)
    is_text = any(isinstance(text, str | bytes) for text in constants)
    return ast.Constant(...) if is_long or (is_text and _SECRET_NAME.search(name)) else value


def _summary(node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """The first line of the docstring."""
    documentation = (ast.get_docstring(node) or "").strip()
    return documentation.splitlines()[0].strip() if documentation else ""


def _is_public(name: str) -> bool:
    return not name.startswith("_")

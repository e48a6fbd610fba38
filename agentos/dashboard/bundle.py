"""The page's files as one: its shell with styles and modules inside, for a report that opens from disk.

Modules keep a scope of their own, as in a browser. Pure but for reading the page's own files.
"""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path
from typing import Final

STATIC_DIR: Final = Path(__file__).with_name("static")
_ENTRY: Final = "app.js"
_IMPORT: Final = re.compile(r'^import \{ (?P<names>[^}]+) \} from "\./(?P<module>[^"]+)";$', re.MULTILINE)
_EXPORT: Final = re.compile(r"^export (?P<kind>async function|function|class|const) (?P<name>\w+)", re.MULTILINE)
_LEFT_OVER: Final = re.compile(r"^(?:import|export)\b.*", re.MULTILINE)
_POLICY: Final = (
    "default-src 'none'",
    "base-uri 'none'",
    "form-action 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types agentos",
)


def one_file(title: str, content: str, data: str) -> str:
    """The whole page. `content` is HTML for who has no script; `data` is JSON that the script finds as `#frozen`."""
    style, early, script = _read("page.css"), _read("theme-early.js"), bundled()
    scripts = " ".join(_fingerprint(each) for each in (early, script))
    policy = "; ".join((*_POLICY, f"script-src {scripts}", f"style-src {_fingerprint(style)}"))
    frozen = f'<script type="application/json" id="frozen">{in_script(data)}</script>'
    page = _read("index.html")
    for wanted, given in (
        ("<title>AgentOS</title>", f"<title>{title}</title>"),
        (
            '<meta charset="utf-8">',
            f'<meta charset="utf-8">\n<meta http-equiv="Content-Security-Policy" content="{policy}">',
        ),
        ('<link rel="icon" href="/static/icon.svg" type="image/svg+xml">\n', ""),
        ('<link rel="stylesheet" href="/static/page.css">', f"<style>{style}</style>"),
        ('<script src="/static/theme-early.js"></script>', f"<script>{early}</script>"),
        ('<script type="module" src="/static/app.js"></script>\n', ""),
        ('<div class="placeholder"></div>', f'<div class="placeholder unscripted">{content}</div>'),
        ("</body>", f"{frozen}\n<script>{script}</script>\n</body>"),
    ):
        if page.count(wanted) != 1:
            raise ValueError(f"the page's shell does not have one {wanted}")
        page = page.replace(wanted, given)
    return page


def in_script(json_text: str) -> str:
    """JSON that no text in it can end the script of."""
    return json_text.replace("<", "\\u003c")


def bundled() -> str:
    """All modules that the page's first one needs, each after those it imports."""
    found: dict[str, str] = {}
    _collect(_ENTRY, found)
    script = '"use strict";\nconst modules = {};\n' + "".join(found.values())
    if "</script" in script.casefold() or "<!--" in script:
        raise ValueError("a module of the page has text that ends a script")
    return script


def _collect(name: str, found: dict[str, str]) -> None:
    text = _read(name)
    for imported in _IMPORT.finditer(text):
        if imported["module"] not in found:
            _collect(imported["module"], found)
    names = [exported["name"] for exported in _EXPORT.finditer(text)]
    text = _IMPORT.sub(_as_constants, text)
    text = _EXPORT.sub(r"\g<kind> \g<name>", text)
    if left := _LEFT_OVER.search(text):
        raise ValueError(f"{name}: no bundle knows `{left[0][:80]}`")
    found[name] = f'modules["{name}"] = (() => {{\n{text}return {{ {", ".join(names)} }};\n}})();\n'


def _as_constants(imported: re.Match[str]) -> str:
    names = imported["names"].replace(" as ", ": ")
    return f'const {{ {names} }} = modules["{imported["module"]}"];'


def _fingerprint(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _read(name: str) -> str:
    return (STATIC_DIR / name).read_text(encoding="utf-8")

"""Answers of the offline model for the implementation workflow: a walking skeleton, red and then green for real.

It knows no programming: its tests ask a small module for the design's requirements, and its code is that module.
Enough to see the workflow at work in any Python project without a key; `recorded` answers show real code.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from agentos.documents.lld import Lld, parse_lld
from agentos.llm import OfflineRequest, register_offline
from agentos.text.words import counted
from agentos.workflows.implementation.judging import module_name
from agentos.workflows.implementation.project_tests import is_test_path


def register() -> None:
    register_offline("implementation.review_plan", _review_plan)
    register_offline("implementation.tests", _tests)
    register_offline("implementation.code", _code)


def _review_plan(request: OfflineRequest) -> Mapping[str, Any]:
    count = len(request.data["plan"])
    return {"verdict": "approve", "summary": f"{counted(count, 'scenario')} to check", "findings": [], "answers": []}


def _tests(request: OfflineRequest) -> str:
    lld = parse_lld(request.data["lld_text"])
    item_id = str(request.data["item_id"])
    module = module_name(_module_path(lld, item_id)) or ""
    parts = [f'"""Requirements of issue {item_id}."""\n\n{_importing(module)}']
    for number, entry in enumerate(request.data["plan"], start=1):
        wanted = entry.requirements[0] if entry.requirements else "1"
        name = re.sub(r"\W+", "_", f"{entry.id}_{entry.scenario}").strip("_").lower()[:60].strip("_")
        parts.append(f'def test_{name or number}():\n    assert requirement("{wanted}")')
    content = "\n\n\n".join(parts)
    path = _test_path(lld, item_id)
    return f'<create path="{path}" reason="tests of issue {item_id}">\n{content}\n</create>\n'


def _importing(module: str) -> str:
    """Makes `requirement` known to the tests.

    A missing module of a package is code to come. A missing module at the top may as well be a dependency that is not
    installed, and is judged so: the tests have to say themselves that it is code to come.
    """
    if "." in module:
        return f"from {module} import requirement"
    return "\n".join(
        [
            "import importlib",
            "",
            "",
            "def requirement(number):",
            "    try:",
            f'        module = importlib.import_module("{module}")',
            "    except ModuleNotFoundError:",
            f'        raise AssertionError("{module}.py is not written yet") from None',
            "    return module.requirement(number)",
        ]
    )


def _code(request: OfflineRequest) -> str:
    lld = parse_lld(request.data["lld_text"])
    item_id = str(request.data["item_id"])
    rows = [f"    {entry.id!r}: {' '.join(entry.text.split())!r}," for entry in lld.requirements]
    rows = rows or [f"    '1': {' '.join(lld.title.split())!r},"]
    content = "\n".join(
        [
            f'"""What issue {item_id} asks for, to be looked up by number."""',
            "",
            "_REQUIREMENTS = {",
            *rows,
            "}",
            "",
            "",
            "def requirement(number: str) -> str:",
            "    return _REQUIREMENTS[number]",
        ]
    )
    path = _module_path(lld, item_id)
    return f'<create path="{path}" reason="a skeleton of its own">\n{content}\n</create>\n'


def _test_path(lld: Lld, item_id: str) -> str:
    listed = [change.path for change in lld.files if change.path.endswith(".py") and is_test_path(change.path)]
    added = [path for path in listed if PurePosixPath(path).name.startswith("test_issue_")]
    return added[0] if added else f"tests/test_issue_{_safe(item_id)}.py"


def _module_path(lld: Lld, item_id: str) -> str:
    """RunExtras the design's first source file."""
    code = [change.path for change in lld.files if change.path.endswith(".py") and not is_test_path(change.path)]
    folder = PurePosixPath(code[0]).parent if code else PurePosixPath()
    return str(folder / f"issue_{_safe(item_id)}.py")


def _safe(item_id: str) -> str:
    return re.sub(r"\W+", "_", item_id)

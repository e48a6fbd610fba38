"""What the gates of `agentos implement` cost per item, as a multiple of plain pytest over the same project."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from agentos.documents.approval import ApprovalInfo, stamp_approval
from benchmarks.harness import verdict

TESTS = 200
"""Of the project's own, each of which takes a hundredth of a second."""
MOST = 12.0
"""Suite before, red, new tests, suite with coverage, tests made to fail, broken code: six runs."""
_DESIGN = """# 1 - Feature: double

## 1. Context & Goal
* **Issue:** #1
* **Objective:** double(n).
* **Status:** Draft

### Open Questions

None.

## 2. Proposed Changes

### 2.1 Files Changed

| File | Change Type | Description |
|------|-------------|-------------|
| `tally/double.py` | Add | The function |
| `tests/test_double.py` | Add | Tests |

## 3. Requirements

1. double(n) is twice n.

## 10. Verification & Testing

### 10.1 Test Scenarios

| ID | Scenario | Type | Input | Expected Output | Pass Criteria | Requirement |
|----|----------|------|-------|-----------------|---------------|-------------|
| 010 | Twice | Auto | 4 | 8 | It holds | 1 |
"""
_FILES = {
    "tally/__init__.py": "",
    "tests/test_many.py": "import time\n\nimport pytest\n\n\n"
    f"@pytest.mark.parametrize('n', range({TESTS}))\ndef test_one(n):\n    time.sleep(0.01)\n    assert n == n + 0\n",
    "pyproject.toml": "[tool.pytest.ini_options]\ntestpaths = ['tests']\n",
}
_TEST = "from tally.double import double\n\n\ndef test_010_double():\n    assert double(4) == 8"
_CODE = "def double(n):\n    return 2 * n"


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="agentos-bench-gates-") as folder:
        root = Path(folder)
        project = _project(root)
        plain = min(_plain_seconds(project) for _ in range(3))
        item = _item_seconds(root, project)
    verdict("an implemented item, as a multiple of plain pytest over the project", item / plain, MOST, " times")


def _project(root: Path) -> Path:
    project = root / "project"
    for name, text in _FILES.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.invalid", "-c", "commit.gpgsign=false"]
    for arguments in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "-m", "The project"]):
        subprocess.run([*git, *arguments], cwd=project, check=True)
    info = ApprovalInfo(approved_at="2026-01-02T00:00:00Z", drafter="somebody", reviewer="somebody else")
    design = project / "docs/lld/active/LLD-1.md"
    design.parent.mkdir(parents=True)
    design.write_text(stamp_approval(_DESIGN, info))
    approval = {"verdict": "approve", "summary": "Complete.", "findings": [], "answers": []}
    for node, text, structured in (
        ("N1_test_plan", "", json.dumps(approval)),
        ("N2_scaffold_tests", f'<create path="tests/test_double.py">\n{_TEST}\n</create>\n', None),
        ("N4_implement", f'<create path="tally/double.py">\n{_CODE}\n</create>\n', None),
    ):
        saved = {"text": text, "structured": structured, "usage": {"input_tokens": 1, "output_tokens": 1}}
        path = root / f"recorded/implementation/1/{node}.1.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(saved))
    return project


def _plain_seconds(project: Path) -> float:
    began = time.monotonic()
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:langsmith_plugin"]
    subprocess.run([sys.executable, "-m", "pytest", *options], cwd=project, check=True, capture_output=True)
    return time.monotonic() - began


def _item_seconds(root: Path, project: Path) -> float:
    environment = os.environ | {"AGENTOS_HOME": str(root / "home"), "AGENTOS_RECORDED_DIR": str(root / "recorded")}
    words = ["implement", "1", "--drafter", "recorded", "--reviewer", "recorded", "--project", str(project)]
    program = Path(sys.executable).with_name("agentos")
    began = time.monotonic()
    subprocess.run([str(program), *words], env=environment, check=True, capture_output=True)
    return time.monotonic() - began

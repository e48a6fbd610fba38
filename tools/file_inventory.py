"""Writes docs/0003-file-inventory.md: every module with the first line of its docstring. `make docs` runs it."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

PROJECT_DIR = Path(__file__).resolve().parents[1]
INVENTORY_PATH = PROJECT_DIR / "docs" / "0003-file-inventory.md"
FOLDERS = ("agentos", "tools", "fakes", "benchmarks")
SAMPLE = "agentos/demo/sample/"
HEAD = """\
# File inventory

What each file is for, in its own words. Written by `make docs` from the first lines of the modules; a test keeps it
true. Which room a new file goes to: [the house](design/house.md). Tests: `tests/`, in folders of the same names.
"""


def inventory(project_dir: Path = PROJECT_DIR) -> str:
    by_folder: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for path in _modules(project_dir):
        folder, _, name = path.rpartition("/")
        by_folder[folder].append((name, _purpose(project_dir / path)))
    parts = [HEAD]
    for folder in sorted(by_folder):
        rows = "".join(f"| `{name}` | {purpose} |\n" for name, purpose in sorted(by_folder[folder]))
        parts.append(f"\n## `{folder}/`\n\n| file | what it is for |\n|---|---|\n{rows}")
    return "".join(parts)


def _modules(project_dir: Path) -> list[str]:
    """Modules that git knows or would take, so that what lies about in a clone does not count."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *FOLDERS],
        cwd=project_dir,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    wanted = {path for path in listed if path.endswith(".py") and not path.startswith(SAMPLE)}
    return sorted(path for path in wanted if (project_dir / path).is_file())


def _purpose(path: Path) -> str:
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    first_paragraph = " ".join(docstring.partition("\n\n")[0].split())
    return first_paragraph.replace("|", "\\|")


def main() -> int:
    INVENTORY_PATH.write_text(inventory(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Documents that speak of files and tests speak of those there are."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tools import reply_table
from tools.file_inventory import INVENTORY_PATH, inventory

PROJECT_DIR = Path(__file__).parents[2]
REPORTS = sorted((PROJECT_DIR / "docs/reports").rglob("*.md"))


# Slow, though it is not: two changes that each add a file are both right, and only together leave the page behind.
@pytest.mark.slow
def test_the_file_inventory_is_up_to_date() -> None:
    assert INVENTORY_PATH.read_text(encoding="utf-8") == inventory(), "run: make docs"


def test_the_table_of_replies_is_up_to_date() -> None:
    assert reply_table.PAGE_PATH.read_text(encoding="utf-8") == reply_table.page(), "run: make docs"


def test_every_file_says_what_it_is_for() -> None:
    assert re.findall(r"^\| `(\S+)` \|  \|$", inventory(), re.MULTILINE) == []


def test_there_are_reports_of_both_issues() -> None:
    assert [str(path.relative_to(PROJECT_DIR)) for path in REPORTS] == [
        f"docs/reports/{issue}/{kind}-report.md" for issue in (106, 137) for kind in ("implementation", "test")
    ]


@pytest.mark.parametrize("path", REPORTS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_every_test_that_a_report_names_exists(path: Path) -> None:
    for file, name in re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", path.read_text(encoding="utf-8")):
        tree = ast.parse((PROJECT_DIR / file).read_text(encoding="utf-8"))
        assert name in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}, f"{file}::{name}"


def pages() -> list[Path]:
    return [PROJECT_DIR / "README.md", PROJECT_DIR / "CONTRIBUTING.md", *sorted((PROJECT_DIR / "docs").rglob("*.md"))]


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(PROJECT_DIR)))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        found = (page.parent / file).resolve() if file else page
        assert found.exists(), target
        if anchor:
            assert anchor in {_anchor(heading) for heading in _headings(found)}, target


def _headings(page: Path) -> list[str]:
    return re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)


def _anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")

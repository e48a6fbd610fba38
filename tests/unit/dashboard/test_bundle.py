"""The page's files in one: nothing is left to fetch, and no text ends a script."""

from __future__ import annotations

import base64
import hashlib
import re

import pytest

from agentos.dashboard.bundle import STATIC_DIR, bundled, one_file


def test_every_module_of_the_page_is_in_it_before_those_that_need_it() -> None:
    script = bundled()
    needed = {path.name for path in STATIC_DIR.glob("*.js")} - {"theme-early.js"}
    places = {name: script.index(f'modules["{name}"] = ') for name in needed}
    for name, place in places.items():
        for imported in re.findall(r'from "\./([^"]+)"', (STATIC_DIR / name).read_text()):
            assert places[imported] < place, (name, imported)
    assert not re.search(r"^\s*(import|export)\b", script, re.MULTILINE)


def test_a_file_asks_for_nothing_and_allows_its_own_scripts_and_style_alone() -> None:
    page = one_file("a run", "<p>plain</p>", '{"answers": {}}')
    assert not re.search(r'<(?:link|script|img|iframe)[^>]* (?:src|href)="', page)
    [policy] = re.findall(r'Content-Security-Policy" content="([^"]+)"', page)
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy
    inside = [
        *re.findall(r"<script>(.*?)</script>", page, re.DOTALL),
        *re.findall(r"<style>(.*?)</style>", page, re.DOTALL),
    ]
    assert len(inside) == 3
    for text in inside:
        assert base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() in policy


@pytest.mark.parametrize("text", ["</script><script>alert(1)</script>", "<!--<script>", "</SCRIPT >"])
def test_no_text_ends_the_data(text: str) -> None:
    page = one_file("a run", "", f'"{text}"')
    assert page.count("<script") == one_file("a run", "", "").count("<script")
    assert text not in page

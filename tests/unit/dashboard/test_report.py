"""A report shows every word of a run as text: nothing in it is a tag, a script or a request."""

from __future__ import annotations

from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from agentos.dashboard.junit import junit_xml
from agentos.dashboard.report import html_report, markdown_summary
from agentos.dashboard.view import RunView, view_of
from agentos.events import ItemEnded, ItemStarted, NodeStarted, RunEnded, RunStarted, Stamped, Warned
from agentos.outcomes import COMPLETED, FAILED, INTERRUPTED, NEEDS_REVISION

HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "javascript:alert(1)",
    "</style><svg onload=alert(1)>",
    "</pre></details><h1>forged</h1>",
    "<!-- --><iframe srcdoc='x'>",
    "\x1b[2J\x1b]8;;http://evil\x07link",
    "\u202eevil\u2066",
    "&lt;b&gt;&#x6a;",
    "x" * 100_000,
    "| a | b |\n\n# heading",
    "\x00\ud800\ufffe",
)
_ALLOWED = {
    *("html", "head", "meta", "title", "style", "body", "main", "h1", "h2", "p", "table", "tr", "th", "td"),
    *("a", "span", "div", "details", "summary", "pre", "svg", "text", "rect"),
}


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[tuple[str, str]] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {(name, value or "") for name, value in attrs}


def view_with(text: str) -> RunView:
    events = [
        RunStarted(workflow=text, project_dir=text, items=("a", "b", "c", "d"), parallel=1, pid=1, label_prefix=text),
        Warned(text=text),
        ItemStarted(item_id="a", attempt=1, pid=1),
        NodeStarted(item_id="a", node=text),
        ItemEnded(item_id="a", outcome=FAILED, seconds=1.0, reason=text, error_type=text, traceback=text),
        ItemEnded(item_id="b", outcome=COMPLETED, seconds=2.0),
        ItemEnded(item_id="c", outcome=NEEDS_REVISION, seconds=2.0, reason=text),
        ItemEnded(item_id="d", outcome=INTERRUPTED, seconds=0.0),
        RunEnded(counts={}, left=("d",), wall_seconds=7.0, item_seconds=6.0, exit_code=130),
    ]
    stamped = [Stamped(n, f"2026-10-05T12:00:{n:02d}.000Z", "run-1", event) for n, event in enumerate(events)]
    return view_of(stamped, is_live=False)


@pytest.mark.parametrize("text", HOSTILE)
def test_no_word_of_a_run_becomes_a_tag_an_address_or_a_control(text: str) -> None:
    page = html_report(view_with(text), lambda _item: f"{text}\n{text}")
    found = Tags()
    found.feed(page)
    assert found.tags <= _ALLOWED
    addresses = {value for name, value in found.attributes if name in ("href", "src")}
    assert addresses == {f"#item-{n}" for n in range(4)}
    assert not {name for name, _ in found.attributes if name.startswith("on")}
    assert not set(page) & set("\x00\x1b\u202e\u2066")
    page.encode()


def test_the_page_allows_no_script_and_no_request_and_its_style_by_hash() -> None:
    found = Tags()
    found.feed(html_report(view_with("lld"), lambda _item: ""))
    [policy] = [value for name, value in found.attributes if name == "content" and "default-src" in value]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy


def test_a_hundred_items_with_full_logs_stay_under_two_megabytes() -> None:
    items = tuple(str(n) for n in range(100))
    start = RunStarted(workflow="lld", project_dir="/shop", items=items, parallel=1, pid=1)
    ends = [ItemEnded(item_id=i, outcome=FAILED, seconds=1.0, reason="r" * 400) for i in items]
    records = [Stamped(n, "2026-10-05T12:00:00.000Z", "run-1", event) for n, event in enumerate((start, *ends))]
    page = html_report(view_of(records, is_live=False), lambda _item: "l" * 12_000)
    assert len(page.encode()) < 2_000_000


@pytest.mark.parametrize("text", HOSTILE)
def test_junit_has_a_case_per_item_whatever_they_are_called(text: str) -> None:
    suite = ElementTree.fromstring(junit_xml(view_with(text)))
    assert suite.attrib["tests"] == "4"
    assert [[child.tag for child in case] for case in suite] == [["failure"], [], ["skipped"], ["skipped"]]


def test_the_summary_for_ci_is_one_table_row_per_item() -> None:
    for text in HOSTILE:
        lines = markdown_summary(view_with(text)).splitlines()
        assert len([line for line in lines if line.startswith("| ")]) == 5, text
        assert "<script" not in markdown_summary(view_with(text))

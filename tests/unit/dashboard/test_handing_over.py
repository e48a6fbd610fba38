"""What CI systems read of a run: a JUnit file, and Markdown for the page of a job."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from agentos.dashboard.fold import view_of
from agentos.dashboard.junit import junit_xml
from agentos.dashboard.markdown_summary import markdown_summary
from agentos.dashboard.view import RunView
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
def test_junit_has_a_case_per_item_whatever_they_are_called(text: str) -> None:
    suite = ElementTree.fromstring(junit_xml(view_with(text)))
    assert suite.attrib["tests"] == "4"
    assert [[child.tag for child in case] for case in suite] == [["failure"], [], ["skipped"], ["skipped"]]


def test_the_summary_for_ci_is_one_table_row_per_item() -> None:
    for text in HOSTILE:
        lines = markdown_summary(view_with(text)).splitlines()
        assert len([line for line in lines if line.startswith("| ")]) == 5, text
        assert "<script" not in markdown_summary(view_with(text))

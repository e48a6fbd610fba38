"""A report is the page's own answers in one file: the same words, masked, cut to a size, and nothing that acts."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from page_site import Site, started
from test_app import ENDED, RUN, UNDER_WAY

from agentos.events import CallFinished, Event, ItemEnded, ItemStarted, NodeStarted, RunEnded, Warned
from agentos.outcomes import FAILED
from agentos.page.report import html_report
from agentos.reporters.logs import log_name

HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</style><svg onload=alert(1)>",
    "</title></div></main><h1>forged</h1>",
    "<!-- --><iframe srcdoc='x'>",
    "\x1b[2J\x1b]8;;http://evil\x07link",
    "\u202eevil\u2066",
    "x" * 100_000,
)
SHELL = {
    *(
        "html",
        "head",
        "meta",
        "title",
        "style",
        "script",
        "body",
        "a",
        "header",
        "div",
        "main",
        "noscript",
        "p",
        "code",
    ),
    *("h1", "table", "tr", "th", "td"),
}


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}


def answers_of(page: str) -> dict[tuple[str, ...], Any]:
    """What it holds, by the end of the address and the values of the question."""
    [data] = re.findall(r'id="frozen">(.*?)</script>', page, re.DOTALL)
    found = {}
    for asked, answer in json.loads(data)["answers"].items():
        path, *query = json.loads(asked)
        found[path.removeprefix(f"/api/runs/{RUN}"), *(value for _, value in query)] = answer
    return found


def test_it_holds_what_the_page_would_say_to_a_reader(site: Site) -> None:
    run_dir = site.write_run(ENDED, with_summary=True)
    (run_dir / log_name("1")).write_text("first line\nlast line\n")
    page, view = html_report(run_dir)
    answers = answers_of(page)
    assert answers["",] == site.get(f"/api/runs/{RUN}")
    assert answers["/timeline",] == site.get(f"/api/runs/{RUN}/timeline")
    assert answers["/item", "2"] == site.get(f"/api/runs/{RUN}/item?id=2")
    assert answers["/log", "1"]["text"] == "first line\nlast line\n"
    assert view.exit_code == 1


def test_a_live_run_is_frozen_as_it_stands_and_offers_nothing_to_press(site: Site) -> None:
    answers = answers_of(html_report(site.write_run(UNDER_WAY, is_live=True))[0])
    assert answers["",]["strip"]["state"] == "running"
    assert answers["",]["strip"]["can_control"] is False
    assert answers["/item", "1"]["actions"] == []


@pytest.mark.parametrize("text", HOSTILE)
def test_no_word_of_a_run_becomes_a_tag_an_attribute_or_a_control(site: Site, text: str) -> None:
    events: tuple[Event, ...] = (
        started("a", "b", project_dir=text, workflow=text, titles=(text, text)),
        Warned(text=text),
        ItemStarted(item_id="a", attempt=1, pid=1),
        NodeStarted(item_id="a", node=text),
        ItemEnded(item_id="a", outcome=FAILED, seconds=1.0, reason=text, error_type=text, traceback=text),
        RunEnded(counts={}, left=("b",), wall_seconds=7.0, item_seconds=6.0, exit_code=1),
    )
    run_dir = site.write_run(events)
    (run_dir / log_name("a")).write_text(f"{text}\n")
    page = html_report(run_dir)[0]
    found = Tags()
    found.feed(page)
    assert found.tags <= SHELL
    assert not {name for name in found.attributes if name.startswith("on") or name == "src"}
    assert page.count("<script") == 3
    assert not set(page) & set("\x1b\u202e\u2066")


def test_a_long_log_is_cut_and_leads_to_its_file(site: Site) -> None:
    run_dir = site.write_run(ENDED)
    (run_dir / log_name("1")).write_text("".join(f"line {number}\n" for number in range(200_000)))
    log = answers_of(html_report(run_dir)[0])["/log", "1"]
    assert log["text"].endswith("line 199999\n")
    assert log["text"].startswith("line ")
    assert log["file"] == {"path": str(run_dir / "1.log"), "address": (run_dir / "1.log").as_uri()}
    assert log["next"] == log["size"]


def long_run(items: int) -> list[Event]:
    names = tuple(f"item-{number}" for number in range(items))
    events: list[Event] = [started(*names)]
    for name in names:
        events.append(ItemStarted(item_id=name, attempt=1, pid=7))
        call = {"item_id": name, "node": "N1_design", "model": "google:m", "key_name": "K1"}
        events += [NodeStarted(item_id=name, node="N1_design")]
        events += [CallFinished(**call, seconds=1.0, outcome="ok") for _ in range(40)]
        events.append(
            ItemEnded(item_id=name, outcome=FAILED, seconds=1.0, reason="r" * 400, traceback="t\n" * 20_000)
        )
    return [*events, RunEnded(counts={FAILED: items}, left=(), wall_seconds=9.0, item_seconds=9.0, exit_code=1)]


def test_a_hundred_items_with_long_logs_and_tracebacks_stay_under_two_megabytes(site: Site) -> None:
    run_dir = site.write_run(long_run(100))
    for number in range(100):
        (run_dir / log_name(f"item-{number}")).write_text("\x1b[31m<log>\x1b[0m\n" * 20_000)
    page = html_report(run_dir)[0]
    assert len(page.encode()) < 2_000_000
    answers = answers_of(page)
    for number in range(100):
        item = answers["/item", f"item-{number}"]
        assert item["traceback"].endswith("t\nt")
        assert "earlier calls are not in this report" in item["notices"][-1]
        assert answers["/log", f"item-{number}"]["text"]


def test_it_is_masked_as_the_page_is(site: Site, monkeypatch: pytest.MonkeyPatch, own_home: Path) -> None:
    secret = "AIza" + "Sy0123456789abcdefghijklmnopqrstuvw"
    monkeypatch.setenv("GOOGLE_API_KEY", secret)
    run_dir = site.write_run(ENDED)
    (run_dir / log_name("1")).write_text(f"the key is {secret}\n")
    page = html_report(run_dir)[0]
    assert secret not in page
    assert "the key is" in page

"""Eighty hostile texts, as documents and as names: nothing of them runs, leaves the page or breaks its frame."""

from __future__ import annotations

import json
import re
import time
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from page_site import Site, started

from agentos.events import Event, ItemEnded, ItemNoticed, ItemStarted, NodeStarted, Warned
from agentos.outcomes import FAILED
from agentos.page.diffs import between
from agentos.page.documents import safe_text
from agentos.page.markdown import as_html
from agentos.records.runs import AUDIT_NAME
from agentos.reporters.logs import log_name

RUN = "20261118-021500-000001"
FILE = Path(__file__).parents[2] / "hostile" / "page" / "texts.jsonl"
TEXTS = {each["name"]: each["text"] for each in map(json.loads, FILE.read_text().splitlines())}
TAGS = {
    *("h3", "h4", "h5", "h6", "p", "br", "hr", "strong", "em", "del", "s", "code", "pre", "blockquote"),
    *("ul", "ol", "li", "a", "table", "thead", "tbody", "tr", "th", "td"),
}
# What ends lines, steers terminals or turns the direction of what is read.
UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
COLOUR = re.compile(r"\x1b\[[0-9;:]*m")


class Seen(HTMLParser):
    """What a browser would make of it."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str, str]] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]


@pytest.mark.parametrize("name", TEXTS)
def test_a_document_becomes_a_few_harmless_tags(name: str) -> None:
    begun = time.monotonic()
    seen = Seen(as_html(safe_text(TEXTS[name])))
    assert seen.tags <= TAGS
    for tag, attribute, value in seen.attributes:
        if attribute == "href":
            assert value.startswith(("http://", "https://", "#")), value
        elif attribute == "class":
            assert (tag, value.partition("-")[0]) == ("code", "language")
        else:
            assert attribute in ("rel", "start", "align"), attribute
    assert time.monotonic() - begun < 20


def texts_in(document: Any) -> list[str]:
    match document:
        case str():
            return [document]
        case dict():
            return [text for each in document.items() for part in each for text in texts_in(part)]
        case list():
            return [text for each in document for text in texts_in(each)]
        case _:
            return []


def test_as_names_reasons_and_logs_they_are_text_on_one_line_and_break_no_frame(site: Site) -> None:
    """One run with all of them: an item for each, by its number, its title and all that is said of it hostile."""
    ids = [str(number) for number in range(len(TEXTS))]
    events: list[Event] = [started(*ids, titles=tuple(TEXTS.values()), workflow="flow")]
    for item_id, text in zip(ids, TEXTS.values(), strict=True):
        events += [
            ItemStarted(item_id=item_id, attempt=1, pid=1, resumed_after=text),
            NodeStarted(item_id=item_id, node=text),
            ItemNoticed(item_id=item_id, text=text),
            ItemEnded(item_id=item_id, outcome=FAILED, seconds=1.0, reason=text, error_type=text, traceback=text),
            Warned(text=text),
        ]
    run_dir = site.write_run(events)
    for item_id, text in zip(ids, TEXTS.values(), strict=True):
        (run_dir / log_name(item_id)).write_bytes(text.encode(errors="surrogatepass"))
    answer = site.ask("GET", f"/api/runs/{RUN}")
    assert answer.headers["content-type"] == "application/json"
    page = answer.json()
    assert len(page["items"]) == len(TEXTS)
    assert [text for text in texts_in(page) if UNSAFE.search(text)] == []
    assert "\ud800" not in answer.text
    events_seen = site.events(f"/api/runs/{RUN}/events?log=1")
    assert [name for _, name, _ in events_seen if name != "log"] == ["snapshot", "end"]
    for item_id in ids:
        item = site.get(f"/api/runs/{RUN}/item", params={"id": item_id})
        assert [text for text in texts_in(item) if UNSAFE.search(text)] == []
        log = site.get(f"/api/runs/{RUN}/log", params={"id": item_id})["text"]
        assert not UNSAFE.search(COLOUR.sub("", log).replace("\n", "").replace("\t", ""))


def test_a_line_of_ten_megabytes_comes_in_parts(site: Site) -> None:
    run_dir = site.write_run([started("1"), ItemEnded(item_id="1", outcome=FAILED, seconds=1.0)])
    (run_dir / log_name("1")).write_bytes(b"x" * 10_000_000 + b"\nend\n")
    part = site.get(f"/api/runs/{RUN}/log?id=1&limit=999999999")
    assert len(part["text"]) == part["next"] == 1024 * 1024
    assert site.get(f"/api/runs/{RUN}/log?id=1&offset=-100")["text"] == "end\n"


@pytest.mark.parametrize("name", TEXTS)
def test_hostile_names_name_no_file_and_no_document(site: Site, name: str) -> None:
    site.write_run([started("1")])
    text = TEXTS[name].encode(errors="replace").decode()[:2000]
    assert site.refused(f"/api/runs/{RUN}/log", params={"id": text})[0] == 404
    assert site.refused(f"/api/runs/{RUN}/document", params={"id": "1", "name": text})[0] == 404


def test_hostile_lines_stay_lines_of_a_difference() -> None:
    files, is_cut = between(
        "a\n", "diff --git a/x b/x\n@@ -1 +1 @@\n--- a\n+++ /dev/null\nBinary files x\n", "doc.md"
    )
    assert not is_cut
    (file,) = files
    assert (file["path"], file["added"], file["removed"], file["is_binary"]) == ("doc.md", 5, 1, False)
    assert [line[1] for line in file["hunks"][0]["lines"]][-1] == "Binary files x"


def test_an_item_that_is_named_like_a_path_leads_to_no_file(site: Site) -> None:
    run_dir = site.write_run([started("a"), ItemStarted(item_id="a", attempt=1, pid=1)], is_live=True)
    audit = run_dir / AUDIT_NAME
    audit.write_text(audit.read_text().replace('"a"', '"../secret"'))
    (site.runs_dir / "secret.log").write_text("not of this run\n")
    run = "/api/runs/20261118-021500-000001"
    assert "not of this run" not in str(site.get(run))
    assert site.get(f"{run}/item?id=..%2Fsecret")["log"] is None
    assert site.get(f"{run}/log?id=..%2Fsecret")["text"] == ""

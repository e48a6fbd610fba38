"""A run in one HTML file: the page itself with its answers inside, as they are when it is made. Blocking: uses git.

It holds to a size: what every view needs goes in first, then logs, then documents and differences as long as there is
room. What is left out says so where it would be, and where to find it.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from html import escape
from pathlib import Path
from typing import Any, Final

import agentos
from agentos.clock import stamp, utc_now
from agentos.dashboard.bundle import in_script, one_file
from agentos.dashboard.payload import run_page, timeline
from agentos.dashboard.view import ItemView, RunView
from agentos.page import items
from agentos.page.documents import ItemPlace
from agentos.page.feed import RunFeed
from agentos.page.history import chosen, history
from agentos.page.home import Home
from agentos.page.logs import chunk, log_path
from agentos.page.mask import Mask, encoded
from agentos.page.node_times import NodeTimes
from agentos.page.refused import Refused
from agentos.page.workstreams import workstreams_document
from agentos.reporters.wording import outcome_words
from agentos.text.words import one_line

BYTES_PER_HUNDRED_ITEMS: Final = 1_900_000
_MOST_LOG_BYTES: Final = 256 * 1024
_LEAST_LOG_BYTES: Final = 1024
_LONG_TRACEBACK: Final = 3_000
_MANY_CALLS: Final = 12
_MOST_RUNS: Final = 50
"""Of the project's past."""

Document = dict[str, Any]


@dataclass(slots=True)
class Answers:
    """What a reader can ask for, by the question, as the page's `frozen.js` asks it."""

    run_id: str
    mask: Mask
    left: int
    """Bytes that may still be added."""
    found: dict[str, str] = field(default_factory=dict)

    def add(self, what: str, document: Document, **query: str) -> None:
        self._put(f"{self._run_path}{what}", query, self._text(document))

    def add_if_it_fits(self, what: str, document: Document, most: int, **query: str) -> bool:
        text = self._text(document)
        fits = len(text.encode()) <= min(most, self.left)
        if fits:
            self._put(f"{self._run_path}{what}", query, text)
        return fits

    def add_of_home(self, path: str, document: Document) -> None:
        """What is asked of no run."""
        self._put(path, {}, self._text(document))

    @property
    def _run_path(self) -> str:
        return f"/api/runs/{self.run_id}"

    def _put(self, path: str, query: dict[str, str], text: str) -> None:
        asked = json.dumps([path, *sorted(query.items())], ensure_ascii=False, separators=(",", ":"))
        self.found[asked] = text
        self.left -= len(text.encode()) + len(asked.encode())

    def _text(self, document: Document) -> str:
        """As it stands in the file: that is what counts for its size."""
        return in_script(encoded(document, self.mask).decode(errors="replace"))

    def as_json(self, made: str) -> str:
        head = {"run": self.run_id, "made": made, "version": agentos.__version__}
        pairs = ",".join(f"{json.dumps(asked, ensure_ascii=False)}:{text}" for asked, text in self.found.items())
        return f'{json.dumps(head)[:-1]},"answers":{{{pairs}}}}}'


def html_report(run_dir: Path) -> tuple[str, RunView]:
    """The file's text, and the run as it shows it."""
    return asyncio.run(_made(run_dir))


async def _made(run_dir: Path) -> tuple[str, RunView]:
    feed = RunFeed(run_dir)
    await feed.gather_extras()
    async with feed.up_to_date() as view:
        around = feed.around(may_control=False)
        size = BYTES_PER_HUNDRED_ITEMS * math.ceil(max(1, len(view.items)) / 100) - len(one_file("", "", ""))
        answers = Answers(run_dir.name, Mask(), size)
        answers.add("", run_page(view, around))
        answers.add("/timeline", timeline(view))
        _add_project(answers, view)
        usual = NodeTimes().usual(view.project_dir, view.workflow)
        pages = {}
        for item in view.items.values():
            records = items.item_records(view, item, around)
            items.add_usual(records, usual)
            place = items.place_of(view, item.id, run_dir)
            pages[item.id] = place, items.item_document(records, item, place, answers.mask, may_control=False)
        _add_items(answers, [page for _, page in pages.values()])
        _add_logs(answers, run_dir, list(view.items))
        for place, page in pages.values():
            _add_documents(answers, place, page)
        title = escape(one_line(f"{view.workflow or 'run'} {view.run_id}", longest=200))
        return one_file(title, _unscripted(view), answers.as_json(stamp(utc_now(), "milliseconds"))), view


def _add_project(answers: Answers, view: RunView) -> None:
    """What is beside the run: earlier runs of the same workflow and workstreams, of its own project alone."""
    if not view.project_dir:
        return
    ended = chosen(Home().ended(), project_dir=view.project_dir, workflow=view.workflow)[:_MOST_RUNS]
    if ended:
        answers.add_of_home("/api/history", history(ended, ended, NodeTimes().of_runs(ended)))
    workstreams = workstreams_document([view.project_dir])
    if workstreams["projects"]:
        answers.add_of_home("/api/workstreams", workstreams)


def _add_items(answers: Answers, pages: list[Document]) -> None:
    """Each in its share of half of the room; what is longest of one goes first."""
    share = max(2_000, answers.left // 2 // max(1, len(pages)))
    for page in pages:
        page["review"] = None if page["review"] is None else page["review"] | {"document": None}
        item_id = page["item"]["id"]
        for shorten in (_as_it_is, _without_long_traceback, _without_early_calls):
            page = shorten(page)
            if answers.add_if_it_fits("/item", page, share, id=item_id):
                break
        else:
            answers.add("/item", page, id=item_id)


def _as_it_is(page: Document) -> Document:
    return page


def _without_long_traceback(page: Document) -> Document:
    text = page["traceback"]
    return page if len(text) <= _LONG_TRACEBACK else page | {"traceback": f"…\n{text[-_LONG_TRACEBACK:]}"}


def _without_early_calls(page: Document) -> Document:
    """And without early steps: there is one for almost every call."""
    hidden = len(page["calls"]) - _MANY_CALLS
    if hidden <= 0:
        return page
    told = f"{hidden} earlier calls are not in this report"
    kept = {name: page[name][-_MANY_CALLS:] for name in ("calls", "nodes", "attempts")}
    return page | kept | {"notices": [*page["notices"][-_MANY_CALLS:], told]}


def _add_logs(answers: Answers, run_dir: Path, item_ids: list[str]) -> None:
    """The end of each, in its share of half of what is left, with a link to the whole."""
    share = max(_LEAST_LOG_BYTES, answers.left // 2 // max(1, len(item_ids)))
    for item_id in item_ids:
        limit = min(share, _MOST_LOG_BYTES)
        while not answers.add_if_it_fits(
            "/log", _end_of_log(run_dir, item_id, limit, answers.mask), share, id=item_id
        ):
            if limit < _LEAST_LOG_BYTES:
                break
            limit //= 2


def _end_of_log(run_dir: Path, item_id: str, limit: int, mask: Mask) -> Document:
    path = log_path(run_dir, item_id)
    end = chunk(run_dir, item_id, -limit, limit, mask, is_final=True)
    return (
        end
        if path is None or end["offset"] == 0
        else end | {"file": {"path": one_line(str(path)), "address": path.as_uri()}}
    )


def _add_documents(answers: Answers, place: ItemPlace, page: Document) -> None:
    """As long as there is room; the rest is not in the report, and the page says so where it would be."""
    share = answers.left // 4
    for what, query, make in _wanted(place, page, answers.mask):
        try:
            document = make()
        except Refused:
            continue
        if document.get("html"):
            document["text"] = ""
        answers.add_if_it_fits(what, document, share, id=place.item_id, **query)


def _wanted(
    place: ItemPlace, page: Document, mask: Mask
) -> Iterator[tuple[str, dict[str, str], Callable[[], Document]]]:
    """What is read of an item, what tells most first."""
    if page["branch"] and page["branch"]["state"] == "there":
        yield "/branch-diff", {}, partial(items.branch_page, place, mask)
    ranks = {"final": 0, "report": 1, "result": 1, "verdict": 2, "draft": 3}
    for each in sorted(page["documents"], key=lambda each: ranks.get(each["kind"], 4)):
        name = each["name"]
        yield "/document", {"name": name}, partial(items.document_page, place, name, mask)
    for before, after in page["rounds"]:
        make = partial(items.document_diff, place, before, after, mask)
        yield "/diff", {"from": before, "to": after}, make


def _unscripted(view: RunView) -> str:
    """For readers whose viewer runs no script: each item and how it ended."""
    rows = "".join(
        f"<tr><th>{_text(item.label)}</th><td>{_text(_end_words(item))}</td><td>{_text(item.reason)}</td></tr>\n"
        for item in view.items.values()
    )
    heading = f"{view.workflow or 'run'} {view.run_id}: {view.state.value}"
    return f"<h1>{_text(heading)}</h1>\n<table>{rows}</table>\n"


def _end_words(item: ItemView) -> str:
    return outcome_words(item.outcome) if item.outcome else "not ended"


def _text(value: str) -> str:
    return escape(one_line(value, longest=400))

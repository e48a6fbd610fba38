"""The page's requests: which handler serves what. Handlers are thin; what blocks runs in a thread."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final
from weakref import WeakKeyDictionary

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from agentos import dashboard
from agentos.clock import stamp, utc_now
from agentos.dashboard.payload import run_page, timeline
from agentos.dashboard.view import RunView
from agentos.errors import AgentosError
from agentos.page import control, items, reviewing
from agentos.page.answers import answer, may_control, parameter, refusal, whole_number
from agentos.page.documents import ItemPlace
from agentos.page.event_streams import BEAT_SECONDS, Patches, RunStream
from agentos.page.feed import Feeds, RunFeed
from agentos.page.history import chosen, compare, history
from agentos.page.home import Home, keys_document, keys_in_use, live_facts, no_runs
from agentos.page.logs import CHUNK_BYTES, LogTail, chunk
from agentos.page.mask import Mask, encoded
from agentos.page.node_times import NodeTimes
from agentos.page.refused import Refused
from agentos.page.workstreams import workstreams_document
from agentos.paths import home_dir
from agentos.text.words import one_line

MOST_STREAMS: Final = 256
_LIST_SECONDS: Final = 1.0
_LONGEST_BODY: Final = 64 * 1024
_STATIC_DIR: Final = Path(dashboard.__file__).with_name("static")

Handler = Callable[[Request], Awaitable[Response]]


class State:
    """What all handlers share."""

    def __init__(self) -> None:
        self.mask = Mask()
        self.feeds = Feeds()
        self.home = Home()
        self.node_times = NodeTimes()
        self.streams = 0
        self.patches: WeakKeyDictionary[RunFeed, Patches] = WeakKeyDictionary()
        """As long as a run is looked at: a page that stays open for days keeps none that nobody follows."""


def make_app() -> Starlette:
    """Behind a `Gate`, which has put the reader's role into the scope."""
    routes = [
        Route("/", _shell),
        Route("/api/home", _home),
        Route("/api/events", _home_events),
        Route("/api/keys", _keys),
        Route("/api/workstreams", _workstreams),
        Route("/api/history", _history),
        Route("/api/compare", _compare),
        Route("/api/runs/{run}", _run),
        Route("/api/runs/{run}/events", _run_events),
        Route("/api/runs/{run}/timeline", _timeline),
        Route("/api/runs/{run}/item", _item),
        Route("/api/runs/{run}/log", _log),
        Route("/api/runs/{run}/document", _document),
        Route("/api/runs/{run}/diff", _diff),
        Route("/api/runs/{run}/branch-diff", _branch_diff),
        Route("/api/runs/{run}/control", _control, methods=["POST"]),
        Route("/api/runs/{run}/review", _review, methods=["POST"]),
        Mount("/static", _Static(directory=_STATIC_DIR)),
    ]
    handlers: dict[Any, Any] = {Refused: refusal, AgentosError: _in_words, HTTPException: _not_there}
    app = Starlette(routes=routes, exception_handlers=handlers)
    shared = State()
    for name, value in vars(shared).items():
        setattr(app.state, name, value)
    return app


class _Static(StaticFiles):
    """Fresh after each update of the package: a browser asks whether it has the newest."""

    def file_response(self, *args: Any, **options: Any) -> Response:
        response = super().file_response(*args, **options)
        response.headers["cache-control"] = "no-cache"
        return response


async def _not_there(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return answer(request, {"error": "There is nothing here.", "hint": "", "command": ""}, error.status_code)


async def _in_words(request: Request, error: Exception) -> Response:
    """What a project or a store could not give, with its own reason."""
    document = {"error": one_line(str(error), longest=1000), "hint": "", "command": ""}
    return answer(request, document, 409)


async def _shell(_request: Request) -> Response:
    return FileResponse(_STATIC_DIR / "index.html", headers={"cache-control": "no-cache"})


async def _rows(state: Any) -> list[dict[str, Any]]:
    """The runs of the home; one that lives stands in the list as on its own page."""
    rows: list[dict[str, Any]] = await asyncio.to_thread(state.home.rows)
    for row in rows:
        feed = state.feeds.of(row["run"]) if row["is_live"] else None
        if feed is not None:
            async with feed.up_to_date() as view:
                row |= live_facts(view)
    return rows


async def _home(request: Request) -> Response:
    rows = await _rows(request.app.state)
    return answer(
        request,
        {
            "can_control": may_control(request),
            "home": str(home_dir()),
            **_runs(rows),
        },
    )


def _runs(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {"now": stamp(utc_now(), "milliseconds"), "runs": rows, "notice": None if rows else no_runs()}


async def _home_events(request: Request) -> Response:
    state, mask = request.app.state, request.app.state.mask

    async def events() -> AsyncIterator[bytes]:
        sent: list[dict[str, Any]] | None = None
        yield b"retry: 1000\n\n"
        waited = 0.0
        while True:
            rows = await _rows(state)
            if rows != sent:
                sent = rows
                yield b"event: runs\ndata: %s\n\n" % encoded(_runs(rows), mask)
            elif waited >= BEAT_SECONDS:
                waited = 0.0
                yield b"event: beat\ndata: {}\n\n"
            await asyncio.sleep(_LIST_SECONDS)
            waited += _LIST_SECONDS

    return _stream(request, events())


def _stream(request: Request, events: AsyncIterator[bytes]) -> Response:
    """Counted: a page that opens streams without end is refused, and the others keep theirs."""
    state = request.app.state
    if state.streams >= MOST_STREAMS:
        raise Refused(503, "Too many pages are open.", "Close some of them.")

    async def counted() -> AsyncIterator[bytes]:
        # From here on, and not before: of a reader who is gone by now, nothing ever comes to its end.
        state.streams += 1
        try:
            async for event in events:
                yield event
        finally:
            state.streams -= 1

    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    return StreamingResponse(counted(), media_type="text/event-stream", headers=headers)


def _feed(request: Request) -> RunFeed:
    feed: RunFeed | None = request.app.state.feeds.of(request.path_params["run"])
    if feed is None:
        raise Refused(404, "There is no such run any more.", "Go back to the list of runs.")
    return feed


async def _run(request: Request) -> Response:
    feed = _feed(request)
    await feed.gather_extras()
    async with feed.up_to_date() as view:
        document = run_page(view, feed.around(may_control=may_control(request)))
    return answer(request, document)


async def _timeline(request: Request) -> Response:
    async with _feed(request).up_to_date() as view:
        document = timeline(view)
    return answer(request, document)


async def _run_events(request: Request) -> Response:
    feed, mask = _feed(request), request.app.state.mask
    since, offset = _place(request)
    item_id = request.query_params.get("log", "")
    log = None
    if item_id:
        await _known_item(feed, item_id)
        log = LogTail(feed.run_dir, item_id, offset, mask)
    patches = request.app.state.patches.setdefault(feed, Patches(mask))
    stream = RunStream(feed, patches, mask, since=since, may_control=may_control(request), log=log)
    return _stream(request, stream.events())


def _place(request: Request) -> tuple[int, int]:
    """Where the reader is: by the id of the last event they got, else by the address."""
    last = request.headers.get("last-event-id", "")
    sequence, _, offset = last.partition(".")
    if sequence.isascii() and sequence.isdecimal() and offset.isascii() and offset.isdecimal():
        return int(sequence[:18]), int(offset[:18])
    return whole_number(request, "since", 0), max(0, whole_number(request, "offset", 0))


async def _known_item(feed: RunFeed, item_id: str) -> None:
    async with feed.up_to_date() as view:
        is_known = item_id in view.items
    if not is_known:
        raise Refused(404, "The run has no such item.", "Go back to the run.")


async def _item(request: Request) -> Response:
    feed, item_id = _feed(request), parameter(request, "id")
    await _known_item(feed, item_id)
    is_allowed = may_control(request)
    async with feed.up_to_date() as view:
        item = view.items[item_id]
        records = items.item_records(view, item, feed.around(may_control=is_allowed))
        workflow, project_dir = view.workflow, view.project_dir
    usual = await asyncio.to_thread(request.app.state.node_times.usual, project_dir, workflow)
    items.add_usual(records, usual)
    place = await _item_place(feed, item_id)
    make = partial(items.item_document, records, item, place, request.app.state.mask, may_control=is_allowed)
    return answer(request, await asyncio.to_thread(make))


async def _item_place(feed: RunFeed, item_id: str) -> ItemPlace:
    await _known_item(feed, item_id)
    async with feed.up_to_date() as view:
        make = partial(items.place_of, view, item_id, feed.run_dir)
    return await asyncio.to_thread(make)


async def _log(request: Request) -> Response:
    feed, item_id = _feed(request), parameter(request, "id")
    await _known_item(feed, item_id)
    async with feed.up_to_date() as view:
        is_final = view.is_over or view.items[item_id].outcome is not None
    offset, limit = whole_number(request, "offset", 0), whole_number(request, "limit", CHUNK_BYTES)
    read = partial(chunk, feed.run_dir, item_id, offset, limit, request.app.state.mask, is_final=is_final)
    return answer(request, await asyncio.to_thread(read))


async def _document(request: Request) -> Response:
    place = await _item_place(_feed(request), parameter(request, "id"))
    read = partial(items.document_page, place, parameter(request, "name"), request.app.state.mask)
    return answer(request, await asyncio.to_thread(read))


async def _diff(request: Request) -> Response:
    place = await _item_place(_feed(request), parameter(request, "id"))
    names = parameter(request, "from"), parameter(request, "to")
    return answer(request, await asyncio.to_thread(items.document_diff, place, *names, request.app.state.mask))


async def _branch_diff(request: Request) -> Response:
    place = await _item_place(_feed(request), parameter(request, "id"))
    return answer(request, await asyncio.to_thread(items.branch_page, place, request.app.state.mask))


async def _keys(request: Request) -> Response:
    in_use = [use async for view in _live_views(request.app.state) for use in keys_in_use(view)]
    return answer(request, await asyncio.to_thread(keys_document, in_use))


async def _live_views(state: Any) -> AsyncIterator[RunView]:
    for row in await asyncio.to_thread(state.home.rows):
        feed = state.feeds.of(row["run"]) if row["is_live"] else None
        if feed is not None:
            async with feed.up_to_date() as view:
                yield view


async def _workstreams(request: Request) -> Response:
    rows = await asyncio.to_thread(request.app.state.home.rows)
    folders = dict.fromkeys([row["project_dir"] for row in rows if row["project_dir"]])
    return answer(request, await asyncio.to_thread(workstreams_document, folders))


async def _history(request: Request) -> Response:
    ended = await asyncio.to_thread(request.app.state.home.ended)
    project_dir, workflow = (request.query_params.get(name, "") for name in ("project", "workflow"))
    wanted = chosen(ended, project_dir=project_dir, workflow=workflow)
    times = await asyncio.to_thread(request.app.state.node_times.of_runs, wanted)
    document = history(ended, wanted, times)
    return answer(request, document | {"notice": None if ended else no_runs()})


async def _compare(request: Request) -> Response:
    found = []
    for name in ("a", "b"):
        each = await asyncio.to_thread(request.app.state.home.ended_run, parameter(request, name))
        if each is None:
            raise Refused(404, "One of the two runs has not ended, or is gone.", "Choose two runs that have ended.")
        found.append(each)
    return answer(request, compare(*found))


async def _body(request: Request) -> dict[str, Any]:
    """A small JSON object."""
    data = b""
    async for part in request.stream():
        data += part
        if len(data) > _LONGEST_BODY:
            raise Refused(413, "That is more than any request here says.")
    with suppress(ValueError, RecursionError):
        said = json.loads(data)
        if isinstance(said, dict):
            return said
    raise Refused(400, "The request is not a JSON object.")


async def _control(request: Request) -> Response:
    run_dir, said = _feed(request).run_dir, await _body(request)
    return answer(request, await asyncio.to_thread(control.take_act, run_dir, said))


async def _review(request: Request) -> Response:
    feed, said = _feed(request), await _body(request)
    item_id, given, text, seen = (said.get(name, "") for name in ("id", "answer", "text", "seen"))
    if not all(isinstance(each, str) for each in (item_id, given, text, seen)):
        raise Refused(400, "Item, answer and text must be strings.")
    place = await _item_place(feed, item_id)
    return answer(request, await asyncio.to_thread(reviewing.take_answer, place, given, text, seen))

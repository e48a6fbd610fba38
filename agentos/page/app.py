"""The page's requests: which handler serves what. Handlers are thin; what blocks runs in a thread."""

from __future__ import annotations

import asyncio
import getpass
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

import agentos
from agentos import dashboard
from agentos.clock import stamp, utc_now
from agentos.dashboard.payload import run_page, timeline
from agentos.page import control, items, reviewing
from agentos.page.answers import Refused, answer, encoded, may_control, parameter, refusal, whole_number
from agentos.page.documents import ItemPlace
from agentos.page.feed import Feeds, RunFeed
from agentos.page.guard import CONTROL_HEADER
from agentos.page.history import chosen, compare, history
from agentos.page.home import Home, keys_document, no_runs
from agentos.page.logs import CHUNK_BYTES, LogTail, chunk
from agentos.page.mask import Mask
from agentos.page.node_times import NodeTimes
from agentos.page.streams import BEAT_SECONDS, Patches, RunStream
from agentos.page.streams_of_work import workstreams_document
from agentos.paths import home_dir

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
        self.patches: dict[str, Patches] = {}


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
    handlers: dict[Any, Any] = {Refused: refusal, HTTPException: _not_there}
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


async def _shell(_request: Request) -> Response:
    return FileResponse(_STATIC_DIR / "index.html", headers={"cache-control": "no-cache"})


async def _home(request: Request) -> Response:
    rows = await asyncio.to_thread(request.app.state.home.rows)
    return answer(
        request,
        {
            "version": agentos.__version__,
            "can_control": may_control(request),
            "user": _user(),
            "home": str(home_dir()),
            "control_header": CONTROL_HEADER,
            **_runs(rows),
        },
    )


def _runs(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {"now": stamp(utc_now(), "milliseconds"), "runs": rows, "notice": None if rows else no_runs()}


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""


async def _home_events(request: Request) -> Response:
    home: Home = request.app.state.home
    mask: Mask = request.app.state.mask

    async def events() -> AsyncIterator[bytes]:
        sent: list[dict[str, Any]] | None = None
        yield b"retry: 1000\n\n"
        waited = 0.0
        while True:
            rows = await asyncio.to_thread(home.rows)
            if rows != sent:
                sent = rows
                yield b"event: runs\ndata: %s\n\n" % encoded(_runs(rows), mask)
            elif waited >= BEAT_SECONDS:
                waited = 0.0
                yield b": still here\n\n"
            await asyncio.sleep(_LIST_SECONDS)
            waited += _LIST_SECONDS

    return _stream(request, events())


def _stream(request: Request, events: AsyncIterator[bytes]) -> Response:
    """Counted: a page that opens streams without end is refused, and the others keep theirs."""
    state = request.app.state
    if state.streams >= MOST_STREAMS:
        raise Refused(503, "Too many pages are open.", "Close some of them.")
    state.streams += 1

    async def counted() -> AsyncIterator[bytes]:
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
    await _look_at_branches(feed)
    async with feed.up_to_date() as view:
        document = run_page(view, feed.around(may_control=may_control(request)))
    return answer(request, document)


async def _look_at_branches(feed: RunFeed) -> None:
    async with feed.up_to_date() as view:
        look = partial(items.branches_of, view, feed.run_dir)
    feed.branches = await asyncio.to_thread(look)


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
    patches = request.app.state.patches.setdefault(feed.run_dir.name, Patches(feed, mask))
    if not patches.is_of(feed):
        patches = request.app.state.patches[feed.run_dir.name] = Patches(feed, mask)
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
    for node in records["nodes"]:
        node["usual"] = usual.get(node["node"])
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
    return answer(request, await asyncio.to_thread(keys_document))


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
    raise Refused(400, "The request is no JSON object.")


async def _control(request: Request) -> Response:
    run_dir, said = _feed(request).run_dir, await _body(request)
    return answer(request, await asyncio.to_thread(control.take_act, run_dir, said))


async def _review(request: Request) -> Response:
    feed, said = _feed(request), await _body(request)
    item_id, given, text, seen = (said.get(name, "") for name in ("id", "answer", "text", "seen"))
    if not all(isinstance(each, str) for each in (item_id, given, text, seen)):
        raise Refused(400, "Item, answer and text are text.")
    place = await _item_place(feed, item_id)
    return answer(request, await asyncio.to_thread(reviewing.take_answer, place, given, text, seen))

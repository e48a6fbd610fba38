"""A loopback server that answers like Gemini, OpenAI and Anthropic: quotas, scripted faults, counts by key.

In a test: `with ProviderServer(keys=[...], limits=[...]) as server: server.base_url("google")`.
As a process: `python -m agentos.testing --config file.json --port 0`; its first line is its port.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import signal
import socket
import struct
import sys
import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import Any, Literal
from urllib.parse import unquote

from agentos.providers.provider import base_url_variable
from agentos.providers.registry import providers
from agentos.testing.misbehaviour import bomb, garbage
from agentos.testing.provider_formats import (
    FORMATS,
    PROVIDERS,
    Provider,
    Seen,
    as_event_stream,
    provider_of,
    shape_reply,
)
from agentos.testing.quotas import Limits, Quota, Refusal

ReplyFunction = Callable[[Seen], str]
StepKind = Literal["ok", "status", "fail", "rate_limit", "daily_limit", "hang", "reset", "cut", "garbage", "bomb"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A credential the server knows. Keys of one group share its quota."""

    name: str
    secret: str = field(repr=False)
    group: str = "default"
    is_valid: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitRule:
    """Limits for each (group, model) that matches; `*` matches all. The first rule that matches counts."""

    group: str = "*"
    model: str = "*"
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    requests_per_day: int | None = None

    def matches(self, group: str, model: str) -> bool:
        return self.group in ("*", group) and self.model in ("*", model)

    @property
    def limits(self) -> Limits:
        return Limits(
            requests_per_minute=self.requests_per_minute,
            tokens_per_minute=self.tokens_per_minute,
            requests_per_day=self.requests_per_day,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What the next call with a key meets, instead of or before a normal answer."""

    kind: StepKind = "ok"
    times: int = 1
    """How many calls meet it; -1 for all from now on."""
    delay_seconds: float = 0.0
    status: int = 500
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    """For `status`: sent as it is when text or bytes, else as JSON."""
    fail: str = "server_error"
    """For `fail`: invalid_key, overloaded, no_credit, no_model, bad_request, server_error, zero_limit."""
    garbage: str = ""
    """For `garbage`, which is no answer though its status is 200: its name, see `agentos.testing.faults`."""
    retry_after_seconds: float | None = None
    text: str | None = None
    """For `ok`: this answer in place of the usual one."""
    output: Any = None
    """For `ok`: this structured answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """From a time after the first request on, a minute takes so many: clients that start slowly meet the same."""

    at_seconds: float
    requests_per_minute: int


@dataclass(kw_only=True)
class Config:
    """How the server behaves. Every field has a JSON form: see `Config.from_json`."""

    keys: Sequence[Key] = ()
    accepts_unknown_keys: bool = True
    limits: Sequence[LimitRule] = ()
    moves: Sequence[Move] = ()
    """Changes of every limit of requests per minute."""
    tells: Literal["everything", "retry-after", "nothing"] = "everything"
    """What a refusal for a limit says: all that the provider would, when to come back, or neither."""
    minute_seconds: float = 60.0
    """The length of the provider's minute: shorter makes a test of quotas quick."""
    day_seconds: float = 86400.0
    announces_scaled_limits: bool = False
    """Tell limits as per real minute, so that a client that paces by 60 seconds is right in a scaled minute."""
    latency_seconds: float = 0.0
    reply: str | ReplyFunction = "echo"
    """`echo` answers with the prompt; any other text is the answer; a function decides by the request."""
    models: Sequence[str] | None = None
    """Those it has; None for any."""
    lists_models: bool = True
    """Whether it can be asked for a model without calling it; many gateways cannot."""
    script: Mapping[str, Sequence[Step]] = field(default_factory=dict)
    """Steps by key name; `*` for any key. `prompt:TEXT` goes before both, for prompts that contain the text."""

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Config:
        fields = dict(data)
        fields["keys"] = [Key(**key) for key in data.get("keys", [])]
        fields["limits"] = [LimitRule(**rule) for rule in data.get("limits", [])]
        fields["moves"] = [Move(**move) for move in data.get("moves", [])]
        fields["script"] = {name: [Step(**step) for step in steps] for name, steps in data.get("script", {}).items()}
        return cls(**fields)


@dataclass(frozen=True, slots=True)
class Reaction:
    """Bytes to write after a delay, or a way to misbehave."""

    payload: bytes | Literal["hang", "reset"]
    delay_seconds: float = 0.0
    is_cut: bool = False
    """The connection ends after half of it."""


@dataclass(slots=True)
class Request:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class Desk:
    """Decides the answer to each request and keeps the books. Used from one thread, the server's loop."""

    def __init__(self, config: Config, clock: Callable[[], float] = time.monotonic) -> None:
        self.config = config
        self._clock = clock
        self._started_at = clock()
        self._keys = {key.secret: key for key in config.keys}
        self._quotas: dict[tuple[str, str], Quota] = {}
        self._script: dict[str, deque[Step]] = defaultdict(deque)
        for name, steps in config.script.items():
            self._script[name].extend(steps)
        self.requests: deque[Seen] = deque(maxlen=20_000)
        self.lookups: list[str] = []
        """Models that were asked for without being called."""
        self.ports_seen: set[int] = set()
        """Client ports, one a connection: tells whether a client keeps its connections."""
        self._hits: Counter[str] = Counter()
        self._statuses: dict[str, Counter[str]] = defaultdict(Counter)
        self._seconds: dict[str, Counter[int]] = defaultdict(Counter)

    def add_key(self, key: Key) -> None:
        """One that its owner makes while the server runs."""
        self._keys[key.secret] = key

    def add_steps(self, key_name: str, steps: Sequence[Step]) -> None:
        self._script[key_name].extend(steps)

    def stats(self) -> dict[str, Any]:
        """Counts by key name, by status and by second since the start. No secret is in it."""
        by_status: Counter[str] = Counter()
        by_second: Counter[int] = Counter()
        for statuses in self._statuses.values():
            by_status.update(statuses)
        for seconds in self._seconds.values():
            by_second.update(seconds)
        return {
            "total": self._hits.total(),
            "hits": dict(self._hits),
            "by_status": dict(by_status),
            "by_key_and_status": {name: dict(statuses) for name, statuses in self._statuses.items()},
            "by_second": {str(second): count for second, count in sorted(by_second.items())},
            "by_key_and_second": {
                name: {str(second): count for second, count in sorted(seconds.items())}
                for name, seconds in self._seconds.items()
            },
        }

    def answer(self, request: Request) -> Reaction:
        path = request.path.partition("?")[0]
        if path.startswith("/_"):
            return self._answer_control(request.method, path, request.body)
        if request.method == "GET" and "/models/" in path and self.config.lists_models:
            return self._answer_lookup(unquote(path.rpartition("/")[2]))
        provider = provider_of(path)
        if provider is None or request.method != "POST":
            return Reaction(_response(404, {}, {"error": {"message": f"no such endpoint: {path}"}}))
        try:
            body = json.loads(request.body)
        except ValueError:
            return Reaction(_response(400, {}, {"error": {"message": "the body is not JSON"}}))
        return self._answer_call(provider, request.path, request.headers, body)

    def _answer_lookup(self, model: str) -> Reaction:
        self.lookups.append(model)
        is_there = self.config.models is None or model in self.config.models
        return Reaction(
            _response(200, {}, {"id": model}) if is_there else _response(404, {}, {"error": {"code": 404}})
        )

    def _answer_control(self, method: str, path: str, body: bytes) -> Reaction:
        match method, path:
            case "GET", "/_stats":
                return Reaction(_response(200, {}, self.stats()))
            case "GET", "/_requests":
                return Reaction(_response(200, {}, [_shown(seen) for seen in self.requests]))
            case "POST", "/_script":
                order = json.loads(body)
                self.add_steps(order.get("key", "*"), [Step(**step) for step in order["steps"]])
                return Reaction(_response(200, {}, {}))
            case _:
                return Reaction(_response(404, {}, {}))

    def _answer_call(
        self, provider: Provider, path: str, headers: Mapping[str, str], body: Mapping[str, Any]
    ) -> Reaction:
        dialect = FORMATS[provider]
        secret = dialect.secret(headers)
        key = self._keys.get(secret)
        now = self._clock() - self._started_at
        shown_headers = {name: value for name, value in headers.items() if secret == "" or secret not in value}
        seen = Seen(
            provider=provider,
            key_name=key.name if key else _nickname(secret),
            at_seconds=now,
            headers=shown_headers,
            body=body,
            path=path,
            **dialect.parse(path.partition("?")[0], body),
        )
        self.requests.append(seen)
        self._hits[seen.key_name] += 1
        self._seconds[seen.key_name][int(now)] += 1
        step = self._next_step(seen.key_name, seen.prompt)
        if step is not None and step.kind != "ok":
            return self._misbehave(seen, step)
        is_known = key.is_valid if key else self.config.accepts_unknown_keys
        if not is_known:
            return self._fail(seen, "invalid_key", None)
        if self.config.models is not None and seen.model not in self.config.models:
            return self._fail(seen, "no_model", None)
        return self._serve(seen, group=key.group if key else seen.key_name, step=step, now=now)

    def _serve(self, seen: Seen, *, group: str, step: Step | None, now: float) -> Reaction:
        dialect = FORMATS[seen.provider]
        quota = self._quota(group, seen.model)
        self._move(quota, now)
        refusal = quota.admit(seen.tokens, now)
        if refusal is not None and self.config.tells != "everything":
            wait = {"retry-after": f"{refusal.retry_after_seconds:.3f}"} if self.config.tells == "retry-after" else {}
            return self._send(seen, 429, wait, {"error": {"message": "Too many requests"}})
        if refusal is not None:
            return self._send(seen, *dialect.rate_limited(seen, refusal, self._scale))
        text, output = self._text(seen), None
        delay_seconds = self.config.latency_seconds
        if step is not None:
            text, output = text if step.text is None else step.text, step.output
            delay_seconds += step.delay_seconds
        limit_headers = dialect.limit_headers(quota, now, self._scale)
        body: Any = shape_reply(seen, text, output)
        if seen.wants_stream:
            limit_headers["content-type"] = "text/event-stream"
            body = as_event_stream(seen.provider, body)
        return self._send(seen, 200, limit_headers, body, delay_seconds)

    def _move(self, quota: Quota, now: float) -> None:
        window = quota.windows.get(("requests", "minute"))
        for move in self.config.moves:
            if window is not None and now - self.requests[0].at_seconds >= move.at_seconds:
                window.limit = move.requests_per_minute

    def _misbehave(self, seen: Seen, step: Step) -> Reaction:
        delay = step.delay_seconds
        match step.kind:
            case "hang" | "reset":
                self._statuses[seen.key_name][step.kind] += 1
                return Reaction(step.kind, delay)
            case "cut":
                return replace(self._serve(seen, group=seen.key_name, step=step, now=0.0), is_cut=True)
            case "garbage":
                case = next(each for each in garbage(seen.provider) if each.name == step.garbage)
                return self._send(seen, 200, case.headers, case.body, delay)
            case "bomb":
                return self._send(seen, step.status, {"content-encoding": "gzip"}, bomb(), delay)
            case "fail":
                return self._fail(seen, step.fail, step.retry_after_seconds, delay)
            case "rate_limit" | "daily_limit":
                refusal = Refusal(
                    what="requests",
                    period="day" if step.kind == "daily_limit" else "minute",
                    limit=15,
                    retry_after_seconds=step.retry_after_seconds or 0.05,
                )
                return self._send(seen, *FORMATS[seen.provider].rate_limited(seen, refusal, 1), delay)
            case _:
                return self._send(
                    seen, step.status, dict(step.headers), {} if step.body is None else step.body, delay
                )

    def _fail(self, seen: Seen, kind: str, retry_after_seconds: float | None, delay_seconds: float = 0.0) -> Reaction:
        return self._send(seen, *FORMATS[seen.provider].failure(kind, seen, retry_after_seconds), delay_seconds)

    def _send(
        self, seen: Seen, status: int, headers: Mapping[str, str], body: Any, delay_seconds: float = 0.0
    ) -> Reaction:
        self._statuses[seen.key_name][str(status)] += 1
        return Reaction(_response(status, headers, body), delay_seconds)

    def _text(self, seen: Seen) -> str:
        reply = self.config.reply
        if callable(reply):
            return reply(seen)
        return seen.prompt if reply == "echo" else reply

    def _next_step(self, key_name: str, prompt: str) -> Step | None:
        asked = [name for name in self._script if name.startswith("prompt:") and name[len("prompt:") :] in prompt]
        for name in (*asked, key_name, "*"):
            steps = self._script.get(name)
            if not steps:
                continue
            step = steps.popleft()
            if step.times < 0:
                steps.appendleft(step)
            elif step.times > 1:
                steps.appendleft(Step(**{**_step_fields(step), "times": step.times - 1}))
            return step
        return None

    def _quota(self, group: str, model: str) -> Quota:
        if (group, model) not in self._quotas:
            rule = next((rule for rule in self.config.limits if rule.matches(group, model)), LimitRule())
            self._quotas[group, model] = Quota(
                rule.limits, minute_seconds=self.config.minute_seconds, day_seconds=self.config.day_seconds
            )
        return self._quotas[group, model]

    @property
    def _scale(self) -> float:
        return 60.0 / self.config.minute_seconds if self.config.announces_scaled_limits else 1.0


def _step_fields(step: Step) -> dict[str, Any]:
    return {name: getattr(step, name) for name in Step.__dataclass_fields__}


def _shown(seen: Seen) -> dict[str, Any]:
    return {**asdict(seen), "schema": seen.schema}


def _nickname(secret: str) -> str:
    """A stable name for a key the server was not told of, which reveals nothing of it."""
    return "unknown-" + hashlib.sha256(secret.encode()).hexdigest()[:8]


def _response(status: int, headers: Mapping[str, str], body: Any) -> bytes:
    """Status line, headers and body as one run of bytes: two small writes would meet delayed acknowledgement."""
    content = body if isinstance(body, bytes) else (body if isinstance(body, str) else json.dumps(body)).encode()
    phrase = HTTPStatus(status).phrase if status in HTTPStatus._value2member_map_ else "Overloaded"
    lines = [f"HTTP/1.1 {status} {phrase}", f"content-length: {len(content)}"]
    lines += [f"{name}: {value}" for name, value in {"content-type": "application/json", **headers}.items()]
    return "\r\n".join([*lines, "", ""]).encode() + content


class _Connection(asyncio.Protocol):
    """One client connection, kept alive; requests on it are answered in order."""

    def __init__(self, desk: Desk, open_transports: set[asyncio.Transport]) -> None:
        self._desk = desk
        self._open_transports = open_transports
        self._received = bytearray()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._desk.ports_seen.add(transport.get_extra_info("peername")[1])
        self._open_transports.add(transport)
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._transport is not None:
            self._open_transports.discard(self._transport)
        self._transport = None

    def data_received(self, data: bytes) -> None:
        self._received += data
        while (request := self._take_request()) is not None:
            answer = self._desk.answer(request)
            if answer.delay_seconds > 0:
                asyncio.get_running_loop().call_later(answer.delay_seconds, self._play, answer)
            else:
                self._play(answer)

    def _take_request(self) -> Request | None:
        head, found, rest = self._received.partition(b"\r\n\r\n")
        if not found:
            return None
        request_line, *header_lines = head.decode("latin-1").split("\r\n")
        pairs = (line.partition(":") for line in header_lines)
        headers = {name.lower(): value.strip() for name, _, value in pairs}
        length = int(headers.get("content-length", 0))
        if len(rest) < length:
            return None
        self._received = rest[length:]
        method, path, _ = request_line.split(" ", 2)
        return Request(method, path, headers, bytes(rest[:length]))

    def _play(self, answer: Reaction) -> None:
        payload = answer.payload
        if self._transport is None or payload == "hang":
            return
        if payload == "reset":
            # Lingering for 0 seconds makes the kernel send RST instead of a polite FIN.
            linger = struct.pack("ii", 1, 0)
            self._transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            self._transport.abort()
            return
        assert isinstance(payload, bytes)
        if answer.is_cut:
            self._transport.write(payload[: -len(payload.partition(b"\r\n\r\n")[2]) // 2])
            self._transport.close()
            return
        self._transport.write(payload)


class _Listener:
    """A listening socket and the connections it accepted. Lives on one event loop."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._open_transports: set[asyncio.Transport] = set()

    async def start(self, port: int) -> int:
        """Listen on loopback only: the server answers anyone and must not be reachable from outside."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._connect, "127.0.0.1", port, backlog=512)
        bound_port: int = self._server.sockets[0].getsockname()[1]
        return bound_port

    def _connect(self) -> _Connection:
        return _Connection(self._desk, self._open_transports)

    async def stop(self) -> None:
        self._server.close()
        for transport in list(self._open_transports):
            transport.abort()
        await asyncio.sleep(0)  # the aborted transports close their sockets in the loop's next round


class ProviderServer:
    """The server in a thread of this process, for tests. A context manager; `desk` may be read while it runs."""

    def __init__(self, config: Config | None = None, **fields: Any) -> None:
        self.desk = Desk(config or Config(**fields))
        self.port = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="provider-server", daemon=True)
        self._is_listening = threading.Event()

    def base_url(self, provider: str) -> str:
        """What to give an SDK as its base URL."""
        root = f"http://127.0.0.1:{self.port}"
        return root if provider in ("google", "vertex", "anthropic", "azure") else f"{root}/v1"

    @property
    def requests(self) -> list[Seen]:
        return list(self.desk.requests)

    def stats(self) -> dict[str, Any]:
        """See `Desk.stats`."""
        if not self._thread.is_alive():
            return self.desk.stats()
        return asyncio.run_coroutine_threadsafe(self._read_stats(), self._loop).result()

    async def _read_stats(self) -> dict[str, Any]:
        return self.desk.stats()

    def environment(self) -> dict[str, str]:
        """For commands and `generate`: this server in place of the providers, with a key for each that it takes."""
        secret = next((key.secret for key in self.desk.config.keys if key.is_valid), "a-key-of-the-test-server")
        urls = {base_url_variable(name): self.base_url(name) for name in PROVIDERS}
        return {**urls, **{providers()[name].key_variables[0]: secret for name in PROVIDERS}}

    def hits(self, key_name: str) -> int:
        """How many calls came with a key."""
        return int(self.stats()["hits"].get(key_name, 0))

    def script(self, key_name: str, *steps: Step) -> None:
        """Queue steps for the next calls with a key (`*`: any key)."""
        self.desk.add_steps(key_name, steps)

    def __enter__(self) -> ProviderServer:
        self._thread.start()
        self._is_listening.wait()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self) -> None:
        listener = _Listener(self.desk)
        self.port = self._loop.run_until_complete(listener.start(0))
        self._is_listening.set()
        self._loop.run_forever()
        self._loop.run_until_complete(listener.stop())
        self._loop.close()


async def _serve_until_signalled(config: Config, port: int) -> None:
    listener = _Listener(Desk(config))
    bound_port = await listener.start(port)
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    sys.stdout.write(f"{bound_port}\n")
    sys.stdout.flush()
    await stopped.wait()
    await listener.stop()


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until SIGINT or SIGTERM; the port is the first line of standard output."""
    parser = argparse.ArgumentParser(prog="python -m agentos.testing", description=__doc__)
    parser.add_argument("--config", type=Path, help="a JSON file with the fields of Config")
    parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1; 0 (default) takes a free one")
    options = parser.parse_args(arguments)
    config = Config.from_json(json.loads(options.config.read_text())) if options.config else Config()
    asyncio.run(_serve_until_signalled(config, options.port))
    return 0

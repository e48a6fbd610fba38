"""Who may see and do what: tokens, the cookie, the names a server answers to, and what browsers are told to refuse.

One gate in front of the whole app: whatever is behind it is reached by nobody without a token.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Awaitable, Callable, Collection, Iterable, MutableMapping
from dataclasses import dataclass, field
from enum import StrEnum
from http.cookies import CookieError, SimpleCookie
from typing import Any, Final
from urllib.parse import parse_qs

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

LOOPBACK_NAMES: Final = ("127.0.0.1", "localhost", "[::1]")
CONTROL_HEADER: Final = "X-AgentOS-Control"
"""What another site's form cannot send: with it, a browser asks first, and is refused."""
POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "font-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types agentos",
    )
)
_HEADERS: Final = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), usb=()",
}
_LONGEST_BODY: Final = 64 * 1024
_STRANGER: Final = (
    "<!doctype html><html lang=en><meta charset=utf-8><title>AgentOS</title>"
    "<h1>This page needs its link</h1><p>Open one of the two addresses that the dashboard printed when it started. "
    "They work as long as it runs.</p></html>"
)
_AGAIN: Final = (
    "<!doctype html><html lang=en><meta charset=utf-8><title>AgentOS</title>"
    '<meta http-equiv="refresh" content="0; url=/"><p><a href="/">Open the dashboard</a></p></html>'
)


class Role(StrEnum):
    READ = "read"
    CONTROL = "control"


@dataclass(frozen=True, slots=True)
class Tokens:
    """Two of them: a link to look, and a link to steer."""

    read: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    control: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)

    def role_of(self, token: str) -> Role | None:
        """In a time that tells nothing about the tokens."""
        given = token.encode(errors="replace")
        is_control = secrets.compare_digest(given, self.control.encode())
        is_read = secrets.compare_digest(given, self.read.encode())
        return Role.CONTROL if is_control else Role.READ if is_read else None


class Gate:
    """In front of the app. Puts the reader's role into the scope, and headers on every answer."""

    def __init__(self, app: App, tokens: Tokens, *, port: int, hosts: Collection[str] = LOOPBACK_NAMES) -> None:
        """`hosts` are the names it is known by; a request for another one comes from a page that plays us."""
        self._app = app
        self._tokens = tokens
        self._authorities = {f"{host}:{port}".casefold() for host in hosts}
        self._cookie = f"agentos_page_{port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # No other protocol is spoken here.
        headers = _Headers(scope["headers"])
        answer = self._refusal(scope, headers)
        if answer is not None:
            await answer(send)
            return
        role = self._role(headers)
        if role is None:
            await _unknown(scope["path"], headers)(send)
            return
        if scope["method"] == "POST" and (refusal := self._control_refusal(role, headers)):
            await _json(403, refusal)(send)
            return
        scope["agentos.role"] = role
        await self._app(scope, receive, _with_headers(send))

    def _refusal(self, scope: Scope, headers: _Headers) -> Callable[[Send], Awaitable[None]] | None:
        if headers.only("host").casefold() not in self._authorities:
            return _json(403, "This server does not answer to that name. Use the address it printed.")
        if scope["method"] not in ("GET", "HEAD", "POST"):
            return _json(405, "There is no such request here.")
        if headers.only("content-length").isdecimal() and int(headers.only("content-length")) > _LONGEST_BODY:
            return _json(413, "That is more than any request here says.")
        query = scope.get("query_string", b"")
        token = parse_qs(query.decode("ascii", "replace")).get("token", [""])[0] if b"token=" in query else ""
        if scope["path"] == "/" and token:
            return self._welcome(token)
        return None

    def _welcome(self, token: str) -> Callable[[Send], Awaitable[None]]:
        """The token leaves the address for a cookie, which no script and no other site can use."""
        if self._tokens.role_of(token) is None:
            return _unknown("/", _Headers(()))
        cookie = f"{self._cookie}={token}; HttpOnly; SameSite=Strict; Path=/"
        return _answer(303, b"", {"location": "/", "set-cookie": cookie, "content-type": "text/plain"})

    def _role(self, headers: _Headers) -> Role | None:
        jar: SimpleCookie = SimpleCookie()
        try:
            jar.load(headers.only("cookie"))
        except CookieError:
            return None
        morsel = jar.get(self._cookie)
        return self._tokens.role_of(morsel.value) if morsel else None

    def _control_refusal(self, role: Role, headers: _Headers) -> str:
        """Why this request may change nothing; empty when it may."""
        if role is not Role.CONTROL:
            return "This link is for looking only. Use the control link that the dashboard printed."
        origin = headers.only("origin").casefold().partition("://")
        if origin[0] != "http" or origin[2] not in self._authorities:
            return "The request comes from another page."
        if headers.only("sec-fetch-site") not in ("", "same-origin"):
            return "The request comes from another site."
        if headers.only(CONTROL_HEADER.lower()) != "1" or not headers.only("content-type").startswith(
            "application/json"
        ):
            return f"A request that changes something is JSON and has the header {CONTROL_HEADER}: 1."
        return ""


class _Headers:
    def __init__(self, raw: Iterable[tuple[bytes, bytes]]) -> None:
        self._raw = list(raw)

    def only(self, name: str) -> str:
        """The header's value; empty when it is missing, or there twice and nobody can say which counts."""
        wanted = name.encode()
        found = [value.decode("latin-1") for key, value in self._raw if key.lower() == wanted]
        return found[0] if len(found) == 1 else ""


def _with_headers(send: Send) -> Send:
    async def sending(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            own = dict(message.get("headers", []))
            extra = [(k.encode(), v.encode()) for k, v in _HEADERS.items() if k.encode() not in own]
            if b"cache-control" not in own:
                extra.append((b"cache-control", b"no-store"))
            message = {**message, "headers": [*message.get("headers", []), *extra]}
        await send(message)

    return sending


def _unknown(path: str, headers: _Headers) -> Callable[[Send], Awaitable[None]]:
    if path.startswith("/api/"):
        return _json(401, "This needs the link that the dashboard printed when it started.")
    if headers.only("sec-fetch-site") == "cross-site":
        # Who comes by a link of another page sends no strict cookie; a step of our own page does.
        return _answer(200, _AGAIN.encode(), {"content-type": "text/html; charset=utf-8"})
    return _answer(401, _STRANGER.encode(), {"content-type": "text/html; charset=utf-8"})


def _json(status: int, text: str) -> Callable[[Send], Awaitable[None]]:
    body = json.dumps({"error": text, "hint": "", "command": ""}).encode()
    return _answer(status, body, {"content-type": "application/json"})


def _answer(status: int, body: bytes, headers: dict[str, str]) -> Callable[[Send], Awaitable[None]]:
    async def answer(send: Send) -> None:
        sending = _with_headers(send)
        pairs = [(key.encode(), value.encode()) for key, value in headers.items()]
        pairs.append((b"content-length", str(len(body)).encode()))
        await sending({"type": "http.response.start", "status": status, "headers": pairs})
        await sending({"type": "http.response.body", "body": body})

    return answer

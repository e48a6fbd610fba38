"""A GitHub on loopback: issues, comments, pull requests, paging, limits and scripted failures over real HTTP."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qsl, urlencode, urlsplit

Json = dict[str, Any]

DOCS_URL = "https://docs.github.com/rest"
SECONDARY_LIMIT_URL = f"{DOCS_URL}/using-the-rest-api/rate-limits-for-the-rest-api#about-secondary-rate-limits"


_LONGEST_WAIT_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scripted:
    """One answer to give instead of the real one, to the first request it matches."""

    status: int = 500
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Any = field(default_factory=lambda: {"message": "Server Error", "documentation_url": DOCS_URL})
    method: str = ""
    """Any when empty."""
    path: str = ""
    """A part of the request's path; any when empty."""
    handle_first: bool = False
    """The request takes effect, and only its answer is replaced."""
    hang_up: bool = False
    """Close the connection without an answer."""
    after: threading.Event | None = None
    """Keep the client waiting until this is set."""

    def matches(self, request: Received) -> bool:
        return self.method in ("", request.method) and self.path in request.path


@dataclass(frozen=True, slots=True)
class Received:
    """A request as it came in; whether it carried the right token, never the token."""

    method: str
    path: str
    query: Mapping[str, str]
    body: Json
    is_authorized: bool
    is_anonymous: bool


@dataclass(slots=True)
class Answer:
    status: int
    body: Any
    headers: dict[str, str] = field(default_factory=dict)


class _Refused(Exception):
    """An error answer, raised from any depth of a handler."""

    def __init__(self, status: int, message: str, *, errors: list[Json] | None = None) -> None:
        super().__init__(message)
        body: Json = {"message": message, "documentation_url": DOCS_URL, "status": str(status)}
        if errors is not None:
            body["errors"] = errors
        self.answer = Answer(status, body)


@dataclass(slots=True)
class _Repository:
    """Issues and pull requests share one sequence of numbers, as on the real service."""

    threads: dict[int, Json] = field(default_factory=dict)
    pulls: dict[int, Json] = field(default_factory=dict)
    comments: dict[int, list[Json]] = field(default_factory=dict)

    def next_number(self) -> int:
        return max(self.threads, default=0) + 1


class GitHubServer:
    """Serves on loopback between `with` and its end. Its methods may be called while it serves.

    `token` is the one token it takes; `login` is who that token belongs to. Reading needs no token unless
    `is_private`. `prefix` makes it answer like an enterprise server, below `/api/v3`.
    """

    def __init__(self, *, token: str, login: str = "agentos-bot", prefix: str = "", is_private: bool = False) -> None:
        self.token = token
        self.login = login
        self.prefix = prefix
        self.is_private = is_private
        self.requests: list[Received] = []
        self._repositories: dict[str, _Repository] = {}
        self._script: list[Scripted] = []
        self._limit = 5000
        self._remaining = 5000
        self._reset_at = time.time() + 3600
        self._starts_window: float | None = None
        self._lock = threading.RLock()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler_for(self))
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        """The API's base address."""
        return f"http://127.0.0.1:{self._http.server_port}{self.prefix}"

    def add_repository(self, name: str) -> None:
        with self._lock:
            self._repositories.setdefault(name, _Repository())

    def add_issue(
        self,
        repository: str,
        title: str,
        body: str | None = "",
        *,
        labels: tuple[str, ...] = (),
        state: str = "open",
        creator: str = "someone",
        is_pull_request: bool = False,
    ) -> int:
        """File an issue (or a pull request) by hand; returns its number."""
        with self._lock:
            self.add_repository(repository)
            issue = self._new_thread(repository, title, body, labels, creator)
            issue["state"] = state
            if is_pull_request:
                issue["pull_request"] = {"url": f"{self.url}/repos/{repository}/pulls/{issue['number']}"}
            return int(issue["number"])

    def edit_issue(self, repository: str, number: int, **fields: Any) -> None:
        """What a person does to an issue on the web page."""
        with self._lock:
            self._repositories[repository].threads[number].update(fields, updated_at=_stamp())

    def edit_pull(self, repository: str, number: int, **fields: Any) -> None:
        """What a person does to a pull request on the web page, or a push to its branch."""
        with self._lock:
            self._repositories[repository].pulls[number].update(fields, updated_at=_stamp())

    def issues(self, repository: str) -> list[Json]:
        """What is filed, pull requests left out, in order of numbers."""
        with self._lock:
            return [
                dict(issue)
                for issue in self._repositories[repository].threads.values()
                if "pull_request" not in issue
            ]

    def script(self, *answers: Scripted) -> None:
        """Answer the next matching requests with these, each once, in order."""
        with self._lock:
            self._script.extend(answers)

    def limit(self, *, remaining: int, reset_in_seconds: float) -> None:
        """Let `remaining` requests through, then refuse until the reset, which restores the full allowance.

        The time to the reset begins with the first request, however slow its client is to start.
        """
        with self._lock:
            self._remaining = remaining
            self._starts_window = reset_in_seconds

    def count(self, method: str = "", path: str = "") -> int:
        """How many requests came in with this method and this part in their path."""
        with self._lock:
            return sum(method in ("", seen.method) and path in seen.path for seen in self.requests)

    def answer(self, request: Received) -> Answer | None:
        """The whole life of one request; None means to hang up."""
        with self._lock:
            self.requests.append(request)
            scripted = next((entry for entry in self._script if entry.matches(request)), None)
            if scripted is None:
                return self._with_limit_headers(self._handle(request))
            self._script.remove(scripted)
            if scripted.handle_first:
                self._handle(request)
        if scripted.after is not None:
            scripted.after.wait(_LONGEST_WAIT_SECONDS)
        return None if scripted.hang_up else Answer(scripted.status, scripted.body, dict(scripted.headers))

    def _handle(self, request: Received) -> Answer:
        try:
            self._spend_one()
            self._check_token(request)
            return self._route(request)
        except _Refused as refused:
            return refused.answer

    def _spend_one(self) -> None:
        if self._starts_window is not None:
            self._reset_at = time.time() + self._starts_window
            self._starts_window = None
        if time.time() >= self._reset_at:
            self._remaining = self._limit
            self._reset_at = time.time() + 3600
        if self._remaining <= 0:
            raise _Refused(403, f"API rate limit exceeded for {self.login}.")
        self._remaining -= 1

    def _with_limit_headers(self, answer: Answer) -> Answer:
        answer.headers.setdefault("X-RateLimit-Limit", str(self._limit))
        answer.headers.setdefault("X-RateLimit-Remaining", str(self._remaining))
        # The real service gives whole seconds: round up, so that who waits until then is not refused again.
        answer.headers.setdefault("X-RateLimit-Reset", str(int(self._reset_at) + 1))
        return answer

    def _check_token(self, request: Received) -> None:
        if request.is_authorized:
            return
        if not request.is_anonymous:
            raise _Refused(401, "Bad credentials")
        if self.is_private or request.method != "GET" or request.path == f"{self.prefix}/user":
            raise _Refused(401, "Requires authentication")

    def _route(self, request: Received) -> Answer:
        for method, pattern, handle in _ROUTES:
            match = re.fullmatch(re.escape(self.prefix) + pattern, request.path)
            if match and method == request.method:
                return handle(self, request, *match.groups())
        raise _Refused(404, "Not Found")

    def _repository(self, name: str) -> _Repository:
        if name not in self._repositories:
            raise _Refused(404, "Not Found")
        return self._repositories[name]

    def _thread_of(self, name: str, number: str) -> Json:
        found = self._repository(name).threads.get(int(number))
        if found is None:
            raise _Refused(404, "Not Found")
        return found

    def _new_thread(self, name: str, title: str, body: str | None, labels: tuple[str, ...], creator: str) -> Json:
        repository = self._repository(name)
        number = repository.next_number()
        stamp = _stamp()
        thread: Json = {
            "number": number,
            "title": title,
            "body": body,
            "state": "open",
            "labels": [{"name": label} for label in labels],
            "user": {"login": creator},
            "created_at": stamp,
            "updated_at": stamp,
            "comments": 0,
            "url": f"{self.url}/repos/{name}/issues/{number}",
            "html_url": f"https://github.example/{name}/issues/{number}",
        }
        repository.threads[number] = thread
        return thread

    def _page(self, request: Received, rows: list[Json]) -> Answer:
        """One page of `rows`, with the Link header that clients follow."""
        size = min(100, max(1, int(request.query.get("per_page", "30"))))
        page = max(1, int(request.query.get("page", "1")))
        last = max(1, -(-len(rows) // size))
        links = {"next": page + 1, "last": last} if page < last else {}
        headers = {}
        if links:
            headers["Link"] = ", ".join(f'<{self._link(request, to)}>; rel="{rel}"' for rel, to in links.items())
        return Answer(200, rows[(page - 1) * size : page * size], headers)

    def _link(self, request: Received, page: int) -> str:
        root = self.url.removesuffix(self.prefix)
        return f"{root}{request.path}?{urlencode({**request.query, 'page': page})}"

    def show_user(self, request: Received) -> Answer:
        return Answer(200, {"login": self.login, "type": "User"})

    def list_issues(self, request: Received, name: str) -> Answer:
        query = request.query
        rows = [row for row in self._repository(name).threads.values() if _is_wanted(row, query)]
        rows.sort(key=lambda row: int(row["number"]), reverse=query.get("direction", "desc") == "desc")
        return self._page(request, rows)

    def show_issue(self, request: Received, name: str, number: str) -> Answer:
        return Answer(200, self._thread_of(name, number))

    def create_issue(self, request: Received, name: str) -> Answer:
        title = _required(request.body, "title", resource="Issue")
        labels = tuple(request.body.get("labels", ()))
        return Answer(201, self._new_thread(name, title, request.body.get("body"), labels, self.login))

    def list_comments(self, request: Received, name: str, number: str) -> Answer:
        self._thread_of(name, number)
        return self._page(request, self._repository(name).comments.get(int(number), []))

    def create_comment(self, request: Received, name: str, number: str) -> Answer:
        thread = self._thread_of(name, number)
        body = _required(request.body, "body", resource="IssueComment")
        comments = self._repository(name).comments.setdefault(int(number), [])
        comments.append({"id": len(comments) + 1, "body": body, "user": {"login": self.login}})
        thread.update(comments=len(comments), updated_at=_stamp())
        return Answer(201, comments[-1])

    def list_pulls(self, request: Received, name: str) -> Answer:
        state = request.query.get("state", "open")
        rows = [row for row in self._repository(name).pulls.values() if state in ("all", row["state"])]
        rows = [row for row in rows if _has_branches(row, request.query)]
        return self._page(request, rows[::-1])

    def create_pull(self, request: Received, name: str) -> Answer:
        title, head, base = (
            _required(request.body, key, resource="PullRequest") for key in ("title", "head", "base")
        )
        pulls = self._repository(name).pulls
        if any(row["head"]["ref"] == head and row["state"] == "open" for row in pulls.values()):
            message = f"A pull request already exists for {name.split('/')[0]}:{head}."
            raise _Refused(422, "Validation Failed", errors=[{"resource": "PullRequest", "message": message}])
        thread = self._new_thread(name, title, request.body.get("body"), (), self.login)
        thread["pull_request"] = {"url": f"{self.url}/repos/{name}/pulls/{thread['number']}"}
        pulls[thread["number"]] = {**thread, "head": {"ref": head}, "base": {"ref": base}}
        return Answer(201, pulls[thread["number"]])


_REPOSITORY = r"/repos/([\w.-]+/[\w.-]+)"
_ROUTES: tuple[tuple[str, str, Callable[..., Answer]], ...] = (
    ("GET", r"/user", GitHubServer.show_user),
    ("GET", _REPOSITORY + r"/issues", GitHubServer.list_issues),
    ("POST", _REPOSITORY + r"/issues", GitHubServer.create_issue),
    ("GET", _REPOSITORY + r"/issues/(\d+)", GitHubServer.show_issue),
    ("GET", _REPOSITORY + r"/issues/(\d+)/comments", GitHubServer.list_comments),
    ("POST", _REPOSITORY + r"/issues/(\d+)/comments", GitHubServer.create_comment),
    ("GET", _REPOSITORY + r"/pulls", GitHubServer.list_pulls),
    ("POST", _REPOSITORY + r"/pulls", GitHubServer.create_pull),
)


def _is_wanted(issue: Json, query: Mapping[str, str]) -> bool:
    """Whether the list filters (state, labels, creator, since) let the issue through."""
    wanted_labels = {label for label in query.get("labels", "").split(",") if label}
    return (
        query.get("state", "open") in ("all", issue["state"])
        and wanted_labels <= {label["name"] for label in issue["labels"]}
        and query.get("creator", issue["user"]["login"]) == issue["user"]["login"]
        and str(issue["updated_at"]) >= query.get("since", "")
    )


def _has_branches(pull: Json, query: Mapping[str, str]) -> bool:
    """`head` comes as `owner:branch`, `base` as a branch."""
    head = query.get("head", "").rpartition(":")[2]
    return head in ("", pull["head"]["ref"]) and query.get("base", "") in ("", pull["base"]["ref"])


def _required(body: Json, key: str, *, resource: str) -> str:
    value = body.get(key)
    if not isinstance(value, str) or not value.strip():
        missing = {"resource": resource, "code": "missing_field", "field": key}
        raise _Refused(422, "Validation Failed", errors=[missing])
    return value


def _stamp() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _handler_for(server: GitHubServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            """Say nothing: a test's output is its own."""

        def do_GET(self) -> None:
            self._serve()

        def do_POST(self) -> None:
            self._serve()

        def _serve(self) -> None:
            answer = server.answer(self._received())
            if answer is None:
                self.close_connection = True
                return
            content = json.dumps(answer.body).encode()
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Type", "application/json; charset=utf-8")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def _received(self) -> Received:
            target = urlsplit(self.path)
            content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            given = self.headers.get("Authorization", "").rpartition(" ")[2]
            return Received(
                method=self.command,
                path=target.path,
                query=dict(parse_qsl(target.query)),
                body=json.loads(content) if content else {},
                is_authorized=given == server.token,
                is_anonymous=not given,
            )

    return Handler

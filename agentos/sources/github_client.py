"""Talks to GitHub's REST API through githubkit: paging, rate limits, and errors a user can act on.

The one owner of retries: githubkit's own are off. A request that may have taken effect is never sent twice.
"""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from agentos.distribution import install_line
from agentos.errors import AgentosError, ExitCode, UsageError
from agentos.sources.github_token import check_api_url, check_token
from agentos.text.words import countdown, one_line

Json = dict[str, Any]
WaitListener = Callable[[float, str], None]

REQUEST_TIMEOUT_SECONDS = 30.0
MAX_WAIT_SECONDS = 900.0
MAX_ATTEMPTS = 4
MAX_PAGES = 1000
# GitHub asks for a minute at least when it names no time itself.
UNNAMED_LIMIT_SECONDS = 60.0


class GitHubError(AgentosError):
    """GitHub did not do what was asked."""


class GitHubAuthError(GitHubError):
    """There is no token where one is needed, or GitHub does not take it."""

    exit_code = ExitCode.USAGE


class GitHubForbiddenError(GitHubError):
    """The token is known but may not do this."""


class GitHubNotFoundError(GitHubError):
    """There is no such thing, or the token may not see it; GitHub does not say which."""


class GitHubRejectedError(GitHubError):
    """GitHub found the request's content invalid."""


class GitHubRateLimitedError(GitHubError):
    """The rate limit lasts longer than the caller is willing to wait."""


class GitHubUnavailableError(GitHubError):
    """GitHub cannot be reached or fails by itself."""


class AnswerLostError(GitHubUnavailableError):
    """A request that changes something was sent and no answer came: it may have taken effect."""


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer of any status."""

    status: int
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    """Names in lower case."""
    next_url: str = ""

    @property
    def is_ok(self) -> bool:
        return 200 <= self.status < 300


@dataclass(frozen=True, slots=True)
class NoReply:
    """The request failed without an answer."""

    reason: str
    is_sent: bool
    """False when it certainly never reached GitHub."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Send the request again after this long."""

    seconds: float
    reason: str
    is_limit: bool = False
    """It is GitHub that names the time, because of a rate limit."""


def next_step(result: Reply | NoReply, *, attempt: int, is_repeatable: bool, now: float) -> Wait | None:
    """Whether and when to send a failed request again; None to give up. Pure.

    A refusal for a rate limit was not acted upon, so anything may follow it; a lost answer or a fault of the server
    lets only a repeatable request go again.
    """
    if isinstance(result, Reply):
        limited = rate_limit_seconds(result, attempt=attempt, now=now)
        if limited is not None:
            return Wait(max(1.0, limited), "GitHub's rate limit is reached", is_limit=True)
        if result.status < 500:
            return None
        reason, may_repeat = f"GitHub answered {result.status}", is_repeatable
    else:
        reason, may_repeat = result.reason, is_repeatable or not result.is_sent
    return Wait(float(2 ** (attempt - 1)), reason) if may_repeat and attempt < MAX_ATTEMPTS else None


def rate_limit_seconds(reply: Reply, *, attempt: int, now: float) -> float | None:
    """How long a rate limit asks to wait; None when the reply is not about one. Reads fields, not prose."""
    if reply.status not in (403, 429):
        return None
    headers = reply.headers
    if (delay := _retry_after_seconds(headers.get("retry-after", ""), now)) is not None:
        return delay
    if headers.get("x-ratelimit-remaining") == "0" and headers.get("x-ratelimit-reset", "").isdecimal():
        return max(0.0, int(headers["x-ratelimit-reset"]) - now) + 1.0
    documentation = str(reply.body.get("documentation_url", "")) if isinstance(reply.body, dict) else ""
    if reply.status == 429 or "secondary-rate-limit" in documentation:
        return UNNAMED_LIMIT_SECONDS * float(2 ** (attempt - 1))
    return None


def _retry_after_seconds(value: str, now: float) -> float | None:
    """Seconds or an HTTP date; None when absent or unreadable."""
    if value.strip().isdecimal():
        return float(value)
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - now)
    except (ValueError, TypeError, OverflowError):
        return None


def _say_wait(seconds: float, reason: str) -> None:
    """On standard error, where a run shows it under its item's label."""
    sys.stderr.write(f"{reason}: trying again in {countdown(seconds)}\n")
    sys.stderr.flush()


class GitHubClient(AbstractContextManager["GitHubClient"]):
    """Requests to one GitHub server. Within `with`, connections are kept; without, each request opens its own.

    `on_wait(seconds, reason)` is told before every wait; by default that is said on standard error. The waits of one
    request add up to `max_wait_seconds` at most. No error shows the token.
    """

    def __init__(
        self,
        base_url: str,
        token: str | None,
        *,
        on_wait: WaitListener | None = None,
        max_wait_seconds: float = MAX_WAIT_SECONDS,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.base_url = check_api_url(base_url)
        self._token = check_token(token) if token else None
        self._on_wait = on_wait or _say_wait
        self._max_wait_seconds = max_wait_seconds
        self._sleep = sleep
        self._clock = clock
        self._kit: Any = None

    def __repr__(self) -> str:
        return f"GitHubClient({self.base_url!r}, token={'set' if self._token else 'none'})"

    @property
    def has_token(self) -> bool:
        return self._token is not None

    def __enter__(self) -> Self:
        self._connect().__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._kit.__exit__(kind, error, trace)

    def get(self, path: str, params: Mapping[str, str] | None = None) -> Any:
        """The JSON at `path`."""
        return self._call("GET", path, params=params).body

    def post(self, path: str, body: Json) -> Json:
        """Create something. AnswerLostError when it may or may not have happened."""
        created = self._call("POST", path, body=body).body
        if not isinstance(created, dict):
            raise AnswerLostError(f"GitHub's answer to {path} is not an object: it may have been created or not.")
        return created

    def rows(self, path: str, params: Mapping[str, str]) -> Iterator[Json]:
        """Every object of a list, page after page, as they come."""
        url, query = path, {"per_page": "100", **params}
        for _ in range(MAX_PAGES):
            reply = self._call("GET", url, params=query)
            if not isinstance(reply.body, list):
                raise GitHubError(f"GitHub's answer to {path} is not a list: is {self.base_url} an API address?")
            yield from (row for row in reply.body if isinstance(row, dict))
            if not reply.next_url:
                return
            # A page's address carries the whole query; the token goes with it, so it must not lead elsewhere.
            url, query = self._own_address(reply.next_url), {}
        raise GitHubError(f"GitHub's list at {path} has more than {MAX_PAGES} pages: narrow it with a label.")

    def _own_address(self, url: str) -> str:
        if urlsplit(url)[:2] != urlsplit(self.base_url)[:2]:
            raise GitHubError(f"GitHub's list continues on another host than {self.base_url}: not followed.")
        return url

    def _call(
        self, method: str, path: str, *, params: Mapping[str, str] | None = None, body: Json | None = None
    ) -> Reply:
        is_repeatable = method == "GET"
        waited, attempt = 0.0, 1
        while True:
            result = self._send(method, path, params, body)
            if isinstance(result, Reply) and result.is_ok:
                return result
            step = next_step(result, attempt=attempt, is_repeatable=is_repeatable, now=self._clock())
            is_too_long = step is not None and waited + step.seconds > self._max_wait_seconds
            if step is not None and step.is_limit and is_too_long:
                raise self._too_long(step)
            if step is None or is_too_long:
                raise self._error(result, path, is_repeatable=is_repeatable)
            self._on_wait(step.seconds, step.reason)
            self._sleep(step.seconds)
            waited, attempt = waited + step.seconds, attempt + 1

    def _connect(self) -> Any:
        if self._kit is None:
            # Imported by name: githubkit takes a third of a second, and its generated types minutes of mypy.
            try:
                githubkit = importlib.import_module("githubkit")
            except ImportError as error:
                raise UsageError(f"GitHub needs the githubkit package ({error}): {install_line('github')}") from error
            self._kit = githubkit.GitHub(
                self._token,
                base_url=self.base_url,
                user_agent="agentos",
                timeout=REQUEST_TIMEOUT_SECONDS,
                auto_retry=False,
                http_cache=False,
            )
        return self._kit

    def _send(self, method: str, path: str, params: Mapping[str, str] | None, body: Json | None) -> Reply | NoReply:
        kit = self._connect()
        errors = importlib.import_module("githubkit.exception")
        try:
            return _reply(kit.request(method, path, params=dict(params) if params else None, json=body).raw_response)
        except errors.RequestFailed as failed:
            return _reply(failed.response.raw_response)
        except errors.RequestError as failed:
            return _no_reply(failed.exc)
        except ValueError:
            # githubkit reads the limit headers itself and takes whole numbers only.
            return NoReply("GitHub's rate limit headers cannot be read", is_sent=True)

    def _error(self, result: Reply | NoReply, path: str, *, is_repeatable: bool) -> GitHubError:
        error = _error_for(result, f"{self.base_url}/{path.lstrip('/')}", is_repeatable=is_repeatable)
        return type(error)(one_line(self._without_token(str(error))))

    def _without_token(self, text: str) -> str:
        return text.replace(self._token, "[token]") if self._token else text

    def _too_long(self, step: Wait) -> GitHubError:
        until = datetime.fromtimestamp(self._clock() + step.seconds, UTC)
        advice = "Run again then" if self._token else "Run again then, or set GITHUB_TOKEN"
        return GitHubRateLimitedError(
            f"{step.reason} and opens at {until:%Y-%m-%d %H:%M:%S} UTC, in {step.seconds:.0f} s: longer than the"
            f" {self._max_wait_seconds:.0f} s to wait. {advice}."
        )


def _reply(raw: Any) -> Reply:
    try:
        body = raw.json()
    except ValueError:
        body = None
    return Reply(
        status=raw.status_code,
        body=body,
        headers={name.lower(): value for name, value in raw.headers.items()},
        next_url=raw.links.get("next", {}).get("url", ""),
    )


def _no_reply(error: BaseException) -> NoReply:
    httpx = importlib.import_module("httpx")
    is_unsent = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout | httpx.ProxyError)
    return NoReply(f"GitHub cannot be reached ({type(error).__name__}: {error})", is_sent=not is_unsent)


def _error_for(result: Reply | NoReply, where: str, *, is_repeatable: bool) -> GitHubError:
    """The error a failed request ends in, in words that say what to do."""
    if isinstance(result, NoReply) or result.status >= 500:
        reason = result.reason if isinstance(result, NoReply) else f"GitHub failed with {result.status}"
        is_lost = not is_repeatable and (isinstance(result, Reply) or result.is_sent)
        if is_lost:
            return AnswerLostError(f"{reason} at {where}: the request may have taken effect.")
        return GitHubUnavailableError(f"{reason} at {where}. Check the network and GITHUB_API_URL, then run again.")
    said = _words_of(result.body)
    match result.status:
        case 401:
            return GitHubAuthError(f"GitHub does not take the token for {where}{said}. {HOW_TO_GIVE_A_TOKEN}")
        case 403:
            return GitHubForbiddenError(f"GitHub forbids {where}{said}. {_permission_advice(result)}")
        case 404 | 410:
            return GitHubNotFoundError(
                f"GitHub has nothing at {where}{said}. Check the name, that issues are enabled, and that the"
                " token may see the repository."
            )
        case 422:
            return GitHubRejectedError(f"GitHub finds the request to {where} invalid{said}.")
        case _:
            return GitHubError(f"GitHub answered {result.status} at {where}{said}.")


HOW_TO_GIVE_A_TOKEN = "Set GITHUB_TOKEN, or sign in with `gh auth login`."


def _permission_advice(reply: Reply) -> str:
    if "x-github-sso" in reply.headers:
        return "Authorize the token for the organisation's single sign-on."
    return "Give the token the Issues permission for this repository."


def _words_of(body: Any) -> str:
    """GitHub's own explanation, as a parenthesis; its text is untrusted and may be long."""
    if not isinstance(body, dict):
        return ""
    details = [str(body.get("message", ""))]
    errors = body.get("errors")
    for error in errors if isinstance(errors, list) else []:
        if isinstance(error, dict):
            details.append(" ".join(str(error[key]) for key in ("field", "code", "message") if error.get(key)))
        else:
            details.append(str(error))
    words = "; ".join(detail for detail in details if detail)
    return f" ({words[:300]})" if words else ""

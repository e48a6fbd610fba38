"""GitHub as a source: reads issues by label, and files an issue exactly once."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from agentos.errors import UsageError
from agentos.sources.github_client import (
    HOW_TO_GIVE_A_TOKEN,
    AnswerLostError,
    GitHubAuthError,
    GitHubClient,
    GitHubError,
    GitHubForbiddenError,
    Json,
)
from agentos.sources.github_token import api_url, find_token
from agentos.sources.item import SourceItem, dependency_ids, natural_key, priority_of

STATES = ("open", "closed", "all")
MAX_BODY_CHARACTERS = 65536
_MARKER = re.compile(r"<!--\s*agentos:filed\b[^>]*-->", re.IGNORECASE)
_PRIORITY_LABEL = re.compile(r"priority\s*[:/=-]\s*(.+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class FiledIssue:
    """An issue that is on GitHub."""

    number: int
    url: str
    is_new: bool
    """False when an earlier attempt had filed it."""


class GitHubSource:
    """Issues of one repository.

    `label` may name several, separated by commas: an issue needs them all. The address and the token come from
    GITHUB_API_URL, and GITHUB_TOKEN or `gh`; both are looked up on first use, so that building a source does nothing.
    """

    def __init__(
        self, repository: str, *, label: str = "", state: str = "open", client: GitHubClient | None = None
    ) -> None:
        if not is_repository_name(repository):
            raise UsageError(f"Not a GitHub repository: {repository[:100]!r}. Write it as owner/name.")
        if state not in STATES:
            raise UsageError(f"Not a state of GitHub issues: {state[:40]!r}. Use one of {', '.join(STATES)}.")
        self.repository = repository
        self.label = label
        self.state = state
        self._client_once = client

    def __repr__(self) -> str:
        return f"GitHubSource({self.repository!r}, label={self.label!r}, state={self.state!r})"

    def items(self) -> tuple[SourceItem, ...]:
        """Every issue with the label and state, pull requests left out, in order of numbers."""
        params = {"state": self.state, "sort": "created", "direction": "asc"}
        if self.label:
            params["labels"] = self.label
        with self._client as client:
            rows = {int(row["number"]): row for row in client.rows(self._issues_path, params) if _is_issue(row)}
        items = [_item(row) for row in rows.values()]
        return tuple(sorted(items, key=lambda item: natural_key(item.id)))

    def file_issue(self, title: str, body: str, *, key: str, labels: Sequence[str] = ()) -> FiledIssue:
        """File an issue, once for each `key`, however often this is called and wherever a call was cut off.

        The key's hash goes into the body as a hidden comment, and is looked for first among the issues this token's
        owner has created: the list is read from GitHub's database, unlike its search, which lags. Callers see to it
        that no two processes file the same key at the same moment. When an answer is lost, the issue is looked for
        again; if it is not there, the error says so, and calling again later is safe.
        """
        marker = marker_for(key)
        content = {"title": _title(title), "body": _marked(body, marker), "labels": list(labels)}
        with self._client as client:
            if not client.has_token:
                raise GitHubAuthError(f"Filing an issue on {self.repository} needs a token. {HOW_TO_GIVE_A_TOKEN}")
            creator = _login(client)
            if found := self._find_filed(client, marker, creator):
                return found
            try:
                return _filed(client.post(self._issues_path, content), is_new=True)
            except AnswerLostError:
                if found := self._find_filed(client, marker, creator):
                    return found
                raise

    def _find_filed(self, client: GitHubClient, marker: str, creator: str) -> FiledIssue | None:
        # Not by label: people change labels. Not by title: people edit titles.
        params = {"state": "all", "sort": "created", "direction": "desc"}
        if creator:
            params["creator"] = creator
        for row in client.rows(self._issues_path, params):
            if _is_issue(row) and marker in str(row.get("body") or ""):
                return _filed(row, is_new=False)
        return None

    @property
    def _client(self) -> GitHubClient:
        if self._client_once is None:
            url = api_url()
            self._client_once = GitHubClient(url, find_token(url))
        return self._client_once

    @property
    def _issues_path(self) -> str:
        return f"/repos/{self.repository}/issues"


def is_repository_name(text: str) -> bool:
    """Whether `text` is `owner/name` as GitHub allows them, and so safe in an address."""
    match = re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9-]{0,38}/([A-Za-z0-9._-]{1,100})", text)
    return match is not None and match[1] not in (".", "..")


def marker_for(key: str) -> str:
    """The hidden comment that says which key an issue was filed for."""
    return f"<!-- agentos:filed key={hashlib.sha256(key.encode()).hexdigest()} -->"


def _is_issue(row: Json) -> bool:
    """GitHub lists pull requests among the issues."""
    return "pull_request" not in row and isinstance(row.get("number"), int)


def _item(row: Json) -> SourceItem:
    title = " ".join(str(row.get("title") or "").split())
    body = re.sub(r"\r\n?", "\n", _MARKER.sub("", str(row.get("body") or ""))).strip()
    labels = _label_names(row.get("labels"))
    return SourceItem(
        id=str(row["number"]),
        title=title,
        text=f"# {title}\n\n{body}\n" if body else f"# {title}\n",
        origin=str(row.get("html_url") or row.get("url") or ""),
        priority=_priority(labels),
        depends_on=dependency_ids(body),
        labels=labels,
        state="closed" if row.get("state") == "closed" else "open",
    )


def _label_names(labels: object) -> tuple[str, ...]:
    """GitHub gives labels as objects, and in old answers as plain strings."""
    rows = labels if isinstance(labels, list) else []
    return tuple(str(row.get("name", "")) if isinstance(row, dict) else str(row) for row in rows)


def _priority(labels: tuple[str, ...]) -> int:
    """The highest that labels such as `priority: high` or `priority/3` name."""
    matches = (_PRIORITY_LABEL.fullmatch(label.strip()) for label in labels)
    named = [priority_of(match[1]) for match in matches if match]
    return max((value for value in named if value is not None), default=0)


def _login(client: GitHubClient) -> str:
    """Who the token belongs to; empty for an app's token, which has no user."""
    try:
        user = client.get("/user")
    except GitHubForbiddenError:
        return ""
    return str(user.get("login", "")) if isinstance(user, dict) else ""


def _title(title: str) -> str:
    line = " ".join(title.split())
    if not line:
        raise UsageError("An issue needs a title.")
    return line[:256]


def _marked(body: str, marker: str) -> str:
    """The body with this key's marker and no other: a model's text must not pass for another item's issue."""
    # Words take a marker's place, so that what is left around it cannot join up to another.
    text = f"{_MARKER.sub('[comment removed]', body).rstrip()}\n\n{marker}\n"
    if len(text) > MAX_BODY_CHARACTERS:
        raise UsageError(f"The issue's text has {len(text)} characters; GitHub takes {MAX_BODY_CHARACTERS}.")
    return text


def _filed(row: Json, *, is_new: bool) -> FiledIssue:
    number = row.get("number")
    if not isinstance(number, int):
        raise GitHubError("GitHub's answer names no issue number: look at the repository before filing again.")
    return FiledIssue(number=number, url=str(row.get("html_url") or ""), is_new=is_new)

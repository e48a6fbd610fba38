"""GitHub as a source, through the real client library, against a real HTTP server on loopback."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import githubkit
import pytest
from githubkit.exception import RequestFailed

from agentos.errors import AgentosError, UsageError
from agentos.sources.github import GitHubSource, marker_for
from agentos.sources.github_client import (
    AnswerLostError,
    GitHubAuthError,
    GitHubClient,
    GitHubError,
    GitHubForbiddenError,
    GitHubNotFoundError,
    GitHubRateLimitedError,
    GitHubRejectedError,
    GitHubUnavailableError,
    NoReply,
    Reply,
    next_step,
    rate_limit_seconds,
)
from agentos.sources.github_token import api_url, check_api_url, find_token
from fakes.github_server import SECONDARY_LIMIT_URL, GitHubServer, Scripted

TOKEN = "ghp_thisIsNotARealTokenButLooksLikeOne00"
REPO = "acme/shop"


@pytest.fixture(autouse=True)
def no_proxies_and_no_inherited_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "GITHUB_TOKEN", "GITHUB_API_URL"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("AGENTOS_HOME", str(tmp_path / "home"))


@pytest.fixture
def server() -> Iterator[GitHubServer]:
    with GitHubServer(token=TOKEN) as running:
        running.add_repository(REPO)
        yield running


class Sleeper:
    """Takes the place of sleeping and of the clock; remembers what was slept."""

    def __init__(self) -> None:
        self.slept: list[float] = []
        self.told: list[tuple[float, str]] = []

    def sleep(self, seconds: float) -> None:
        assert self.told[-1][0] == seconds, "a wait is told before it begins"
        self.slept.append(seconds)

    def on_wait(self, seconds: float, reason: str) -> None:
        self.told.append((seconds, reason))


def source_on(server: GitHubServer, sleeper: Sleeper | None = None, **options: Any) -> GitHubSource:
    sleeper = sleeper or Sleeper()
    token = options.pop("token", TOKEN)
    client_options = {"max_wait_seconds": options.pop("max_wait_seconds", 900.0)}
    client = GitHubClient(server.url, token, on_wait=sleeper.on_wait, sleep=sleeper.sleep, **client_options)
    return GitHubSource(REPO, client=client, **options)


# Reading


def test_issues_come_by_label_and_state_without_pull_requests_in_order_of_numbers(server: GitHubServer) -> None:
    server.add_issue(REPO, "First", "Text\r\nhere", labels=("ready", "priority: high"))
    server.add_issue(REPO, "Other label", labels=("later",))
    server.add_issue(REPO, "A change", labels=("ready",), is_pull_request=True)
    server.add_issue(REPO, "Done", labels=("ready",), state="closed")
    server.add_issue(REPO, "Second", None, labels=("ready",))

    items = source_on(server, label="ready").items()

    assert [(item.id, item.title, item.state) for item in items] == [("1", "First", "open"), ("5", "Second", "open")]
    assert items[0].text == "# First\n\nText\nhere\n"
    assert items[1].text == "# Second\n"
    assert items[0].priority > items[1].priority == 0
    assert items[0].labels == ("ready", "priority: high")
    assert items[0].origin.endswith("/acme/shop/issues/1")


def test_every_page_is_read_and_nothing_is_read_twice(server: GitHubServer) -> None:
    for number in range(1, 251):
        server.add_issue(REPO, f"Issue {number}", labels=("ready",))

    items = source_on(server, label="ready").items()

    assert [item.id for item in items] == [str(number) for number in range(1, 251)]
    assert server.count("GET", "/issues") == 3


def test_closed_issues_are_read_on_request_and_say_so(server: GitHubServer) -> None:
    server.add_issue(REPO, "Open")
    server.add_issue(REPO, "Closed", state="closed")

    assert [item.state for item in source_on(server, state="all").items()] == ["open", "closed"]
    assert [item.id for item in source_on(server, state="closed").items()] == ["2"]


def test_dependencies_are_read_from_the_text(server: GitHubServer) -> None:
    server.add_issue(REPO, "Base")
    server.add_issue(REPO, "Top", "Depends on #1 and #106.\n")

    assert [item.depends_on for item in source_on(server).items()] == [(), ("1", "106")]


def test_public_issues_are_read_without_a_token(server: GitHubServer) -> None:
    server.add_issue(REPO, "Public")

    assert [item.title for item in source_on(server, token=None).items()] == ["Public"]
    assert server.requests[0].is_anonymous


def test_an_enterprise_server_answers_below_its_own_path(monkeypatch: pytest.MonkeyPatch) -> None:
    with GitHubServer(token=TOKEN, prefix="/api/v3", is_private=True) as server:
        for number in range(101):
            server.add_issue(REPO, f"Issue {number}")
        monkeypatch.setenv("GITHUB_API_URL", f"{server.url}/")
        monkeypatch.setenv("GITHUB_TOKEN", f"  {TOKEN}\n")

        assert len(GitHubSource(REPO).items()) == 101
        assert all(request.path.startswith("/api/v3/") for request in server.requests)


def test_a_list_that_goes_on_at_another_host_is_not_followed(server: GitHubServer) -> None:
    elsewhere = {"Link": '<http://127.0.0.1:9/repos/acme/shop/issues?page=2>; rel="next"'}
    server.script(Scripted(status=200, body=[], headers=elsewhere))

    with pytest.raises(GitHubError, match="another host"):
        source_on(server).items()


def test_an_answer_that_is_not_a_list_is_an_error_and_not_a_crash(server: GitHubServer) -> None:
    server.script(Scripted(status=200, body={"hello": "proxy"}))

    with pytest.raises(GitHubError, match="not a list"):
        source_on(server).items()


# Filing


def test_an_issue_is_filed_with_its_labels_and_a_hidden_marker(server: GitHubServer) -> None:
    filed = source_on(server).file_issue("A  title\n", "The body.", key="brief:login", labels=["ready"])

    [issue] = server.issues(REPO)
    assert (filed.number, filed.is_new, filed.url) == (1, True, issue["html_url"])
    assert issue["title"] == "A title"
    assert issue["body"] == f"The body.\n\n{marker_for('brief:login')}\n"
    assert issue["labels"] == [{"name": "ready"}]


def test_filing_the_same_key_again_finds_the_first_issue_whatever_people_did_to_it(server: GitHubServer) -> None:
    first = source_on(server).file_issue("Title", "Body", key="k")
    for number in range(150):
        server.add_issue(REPO, f"Other {number}", marker_for(f"other-{number}"), creator=server.login)
    server.edit_issue(REPO, 1, title="Renamed", labels=[], state="closed")

    again = source_on(server).file_issue("Title", "A new body", key="k")

    assert again.number == first.number
    assert not again.is_new
    assert len(server.issues(REPO)) == 151


def test_different_keys_file_different_issues(server: GitHubServer) -> None:
    numbers = {source_on(server).file_issue("Same", "Same", key=key).number for key in ("a", "b")}

    assert numbers == {1, 2}


@pytest.mark.parametrize(
    "lost",
    [
        Scripted(method="POST", handle_first=True, hang_up=True),
        Scripted(method="POST", handle_first=True, status=502),
    ],
)
def test_an_issue_whose_answer_was_lost_is_found_and_not_filed_again(server: GitHubServer, lost: Scripted) -> None:
    server.script(lost)

    filed = source_on(server).file_issue("Title", "Body", key="k")

    assert (filed.number, filed.is_new) == (1, False)
    assert len(server.issues(REPO)) == 1
    assert server.count("POST") == 1


def test_a_filing_that_may_have_failed_is_not_repeated_blindly_but_may_be_called_again(server: GitHubServer) -> None:
    server.script(Scripted(method="POST", hang_up=True))

    with pytest.raises(AnswerLostError, match="may have taken effect"):
        source_on(server).file_issue("Title", "Body", key="k")
    assert server.count("POST") == 1

    assert source_on(server).file_issue("Title", "Body", key="k").is_new
    assert len(server.issues(REPO)) == 1


FILE_AND_DIE = """
    import os, sys
    from agentos.sources.github import GitHubSource

    source = GitHubSource("acme/shop")
    filed = source.file_issue("Title", "Body", key="brief:login")
    if sys.argv[1] == "die":
        os._exit(137)  # filed, and nothing recorded
    print(filed.number, filed.is_new)
"""


def test_a_process_that_dies_between_filing_and_recording_does_not_file_twice(server: GitHubServer) -> None:
    def run(mode: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", textwrap.dedent(FILE_AND_DIE), mode],
            env={"GITHUB_API_URL": server.url, "GITHUB_TOKEN": TOKEN, "PATH": ""},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    assert run("die").returncode == 137
    assert run("live").stdout == "1 False\n"
    assert len(server.issues(REPO)) == 1


def test_a_body_cannot_pass_for_the_issue_of_another_key(server: GitHubServer) -> None:
    stolen = marker_for("victim")
    nested = stolen.replace("agentos", f"agent{stolen}os").replace("key", f"{marker_for('x')}key")
    source = source_on(server)
    source.file_issue("Evil", f"{stolen}\n{nested}\n{stolen[:5]}{stolen}{stolen[5:]}", key="evil")

    assert source.file_issue("Victim", "Body", key="victim").is_new


def test_someone_elses_issue_with_the_marker_does_not_count(server: GitHubServer) -> None:
    server.add_issue(REPO, "Copied", f"{marker_for('k')}", creator="stranger")

    assert source_on(server).file_issue("Title", "Body", key="k").number == 2


def test_an_app_token_without_a_user_still_files_once(server: GitHubServer) -> None:
    refusal = {"message": "Resource not accessible by integration"}
    server.script(*[Scripted(status=403, path="/user", body=refusal)] * 2)

    numbers = [source_on(server).file_issue("Title", "Body", key="k").number for _ in range(2)]

    assert numbers == [1, 1]


def test_many_threads_with_keys_of_their_own_file_each_once(server: GitHubServer) -> None:
    source_threads = [
        threading.Thread(target=lambda key=key: source_on(server).file_issue("T", "B", key=key)) for key in "abcdef"
    ]
    for thread in source_threads:
        thread.start()
    for thread in source_threads:
        thread.join(30)

    assert len(server.issues(REPO)) == 6


def test_filing_without_a_token_asks_for_one_before_anything_is_sent(server: GitHubServer) -> None:
    with pytest.raises(GitHubAuthError, match="GITHUB_TOKEN"):
        source_on(server, token=None).file_issue("Title", "Body", key="k")

    assert server.requests == []


def test_what_github_would_not_take_is_refused_before_it_is_sent(server: GitHubServer) -> None:
    with pytest.raises(UsageError, match="title"):
        source_on(server).file_issue(" \n", "Body", key="k")
    with pytest.raises(UsageError, match="65536"):
        source_on(server).file_issue("Title", "x" * 70_000, key="k")

    assert server.requests == []


# Rate limits


def test_retry_after_is_honoured_and_told_for_reading_and_for_filing(server: GitHubServer) -> None:
    server.script(Scripted(status=429, headers={"Retry-After": "7"}, method="GET"))
    server.script(Scripted(status=403, headers={"Retry-After": "9"}, method="POST"))
    sleeper = Sleeper()

    filed = source_on(server, sleeper).file_issue("Title", "Body", key="k")

    assert filed.is_new
    assert sleeper.slept == [7.0, 9.0]
    assert "rate limit" in sleeper.told[0][1]
    assert len(server.issues(REPO)) == 1


def test_the_primary_limit_is_waited_out_for_real_and_said(
    server: GitHubServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.add_issue(REPO, "Later")
    server.limit(remaining=0, reset_in_seconds=0.2)

    items = GitHubSource(REPO, client=GitHubClient(server.url, TOKEN)).items()

    assert [item.title for item in items] == ["Later"]
    assert re.fullmatch(r"GitHub's rate limit is reached: trying again in [1-4] s\n", capsys.readouterr().err)


def test_a_secondary_limit_without_a_time_waits_a_minute_then_longer(server: GitHubServer) -> None:
    body = {"message": "slow down", "documentation_url": SECONDARY_LIMIT_URL}
    server.script(*[Scripted(status=403, body=body)] * 2)
    sleeper = Sleeper()

    source_on(server, sleeper).items()

    assert sleeper.slept == [60.0, 120.0]


def test_a_limit_longer_than_the_patience_is_an_error_that_says_when(server: GitHubServer) -> None:
    server.limit(remaining=0, reset_in_seconds=1800)
    sleeper = Sleeper()

    with pytest.raises(GitHubRateLimitedError, match=r"UTC, in 1[78]\d\d s") as caught:
        source_on(server, sleeper, max_wait_seconds=600.0).items()

    assert sleeper.slept == []
    assert TOKEN not in str(caught.value)


def test_waits_of_one_request_add_up_to_the_limit(server: GitHubServer) -> None:
    server.script(*[Scripted(status=429, headers={"Retry-After": "40"})] * 5)
    sleeper = Sleeper()

    with pytest.raises(GitHubRateLimitedError):
        source_on(server, sleeper, max_wait_seconds=100.0).items()

    assert sleeper.slept == [40.0, 40.0]


def test_a_limit_header_the_library_cannot_read_is_an_expected_error(server: GitHubServer) -> None:
    server.script(*[Scripted(status=429, headers={"Retry-After": "Wed, 21 Oct 2099 07:28:00 GMT"})] * 4)

    with pytest.raises(GitHubUnavailableError, match="cannot be read"):
        source_on(server).items()


@pytest.mark.parametrize(
    ("reply", "seconds"),
    [
        (Reply(403, headers={"retry-after": "3"}), 3.0),
        (Reply(429, headers={"retry-after": "Thu, 01 Jan 1970 00:20:00 GMT"}), 200.0),
        (Reply(403, headers={"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1010"}), 11.0),
        (Reply(403, headers={"x-ratelimit-remaining": "0", "x-ratelimit-reset": "900"}), 1.0),
        (Reply(429), 60.0),
        (Reply(403, {"message": "secondary rate limit"}, {"x-ratelimit-remaining": "12"}), None),
        (Reply(403, ["not", "an", "object"]), None),
        (Reply(500, headers={"retry-after": "3"}), None),
    ],
)
def test_only_fields_make_a_rate_limit(reply: Reply, seconds: float | None) -> None:
    assert rate_limit_seconds(reply, attempt=1, now=1000.0) == seconds


# Errors


@pytest.mark.parametrize(
    ("status", "kind", "advice"),
    [
        (401, GitHubAuthError, "gh auth login"),
        (403, GitHubForbiddenError, "permission"),
        (404, GitHubNotFoundError, "Check the name"),
        (410, GitHubNotFoundError, "issues are enabled"),
        (422, GitHubRejectedError, "title missing_field"),
        (418, GitHubError, "418"),
    ],
)
def test_each_refusal_is_a_typed_error_on_one_line_without_the_token(
    server: GitHubServer, status: int, kind: type[AgentosError], advice: str
) -> None:
    body = {"message": f"No,\n\x1b[31m {TOKEN}", "errors": [{"field": "title", "code": "missing_field"}, "more"]}
    server.script(Scripted(status=status, body=body))

    with pytest.raises(kind, match=advice) as caught:
        source_on(server).items()

    message = str(caught.value)
    assert TOKEN not in message
    assert message.isprintable()
    assert len(server.requests) == 1


def test_single_sign_on_is_named_as_the_reason(server: GitHubServer) -> None:
    server.script(Scripted(status=403, headers={"X-GitHub-SSO": "required; url=https://example"}))

    with pytest.raises(GitHubForbiddenError, match="single sign-on"):
        source_on(server).items()


def test_a_wrong_token_is_an_auth_error_that_does_not_show_it(server: GitHubServer) -> None:
    wrong = TOKEN[::-1]

    with pytest.raises(GitHubAuthError, match="Bad credentials") as caught:
        source_on(server, token=wrong).items()

    assert wrong not in str(caught.value)
    assert wrong not in repr(caught.value.__cause__)


def test_reading_survives_faults_of_the_server_and_lost_connections(server: GitHubServer) -> None:
    server.add_issue(REPO, "Here")
    server.script(Scripted(status=502, body="<html>"), Scripted(hang_up=True))
    sleeper = Sleeper()

    assert len(source_on(server, sleeper).items()) == 1
    assert sleeper.slept == [1.0, 2.0]


def test_a_server_that_stays_broken_or_away_is_given_up(server: GitHubServer) -> None:
    server.script(*[Scripted(status=500)] * 4)
    with pytest.raises(GitHubUnavailableError, match="500"):
        source_on(server).items()

    sleeper = Sleeper()
    away = GitHubClient("http://127.0.0.1:9", TOKEN, on_wait=sleeper.on_wait, sleep=sleeper.sleep)
    with pytest.raises(GitHubUnavailableError, match="cannot be reached"):
        GitHubSource(REPO, client=away).items()
    assert len(sleeper.slept) == 3


def test_no_patience_means_no_second_try(server: GitHubServer) -> None:
    server.script(Scripted(status=500))

    with pytest.raises(GitHubUnavailableError, match="500"):
        source_on(server, max_wait_seconds=0.0).items()


def test_a_request_that_never_left_may_go_again_even_if_it_creates_something() -> None:
    unsent, lost = NoReply("away", is_sent=False), NoReply("lost", is_sent=True)

    assert next_step(unsent, attempt=1, is_repeatable=False, now=0) is not None
    assert next_step(lost, attempt=1, is_repeatable=False, now=0) is None
    assert next_step(lost, attempt=1, is_repeatable=True, now=0) is not None
    assert next_step(Reply(500), attempt=1, is_repeatable=False, now=0) is None
    assert next_step(lost, attempt=4, is_repeatable=True, now=0) is None


# Token and address


def test_the_token_is_never_in_a_repr(server: GitHubServer) -> None:
    client = GitHubClient(server.url, TOKEN)

    assert TOKEN not in repr(GitHubSource(REPO, client=client)) + repr(client)


def test_a_token_that_does_not_fit_a_header_is_refused_unseen() -> None:
    with pytest.raises(UsageError) as caught:
        find_token("https://api.github.com", {"GITHUB_TOKEN": f"{TOKEN}\n{TOKEN}"})

    assert TOKEN not in str(caught.value)


def fake_gh(directory: Path, script: str) -> dict[str, str]:
    """A `gh` on a path of its own; returns the environment to look in."""
    directory.mkdir()
    program = directory / "gh"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return {"PATH": f"{directory}:/usr/bin:/bin", "OPENAI_API_KEY": "sk-must-not-pass"}


def test_the_token_of_gh_is_used_for_the_right_host_and_no_key_reaches_it(tmp_path: Path) -> None:
    environ = fake_gh(
        tmp_path / "bin", 'echo "$*|$OPENAI_API_KEY|$GH_PROMPT_DISABLED" > "$(dirname "$0")/seen"; echo gho_fromgh'
    )

    assert find_token("https://ghe.example/api/v3", environ) == "gho_fromgh"
    assert (tmp_path / "bin" / "seen").read_text() == "auth token --hostname ghe.example||1\n"
    assert find_token("https://api.github.com", environ) == "gho_fromgh"
    assert "--hostname github.com|" in (tmp_path / "bin" / "seen").read_text()


@pytest.mark.parametrize("script", ["exit 1", "true", "echo no >&2; exit 4"])
def test_a_gh_that_is_not_signed_in_means_no_token(tmp_path: Path, script: str) -> None:
    assert find_token("https://api.github.com", fake_gh(tmp_path / "bin", script)) is None


def test_a_gh_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentos.sources.github_token.GH_TIMEOUT_SECONDS", 0.3)

    assert find_token("https://api.github.com", fake_gh(tmp_path / "bin", "sleep 60")) is None


def test_without_gh_there_is_no_token(tmp_path: Path) -> None:
    assert find_token("https://api.github.com", {"PATH": str(tmp_path)}) is None


def test_the_environments_token_goes_before_that_of_gh(tmp_path: Path) -> None:
    environ = {**fake_gh(tmp_path / "bin", "echo gho_fromgh"), "GITHUB_TOKEN": TOKEN}

    assert find_token("https://api.github.com", environ) == TOKEN


def test_a_token_is_not_sent_over_a_bare_network() -> None:
    assert api_url({}) == "https://api.github.com"
    assert check_api_url("https://ghe.example/api/v3/") == "https://ghe.example/api/v3"
    for address in ("http://ghe.example/api/v3", "ftp://ghe.example", "https://user:pw@ghe.example", "ghe.example"):
        with pytest.raises(UsageError, match="GITHUB_API_URL") as caught:
            check_api_url(address)
        assert "pw" not in str(caught.value)


def test_importing_the_source_does_not_import_githubkit() -> None:
    probe = (
        "import sys, agentos.sources; print(sorted({'githubkit', 'httpx', 'pydantic', 'asyncio'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, timeout=60, check=True)

    assert done.stdout == "[]\n"


# The server itself, through the library alone


@pytest.fixture
def kit(server: GitHubServer) -> Iterator[githubkit.GitHub[Any]]:
    with githubkit.GitHub(TOKEN, base_url=server.url, auto_retry=False, http_cache=False) as client:
        yield client


def test_the_server_takes_comments_and_lists_them(server: GitHubServer, kit: githubkit.GitHub[Any]) -> None:
    server.add_issue(REPO, "Talk")
    for number in range(3):
        kit.request("POST", f"/repos/{REPO}/issues/1/comments", json={"body": f"c{number}"})

    page = kit.request("GET", f"/repos/{REPO}/issues/1/comments", params={"per_page": 2})

    assert [comment["body"] for comment in page.json()] == ["c0", "c1"]
    assert 'rel="next"' in page.headers["link"]
    assert kit.request("GET", f"/repos/{REPO}/issues/1").json()["comments"] == 3


def test_the_server_takes_pull_requests_once_a_branch(server: GitHubServer, kit: githubkit.GitHub[Any]) -> None:
    pull = {"title": "Change", "head": "work", "base": "main"}
    created = kit.request("POST", f"/repos/{REPO}/pulls", json=pull).json()

    with pytest.raises(RequestFailed) as caught:
        kit.request("POST", f"/repos/{REPO}/pulls", json=pull)

    assert caught.value.response.status_code == 422
    found = kit.request("GET", f"/repos/{REPO}/pulls", params={"head": "acme:work", "base": "main"}).json()
    assert [row["number"] for row in found] == [created["number"]]
    assert kit.request("GET", f"/repos/{REPO}/pulls", params={"head": "acme:other"}).json() == []
    assert server.issues(REPO) == []


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", f"/repos/{REPO}/issues", {"title": " "}, 422),
        ("POST", f"/repos/{REPO}/issues/9/comments", {"body": "x"}, 404),
        ("GET", "/repos/acme/unknown/issues", None, 404),
        ("GET", "/nowhere", None, 404),
    ],
)
def test_the_server_refuses_what_github_refuses(
    kit: githubkit.GitHub[Any], method: str, path: str, body: Any, status: int
) -> None:
    with pytest.raises(RequestFailed) as caught:
        kit.request(method, path, json=body)

    assert caught.value.response.status_code == status


def test_the_server_takes_nothing_from_strangers(server: GitHubServer) -> None:
    with githubkit.GitHub(base_url=server.url, auto_retry=False, http_cache=False) as stranger:
        with pytest.raises(RequestFailed) as caught:
            stranger.request("POST", f"/repos/{REPO}/issues", json={"title": "x"})
        assert caught.value.response.status_code == 401
    assert server.issues(REPO) == []

"""`cli:claude` as a provider: a real child process, here a script that behaves like the CLI."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agentos import llm
from agentos.errors import NoUsableKeyError, UsageError
from agentos.llm import attempts
from agentos.llm.retries import RetryPolicy
from agentos.providers.evidence import (
    Abandoned,
    Overloaded,
    RateLimited,
    Rejected,
    RequestFailed,
    Succeeded,
    TransportFailed,
)
from fakes.recording_broker import RecordingBroker

FAKE = """#!{python}
import json, os, subprocess, sys, time
here = {here!r}
calls = os.path.join(here, "calls")
number = len(os.listdir(calls))
seen = {{"argv": sys.argv[1:], "stdin": sys.stdin.read(), "env": dict(os.environ), "cwd": os.getcwd()}}
with open(os.path.join(calls, str(number)), "w") as file:
    json.dump(seen, file)
with open(os.path.join(here, "answers.json")) as file:
    answers = json.load(file)
answer = answers[min(number, len(answers) - 1)]
if answer == "hang":
    grandchild = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    with open(os.path.join(here, "pids"), "w") as file:
        file.write(f"{{os.getpid()}} {{grandchild.pid}}\\n")
    time.sleep(600)
print(answer if isinstance(answer, str) else json.dumps(answer))
sys.exit(1 if isinstance(answer, str) or answer.get("is_error") else 0)
"""


@dataclass
class Verdict:
    approved: bool


@dataclass
class Claude:
    directory: Path

    def answers(self, *answers: Any) -> None:
        (self.directory / "answers.json").write_text(json.dumps(answers))

    def calls(self) -> list[dict[str, Any]]:
        return [json.loads(path.read_text()) for path in sorted((self.directory / "calls").iterdir())]


def success(text: str = "Done.", **more: Any) -> dict[str, Any]:
    return {
        "type": "result",
        "subtype": "success",
        "is_error": False,
        "result": text,
        "total_cost_usd": 0.01,
        "usage": {"input_tokens": 12, "output_tokens": 3},
        **more,
    }


def failure(status: int | None, **more: Any) -> dict[str, Any]:
    text = "API Error: line 429 of 503"
    return {
        "type": "result",
        "subtype": "success",
        "is_error": True,
        "api_error_status": status,
        "result": text,
        **more,
    }


@pytest.fixture
def claude(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Claude:
    (tmp_path / "calls").mkdir()
    program = tmp_path / "bin" / "claude"
    program.parent.mkdir()
    program.write_text(FAKE.format(python=sys.executable, here=str(tmp_path)))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "SENTINEL-not-leased")
    monkeypatch.setenv("GITHUB_TOKEN", "SENTINEL-token")
    return Claude(tmp_path)


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Iterator[RecordingBroker]:
    broker = RecordingBroker({"login": "", "paid": "leased-secret"})
    monkeypatch.setattr(attempts, "retry_policy", RetryPolicy(base_seconds=0.01, cap_seconds=0.02))
    llm.set_broker(broker)
    yield broker
    llm.set_broker(None)
    assert broker.is_settled()


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true"
        time.sleep(0.01)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_the_prompt_goes_in_by_stdin_and_the_result_comes_out(claude: Claude, broker: RecordingBroker) -> None:
    claude.answers(success("Hello."))

    reply = llm.generate("Say hello", model="cli:claude:opus", system="Be brief.")

    assert (reply.text, reply.cost_usd, reply.usage.input_tokens) == ("Hello.", 0.01, 12)
    (call,) = claude.calls()
    assert call["stdin"] == "Say hello"
    assert call["argv"] == [
        *("-p", "--output-format", "json"),
        *("--tools", "", "--strict-mcp-config", "--setting-sources", "", "--disable-slash-commands"),
        *("--no-session-persistence", "--model", "opus", "--append-system-prompt", "Be brief."),
    ]
    assert broker.evidence == [Succeeded(usage=reply.usage)]


def test_the_child_sees_no_secret_but_the_leased_one(claude: Claude, broker: RecordingBroker) -> None:
    claude.answers(failure(401), success())

    llm.generate("hi", model="cli:claude")

    without_key, with_key = claude.calls()
    assert "SENTINEL" not in json.dumps([without_key["env"], with_key["env"]])
    assert "ANTHROPIC_API_KEY" not in without_key["env"]
    assert with_key["env"]["ANTHROPIC_API_KEY"] == "leased-secret"
    assert not Path(with_key["cwd"]).exists()


def test_the_child_has_a_home_of_its_own_with_the_login_and_a_renewed_login_comes_back(
    claude: Claude, broker: RecordingBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    login = tmp_path / "user/.claude/.credentials.json"
    login.parent.mkdir(parents=True)
    login.write_text("login")
    (login.parent / "settings.json").write_text('{"permissions": {"allow": ["Bash"]}}')
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(login.parent))
    program = claude.directory / "bin/claude"
    program.write_text(program.read_text().replace("seen = ", "renew()\nseen = ", 1).replace("here = ", RENEW, 1))
    claude.answers(failure(401), success())

    llm.generate("hi", model="cli:claude")

    with_login, with_key = claude.calls()
    assert with_login["env"]["FOUND"] == "login in ['.credentials.json']"
    assert with_key["env"]["FOUND"] == "nothing in []"
    assert {"CLAUDE_CONFIG_DIR", "XDG_CONFIG_HOME"}.isdisjoint(with_login["env"])
    assert login.read_text() == "renewed"
    assert sorted(path.name for path in login.parent.iterdir()) == [".credentials.json", "settings.json"]


RENEW = """
def renew():
    folder = os.path.expanduser("~/.claude")
    path = os.path.join(folder, ".credentials.json")
    found = open(path).read() if os.path.exists(path) else "nothing"
    os.environ["FOUND"] = f"{found} in {os.listdir(folder)}"
    if found == "login":
        open(path, "w").write("renewed")
here = """


def test_structured_output_is_validated(claude: Claude, broker: RecordingBroker) -> None:
    claude.answers(success(structured_output={"approved": "?"}), success(structured_output={"approved": True}))

    reply = llm.generate("Judge", model="cli:claude", output_type=Verdict)

    assert reply.output == Verdict(approved=True)
    assert reply.usage.input_tokens == 24
    first, second = claude.calls()
    assert json.loads(first["argv"][-1])["properties"]["approved"]
    assert "approved" in second["stdin"].partition("user:\nYour answer")[2]


@pytest.mark.parametrize(
    ("answer", "evidence"),
    [
        (failure(429, retry_after_seconds=90), RateLimited(retry_after_seconds=90)),
        (failure(529), Overloaded()),
        (failure(403), Rejected(reason="the CLI reports status 403")),
    ],
)
def test_limits_are_read_from_the_status_field(
    claude: Claude, broker: RecordingBroker, answer: dict[str, Any], evidence: object
) -> None:
    claude.answers(answer, success())

    assert llm.generate("hi", model="cli:claude").text == "Done."

    assert broker.evidence[0] == evidence


def test_an_error_without_a_status_is_not_guessed_from_its_words(claude: Claude, broker: RecordingBroker) -> None:
    claude.answers(failure(None, subtype="error_max_turns"))

    with pytest.raises(llm.ModelRequestError, match="error_max_turns"):
        llm.generate("hi", model="cli:claude")

    assert broker.evidence == [RequestFailed(reason="the CLI ended with error_max_turns")]


def test_output_that_is_not_json_is_an_error_with_the_exit_code(claude: Claude, broker: RecordingBroker) -> None:
    claude.answers("Rate limit reached, 429")

    with pytest.raises(llm.ModelRequestError, match=r"no JSON result \(exit 1\)"):
        llm.generate("hi", model="cli:claude")


def test_a_cli_that_hangs_is_ended_at_its_time_limit(claude: Claude, broker: RecordingBroker) -> None:
    claude.answers("hang")

    with pytest.raises(llm.ProviderUnavailableError, match="no answer in 5 s"):
        llm.generate("hi", model="cli:claude", timeout_seconds=5)

    assert [type(evidence) for evidence in broker.evidence] == [TransportFailed, TransportFailed]
    assert not any(is_running(int(pid)) for pid in (claude.directory / "pids").read_text().split())


def test_cancelling_kills_the_child_and_what_it_started(claude: Claude, broker: RecordingBroker) -> None:
    claude.answers("hang")
    pids_path = claude.directory / "pids"

    def cancel() -> None:
        wait_until(lambda: pids_path.exists() and pids_path.read_text().endswith("\n"))
        llm.cancel_calls()

    canceller = threading.Thread(target=cancel)
    canceller.start()
    with pytest.raises(llm.CallCancelledError):
        llm.generate("hi", model="cli:claude")
    canceller.join()

    assert broker.evidence == [Abandoned()]
    assert not any(is_running(int(pid)) for pid in pids_path.read_text().split())


def test_a_missing_or_unknown_cli_is_said_clearly(
    broker: RecordingBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match="Unknown coding CLI 'emacs'"):
        llm.generate("hi", model="cli:emacs")

    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(llm.ModelRequestError, match="claude"):
        llm.generate("hi", model="cli:claude")


def test_all_keys_rejected_ends_the_call(claude: Claude, broker: RecordingBroker) -> None:
    claude.answers(failure(401))

    with pytest.raises(NoUsableKeyError):
        llm.generate("hi", model="cli:claude")

    assert len(claude.calls()) == 2


def test_a_system_text_too_long_for_an_argument_goes_by_stdin(claude: Claude, broker: RecordingBroker) -> None:
    claude.answers(success())

    llm.generate("hi", model="cli:claude", system="s" * 200_000)

    (call,) = claude.calls()
    assert "--append-system-prompt" not in call["argv"]
    assert call["stdin"] == "s" * 200_000 + "\n\nhi"

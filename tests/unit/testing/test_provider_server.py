"""The provider server: quotas, scripts, counts; in a thread and as a process."""

from __future__ import annotations

import http.client
import json
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentos.providers.answers import answer_fault
from agentos.testing.faults import faults
from agentos.testing.provider_formats import Provider
from agentos.testing.provider_server import Config, Desk, Key, LimitRule, ProviderServer, Request, Seen, Step
from agentos.testing.quotas import Limits, Quota, Window

PATHS = {
    "google": "/v1beta/models/m:generateContent",
    "openai": "/v1/chat/completions",
    "anthropic": "/v1/messages",
}


def call_for(provider: str, prompt: str = "hello", secret: str = "s1") -> Request:
    messages = [{"role": "user", "content": prompt}]
    body: dict[str, Any] = {"model": "m", "messages": messages}
    headers = {"authorization": f"Bearer {secret}"}
    if provider == "google":
        body = {"contents": [{"role": "user", "parts": [{"text": prompt}]}]}
        headers = {"x-goog-api-key": secret}
    if provider == "anthropic":
        headers = {"x-api-key": secret}
    return Request("POST", PATHS[provider], headers, json.dumps(body).encode())


def read(payload: object) -> tuple[int, dict[str, str], Any]:
    status, headers, body = read_raw(payload)
    return status, headers, json.loads(body)


def read_raw(payload: object) -> tuple[int, dict[str, str], bytes]:
    assert isinstance(payload, bytes)
    head, _, body = payload.partition(b"\r\n\r\n")
    status_line, *lines = head.decode().split("\r\n")
    return int(status_line.split()[1]), dict(line.split(": ", 1) for line in lines), body


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@given(
    limit=st.integers(1, 5),
    gaps=st.lists(st.integers(0, 16).map(lambda quarters: quarters / 4), min_size=1, max_size=40),
)
@settings(deadline=None, max_examples=60)
def test_no_span_of_a_window_ever_holds_more_than_the_limit(limit: int, gaps: list[float]) -> None:
    quota = Quota(Limits(requests_per_minute=limit), minute_seconds=10, day_seconds=100)
    now, admitted = 0.0, []
    for gap in gaps:
        now += gap
        refusal = quota.admit(1, now)
        if refusal is None:
            admitted.append(now)
        else:
            again = now + refusal.retry_after_seconds
            assert sum(again - 10 < at for at in admitted) < limit
    for start in admitted:
        assert sum(start <= at < start + 10 for at in admitted) <= limit


def test_a_window_tells_what_is_left_and_when_it_is_empty_again() -> None:
    window = Window(3, 10)
    window.spend(2, 0.0)

    assert window.remaining(1.0) == 1
    assert window.resets_in(1.0) == 9.0
    assert window.seconds_until(2, 1.0) == 9.0
    assert window.remaining(10.0) == 3
    assert window.resets_in(10.0) == 0.0


def test_keys_of_one_group_share_its_quota_and_models_do_not() -> None:
    keys = [Key(name=name, secret=f"s-{name}", group=group) for name, group in (("a", "g"), ("b", "g"), ("c", "h"))]
    clock = Clock()
    desk = Desk(Config(keys=keys, limits=[LimitRule(requests_per_minute=1)], minute_seconds=6), clock)

    statuses = [read(desk.answer(call_for("google", secret=f"s-{name}")).payload)[0] for name in "abc"]
    assert statuses == [200, 429, 200]

    clock.now = 6.0
    assert read(desk.answer(call_for("google", secret="s-b")).payload)[0] == 200


def test_gemini_tells_a_minute_from_a_day_by_quota_id() -> None:
    clock = Clock()
    limits = [LimitRule(requests_per_minute=2, requests_per_day=3)]
    desk = Desk(Config(limits=limits, minute_seconds=6), clock)
    errors = []
    for now in (0.0, 1.0, 2.0, 7.0, 8.0):
        clock.now = now
        status, _, body = read(desk.answer(call_for("google")).payload)
        if status == 429:
            errors.append(body["error"])

    minute, day = errors
    details = {detail["@type"].rsplit(".", 1)[-1]: detail for detail in minute["details"]}
    assert details["QuotaFailure"]["violations"][0]["quotaId"].startswith("GenerateRequestsPerMinute")
    assert details["QuotaFailure"]["violations"][0]["quotaValue"] == "2"
    assert details["RetryInfo"]["retryDelay"] == "4.000000s"
    assert "PerDay" in day["details"][0]["violations"][0]["quotaId"]


def test_tokens_have_their_own_limit() -> None:
    desk = Desk(Config(limits=[LimitRule(tokens_per_minute=10)]), Clock())

    assert read(desk.answer(call_for("google", "x" * 36)).payload)[0] == 200
    status, _, body = read(desk.answer(call_for("google", "x" * 36)).payload)
    assert status == 429
    assert "InputTokens" in body["error"]["details"][0]["violations"][0]["quotaId"]


def test_openai_and_anthropic_tell_their_limits_in_headers() -> None:
    config = Config(limits=[LimitRule(requests_per_minute=1)], minute_seconds=30, announces_scaled_limits=True)
    desk = Desk(config, Clock())

    _, good, _ = read(desk.answer(call_for("openai")).payload)
    status, limited, body = read(desk.answer(call_for("openai")).payload)
    assert good["x-ratelimit-limit-requests"] == "2"
    assert good["x-ratelimit-remaining-requests"] == "0"
    assert (status, body["error"]["code"]) == (429, "rate_limit_exceeded")
    assert (limited["retry-after"], limited["x-ratelimit-reset-requests"]) == ("30", "30s")

    _, good, _ = read(desk.answer(call_for("anthropic", secret="s2")).payload)
    status, limited, body = read(desk.answer(call_for("anthropic", secret="s2")).payload)
    assert good["anthropic-ratelimit-requests-limit"] == "2"
    assert good["anthropic-ratelimit-requests-reset"].endswith("Z")
    assert (status, body["error"]["type"], limited["retry-after"]) == (429, "rate_limit_error", "30")


@pytest.mark.parametrize("provider", list(PATHS))
@pytest.mark.parametrize(
    "kind", ["invalid_key", "overloaded", "no_credit", "bad_request", "server_error", "zero_limit"]
)
def test_every_named_failure_has_an_error_status_and_body(provider: str, kind: str) -> None:
    desk = Desk(Config(script={"*": [Step(kind="fail", fail=kind, retry_after_seconds=3)]}), Clock())

    status, _, body = read(desk.answer(call_for(provider)).payload)

    assert status >= 400
    assert body["error"]["message"]


@pytest.mark.parametrize("provider", PATHS)
def test_no_fault_is_an_answer(provider: Provider) -> None:
    desk = Desk(Config())
    for name, step in faults(provider).items():
        desk.add_steps("*", [step])
        answer = desk.answer(call_for(provider))
        if answer.payload in ("hang", "reset") or answer.is_cut or step.kind == "bomb":
            continue
        status, headers, body = read_raw(answer.payload)
        assert status >= 400 or answer_fault(provider, headers, body, 0.0) or "stream" in name, name
    assert desk.answer(call_for(provider)).payload != "hang"


def test_steps_are_played_in_order_and_for_their_number_of_calls() -> None:
    steps = [Step(kind="status", status=418, body={"tea": True}, times=2), Step(text="scripted")]
    desk = Desk(Config(script={"*": steps}), Clock())

    answers = [read(desk.answer(call_for("openai")).payload) for _ in range(4)]

    assert [status for status, _, _ in answers] == [418, 418, 200, 200]
    texts = [body["choices"][0]["message"]["content"] for _, _, body in answers[2:]]
    assert texts == ["scripted", "hello"]


def test_answers_may_be_fixed_or_a_function_of_the_request() -> None:
    fixed = Desk(Config(reply="always this"), Clock())
    counted = Desk(Config(reply=lambda seen: f"{seen.model}: {len(seen.prompt)}"), Clock())

    assert read(fixed.answer(call_for("anthropic")).payload)[2]["content"][0]["text"] == "always this"
    assert read(counted.answer(call_for("anthropic")).payload)[2]["content"][0]["text"] == "m: 5"


@pytest.mark.parametrize("provider", list(PATHS))
def test_a_schema_is_answered_with_a_value_that_fits(provider: str) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 4}}, "required": ["n"]}
    request = call_for(provider)
    body = json.loads(request.body)
    body |= {
        "google": {"generationConfig": {"responseJsonSchema": schema}},
        "openai": {"response_format": {"type": "json_schema", "json_schema": {"schema": schema}}},
        "anthropic": {"output_config": {"format": {"type": "json_schema", "schema": schema}}},
    }[provider]
    request.body = json.dumps(body).encode()

    _, _, answer = read(Desk(Config(), Clock()).answer(request).payload)

    assert '{\\"n\\": 4}' in json.dumps(answer)


def test_unknown_paths_and_broken_bodies_are_refused() -> None:
    desk = Desk(Config(), Clock())

    assert read(desk.answer(Request("POST", "/v1/other", {}, b"{}")).payload)[0] == 404
    assert read(desk.answer(Request("GET", PATHS["openai"], {}, b"")).payload)[0] == 404
    assert read(desk.answer(Request("POST", PATHS["openai"], {}, b"{")).payload)[0] == 400
    assert read(desk.answer(Request("GET", "/_nothing", {}, b"")).payload)[0] == 404


def test_books_are_kept_by_key_status_and_second_without_secrets() -> None:
    clock = Clock()
    desk = Desk(Config(keys=[Key(name="alpha", secret="hush-hush")], script={"alpha": [Step(kind="hang")]}), clock)
    desk.answer(call_for("google", secret="hush-hush"))
    clock.now = 2.5
    desk.answer(call_for("google", secret="hush-hush"))
    desk.answer(call_for("google", secret="a-stranger"))

    stats = desk.stats()

    assert stats["hits"]["alpha"] == 2
    assert stats["by_key_and_status"]["alpha"] == {"hang": 1, "200": 1}
    assert stats["by_second"] == {"0": 1, "2": 2}
    assert stats["by_key_and_second"]["alpha"] == {"0": 1, "2": 1}
    listed = read(desk.answer(Request("GET", "/_requests", {}, b"")).payload)[2]
    assert [entry["prompt"] for entry in listed] == ["hello"] * 3
    assert "hush-hush" not in json.dumps([stats, listed])


def test_a_request_in_pieces_is_understood_and_the_connection_kept() -> None:
    with ProviderServer(latency_seconds=0.01) as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port)
        for prompt in ("a" * 100_000, "short"):
            request = call_for("openai", prompt)
            connection.request(request.method, request.path, request.body, request.headers)
            answer = json.loads(connection.getresponse().read())
            assert answer["choices"][0]["message"]["content"] == prompt
        connection.close()

        assert server.stats()["total"] == 2
        assert len(server.desk.ports_seen) == 1
        assert all(isinstance(seen, Seen) for seen in server.requests)
    assert server.stats()["total"] == 2


def test_as_a_process_it_serves_takes_scripts_and_ends_on_sigterm(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(
        json.dumps(
            {
                "keys": [{"name": "alpha", "secret": "s1", "group": "g"}],
                "limits": [{"requests_per_minute": 100}],
                "script": {"alpha": [{"kind": "fail", "fail": "overloaded"}]},
                "minute_seconds": 2,
            }
        )
    )
    command = [sys.executable, "-m", "agentos.testing", "--config", str(config)]
    root = Path(__file__).parents[3]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root) as process:
        assert process.stdout is not None
        connection = http.client.HTTPConnection("127.0.0.1", int(process.stdout.readline()))

        def ask(request: Request) -> tuple[int, Any]:
            connection.request(request.method, request.path, request.body, request.headers)
            response = connection.getresponse()
            return response.status, json.loads(response.read())

        assert ask(call_for("anthropic"))[0] == 529
        script = json.dumps({"key": "alpha", "steps": [{"kind": "ok", "text": "by script"}]}).encode()
        assert ask(Request("POST", "/_script", {}, script)) == (200, {})
        assert ask(call_for("anthropic"))[1]["content"][0]["text"] == "by script"
        assert ask(Request("GET", "/_stats", {}, b""))[1]["hits"] == {"alpha": 2}
        connection.close()
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=20) == 0


def test_a_reply_is_one_write() -> None:
    """The second of two would wait for the client's acknowledgement, which takes its time."""
    request = call_for("openai")
    head = "".join(f"{name}: {value}\r\n" for name, value in request.headers.items())
    asked = f"{request.method} {request.path} HTTP/1.1\r\nContent-Length: {len(request.body)}\r\n{head}\r\n".encode()
    with ProviderServer() as server, socket.create_connection(("127.0.0.1", server.port)) as connection:
        for _ in range(20):
            connection.sendall(asked + request.body)
            headers, _, body = connection.recv(2**20).partition(b"\r\n\r\n")
            (length,) = re.findall(rb"(?i)content-length: (\d+)", headers)
            assert len(body) == int(length)

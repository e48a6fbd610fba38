"""`agentos gateway`: other people's clients, unchanged, over real HTTP to stand-in providers."""

from __future__ import annotations

import gzip
import http.client
import json
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import httpx
import pytest
from harness import Sandbox, Started, eventually
from providers import PoolKey, write_keys

from agentos.providers.provider import base_url_variable
from agentos.testing.provider_server import ProviderServer, Step
from fakes.raw_upstream import Canned, RawUpstream

if TYPE_CHECKING:  # They take seconds to load, in each process that collects this file.
    import anthropic
    import openai
    from google import genai

PROVIDERS = ("anthropic", "openai", "google")
KEYS = [PoolKey(name=f"{name}-{number}", provider=name) for name in PROVIDERS for number in (1, 2)]
HELLO = [{"role": "user", "content": "hello"}]
ENDED = b'data: {"type": "response.completed"}\n\n'
CHAT = Canned([b'{"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]}'])


@dataclass
class Gateway:
    address: str
    token: str
    command: Started

    def post(self, path: str, body: Any, **headers: str) -> httpx.Response:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        sent = {"authorization": f"Bearer {self.token}", "content-type": "application/json", **headers}
        return httpx.post(self.address + path, content=content, headers=sent, timeout=60)

    @property
    def openai(self) -> openai.OpenAI:
        import openai

        return openai.OpenAI(base_url=f"{self.address}/v1", api_key=self.token, max_retries=0)

    @property
    def anthropic(self) -> anthropic.Anthropic:
        import anthropic

        return anthropic.Anthropic(base_url=self.address, api_key=self.token, max_retries=0)

    @property
    def google(self) -> genai.Client:
        from google import genai

        return genai.Client(api_key=self.token, http_options={"base_url": self.address})


@contextmanager
def gateway(sandbox: Sandbox, upstream: str, *options: str, keys: list[PoolKey] = KEYS) -> Iterator[Gateway]:
    write_keys(sandbox, *keys)
    urls = {base_url_variable(n): f"{upstream}/v1" if n == "openai" else upstream for n in PROVIDERS}
    command = sandbox.start_command("gateway", "--json", *options, env=urls)
    told = json.loads(command.wait_for_line("address"))
    yield Gateway(told["address"], told["clients"][0]["token"], command)
    command.kill(15)
    assert command.wait().code == 130


def test_sdks_see_none_of_the_limits_rejections_and_lost_connections_in_between(sandbox: Sandbox) -> None:
    refusals = [
        Step(kind="rate_limit", retry_after_seconds=0.1),
        Step(kind="fail", fail="overloaded"),
        Step(kind="reset"),
        Step(kind="status", status=200, body="{}"),
    ]
    served = [key.to_server_key() for key in KEYS]
    with ProviderServer(keys=served, accepts_unknown_keys=False) as server:
        with gateway(sandbox, f"http://127.0.0.1:{server.port}") as to:
            for step in refusals:
                server.script("*", step)
                assert to.openai.chat.completions.create(model="gpt-5.1", messages=HELLO).choices[0].message.content
                server.script("*", step)
                message = to.anthropic.messages.create(model="claude-sonnet-5", max_tokens=9, messages=HELLO)
                assert message.content[0].text == "hello"
                server.script("*", step)
                assert to.google.models.generate_content(model="gemini-2.5-flash", contents="hello").text == "hello"
            with to.anthropic.messages.stream(model="claude-sonnet-5", max_tokens=9, messages=HELLO) as stream:
                assert stream.get_final_text() == "hello"
        statuses = server.stats()["by_status"]
    assert statuses["429"] == 3
    assert {seen.key_name for seen in server.requests} <= {key.name for key in KEYS}


def test_a_dead_key_is_hit_once_and_a_hopeless_call_gets_the_protocols_own_error(sandbox: Sandbox) -> None:
    import anthropic
    import openai

    keys = [PoolKey(name="dead", provider="anthropic", is_valid=False), PoolKey(name="good", provider="anthropic")]
    served = [key.to_server_key() for key in keys]
    with (
        ProviderServer(keys=served, accepts_unknown_keys=False) as server,
        gateway(sandbox, f"http://127.0.0.1:{server.port}", keys=keys) as to,
    ):
        for _ in range(3):
            assert to.anthropic.messages.create(model="claude-sonnet-5", max_tokens=9, messages=HELLO).content
        assert server.hits("dead") <= 1
        with pytest.raises(openai.AuthenticationError, match=r"No key for openai:gpt-5\.1"):
            to.openai.chat.completions.create(model="gpt-5.1", messages=HELLO)
        server.script("*", Step(kind="fail", fail="bad_request", times=-1))
        with pytest.raises(anthropic.BadRequestError):
            to.anthropic.messages.create(model="claude-sonnet-5", max_tokens=9, messages=HELLO)


PASSED = {
    "/v1/messages": {"content": [], "stop_reason": "end_turn", "usage": {"input_tokens": 3, "output_tokens": 1}},
    "/v1/messages/count_tokens": {"input_tokens": 3},
    "/v1/chat/completions": {"choices": [{"message": {"content": "é"}, "finish_reason": "stop"}]},
    "/v1/responses": {"output": []},
    "/v1/embeddings": {"data": []},
    "/v1beta/models/gemini-2.5-flash:generateContent": {"candidates": [{"finishReason": "STOP"}]},
    "/v1beta/models/gemini-2.5-flash:countTokens": {"totalTokens": 3},
    "/v1beta/models/gemini-2.5-flash:embedContent": {"embedding": {}},
}


def test_requests_and_answers_pass_byte_for_byte_but_for_the_key(sandbox: Sandbox) -> None:
    answers = {
        path: Canned([json.dumps(body).encode() + b" \n"], headers={"x-own": "1"}) for path, body in PASSED.items()
    }
    with RawUpstream(answers) as upstream, gateway(sandbox, upstream.url) as to:
        body = b'{ "model": "m-1",  "unknown":[1.50, "\xc3\xa9"], "max_tokens": 5 }'
        for path, canned in answers.items():
            reply = to.post(f"{path}?beta=true", body, **{"x-unknown": "kept", "user-agent": "mine"})
            assert (reply.status_code, reply.content) == (200, b"".join(canned.pieces))
            assert reply.headers["x-own"] == "1"
            got = upstream.got[-1]
            assert (got.path, got.body) == (f"{path}?beta=true", body)
            assert (got.headers["x-unknown"], got.headers["user-agent"]) == ("kept", "mine")
            assert to.token not in str(got)
        reply = httpx.get(f"{to.address}/v1/models", headers={"authorization": f"Bearer {to.token}"})
        assert (reply.status_code, upstream.got[-1].path) == (200, "/v1/models")
        secrets = {key.secret for key in KEYS}
        for got in upstream.got:
            carried = [value.removeprefix("Bearer ") for value in got.headers.values()]
            assert len([value for value in carried if value in secrets]) == 1


def test_headers_that_are_not_ascii_pass_as_they_are(sandbox: Sandbox) -> None:
    answer = Canned(CHAT.pieces, headers={"content-type": "application/json", "x-own": "caf\xe9"})
    with RawUpstream({"/v1/chat/completions": answer}) as upstream, gateway(sandbox, upstream.url) as to:
        headers = {"authorization": f"Bearer {to.token}".encode(), "x-title": b"caf\xe9"}
        body = json.dumps({"model": "gpt-5.1", "messages": HELLO}).encode()
        reply = httpx.post(f"{to.address}/v1/chat/completions", content=body, headers=headers, timeout=60)
        assert reply.status_code == 200
        assert upstream.got[-1].headers["x-title"] == "caf\xe9"
        assert (b"x-own", b"caf\xe9") in reply.headers.raw


def test_a_stream_comes_as_it_is_sent_and_a_client_that_leaves_ends_the_call(sandbox: Sandbox) -> None:
    gate = threading.Event()
    pieces = [b'data: {"choices": [{"delta": {"content": "a"}}]}\n\n', b"data: [DONE]\n\n"]
    canned = Canned(pieces, headers={"content-type": "text/event-stream"}, gate=gate)
    keys = [PoolKey(name="only", provider="openai")]
    with RawUpstream({"/v1/chat/completions": canned}) as upstream, gateway(sandbox, upstream.url, keys=keys) as to:
        for leaves in (True, False):
            with to.openai.chat.completions.create(model="gpt-5.1", messages=HELLO, stream=True) as stream:
                assert next(iter(stream)).choices[0].delta.content == "a"  # Though the end is not there yet.
                if not leaves:
                    gate.set()
                    assert list(stream) == []
            if leaves:
                eventually(upstream.lost.is_set, "the end of the call")


def test_gemini_streams_a_list_where_no_event_stream_is_asked_for(sandbox: Sandbox) -> None:
    """As it comes, as it is, and cut off if it is not whole."""
    first = b'[{"candidates": [{"content": {"parts": [{"text": "a ]}\\" [{"}]}}]}\n'
    last = b',\r\n{"candidates": [{"finishReason": "STOP"}], "usageMetadata": {"promptTokenCount": 3}}\n]'
    gate, path = threading.Event(), "/v1beta/models/gemini-2.5-flash:streamGenerateContent"
    body = {"contents": [{"parts": [{"text": "hi"}]}]}
    answers = {path: Canned([first, last], gate=gate), path.replace("flash", "pro"): Canned([first])}
    with RawUpstream(answers) as upstream, gateway(sandbox, upstream.url) as to:
        with httpx.stream("POST", f"{to.address}{path}?key={to.token}&$x=a%20b&c", json=body, timeout=60) as reply:
            pieces = reply.iter_raw()
            assert next(pieces) == first  # Though the end is not there yet.
            gate.set()
            assert b"".join(pieces) == last
        assert (len(upstream.got), upstream.got[0].path) == (1, f"{path}?$x=a%20b&c")
        with pytest.raises(httpx.RemoteProtocolError):
            to.post(path.replace("flash", "pro"), body)
        assert len(upstream.got) == 2


def test_an_error_that_comes_in_two_pieces_in_the_place_of_a_stream_is_tried_again(sandbox: Sandbox) -> None:
    overloaded = (
        b'event: error\ndata: {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}\n\n'
    )
    events = {"content-type": "text/event-stream"}
    busy, whole = Canned([overloaded[:20], overloaded[20:]], headers=events), Canned([ENDED], headers=events)
    path = "/v1/responses"
    with RawUpstream({path: busy}) as upstream, gateway(sandbox, upstream.url) as to:
        upstream.next_answers[path] = [busy, busy, whole]
        reply = to.post(path, {"model": "gpt-5.1", "input": "hi", "stream": True})
    assert (reply.status_code, reply.content, len(upstream.got)) == (200, ENDED, 3)


def test_a_stream_that_stops_before_its_end_is_no_whole_answer_for_the_client(sandbox: Sandbox) -> None:
    """OpenAI's SDK would take any stream that ends well for one."""
    import openai

    half = Canned(
        [b'data: {"choices": [{"delta": {"content": "half"}}]}\n\n'], headers={"content-type": "text/event-stream"}
    )
    keys = [PoolKey(name="only", provider="openai")]
    with RawUpstream({"/v1/chat/completions": half}) as upstream, gateway(sandbox, upstream.url, keys=keys) as to:
        pieces = iter(to.openai.chat.completions.create(model="gpt-5.1", messages=HELLO, stream=True))
        assert next(pieces).choices[0].delta.content == "half"
        with pytest.raises(openai.APIConnectionError):
            next(pieces)


def test_strangers_are_refused_and_no_key_leaves_for_elsewhere(sandbox: Sandbox) -> None:
    with RawUpstream() as elsewhere:
        redirect = Canned(status=307, headers={"location": elsewhere.url + "/v1/chat/completions"})
        answers = {"/v1/chat/completions": redirect}
        with RawUpstream(answers) as upstream, gateway(sandbox, upstream.url, "--allow", "openai:gpt-*") as to:
            ask = {"model": "gpt-5.1", "messages": HELLO}
            assert to.post("/v1/chat/completions", ask, authorization="Bearer wrong").status_code == 401
            assert to.post("/v1/chat/completions", ask, host="evil.example").status_code == 421
            assert httpx.head(to.address).status_code == 200
            refused = to.post("/v1/chat/completions", {**ask, "model": "o9"})
            assert (refused.status_code, "does not allow" in refused.text or "allows" in refused.text) == (400, True)
            assert to.post("/v1/unknown", ask).status_code == 404
            assert to.post("/v1/chat/completions", b"no json").status_code == 400
            upgrade = {"authorization": f"Bearer {to.token}", "upgrade": "websocket", "connection": "upgrade"}
            assert httpx.get(f"{to.address}/v1/responses", headers=upgrade).status_code == 426
            for way_out in (
                "/v1/models/../files",
                "/v1/responses/%2e%2e/files/f",
                "/openai/v1/models/../../v1/files",
                "/v1/models/..;/files",
            ):
                assert _raw_status(to, "GET", way_out) == 404
            assert _raw_status(to, "POST", "/v1/chat/completions", b" " * (2 << 20), authorization="Bearer x") == 413
            assert _raw_status(to, "POST", "http://evil.example/v1/chat/completions", b"{}") == 421
            two_lengths = {"transfer-encoding": "chunked", "content-length": "2"}
            assert _raw_status(to, "POST", "/v1/chat/completions", b"{}", **two_lengths) == 400
            assert _raw_status(to, "HEAD", "/v1/chat/completions") == 404
            packed = gzip.compress(json.dumps(ask).encode())
            assert to.post("/v1/chat/completions", packed, **{"content-encoding": "gzip"}).status_code == 400
            assert to.post("/v1/chat/completions", {**ask, "model": ["gpt-5.1"]}).status_code == 400
            assert upstream.got == []
            assert to.post("/v1/chat/completions", ask).status_code == 307
            assert elsewhere.got == []


def _raw_status(to: Gateway, method: str, path: str, body: bytes = b"", **headers: str) -> int:
    """With the path as it is: clients tidy it up."""
    connection = http.client.HTTPConnection(urlsplit(to.address).netloc, timeout=60)
    try:
        connection.request(method, path, body, {"authorization": f"Bearer {to.token}", **headers})
        return connection.getresponse().status
    finally:
        connection.close()


def test_with_a_budget_answers_of_every_protocol_are_bounded(sandbox: Sandbox) -> None:
    """What is reserved is enforced, for what Codex calls too."""
    with RawUpstream() as upstream, gateway(sandbox, upstream.url, "--budget", "0.2") as to:
        to.post("/v1/responses", {"model": "gpt-5.1", "input": "hi"})
        refused = to.post("/v1/responses", {"model": "gpt-5.1", "input": "hi", "max_output_tokens": 1_000_000})
    assert json.loads(upstream.got[0].body)["max_output_tokens"] == 8192
    assert (refused.status_code, len(upstream.got)) == (402, 1)


def test_a_budget_and_a_map_hold_and_a_program_gets_its_own_environment(sandbox: Sandbox) -> None:
    import openai

    keys = [PoolKey(name="only", provider="openai")]
    with ProviderServer(keys=[key.to_server_key() for key in keys], accepts_unknown_keys=False) as server:
        options = ("--budget", "0.2", "--map", "gpt-4o=openai:gpt-5.1")
        with gateway(sandbox, f"http://127.0.0.1:{server.port}", *options, keys=keys) as to:
            to.openai.chat.completions.create(model="gpt-4o", messages=HELLO)
            (seen,) = server.requests
            assert (seen.model, seen.max_output_tokens) == ("gpt-5.1", 8192)
            with pytest.raises(openai.APIStatusError, match=r"The budget of \$0.20 is reached") as caught:
                to.openai.chat.completions.create(model="gpt-4o", messages=HELLO, max_tokens=100_000)
            assert caught.value.status_code == 402
        program = "import os, openai; print(os.environ['OPENAI_API_KEY'][:8]); raise SystemExit(7)"
        urls = {base_url_variable("openai"): server.base_url("openai")}
        done = sandbox.command("gateway", "--", "python", "-c", program, env=urls)
    assert (done.code, done.stdout) == (7, "agentos-\n")


def test_a_budget_counts_by_the_prices_of_the_project(sandbox: Sandbox) -> None:
    """A model that nobody else has a price for: refused without one, served and counted with one."""
    (sandbox.project / "agentos.toml").write_text('[prices]\nmodels = ["openai:house-model 1000/1000"]\n')
    body = {"model": "house-model", "messages": HELLO, "max_tokens": 100}
    with RawUpstream({"/v1/chat/completions": CHAT}) as upstream:
        with gateway(sandbox, upstream.url, "--budget", "0.2") as to:
            served = to.post("/v1/chat/completions", body)
            too_much = to.post("/v1/chat/completions", {**body, "max_tokens": 200})
            unknown = to.post("/v1/chat/completions", {**body, "model": "other-model"})
        with gateway(sandbox, upstream.url, "--budget", "0.2", "--unpriced", "1/1") as to:
            priced = to.post("/v1/chat/completions", {**body, "model": "other-model"})
    assert (served.status_code, too_much.status_code, unknown.status_code) == (200, 402, 400)
    assert "--unpriced" in unknown.text
    assert priced.status_code == 200


def test_a_key_that_a_good_answer_quotes_is_masked_and_all_else_passes(sandbox: Sandbox) -> None:
    key = PoolKey(name="only", provider="openai")
    told = json.dumps({**json.loads(CHAT.pieces[0]), "note": f"sent with {key.secret}, or not"}).encode()
    quoted = f'data: {{"choices": [{{"delta": {{"content": "{key.secret} ok"}}}}]}}\n\n'.encode()
    cut = quoted.index(key.secret.encode()) + 9
    answers = {
        "/v1/chat/completions": Canned(headers={"content-type": "application/json"}, pieces=(told,)),
        "/v1/embeddings": Canned(
            headers={"content-type": "application/json", "content-encoding": "gzip", "x-echo": key.secret},
            pieces=(gzip.compress(told),),
        ),
        "/v1/responses": Canned(
            headers={"content-type": "text/event-stream"}, pieces=(quoted[:cut], quoted[cut:], ENDED)
        ),
    }
    stars = "*" * len(key.secret)
    with RawUpstream(answers) as upstream, gateway(sandbox, upstream.url, keys=[key]) as to:
        whole = to.post("/v1/chat/completions", {"model": "gpt-5.1", "messages": HELLO})
        packed = to.post("/v1/embeddings", {"model": "text-embedding-3-small", "input": "x"})
        streamed = to.post("/v1/responses", {"model": "gpt-5.1", "input": "hi", "stream": True})
    assert whole.content == told.replace(key.secret.encode(), stars.encode())
    assert packed.content == whole.content
    assert packed.headers["x-echo"] == stars
    assert streamed.content == quoted.replace(key.secret.encode(), stars.encode()) + ENDED


def test_a_key_is_masked_however_the_answer_that_quotes_it_is_packed(sandbox: Sandbox) -> None:
    """What cannot be looked through is no answer, of whatever kind."""
    key = KEYS[2]
    told = json.dumps({"data": [], "note": f"asked with {key.secret}"}).encode()
    halves = gzip.compress(told[:20]) + gzip.compress(told[20:])
    readable = {"GZIP": gzip.compress(told), "x-gzip": gzip.compress(told), "gzip": halves}
    packings = {**readable, "br": told, "gzip, gzip": gzip.compress(gzip.compress(told))}
    answers = {
        f"/v1/models/{number}": Canned(headers={"content-encoding": name}, pieces=(packed,))
        for number, (name, packed) in enumerate(packings.items())
    }
    events = {"content-type": "text/event-stream", "content-encoding": "br"}
    streamed = {"/v1/chat/completions": Canned(headers=events, pieces=(told,))}
    asked = {"model": "gpt-5.1", "messages": HELLO, "stream": True}
    with RawUpstream({**answers, **streamed}) as upstream, gateway(sandbox, upstream.url, keys=[key]) as to:
        owned = {"authorization": f"Bearer {to.token}"}
        replies = [httpx.get(to.address + path, headers=owned, timeout=60) for path in answers]
        replies.append(to.post("/v1/chat/completions", asked))
    masked = told.replace(key.secret.encode(), b"*" * len(key.secret))
    assert [reply.content for reply in replies[: len(readable)]] == [masked] * len(readable)
    assert [reply.status_code for reply in replies] == [200, 200, 200, 502, 502, 502]
    assert all("a packing that was not asked for" in reply.text for reply in replies[len(readable) :])
    assert not any(key.secret in reply.text for reply in replies)


def test_a_unix_socket_is_the_users_own(sandbox: Sandbox, tmp_path: Path) -> None:
    path = tmp_path / "g.sock"
    with RawUpstream() as upstream, gateway(sandbox, upstream.url, "--socket", str(path)) as to:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        with httpx.Client(transport=httpx.HTTPTransport(uds=str(path)), base_url="http://localhost") as client:
            reply = client.get("/v1/models", headers={"authorization": f"Bearer {to.token}"})
    assert (reply.status_code, upstream.got[-1].path) == (200, "/v1/models")

"""Every provider keeps the same promises: the real SDKs over real HTTP to the provider server."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import ssl
import subprocess
import sys
import threading
import time
import traceback
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from agentos import llm
from agentos.errors import AgentosError, NoUsableKeyError, UsageError
from agentos.llm import attempts
from agentos.llm.retries import RetryPolicy
from agentos.providers.evidence import (
    Abandoned,
    NotServed,
    Overloaded,
    QuotaSpent,
    RateLimited,
    Rejected,
    RequestFailed,
    Succeeded,
    TransportFailed,
)
from agentos.providers.provider import Endpoint
from agentos.providers.registry import providers
from agentos.testing.misbehaviour import BOMB_BYTES, garbage
from agentos.testing.provider_formats import FORMATS, PROVIDERS, Seen
from agentos.testing.provider_server import Key, LimitRule, ProviderServer, Step
from fakes.recording_broker import RecordingBroker

MODELS = {
    "google": "google:gemini-2.5-flash",
    "openai": "openai:gpt-4o-mini",
    "anthropic": "anthropic:claude-sonnet-4-6",
}
ALPHA, BETA = "SENTINEL-alpha-Zq81+/kd", "SENTINEL-beta-Wm27+/pf"


class Verdict(BaseModel):
    approved: bool
    score: int = Field(ge=0, le=10)
    comments: list[str]


@dataclass
class Point:
    x: int
    y: int


class Title(TypedDict):
    title: str


@dataclass
class Setting:
    provider: str
    model: str
    server: ProviderServer
    broker: RecordingBroker


@pytest.fixture(params=list(MODELS))
def provider(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def server() -> Iterator[ProviderServer]:
    keys = [Key(name="alpha", secret=ALPHA, group="one"), Key(name="beta", secret=BETA, group="two")]
    with ProviderServer(keys=keys, accepts_unknown_keys=False) as running:
        yield running


@pytest.fixture
def setting(
    provider: str, server: ProviderServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Setting]:
    broker = RecordingBroker({"alpha": ALPHA, "beta": BETA})
    monkeypatch.setenv("AGENTOS_HOME", str(tmp_path))
    monkeypatch.setenv(f"AGENTOS_PROVIDERS__{provider.upper()}__BASE_URL", server.base_url(provider))
    monkeypatch.setattr(attempts, "retry_policy", RetryPolicy(base_seconds=0.01, cap_seconds=0.02))
    llm.set_broker(broker)
    yield Setting(provider, MODELS[provider], server, broker)
    llm.set_broker(None)
    llm.close()
    assert broker.is_settled(), "a lease was not released exactly once"


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true"
        time.sleep(0.005)


def text_body(setting: Setting, text: str, *, is_cut_off: bool = False) -> dict[str, object]:
    """A 200 body with plain text, as a provider sends it when a model ignores the tool it should call."""
    (provider,) = (name for name in PROVIDERS if name == setting.provider)
    seen = Seen(
        provider=provider,
        model=setting.model.partition(":")[2],
        key_name="alpha",
        prompt="?",
        system="",
        conversation=(("user", "?"),),
        tool_name=None,
        schema=None,
    )
    body = FORMATS[provider].reply(seen, text, None)
    if is_cut_off:
        place, field, value = {
            "google": ("candidates", "finishReason", "MAX_TOKENS"),
            "openai": ("choices", "finish_reason", "length"),
            "anthropic": (None, "stop_reason", "max_tokens"),
        }[provider]
        (body if place is None else body[place][0])[field] = value
    return body


def assert_shows_no_key(error: BaseException) -> None:
    assert error.__traceback__ is not None
    ours = error.__traceback__.tb_next  # without the test's own frame, whose locals may hold a key
    shown = "".join(traceback.TracebackException(type(error), error, ours, capture_locals=True).format())
    seen: set[int] = set()
    chain: list[BaseException | None] = [error]
    while chain:
        link = chain.pop()
        if link is None or id(link) in seen:
            continue
        seen.add(id(link))
        shown += repr(link) + str(link) + repr(vars(link))
        chain += [link.__cause__, link.__context__]
    assert "SENTINEL" not in shown


def test_text_comes_back_with_usage_and_model(setting: Setting) -> None:
    reply = llm.generate("Say hello to the world", model=setting.model, system="Be brief.")

    assert reply.text == "Say hello to the world"
    assert reply.output is None
    assert reply.model == setting.model
    assert reply.usage.input_tokens > 0
    assert reply.usage.output_tokens > 0
    assert reply.cost_usd is not None
    assert reply.cost_usd > 0
    (seen,) = setting.server.requests
    assert (seen.key_name, seen.system) == ("alpha", "Be brief.")
    (evidence,) = setting.broker.evidence
    assert evidence == Succeeded(usage=reply.usage)


def test_a_conversation_is_sent_turn_by_turn(setting: Setting) -> None:
    llm.generate(
        [
            {"role": "system", "content": "Rules."},
            {"role": "user", "content": "one"},
            {"role": "assistant", "content": "two"},
            {"role": "user", "content": "three"},
        ],
        model=setting.model,
    )

    (seen,) = setting.server.requests
    assert seen.conversation == (("user", "one"), ("assistant", "two"), ("user", "three"))
    assert seen.system == "Rules."


def test_the_default_model_comes_from_the_environment(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTOS_MODEL", setting.model)

    assert llm.generate("hi").model == setting.model


def test_structured_output_is_validated_into_the_type(setting: Setting) -> None:
    setting.server.script("alpha", Step(output={"approved": True, "score": 7, "comments": ["fine"]}))
    setting.server.script("alpha", Step(output={"x": 1, "y": 2}))
    setting.server.script("alpha", Step(output={"title": "Login"}))
    setting.server.script("alpha", Step(output={"result": ["a", "b"]}))

    assert llm.generate("?", model=setting.model, output_type=Verdict).output == Verdict(
        approved=True, score=7, comments=["fine"]
    )
    assert llm.generate("?", model=setting.model, output_type=Point).output == Point(1, 2)
    assert llm.generate("?", model=setting.model, output_type=Title).output == {"title": "Login"}
    assert llm.generate("?", model=setting.model, output_type=list[str]).output == ["a", "b"]


def test_an_answer_that_does_not_fit_is_sent_back_once_with_the_reason(setting: Setting) -> None:
    setting.server.script("alpha", Step(output={"approved": True, "score": 99, "comments": []}))
    setting.server.script("alpha", Step(output={"approved": True, "score": 9, "comments": []}))

    reply = llm.generate("Judge it", model=setting.model, output_type=Verdict)

    assert reply.output.score == 9
    first, second = setting.server.requests
    assert "score" in second.conversation[-1][1]
    assert '"score"' in second.conversation[-2][1].replace(" ", "")
    assert reply.usage.input_tokens == first.tokens + second.tokens


def test_structure_given_as_fenced_text_is_understood(setting: Setting) -> None:
    point = 'Here it is:\n```json\n{"x": 1, "y": 2}\n```\nDone.'
    setting.server.script("alpha", Step(kind="status", status=200, body=text_body(setting, point)))

    reply = llm.generate("?", model=setting.model, output_type=Point, max_output_tokens=100)

    assert reply.output == Point(1, 2)


def test_an_answer_cut_off_at_the_token_limit_says_so(setting: Setting) -> None:
    body = text_body(setting, "Once upon", is_cut_off=True)
    setting.server.script("alpha", Step(kind="status", status=200, body=body))
    setting.server.script("alpha", Step(kind="status", status=200, body=body))
    setting.server.script("alpha", Step(output={"x": 1, "y": 2}))

    assert llm.generate("Tell", model=setting.model, max_output_tokens=100).is_truncated
    reply = llm.generate("Place", model=setting.model, max_output_tokens=100, output_type=Point)

    assert not reply.is_truncated
    assert "cut off" in setting.server.requests[-1].prompt


def test_a_second_answer_that_does_not_fit_is_an_error(setting: Setting) -> None:
    setting.server.script("alpha", Step(output={"approved": "perhaps"}, times=3))

    with pytest.raises(llm.InvalidOutputError, match=r"Verdict.*approved"):
        llm.generate("Judge it", model=setting.model, output_type=Verdict)

    assert setting.server.hits("alpha") == 2


def test_a_rate_limit_moves_the_call_to_another_key(setting: Setting) -> None:
    setting.server.script("alpha", Step(kind="rate_limit", retry_after_seconds=2))

    assert llm.generate("hi", model=setting.model).text == "hi"

    assert (setting.server.hits("alpha"), setting.server.hits("beta")) == (1, 1)
    limited, answered = setting.broker.evidence
    assert isinstance(limited, RateLimited)
    assert limited.retry_after_seconds == pytest.approx(2, abs=0.01)
    assert isinstance(answered, Succeeded)


def test_a_spent_day_is_told_apart_from_a_throttle(setting: Setting) -> None:
    if setting.provider == "anthropic":
        pytest.skip("Anthropic has no daily request quota")
    setting.server.script("alpha", Step(kind="daily_limit", retry_after_seconds=36000))

    assert llm.generate("hi", model=setting.model).text == "hi"

    limited = setting.broker.evidence[0]
    if setting.provider == "google":
        assert isinstance(limited, QuotaSpent)
        assert not limited.never_resets
    else:
        assert isinstance(limited, QuotaSpent | RateLimited)


def test_an_account_without_credit_is_spent_for_good(setting: Setting) -> None:
    setting.server.script("alpha", Step(kind="fail", fail="no_credit"))

    assert llm.generate("hi", model=setting.model).text == "hi"

    spent = setting.broker.evidence[0]
    assert isinstance(spent, QuotaSpent)
    assert spent.never_resets


def test_an_invalid_key_is_reported_once_and_another_key_serves(setting: Setting) -> None:
    setting.server.script("alpha", Step(kind="fail", fail="invalid_key"))

    assert llm.generate("hi", model=setting.model).text == "hi"

    assert isinstance(setting.broker.evidence[0], Rejected)
    assert (setting.server.hits("alpha"), setting.server.hits("beta")) == (1, 1)


def test_no_valid_key_ends_the_call_without_showing_one(setting: Setting) -> None:
    setting.server.script("*", Step(kind="fail", fail="invalid_key", times=-1))

    with pytest.raises(NoUsableKeyError) as caught:
        llm.generate("hi", model=setting.model)

    assert setting.server.stats()["total"] == 2
    assert_shows_no_key(caught.value)


def test_overload_is_retried_with_the_same_keys_and_marks_none(setting: Setting) -> None:
    setting.server.script("alpha", Step(kind="fail", fail="overloaded", times=2))

    assert llm.generate("hi", model=setting.model).text == "hi"

    assert setting.server.hits("alpha") == 3
    assert [type(evidence) for evidence in setting.broker.evidence] == [Overloaded, Overloaded, Succeeded]


def test_endless_overload_ends_in_a_bounded_number_of_calls(setting: Setting) -> None:
    setting.server.script("*", Step(kind="fail", fail="overloaded", times=-1))

    with pytest.raises(llm.ProviderUnavailableError, match=r"(?i)overloaded") as caught:
        llm.generate("hi", model=setting.model)

    # As many calls as our own policy allows: an SDK that retried by itself would show here.
    assert setting.server.stats()["total"] == RetryPolicy().overload_attempts
    assert_shows_no_key(caught.value)


def test_server_errors_are_never_retried_by_the_sdk(setting: Setting) -> None:
    setting.server.script("alpha", Step(kind="fail", fail="server_error"))

    llm.generate("hi", model=setting.model)

    assert len(setting.broker.acquired) == setting.server.stats()["total"] == 2


def test_a_reset_connection_is_tried_again(setting: Setting) -> None:
    setting.server.script("alpha", Step(kind="reset"))

    assert llm.generate("hi", model=setting.model).text == "hi"

    lost, answered = setting.broker.evidence
    assert isinstance(lost, TransportFailed)
    assert lost.may_be_charged, "it had the request"
    assert isinstance(answered, Succeeded)


def test_a_provider_that_cannot_be_reached_is_an_error_that_names_it(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"AGENTOS_PROVIDERS__{setting.provider.upper()}__BASE_URL", "http://127.0.0.1:9")

    with pytest.raises(llm.ProviderUnavailableError, match=setting.provider) as caught:
        llm.generate("hi", model=setting.model)

    assert len(setting.broker.acquired) == RetryPolicy().transport_attempts
    assert not any(getattr(evidence, "may_be_charged", True) for evidence in setting.broker.evidence)
    assert_shows_no_key(caught.value)


def test_garbage_with_a_good_status_is_never_an_answer(setting: Setting) -> None:
    (provider,) = (name for name in PROVIDERS if name == setting.provider)
    for case in garbage(provider):
        setting.broker.reopen()
        before = len(setting.broker.evidence)
        setting.server.script("alpha", Step(kind="garbage", garbage=case.name))

        reply = llm.generate("hi", model=setting.model, max_output_tokens=100)

        evidence = setting.broker.evidence[before:]
        assert reply.text == "hi", case.name
        assert [type(each) for each in evidence] == [case.means, Succeeded], case.name


def test_an_answer_cut_off_by_the_network_is_tried_again(setting: Setting) -> None:
    setting.server.script("alpha", Step(kind="cut", text="a long answer, of which half arrives"))

    assert llm.generate("hi", model=setting.model).text == "hi"

    assert [type(evidence) for evidence in setting.broker.evidence] == [TransportFailed, Succeeded]


def test_a_reply_that_unpacks_without_end_is_given_up_in_bounded_memory(setting: Setting) -> None:
    if setting.provider != "openai":
        pytest.skip("one HTTP client serves all")
    setting.server.script("alpha", Step(kind="bomb", status=200), Step(kind="bomb", status=500))

    tracemalloc.start()
    try:
        assert llm.generate("hi", model=setting.model).text == "hi"
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert [type(evidence) for evidence in setting.broker.evidence] == [TransportFailed, Overloaded, Succeeded]
    assert peak < 200 * 2**20 < BOMB_BYTES


def test_a_byte_order_mark_is_no_part_of_an_answer(setting: Setting) -> None:
    body = b"\xef\xbb\xbf" + json.dumps(text_body(setting, "marked")).encode()
    setting.server.script("alpha", Step(kind="status", status=200, body=body))

    assert llm.generate("hi", model=setting.model, max_output_tokens=100).text == "marked"


def test_an_error_too_deep_to_read_is_told_by_its_status(setting: Setting) -> None:
    body = b'{"error":' * 100_000
    setting.server.script(
        "alpha", Step(kind="status", status=503, body=body), Step(kind="status", status=400, body=body)
    )

    with pytest.raises(llm.ModelRequestError, match="400"):
        llm.generate("hi", model=setting.model)

    assert [type(evidence) for evidence in setting.broker.evidence] == [Overloaded, RequestFailed]


def test_a_silent_provider_is_given_up_after_one_more_try(setting: Setting) -> None:
    setting.server.script("*", Step(kind="hang", times=-1))

    with pytest.raises(llm.ProviderUnavailableError, match=r"no answer in 0\.3 s") as caught:
        llm.generate("hi", model=setting.model, timeout_seconds=0.3)

    assert len(setting.broker.acquired) == RetryPolicy().timeout_attempts
    assert setting.server.stats()["total"] <= RetryPolicy().timeout_attempts
    assert_shows_no_key(caught.value)


def test_a_refused_request_is_never_sent_again(setting: Setting) -> None:
    setting.server.script("*", Step(kind="fail", fail="bad_request", times=-1))

    with pytest.raises(llm.ModelRequestError, match="400") as caught:
        llm.generate("hi", model=setting.model)

    assert setting.server.stats()["total"] == 1
    assert isinstance(setting.broker.evidence[0], RequestFailed)
    assert_shows_no_key(caught.value)


def unserved(setting: Setting) -> Step:
    """What an account is told that does not have the model, or that asks from the wrong place."""
    body: dict[str, object] = {
        "openai": {"error": {"message": "The model does not exist", "code": "model_not_found", "type": "x"}},
        "anthropic": {"type": "error", "error": {"type": "forbidden", "message": "Request not allowed"}},
        "google": {
            "error": {
                "code": 400,
                "message": "User location is not supported for the API use.",
                "status": "FAILED_PRECONDITION",
            }
        },
    }
    status = {"openai": 404, "anthropic": 403, "google": 400}
    return Step(kind="status", status=status[setting.provider], body=body[setting.provider], times=-1)


def test_what_one_account_does_not_serve_is_tried_with_another(setting: Setting) -> None:
    setting.server.script("alpha", unserved(setting))

    assert llm.generate("hi", model=setting.model).text == "hi"

    assert [type(evidence) for evidence in setting.broker.evidence] == [NotServed, Succeeded]


def test_what_no_account_serves_is_the_requests_fault_in_the_providers_words(setting: Setting) -> None:
    setting.server.script("*", unserved(setting))

    with pytest.raises(llm.ModelRequestError, match=r"does not exist|not allowed|not supported"):
        llm.generate("hi", model=setting.model)

    assert (setting.server.hits("alpha"), setting.server.hits("beta")) == (1, 1)


def test_an_error_that_quotes_the_key_is_shown_without_it(setting: Setting) -> None:
    quoted = f"bad field near {ALPHA} or {base64.b64encode(ALPHA.encode()).decode()}"
    body = {
        "error": {"message": quoted, "type": "invalid_request_error", "code": "invalid_value"},
        "type": "error",
    }
    if setting.provider == "google":
        body = {"error": {"code": 422, "message": quoted, "status": "INVALID_ARGUMENT"}}
    setting.server.script("alpha", Step(kind="status", status=422, body=body))

    with pytest.raises(llm.ModelRequestError) as caught:
        llm.generate("hi", model=setting.model)

    assert f"bad field near {'*' * len(ALPHA)} or {'*' * 10}" in str(caught.value)
    assert_shows_no_key(caught.value)
    assert "SENTINEL" not in repr(setting.broker.evidence)
    assert base64.b64encode(ALPHA.encode()).decode()[:-4] not in str(caught.value)


def test_a_content_filter_refuses_the_request_and_blames_no_key(setting: Setting) -> None:
    body = text_body(setting, "")
    body |= {
        "google": {"promptFeedback": {"blockReason": "SAFETY"}, "candidates": []},
        "openai": {"choices": [{"index": 0, "message": {"role": "assistant"}, "finish_reason": "content_filter"}]},
        "anthropic": {"content": [], "stop_reason": "refusal"},
    }[setting.provider]
    setting.server.script("alpha", Step(kind="status", status=200, body=body))

    with pytest.raises(llm.ModelRequestError, match="content filter"):
        llm.generate("hi", model=setting.model, max_output_tokens=100)

    assert setting.server.stats()["total"] == 1


def test_an_overload_inside_an_open_stream_is_overload(setting: Setting) -> None:
    if setting.provider != "anthropic":
        pytest.skip("only Anthropic answers are streamed")
    event = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    body = f"event: error\ndata: {json.dumps(event)}\n\n"
    headers = {"content-type": "text/event-stream"}
    setting.server.script("alpha", Step(kind="status", status=200, body=body, headers=headers))

    assert llm.generate("hi", model=setting.model).text == "hi"

    assert [type(evidence) for evidence in setting.broker.evidence] == [Overloaded, Succeeded]


def test_a_missing_sdk_is_a_usage_error_that_says_what_to_install(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, f"pydantic_ai.providers.{setting.provider}", None)

    with pytest.raises(UsageError, match=rf"pip install '.*\[{setting.provider}\]"):
        llm.generate("hi", model=setting.model)


def test_a_redirect_is_not_followed_with_the_key(setting: Setting) -> None:
    elsewhere = Step(kind="status", status=307, headers={"location": "http://127.0.0.1:9/elsewhere"})
    setting.server.script("alpha", elsewhere)

    with pytest.raises(AgentosError) as caught:
        llm.generate("hi", model=setting.model)

    assert setting.server.stats()["total"] == 1
    assert_shows_no_key(caught.value)


def test_cancelling_an_async_call_returns_its_key(setting: Setting) -> None:
    setting.server.script("alpha", Step(kind="hang"))

    async def cancel_when_it_hangs() -> None:
        call = asyncio.create_task(llm.agenerate("hi", model=setting.model))
        while setting.server.hits("alpha") == 0:
            await asyncio.sleep(0.005)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    asyncio.run(cancel_when_it_hangs())

    wait_until(setting.broker.is_settled)
    assert setting.broker.evidence == [Abandoned()]


def test_async_calls_run_side_by_side(setting: Setting) -> None:
    async def ask_three() -> list[str]:
        replies = await asyncio.gather(*(llm.agenerate(f"q{n}", model=setting.model) for n in range(3)))
        return [reply.text for reply in replies]

    assert asyncio.run(ask_three()) == ["q0", "q1", "q2"]


def test_async_errors_arrive_in_the_caller(setting: Setting) -> None:
    setting.server.script("alpha", Step(kind="fail", fail="bad_request"))

    with pytest.raises(llm.ModelRequestError):
        asyncio.run(llm.agenerate("hi", model=setting.model))


def test_cancel_calls_ends_calls_in_flight_from_another_thread(setting: Setting) -> None:
    setting.server.script("alpha", Step(kind="hang"))

    def cancel() -> None:
        wait_until(lambda: setting.server.hits("alpha") == 1)
        llm.cancel_calls()

    canceller = threading.Thread(target=cancel)
    canceller.start()
    with pytest.raises(llm.CallCancelledError) as caught:
        llm.generate("hi", model=setting.model)
    canceller.join()

    assert setting.broker.evidence == [Abandoned()]
    assert_shows_no_key(caught.value)


def test_an_interrupt_returns_the_key(setting: Setting) -> None:
    setting.server.script("alpha", Step(kind="hang"))

    def interrupt() -> None:
        wait_until(lambda: setting.server.hits("alpha") == 1)
        os.kill(os.getpid(), 2)

    interrupter = threading.Thread(target=interrupt)
    interrupter.start()
    with pytest.raises(KeyboardInterrupt) as caught:
        llm.generate("hi", model=setting.model)
    interrupter.join()

    assert setting.broker.evidence == [Abandoned()]
    assert_shows_no_key(caught.value)


def test_connections_are_reused_between_calls(setting: Setting) -> None:
    for number in range(3):
        llm.generate(f"q{number}", model=setting.model)

    assert len(setting.server.desk.ports_seen) == 1


def test_limits_are_learned_from_headers_of_good_replies(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if provider == "google":
        pytest.skip("Gemini tells limits only when they are broken")
    broker = RecordingBroker({"alpha": ALPHA})
    llm.set_broker(broker)
    with ProviderServer(limits=[LimitRule(requests_per_minute=60)]) as server:
        monkeypatch.setenv(f"AGENTOS_PROVIDERS__{provider.upper()}__BASE_URL", server.base_url(provider))
        llm.generate("hi", model=MODELS[provider])
        llm.close()
    llm.set_broker(None)

    (evidence,) = broker.evidence
    assert isinstance(evidence, Succeeded)
    assert any(limit.what == "requests" and limit.value == 60 for limit in evidence.limits)


def test_the_simulated_429_meets_the_first_call_of_a_process_and_never_leaves_it(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENTOS_SIMULATE_429", "true")

    llm.generate("one", model=setting.model)
    llm.generate("two", model=setting.model)

    assert [type(evidence) for evidence in setting.broker.evidence] == [RateLimited, Succeeded, Succeeded]
    assert setting.server.stats()["by_status"] == {"200": 2}


@pytest.mark.slow
def test_a_preloaded_fork_server_leaves_nothing_to_import_for_first_calls() -> None:
    code = f"""
import os, sys, threading
from agentos import llm
from agentos.testing.provider_server import ProviderServer
from fakes.recording_broker import RecordingBroker

llm.preload()
assert threading.active_count() == 1, threading.enumerate()
before = set(sys.modules)
child = os.fork()
if child == 0:
    llm.set_broker(RecordingBroker({{"alpha": "secret"}}))
    with ProviderServer() as server:
        for name, model in {MODELS!r}.items():
            os.environ[f"AGENTOS_PROVIDERS__{{name.upper()}}__BASE_URL"] = server.base_url(name)
            assert llm.generate("hi", model=model).text == "hi"
        llm.close()
    late = [name for name in set(sys.modules) - before if not name.startswith("encodings")]
    sys.stderr.write(str(late))
    sys.stderr.flush()
    os._exit(0 if len(late) < 5 else 1)
assert os.waitpid(child, 0)[1] == 0
"""

    root = Path(__file__).parents[2]
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=root)

    assert ended.returncode == 0, ended.stderr


def test_a_forked_child_opens_its_own_connections(setting: Setting) -> None:
    llm.generate("parent", model=setting.model)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = 0 if llm.generate("child", model=setting.model).text == "child" else 1
        finally:
            os._exit(status)

    assert os.waitpid(child, 0)[1] == 0
    llm.generate("parent again", model=setting.model)
    assert len(setting.server.desk.ports_seen) == 2


def test_a_call_reserves_its_estimate_before_it_is_made(setting: Setting) -> None:
    llm.generate("word " * 400, model=setting.model, max_output_tokens=100)

    ((tokens, cost_usd),) = setting.broker.estimates
    assert 400 <= tokens <= 600
    assert cost_usd is not None
    assert cost_usd > 0


def test_a_recorded_live_call_replays_without_network(
    setting: Setting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENTOS_RECORD_DIR", str(tmp_path / "tape"))
    setting.server.script("alpha", Step(output={"approved": True, "score": 7, "comments": []}))
    llm.set_call_context(workflow="lld", item="LLD-42", node="review", calls_before=0)
    live = llm.generate("Judge it", model=setting.model, output_type=Verdict)

    monkeypatch.delenv("AGENTOS_RECORD_DIR")
    monkeypatch.setenv("AGENTOS_RECORDED_DIR", str(tmp_path / "tape"))
    llm.set_call_context(workflow="lld", item="LLD-42", node="review", calls_before=0)
    replayed = llm.generate("Judge it", model="recorded", output_type=Verdict)

    assert replayed.output == live.output
    assert replayed.cost_usd == 0
    assert setting.server.stats()["total"] == 1
    saved = json.loads((tmp_path / "tape" / "lld" / "LLD-42" / "review.1.json").read_text())
    assert saved["model"] == setting.model


@pytest.mark.parametrize("name", ["anthropic", "google", "openai", "vertex"])
def test_an_sdk_reads_no_certificates_for_connections_that_nobody_makes(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_given: Any, **_named: Any) -> None:
        raise AssertionError("read certificates")

    monkeypatch.setattr(ssl.SSLContext, "load_verify_locations", refuse)
    # What is given trusts nobody either.
    http = httpx2.AsyncClient(verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), timeout=30)
    assert providers()[name].connect("a key", Endpoint("https://api.example"), http) is not None

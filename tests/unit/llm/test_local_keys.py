"""Model calls outside a run lease from the user's own keys."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentos import llm
from agentos.errors import NoUsableKeyError, QuotaGoneError
from agentos.events import Event, Listener, PoolExhausted
from agentos.keys.broker import KeyBroker
from agentos.keys.credential_edits import add_credential
from agentos.keys.credentials import Credential, CredentialSet
from agentos.keys.key_spec import KeySpec
from agentos.keys.leases import Ask, Lease
from agentos.keys.local_broker import LocalBroker
from agentos.keys.refusals import Patience
from agentos.llm import attempts
from agentos.llm.broker_choice import forget_local_broker
from agentos.llm.errors import ProviderUnavailableError
from agentos.llm.keyless import with_keyless
from agentos.llm.retries import RetryPolicy
from agentos.providers.evidence import Abandoned, QuotaSpent, Rejected, Succeeded
from agentos.testing.provider_server import Key, ProviderServer, Step

GEMINI = Ask(provider="google", model="m")


def keys(*names: str) -> CredentialSet:
    specs = [KeySpec(name=name, provider="google", group=name) for name in names]
    return CredentialSet(tuple(Credential(spec, f"secret-{spec.name}") for spec in specs))


def local_broker(
    credentials: CredentialSet, *, on_event: Listener | None = None, patience: Patience | None = None
) -> LocalBroker:
    return LocalBroker(lambda emit: KeyBroker(credentials, emit=emit, patience=patience), on_event)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("AGENTOS_HOME", str(tmp_path))
    for name in ("GEMINI_API_KEY", "GOOGLE_API_KEY", "OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    llm.set_broker(None)
    forget_local_broker()
    yield tmp_path
    forget_local_broker()
    llm.close()


def test_a_call_that_nobody_answers_names_the_address(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "retry_policy", RetryPolicy(base_seconds=0.01, cap_seconds=0.02))
    monkeypatch.setenv("GEMINI_API_KEY", "plain-key")
    monkeypatch.setenv("AGENTOS_PROVIDERS__GOOGLE__BASE_URL", "http://somebody:secret@127.0.0.1:9/gemini")
    with pytest.raises(ProviderUnavailableError) as error:
        llm.generate("hi", model="google:gemini-2.5-flash")
    assert "google:gemini-2.5-flash at http://127.0.0.1:9 did not answer" in str(error.value)
    assert "secret" not in str(error.value)


def test_a_plain_variable_is_enough_to_call_a_model(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ProviderServer(keys=[Key(name="mine", secret="plain-key")], accepts_unknown_keys=False) as server:
        monkeypatch.setenv("GEMINI_API_KEY", "plain-key")
        monkeypatch.setenv("AGENTOS_PROVIDERS__GOOGLE__BASE_URL", server.base_url("google"))

        assert llm.generate("hi", model="google:gemini-2.5-flash").text == "hi"
        assert llm.current_broker() is llm.current_broker()
        llm.close()


def test_a_rejected_key_is_not_tried_again_by_the_next_process(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ProviderServer(accepts_unknown_keys=False) as server:
        monkeypatch.setenv("GEMINI_API_KEY", "bad-key")
        monkeypatch.setenv("AGENTOS_PROVIDERS__GOOGLE__BASE_URL", server.base_url("google"))

        for _ in range(2):
            with pytest.raises(NoUsableKeyError):
                llm.generate("hi", model="google:gemini-2.5-flash")
            forget_local_broker()

        assert server.stats()["total"] == 1
        llm.close()


def test_a_call_waits_out_a_limit_of_its_only_key(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ProviderServer() as server:
        server.script("*", Step(kind="rate_limit", retry_after_seconds=0.1))
        monkeypatch.setenv("GEMINI_API_KEY", "plain-key")
        monkeypatch.setenv("AGENTOS_PROVIDERS__GOOGLE__BASE_URL", server.base_url("google"))

        assert llm.generate("hi", model="google:gemini-2.5-flash").text == "hi"

        assert server.stats()["by_status"] == {"429": 1, "200": 1}
        llm.close()


def test_no_key_at_all_says_how_to_add_one(home: Path) -> None:
    with pytest.raises(NoUsableKeyError, match="agentos keys add openai --provider openai"):
        llm.generate("hi", model="openai:gpt-4o-mini")


def test_a_waiting_thread_gets_the_key_when_it_comes_back() -> None:
    broker = local_broker(keys("a"))
    first = broker.acquire(GEMINI)
    served: list[Lease] = []
    waiter = threading.Thread(target=lambda: served.append(broker.acquire(GEMINI)))
    waiter.start()

    broker.release(first, Succeeded())
    waiter.join(20)

    assert served[0].key_name == "a"
    assert served[0].secret == "secret-a"
    assert served[0].fence > first.fence


def test_rejected_keys_are_named_when_none_is_left() -> None:
    broker = local_broker(keys("a", "b"))
    for _ in range(2):
        broker.release(broker.acquire(GEMINI), Rejected())

    with pytest.raises(NoUsableKeyError, match="a, b"):
        broker.acquire(GEMINI)


def test_a_limit_that_ends_too_late_is_an_error_not_a_silent_wait() -> None:
    broker = local_broker(keys("a"), patience=Patience(60, "a minute"))
    broker.release(broker.acquire(GEMINI), QuotaSpent(resets_in_seconds=7200))

    with pytest.raises(QuotaGoneError, match="limited until"):
        broker.acquire(GEMINI)


def test_a_changed_key_file_is_noticed_by_the_next_call(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ProviderServer(keys=[Key(name="good", secret="good-key")], accepts_unknown_keys=False) as server:
        monkeypatch.setenv("AGENTOS_PROVIDERS__GOOGLE__BASE_URL", server.base_url("google"))
        monkeypatch.setenv("GEMINI_API_KEY", "bad-key")
        with pytest.raises(NoUsableKeyError):
            llm.generate("hi", model="google:gemini-2.5-flash")
        add_credential(
            home / "credentials.toml", KeySpec(name="good", provider="google", group="good"), secret="good-key"
        )

        assert llm.generate("hi", model="google:gemini-2.5-flash").text == "hi"
        llm.close()


def test_a_caller_that_gives_up_leaves_the_queue() -> None:
    broker = local_broker(keys("a"), on_event=_interrupt)
    held = broker.acquire(GEMINI)
    with pytest.raises(KeyboardInterrupt):
        broker.acquire(GEMINI)
    assert broker.waiting_count == 0

    broker.release(held, Abandoned())

    assert broker.acquire(GEMINI).key_name == "a"


def _interrupt(event: Event) -> None:
    if isinstance(event, PoolExhausted):
        raise KeyboardInterrupt


def test_a_call_cancelled_while_it_waits_for_a_key_gives_the_key_back_unused(home: Path) -> None:
    broker = local_broker(keys("a"))
    llm.set_broker(broker)
    held = broker.acquire(GEMINI)

    async def cancel_while_waiting() -> None:
        call = asyncio.create_task(llm.agenerate("hi", model="google:m"))
        while not broker.waiting_count:
            await asyncio.sleep(0.005)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    asyncio.run(cancel_while_waiting())
    broker.release(held, Abandoned())

    assert broker.acquire(GEMINI).fence > held.fence
    llm.set_broker(None)


def test_the_login_of_a_cli_is_leased_without_a_secret() -> None:
    lease = local_broker(with_keyless(keys("a"))).acquire(Ask(provider="cli", model="claude"))

    assert (lease.key_name, lease.secret) == ("cli-login", "")

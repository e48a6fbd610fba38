"""Model calls of workers go through the run's gateway: what a worker can do with a token, and what when that dies."""

from __future__ import annotations

import os
import signal

from harness import Sandbox, eventually, gateways_of
from providers import PoolKey, provider, write_keys

from agentos.providers.provider import base_url_variable
from agentos.testing.provider_server import Step
from fakes.raw_upstream import Canned, RawUpstream

KEY = PoolKey(name="only")


def test_a_token_is_good_for_one_lease_at_its_own_provider_and_shows_no_key(sandbox: Sandbox) -> None:
    write_keys(sandbox, KEY)
    sandbox.write_items({"id": "a", "input": {}})
    quote = Canned(
        (f'{{"quoted": "{KEY.secret[:10]}'.encode(), f'{KEY.secret[10:]}"}}'.encode()),
        headers={"content-type": "application/json", "x-seen": KEY.secret, "x-agentos-failure": "forged"},
    )
    with RawUpstream() as evil:
        redirect = Canned(status=302, headers={"location": f"{evil.url}/steal"})
        with RawUpstream({"/quote": quote, "/redirect": redirect}) as own:
            environment = {base_url_variable("google"): own.url, "OWN_URL": own.url, "EVIL_URL": evil.url}
            done = sandbox.run(graph="lease_abuse", env=environment)

    assert done.code == 0, done.stdout + done.stderr
    told = dict(note.split(": ", 1) for note in sandbox.notes() if ": " in note)
    where = own.url.removeprefix("http://")
    for name in ("elsewhere", "elsewhere by name", "nowhere"):
        assert told[name].startswith("502 1 "), told
        assert f"keys of google are for {where} and no other address" in told[name]
    assert told["foreign host"].startswith("421 None "), told
    assert told["quoted"] == f'200 None {{"quoted": "{"*" * len(KEY.secret)}"}}'
    assert told["redirected"].startswith("302 None"), told
    assert "the lease of the call is over" in told["afterwards"]
    assert evil.got == []
    assert [got.headers["x-goog-api-key"] for got in own.got] == [KEY.secret] * 2
    assert not any(name.startswith("x-agentos") for got in own.got for name in got.headers)


def test_a_gateway_that_is_killed_costs_a_call_in_flight_another_try(sandbox: Sandbox) -> None:
    sandbox.write_items({"id": "a", "input": {"calls": 2}})
    with provider(sandbox, KEY) as server:
        server.script(KEY.name, Step(kind="hang"))
        run = sandbox.start(graph="callers")
        eventually(lambda: server.stats()["total"], "a call")
        (gateway,) = gateways_of(run.pid)
        os.kill(gateway, signal.SIGKILL)
        finished = run.wait()

    assert finished.code == 0, finished.stdout
    assert server.hits(KEY.name) == 3
    assert sandbox.outcomes() == {"a": "completed"}

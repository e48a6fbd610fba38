"""The lease server on a real loop: what it sends, when it stops the run, how it follows the key file and the keys."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentos.engine.gateway import RunGateway
from agentos.engine.lease_server import LeaseServer
from agentos.engine.loop import Loop
from agentos.engine.messages import DownMessage
from agentos.errors import ExitCode, UsageError
from agentos.events import Event, ParallelismChanged, Warned
from agentos.keys.broker import KeyBroker
from agentos.keys.budget import Budget
from agentos.keys.credentials import Credential, CredentialSet
from agentos.keys.key_file import KeyFile
from agentos.keys.key_spec import KeySpec
from agentos.keys.leases import Ask, Lease, LeaseAsk, LeaseCancel, LeaseGranted, LeaseRefused, LeaseReturn
from agentos.keys.refusals import Patience
from agentos.providers.evidence import Evidence, QuotaSpent, Rejected, Succeeded, Usage


class Run:
    """What the server may ask of the run, noted down; and the server."""

    def __init__(
        self, key_file: Path, loop: Loop, *names: str, budget: float | None = None, max_wait: float | None = None
    ) -> None:
        self.sent: list[tuple[str, DownMessage]] = []
        self.waiting: set[str] = set()
        self.parallel: list[int] = []
        self.stops: list[tuple[str, ExitCode]] = []
        self.said: list[Event] = []
        self.loadable: CredentialSet | UsageError = keys(*names)
        self.key_file = key_file
        broker = KeyBroker(
            keys(*names),
            emit=self.said.append,
            budget=None if budget is None else Budget(budget),
            patience=None if max_wait is None else Patience(max_wait, f"--max-wait {max_wait:g} s"),
            key_file=KeyFile(key_file, load=self._load),
        )
        gateway = RunGateway(loop, served=(), environment={}, passed=(), process_environment={})
        self.server = LeaseServer(broker, self, loop, self.said.append, parallel=3, gateway=gateway)

    def _load(self) -> CredentialSet:
        if isinstance(self.loadable, UsageError):
            raise self.loadable
        return self.loadable

    def node_of(self, item_id: str) -> str:
        return "draft"

    def send(self, item_id: str, message: DownMessage) -> None:
        self.sent.append((item_id, message))

    def waiting_changed(self, waiting: set[str]) -> None:
        self.waiting = set(waiting)

    def set_parallel(self, parallel: int) -> None:
        self.parallel.append(parallel)

    def request_stop(self, reason: str, *, exit_code: ExitCode) -> None:
        self.stops.append((reason, exit_code))

    def ask(self, item: str, ticket: int = 1, cost: float | None = 0.01) -> None:
        ask = Ask(provider="google", model="m", estimated_tokens=1, estimated_cost_usd=cost)
        self.server.take(item, LeaseAsk(ticket=ticket, ask=ask))

    def grants(self) -> list[Lease]:
        return [message.lease for _, message in self.sent if isinstance(message, LeaseGranted)]

    def give_back(self, item: str, lease: Lease, evidence: Evidence) -> None:
        self.server.take(item, LeaseReturn(fence=lease.fence, evidence=evidence))

    def change_file(self, now_loads: CredentialSet | UsageError) -> None:
        self.loadable = now_loads
        self.key_file.write_text(self.key_file.read_text() + "# changed\n" if self.key_file.exists() else "#\n")
        os.utime(self.key_file, (1, 1))  # Written long ago.

    def warnings(self) -> list[str]:
        return [event.text for event in self.said if isinstance(event, Warned)]


def keys(*names: str) -> CredentialSet:
    return CredentialSet(
        tuple(Credential(KeySpec(name=name, provider="google", group=name), f"secret-{name}") for name in names)
    )


@pytest.fixture
def loop() -> Iterator[Loop]:
    made = Loop()
    yield made
    made.close()


def test_an_item_gets_its_key_and_its_consumption_is_summed(tmp_path: Path, loop: Loop) -> None:
    run = Run(tmp_path / "keys.toml", loop, "a", "b")
    for number in (1, 2):
        run.ask("x", number)
        usage = Usage(input_tokens=10, output_tokens=5, cost_usd=0.25)
        run.give_back("x", run.grants()[-1], Succeeded(usage=usage))
    consumed = run.server.worker_gone("x")
    run.server.close()

    assert [item for item, _ in run.sent] == ["x", "x"]
    assert not any("secret" in lease.secret for lease in run.grants())
    assert all(lease.secret and lease.through for lease in run.grants())
    assert (consumed.input_tokens, consumed.output_tokens, consumed.cost_usd) == (20, 10, 0.5)
    assert run.server.worker_gone("x").input_tokens == 0


def test_who_waits_is_told_and_a_cancelled_ask_waits_no_longer(tmp_path: Path, loop: Loop) -> None:
    run = Run(tmp_path / "keys.toml", loop, "a")
    run.ask("x")
    run.ask("y", 5)
    assert run.waiting == {"y"}
    run.server.take("y", LeaseCancel(ticket=5))

    assert run.waiting == set()
    run.server.close()


def test_a_gone_workers_key_goes_to_the_next_at_once(tmp_path: Path, loop: Loop) -> None:
    run = Run(tmp_path / "keys.toml", loop, "a")
    run.ask("x")
    run.ask("y")
    run.server.worker_gone("x")

    assert [item for item, _ in run.sent] == ["x", "y"]
    run.server.close()


def test_parallelism_falls_to_one_and_rises_with_each_success(tmp_path: Path, loop: Loop) -> None:
    run = Run(tmp_path / "keys.toml", loop, "a", "b")
    run.ask("x")
    run.give_back("x", run.grants()[-1], Rejected())
    run.change_file(keys("a", "b", "c"))
    for number in range(2, 6):
        run.ask("x", number)
        run.give_back("x", run.grants()[-1], Succeeded())
    changes = [(event.before, event.now) for event in run.said if isinstance(event, ParallelismChanged)]

    assert changes == [(3, 1), (1, 2), (2, 3)]
    assert run.parallel == [1, 2, 3]
    run.server.close()


def test_longer_than_the_patience_stops_the_run_once(tmp_path: Path, loop: Loop) -> None:
    run = Run(tmp_path / "keys.toml", loop, "a", max_wait=60.0)
    run.ask("x")
    run.give_back("x", run.grants()[-1], QuotaSpent(resets_in_seconds=7200.0))
    run.ask("x", 2)
    run.ask("y")

    assert run.stops == [("quota gone", ExitCode.QUOTA_GONE)]
    assert len([text for text in run.warnings() if "--max-wait 60 s" in text]) == 1
    run.server.close()


def test_no_money_stops_the_run_once_and_fails_nobody(tmp_path: Path, loop: Loop) -> None:
    run = Run(tmp_path / "keys.toml", loop, "a", budget=0.001)
    run.ask("x")
    run.ask("y")

    assert run.stops == [("budget reached", ExitCode.BUDGET_REACHED)]
    assert run.sent == []
    run.server.close()


def test_no_valid_key_is_refused_until_the_file_changes(tmp_path: Path, loop: Loop) -> None:
    run = Run(tmp_path / "keys.toml", loop, "a")
    run.ask("x")
    run.give_back("x", run.grants()[-1], Rejected())
    run.ask("x", 2)
    refusal = run.sent[-1][1]
    assert isinstance(refusal, LeaseRefused)
    assert refusal.exit_code == ExitCode.NO_USABLE_KEY
    run.change_file(keys("b"))
    run.ask("x", 3)

    assert run.grants()[-1].key_name == "b"
    assert "keys.toml changed: 1 key now" in run.warnings()
    run.server.close()


def test_a_broken_file_keeps_the_old_keys_and_says_so_once(tmp_path: Path, loop: Loop) -> None:
    run = Run(tmp_path / "keys.toml", loop, "a")
    run.change_file(UsageError("line 3 is wrong"))
    run.ask("x")
    run.ask("y")

    assert run.grants()[-1].key_name == "a"
    assert run.warnings() == ["the changed keys are not used: line 3 is wrong"]
    run.server.close()


def test_waiters_are_served_by_keys_that_appear_in_the_file(tmp_path: Path, loop: Loop) -> None:
    run = Run(tmp_path / "keys.toml", loop, "a")
    run.ask("x")
    run.ask("y")
    run.change_file(keys("a", "b"))

    def stop_when_served() -> None:
        if len(run.grants()) == 2:
            loop.stop()
        else:
            loop.after(0.02, stop_when_served)

    loop.after(0.02, stop_when_served)
    loop.after(30.0, loop.stop)
    loop.run()

    assert [(item, sent.lease.key_name) for item, sent in run.sent if isinstance(sent, LeaseGranted)] == [
        ("x", "a"),
        ("y", "b"),
    ]
    run.server.close()

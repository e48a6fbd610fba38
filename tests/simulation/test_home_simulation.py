"""Several runs of one home at once, with real brokers in virtual time: together they keep within each limit."""

from __future__ import annotations

import heapq
import random
from pathlib import Path

from agentos.keys.broker import KeyBroker
from agentos.keys.credentials import Credential, CredentialSet
from agentos.keys.key_spec import KeySpec
from agentos.keys.leases import Ask, LeaseAsk, LeaseGranted, LeaseReturn
from agentos.keys.memory import LimitMemory
from agentos.keys.send_log import SendLog
from agentos.providers.evidence import Evidence, QuotaSpent, RateLimited, Succeeded
from fakes.limiters import SlidingMinute, constant

START = 1_780_000_020.0
RPM = 60


class Home:
    """Runs that share a home and a provider; each makes calls one after another with its workers."""

    def __init__(self, directory: Path, rpm: int | None) -> None:
        self.now = START
        self._directory = directory
        specs = [KeySpec(name="a", provider="google", group="g", max_concurrent=9, rpm=rpm)]
        self._credentials = CredentialSet(tuple(Credential(spec, f"secret-of-{spec.name}") for spec in specs))
        self.limiter = SlidingMinute(constant(RPM))
        self.refused = 0
        self.done = 0
        self._brokers: list[KeyBroker] = []
        self._under_way: list[tuple[float, int, int, str, int, Evidence]] = []
        self.answer = self._answer

    def start_run(self, workers: int) -> None:
        broker = KeyBroker(
            self._credentials,
            emit=lambda _event: None,
            memory=LimitMemory(self._directory / "limits.json"),
            sends=SendLog(self._directory / "sends.log"),
            salt=b"salt",
            clock=lambda: self.now,
            rng=random.Random(len(self._brokers)),
        )
        self._brokers.append(broker)
        for number in range(workers):
            self._ask(broker, f"w{number}")

    def kill_runs(self) -> None:
        self._brokers.clear()
        self._under_way.clear()

    def run(self, calls: int) -> float:
        """Until so many calls have succeeded; gives the seconds it took."""
        serial = 0
        while self.done < calls:
            for number, broker in enumerate(self._brokers):
                for owner, granted in broker.answers():
                    assert isinstance(granted, LeaseGranted)
                    serial += 1
                    ends = self.now + 0.3
                    heapq.heappush(self._under_way, (ends, serial, number, owner, granted.lease.fence, self.answer()))
            waits = [each for broker in self._brokers if (each := broker.seconds_to_wake()) is not None]
            ends = [self._under_way[0][0]] if self._under_way else []
            self.now = max(self.now, min([*ends, *(self.now + wait + 0.002 for wait in waits)]))
            while self._under_way and self._under_way[0][0] <= self.now:
                _, _, number, owner, fence, evidence = heapq.heappop(self._under_way)
                self._brokers[number].take(owner, LeaseReturn(fence=fence, evidence=evidence))
                self.done += isinstance(evidence, Succeeded)
                self._ask(self._brokers[number], owner)
        return self.now - START

    def _ask(self, broker: KeyBroker, owner: str) -> None:
        broker.take(owner, LeaseAsk(ticket=1, ask=Ask(provider="google", model="m", estimated_tokens=1)))

    def _answer(self) -> Evidence:
        wait = self.limiter.wait(self.now)
        self.refused += wait > 0
        return RateLimited(retry_after_seconds=wait) if wait else Succeeded()


def test_two_runs_at_once_meet_no_limit_and_lose_no_time(tmp_path: Path) -> None:
    home = Home(tmp_path, rpm=RPM)
    home.start_run(workers=4)
    home.start_run(workers=4)
    seconds = home.run(calls=240)
    assert home.refused == 0
    assert seconds <= 1.05 * 180.0


def test_a_run_that_is_killed_leaves_its_minute_to_the_next(tmp_path: Path) -> None:
    home = Home(tmp_path, rpm=RPM)
    home.start_run(workers=4)
    home.run(calls=40)
    home.kill_runs()
    home.start_run(workers=4)
    home.run(calls=120)
    assert home.refused == 0


def test_what_one_run_learns_of_a_key_the_other_knows(tmp_path: Path) -> None:
    home = Home(tmp_path, rpm=None)
    hits = []

    def spent() -> Evidence:
        hits.append(home.now)
        return QuotaSpent(resets_in_seconds=50.0) if home.now < START + 50 else Succeeded()

    home.answer = spent
    home.start_run(workers=1)
    home.start_run(workers=1)
    home.run(calls=4)
    assert len([at for at in hits if at < START + 50]) <= 2

"""The cap of a home per day: reserved in turns, settled afterwards, and nothing of it lost with a process."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest
from test_broker import Keys, give_back

from agentos.errors import ExitCode
from agentos.events import BudgetNoticed
from agentos.keys.day_budget import RETRY_SECONDS, DayBudget
from agentos.providers.evidence import TransportFailed

NOON = datetime(2026, 11, 19, 12, tzinfo=UTC).timestamp()
TO_MIDNIGHT = 12 * 3600.0


class Clock:
    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_processes_reserve_from_one_amount_and_free_what_they_did_not_need(tmp_path: Path, clock: Clock) -> None:
    one, other = DayBudget(1.0, tmp_path, clock), DayBudget(1.0, tmp_path, clock)
    assert one.reserve(1, 0.6)
    assert not other.fits(0.5)
    assert not other.reserve(1, 0.5)
    assert other.could_fit_later(0.5)
    one.settle(1, 0.2)
    assert other.reserve(1, 0.5)
    assert one.spent_usd == pytest.approx(0.7)
    other.write_off(1)
    assert one.spent_usd == pytest.approx(0.7)
    assert not one.could_fit_later(0.5)


def test_what_is_more_than_the_cap_never_fits(tmp_path: Path, clock: Clock) -> None:
    one = DayBudget(1.0, tmp_path, clock)
    assert one.reserve(1, 0.6)
    assert not one.could_fit_later(1.5)


def test_the_reservation_of_a_killed_process_counts_for_the_day_and_nobody_waits_for_it(tmp_path: Path) -> None:
    script = (
        "import sys, time; from pathlib import Path; from agentos.keys.day_budget import DayBudget\n"
        "assert DayBudget(1.0, Path(sys.argv[1])).reserve(1, 0.6); print('reserved', flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"reserved\n"
        one = DayBudget(1.0, tmp_path)
        assert not one.fits(0.5)
        assert one.could_fit_later(0.5)
        holder.kill()
    assert not one.could_fit_later(0.5)
    assert one.spent_usd == 0.6
    assert one.reserve(1, 0.4)
    one.close()
    assert list((tmp_path / "processes").iterdir()) == []


def test_a_new_day_has_new_money_and_a_call_counts_on_the_day_it_was_let_go(tmp_path: Path, clock: Clock) -> None:
    one, other = DayBudget(1.0, tmp_path, clock), DayBudget(1.0, tmp_path, clock)
    assert one.reserve(1, 0.9)
    clock.now += TO_MIDNIGHT
    assert (one.spent_usd, one.fits(1.0)) == (0.0, True)
    assert one.reserve(2, 0.3)
    one.settle(1, 0.8)
    assert other.spent_usd == 0.3
    clock.now -= 1
    assert other.spent_usd == 0.8
    clock.now += 3 * TO_MIDNIGHT
    assert other.fits(1.0)
    assert sorted(path.name for path in tmp_path.glob("*.jsonl")) == ["2026-11-20.jsonl", "2026-11-21.jsonl"]


def test_a_cap_that_cannot_be_kept_lets_no_call_go(tmp_path: Path, clock: Clock) -> None:
    (tmp_path / "spending").write_text("no folder")
    keys = Keys("a", day_budget=DayBudget(1.0, tmp_path / "spending", clock))
    [(_, refusal)] = keys.refusals("item", cost=0.1)
    assert refusal.exit_code == ExitCode.BUDGET_REACHED
    assert "cannot be kept, so no call is made" in refusal.message
    assert keys.heard(BudgetNoticed) == []


def test_lines_that_were_cut_off_are_passed_over(tmp_path: Path, clock: Clock) -> None:
    one = DayBudget(1.0, tmp_path, clock)
    assert one.reserve(1, 0.25)
    [path] = tmp_path.glob("*.jsonl")
    with path.open("a") as file:
        file.write('["+","9-x",7,0.')
    assert one.reserve(2, 0.25)
    assert DayBudget(1.0, tmp_path, clock).spent_usd == 0.5
    assert path.stat().st_mode & 0o777 == 0o600


def test_many_at_once_never_pass_the_cap(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from agentos.keys.day_budget import DayBudget\n"
        "one = DayBudget(1.0, Path(sys.argv[1])); done = 0\n"
        "for call in range(400):\n"
        "    if one.reserve(call, 0.01):\n"
        "        one.settle(call, 0.008 if call % 2 else 0.01); done += 1\n"
        "print(done)"
    )
    found: list[int] = []

    def run() -> None:
        done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, check=True)
        found.append(int(done.stdout))

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    [path] = tmp_path.glob("*.jsonl")
    entries = [json.loads(line) for line in path.read_text().split()]
    spent = sum(usd for kind, *_, usd in entries if kind == "=")
    assert 0.98 <= spent <= 1.0 + 1e-9
    assert sum(found) == sum(kind == "=" for kind, *_ in entries)


def test_a_call_waits_for_another_processs_and_goes_when_that_was_cheaper(tmp_path: Path, clock: Clock) -> None:
    one, other = (Keys("a", day_budget=DayBudget(0.015, tmp_path, clock)) for _ in range(2))
    [first] = one.ask("item", cost=0.01)
    assert other.ask("item", cost=0.01) == []
    assert other.broker.wait_causes() == {"item": "budget"}
    assert other.broker.seconds_to_wake() == RETRY_SECONDS
    give_back(one, first, cost=0.002)
    assert len(other.granted()) == 1


def test_a_call_that_others_were_faster_than_gives_its_key_back(tmp_path: Path, clock: Clock) -> None:
    one, other = (Keys("a", day_budget=DayBudget(0.03, tmp_path, clock)) for _ in range(2))
    [held] = other.ask("first", cost=0.01)
    assert other.ask("second", cost=0.02) == []  # Lets it into the queue for the only key.
    [rival] = one.ask("item", cost=0.02)
    give_back(other, held, cost=0.01)
    assert other.granted() == []
    [small] = other.ask("third", cost=0.0) or other.granted() or [None]
    assert small is None, "no small call passes a large one"
    give_back(one, rival, cost=0.0)
    assert [grant.owner for grant in other.granted()] == ["second"]


def test_reaching_it_says_which_cap_and_what_helps(tmp_path: Path, clock: Clock) -> None:
    keys = Keys("a", day_budget=DayBudget(0.015, tmp_path, clock))
    [grant] = keys.ask("item", cost=0.01)
    keys.give_back(grant, TransportFailed(reason="no answer in time", may_be_charged=True))
    [(_, refusal)] = keys.refusals("item", cost=0.01)
    assert refusal.exit_code == ExitCode.BUDGET_REACHED
    assert refusal.message.startswith(
        "The day's budget of $0.015 for everything with this home is reached: $0.01 spent or reserved, and the next "
        "call is estimated at $0.01. Resume after 00:00 UTC, here "
    )
    assert "--budget" not in refusal.message
    [(_, too_much)] = keys.refusals("item", cost=0.02)
    assert "estimated at $0.02, more than the $0.015 that everything with this home may spend" in too_much.message
    assert keys.broker.shortfall == BudgetNoticed(spent_usd=0.01, budget_usd=0.015, needed_usd=0.02, day="2026-11-19")
    [(_, unpriced)] = keys.refusals("item", cost=None)
    assert "has no price" in unpriced.message

"""What one run learned, the next one knows; two runs at once lose nothing of each other."""

from __future__ import annotations

import json
import random
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from agentos.keys.credentials import fingerprint
from agentos.keys.key_spec import KeySpec
from agentos.keys.memory import LimitMemory
from agentos.keys.pool import KeyPool
from agentos.paths import key_limits_path as limits_path
from agentos.providers.evidence import Evidence, QuotaSpent, RateLimited, Rejected, Succeeded

NOW = 1_780_000_000.0
SALT = b"0123456789abcdef"
SECRETS = {"a": "SENTINEL-a", "b": "SENTINEL-b"}
MARKS = {name: fingerprint(secret, SALT) for name, secret in SECRETS.items()}


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LimitMemory:
    monkeypatch.setenv("AGENTOS_HOME", str(tmp_path))
    return LimitMemory()


def pool_of(*names: str) -> KeyPool:
    return KeyPool([KeySpec(name=n, provider="google", group=n) for n in names], rng=random.Random(1))


def learned(evidence: Evidence, name: str = "a", now: float = NOW) -> dict[str, Any]:
    """What a pool exports after this evidence about the key."""
    pool = pool_of(name)
    pool.request(now, owner="w", provider="google", model="m")
    (grant,) = pool.grants(now)
    pool.release(now, name, grant.fence, evidence)
    return pool.export_limits()


def state_after_restart(memory: LimitMemory, name: str = "a", now: float = NOW + 60) -> str:
    pool = pool_of(name)
    pool.import_limits(now, memory.load(MARKS))
    return pool.snapshot(now)[0].state


def test_nothing_known_is_nothing_loaded(memory: LimitMemory) -> None:
    assert memory.load(MARKS) == {}
    assert not limits_path().exists()


@pytest.mark.parametrize(
    ("evidence", "state"),
    [
        (QuotaSpent(), "out_of_quota"),
        (QuotaSpent(never_resets=True), "out_of_quota"),
        (Rejected(reason="invalid"), "rejected"),
        (RateLimited(retry_after_seconds=600), "rate_limited"),
        (RateLimited(retry_after_seconds=5), "available"),
        (Succeeded(), "available"),
    ],
)
def test_the_next_run_starts_where_this_one_ended(memory: LimitMemory, evidence: Evidence, state: str) -> None:
    memory.save(learned(evidence), MARKS, now=NOW)
    assert state_after_restart(memory) == state


def test_the_file_is_private_and_holds_neither_secret_nor_name(memory: LimitMemory) -> None:
    memory.save(learned(Rejected(reason="invalid")), {"a": MARKS["a"]}, now=NOW)
    assert stat.S_IMODE(limits_path().stat().st_mode) == 0o600
    text = limits_path().read_text()
    assert "SENTINEL" not in text
    assert list(json.loads(text)["keys"]) == [MARKS["a"]]


def test_a_new_secret_is_a_new_key(memory: LimitMemory) -> None:
    memory.save(learned(Rejected()), MARKS, now=NOW)
    assert memory.load({"a": fingerprint("SENTINEL-new", SALT)}) == {}


def test_a_renamed_key_is_the_same_key(memory: LimitMemory) -> None:
    memory.save(learned(Rejected()), MARKS, now=NOW)
    assert memory.load({"renamed": MARKS["a"]})["renamed"]["rejected"] == ""


def test_the_user_can_have_a_key_tried_again(memory: LimitMemory) -> None:
    memory.save(learned(QuotaSpent(never_resets=True)), MARKS, now=NOW)
    memory.forget(MARKS["a"])
    memory.forget("never-seen")
    assert state_after_restart(memory) == "available"


def test_forgetting_limits_may_keep_a_rejection_and_always_keeps_what_was_counted(memory: LimitMemory) -> None:
    record = {"a": {**learned(QuotaSpent())["a"], "rejected": "bad", "new_calls": 3}}
    memory.save(record, MARKS, now=NOW)
    memory.forget(MARKS["a"], keeps_rejection=True)
    kept = memory.load(MARKS)["a"]
    assert (kept["rejected"], kept["calls"]) == ("bad", 3)
    assert "models" not in kept
    memory.forget(MARKS["a"])
    assert memory.load(MARKS)["a"]["calls"] == 3
    assert state_after_restart(memory) == "available"


def test_calls_of_all_runs_add_up(memory: LimitMemory) -> None:
    for new_calls in (2, 5):
        memory.save({"a": {"models": {}, "new_calls": new_calls}}, MARKS, now=NOW)
    memory.save(learned(Succeeded()), MARKS, now=NOW)
    assert memory.load(MARKS)["a"]["calls"] == 7


def test_an_accepted_key_is_no_longer_rejected_but_keeps_its_limits(memory: LimitMemory) -> None:
    memory.save({"a": {**learned(QuotaSpent())["a"], "rejected": "bad"}}, MARKS, now=NOW)
    memory.lift_rejection(MARKS["a"])
    memory.lift_rejection("never-seen")
    assert state_after_restart(memory) == "out_of_quota"


def test_the_later_end_of_a_limit_stands_whichever_run_saves_last(memory: LimitMemory) -> None:
    long, short = learned(RateLimited(retry_after_seconds=900)), learned(RateLimited(retry_after_seconds=300))
    for first, second in ((long, short), (short, long)):
        memory.save(first, MARKS, now=NOW)
        memory.save(second, MARKS, now=NOW)
        assert state_after_restart(memory, now=NOW + 600) == "rate_limited"
        memory.forget(MARKS["a"])


def test_a_quota_seen_open_later_is_open(memory: LimitMemory) -> None:
    memory.save(learned(QuotaSpent()), MARKS, now=NOW)
    pool = pool_of("a")
    pool.import_limits(NOW + 10, memory.load(MARKS))
    pool.note(NOW + 10, "a", "m", Succeeded())
    memory.save(pool.export_limits(), MARKS, now=NOW + 10)
    assert state_after_restart(memory) == "available"


def test_limits_that_have_ended_are_dropped(memory: LimitMemory) -> None:
    memory.save(learned(RateLimited(retry_after_seconds=10)), MARKS, now=NOW)
    memory.save(learned(Succeeded(), "b", NOW + 60), MARKS, now=NOW + 60)
    stored = json.loads(limits_path().read_text())["keys"][MARKS["a"]]
    assert "kind" not in stored["models"]["m"]


def test_the_days_use_is_the_larger_of_both_runs(memory: LimitMemory) -> None:
    ends = NOW + 3_600
    for total in (5, 9, 7):
        record = {"a": {"models": {"m": {"day": [["requests", 86_400.0, total, ends]]}}}}
        memory.save(record, MARKS, now=NOW)
    assert memory.load(MARKS)["a"]["models"]["m"]["day"] == [["requests", 86_400.0, 9, ends]]
    memory.save({}, MARKS, now=ends + 1)
    assert memory.load(MARKS).get("a", {}).get("models", {}) == {}


@pytest.mark.parametrize("lead", [3_600.0, 3_650 * 86_400.0])
def test_what_was_learned_by_a_clock_that_was_ahead_holds_no_longer_than_it_would_have(
    memory: LimitMemory, lead: float
) -> None:
    memory.save(learned(RateLimited(retry_after_seconds=30), now=NOW + lead), MARKS, now=NOW + lead)
    pool = pool_of("a")
    pool.import_limits(NOW, memory.load(MARKS))
    until = pool.snapshot(NOW)[0].until
    assert until is not None
    assert NOW < until < NOW + 40

    memory.save({}, MARKS, now=NOW)
    assert state_after_restart(memory) == "available"


def test_the_use_of_a_day_that_is_years_ahead_is_not_todays(memory: LimitMemory) -> None:
    for years in (0, 3):
        ends = NOW + 3_600 + years * 365 * 86_400
        record = {"a": {"models": {"m": {"day": [["requests", 86_400.0, 9, ends]]}}}}
        memory.save(record, MARKS, now=ends - 3_600)
    pool = KeyPool([KeySpec(name="a", provider="google", group="a", rpd=9)], rng=random.Random(1))
    pool.import_limits(NOW, memory.load(MARKS))
    pool.request(NOW, owner="w", provider="google", model="m")
    assert len(pool.grants(NOW)) == 1


def test_runs_that_save_at_once_lose_nothing(memory: LimitMemory) -> None:
    names = [f"k{number}" for number in range(10)]
    marks = {name: fingerprint(name, SALT) for name in names}

    def run(name: str) -> None:
        LimitMemory(limits_path()).save(learned(Rejected(reason=name), name), marks, now=NOW)

    threads = [threading.Thread(target=run, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert {name: record["rejected"] for name, record in memory.load(marks).items()} == {n: n for n in names}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"\xff\xfe",
        b'{"version": 99, "keys": {}}',
        b'{"version": 1, "keys": [1]}',
        b'{"version": 1, "keys": {"x": []}}',
        b'{"version": 1, "keys": {"x": {"rejected": 5}}}',
        b'{"version": 1, "keys": {"x": {"models": {"m": {"kind": "odd", "until": 1}}}}}',
        b'{"version": 1, "keys": {"x": {"models": {"m": {"kind": "rate_limited", "until": "soon"}}}}}',
        b'{"version": 1, "keys": {"x": {"models": {"m": {"learned": [["requests"]]}}}}}',
        b'{"version": 1, "keys": {"x": {"models": {"m": {"day": 7}}}}}',
        b'{"version": 1, "keys": {"x": {"models": {"m": {"kind": "rate_limited", "until": NaN}}}}}',
    ],
)
def test_a_damaged_file_is_set_aside_and_said(memory: LimitMemory, content: bytes) -> None:
    limits_path().parent.mkdir(parents=True, exist_ok=True)
    limits_path().write_bytes(content)
    assert memory.load(MARKS) == {}
    assert "set aside" in memory.warnings[0]
    assert limits_path().with_name("limits.json.damaged").read_bytes() == content
    memory.save(learned(Rejected()), MARKS, now=NOW)
    assert state_after_restart(memory) == "rejected"


def test_a_place_that_cannot_be_used_costs_the_memory_not_the_run(
    memory: LimitMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Path, target: Path) -> Path:
        raise PermissionError("no")

    limits_path().parent.mkdir(parents=True, exist_ok=True)
    limits_path().write_text("{")
    monkeypatch.setattr(Path, "replace", refuse)
    assert memory.load(MARKS) == {}
    assert "cannot be used" in memory.warnings[0]

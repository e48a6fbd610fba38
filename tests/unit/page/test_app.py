"""What the page is told, as JSON: of runs that live, ended, died or cannot be read, and of empty homes."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from page_site import Site, started

from agentos.events import (
    CallFinished,
    CallStarted,
    ControlTaken,
    Event,
    ItemEnded,
    ItemRetried,
    ItemStarted,
    ItemWaited,
    ItemWaiting,
    KeyCoolingDown,
    NodeFinished,
    NodeStarted,
    PoolExhausted,
    PoolResumed,
    RunEnded,
    RunStarted,
)
from agentos.keys.credentials import load_credentials, load_salt
from agentos.keys.memory import LimitMemory
from agentos.outcomes import APPROVED, AWAITING_REVIEW, FAILED, NEEDS_REVISION
from agentos.page.guard import Role
from agentos.preflight import PreflightDone
from agentos.reporters.logs import log_name

RUN = "20261118-021500-000001"
OTHER = "20261118-021500-000002"
CALL = {"item_id": "1", "node": "N1_design", "model": "google:m", "key_name": "K1"}
UNDER_WAY: tuple[Event, ...] = (
    started("1", "2", "3", titles=("Fines", "Loans", "Shelf")),
    PreflightDone(models=("google:m",), keys=("K1", "K2")),
    ItemStarted(item_id="1", attempt=1, pid=7),
    NodeStarted(item_id="1", node="N0_load"),
    NodeFinished(item_id="1", node="N0_load", seconds=1.0),
    NodeStarted(item_id="1", node="N1_design"),
    CallStarted(**CALL),
)
ENDED: tuple[Event, ...] = (
    *UNDER_WAY,
    CallFinished(**CALL, seconds=1.0, outcome="ok", input_tokens=10, output_tokens=5, cost_usd=0.25),
    ItemEnded(item_id="1", outcome=APPROVED, seconds=5.0, input_tokens=10, output_tokens=5, cost_usd=0.25),
    ItemEnded(item_id="2", outcome=FAILED, seconds=1.0, reason="boom", error_type="ValueError"),
    ItemEnded(item_id="3", outcome=AWAITING_REVIEW, seconds=1.0, reason="draft gate"),
    RunEnded(
        counts={APPROVED: 1, FAILED: 1, AWAITING_REVIEW: 1},
        left=(),
        wall_seconds=9.0,
        item_seconds=7.0,
        working_seconds=7.0,
        exit_code=1,
    ),
)


def test_a_home_without_runs_says_how_to_get_one(site: Site) -> None:
    home = site.get("/api/home")
    assert home["runs"] == []
    assert home["notice"]["text"] == "There are no runs yet."
    assert home["notice"]["command"].endswith("demo --dir agentos-demo")
    assert site.get("/api/keys")["notice"]["text"] == "There are no keys."
    assert site.get("/api/workstreams")["notice"]["text"] == "There are no workstreams."
    assert site.get("/api/history")["notice"]["text"] == "There are no runs yet."


def test_the_reader_is_told_what_they_may_do(site: Site) -> None:
    assert site.get("/api/home")["can_control"] is False
    assert site.get("/api/home", role=Role.CONTROL)["can_control"] is True


def test_a_live_run_says_what_each_item_does_and_since_when(site: Site) -> None:
    site.write_run(UNDER_WAY, is_live=True)
    page = site.get(f"/api/runs/{RUN}")
    strip, (first, second, _) = page["strip"], page["items"]
    assert (strip["state"], strip["words"], strip["is_live"]) == ("running", "Running", True)
    assert (strip["total"], strip["running"], strip["pending"]) == (3, 1, 2)
    assert strip["keys"] == {"free": 1, "held": 1, "cooling": 0, "rejected": 0, "next_at": None}
    assert (first["label"], first["title"], first["words"], first["since"]) == ("LLD-1", "Fines", "generating", 6.0)
    assert first["dots"] == "d-n"
    assert (second["state"], second["words"]) == ("pending", "waits for its turn")
    assert [row["state"] for row in site.get("/api/home")["runs"]] == ["running"]


def test_the_clock_goes_on_while_nothing_is_put_on_record(site: Site) -> None:
    site.write_run(UNDER_WAY, is_live=True, silent_seconds=60)
    page = site.get(f"/api/runs/{RUN}")
    assert page["items"][0]["since"] == 6.0
    assert page["clock"] >= 66
    assert page["strip"]["elapsed"] >= 66
    site.write_run(UNDER_WAY, run_id=OTHER, is_live=True, silent_seconds=15 * 60)
    assert site.get(f"/api/runs/{OTHER}")["strip"]["words"] == "Stalled"


def test_a_run_that_ended_names_what_needs_somebody_and_what_can_be_done(site: Site) -> None:
    site.write_run(ENDED, with_summary=True)
    page = site.get(f"/api/runs/{RUN}", role=Role.CONTROL)
    assert (page["strip"]["state"], page["strip"]["detail"], page["strip"]["kind"]) == ("done", "exit code 1", "bad")
    assert [(need["kind"], need["item"], need["text"]) for need in page["needs"]] == [
        ("review", "3", "awaits review: draft gate"),
        ("failed", "2", "failed: boom"),
    ]
    assert [action["name"] for action in page["needs"][0]["actions"]] == ["approve", "revise", "open"]
    assert "retry" not in [action["name"] for action in page["needs"][1]["actions"]]
    reader = site.get(f"/api/runs/{RUN}")
    assert [action["name"] for action in reader["needs"][0]["actions"]] == ["open"]


def test_a_failed_item_of_a_live_run_can_be_retried(site: Site) -> None:
    site.write_run([*UNDER_WAY, ItemEnded(item_id="2", outcome=FAILED, seconds=1.0, reason="boom")], is_live=True)
    (need,) = site.get(f"/api/runs/{RUN}", role=Role.CONTROL)["needs"]
    assert [(action["name"], action["primary"]) for action in need["actions"]] == [("retry", True), ("open", False)]


def test_a_killed_coordinator_is_said_with_what_continues_its_items(site: Site) -> None:
    site.write_run([started("1", resume_command="agentos lld 1"), *UNDER_WAY[2:4]])
    page = site.get(f"/api/runs/{RUN}")
    assert (page["strip"]["state"], page["strip"]["words"]) == ("lost", "Coordinator lost")
    assert page["needs"][0]["kind"] == "lost"
    assert "agentos lld" in page["needs"][0]["command"]
    assert page["items"][0]["words"] == "not ended"
    assert site.get("/api/home")["runs"][0]["words"] == "Coordinator lost"


def test_who_looks_on_while_a_coordinator_dies_sees_nothing_under_way_any_more(site: Site) -> None:
    site.write_run(UNDER_WAY, is_live=True)
    before = site.get(f"/api/runs/{RUN}")
    assert (before["keys"][0]["words"], before["keys"][0]["held_by"]) == ("in use", ["LLD-1"])
    site.let_go()
    *_, patch, end = site.events(f"/api/runs/{RUN}/events?since={before['seq']}")
    assert (patch[1], end[1], end[2]) == ("patch", "end", {"reason": "lost"})
    (key, _), (item, *_) = patch[2]["keys"], patch[2]["items"]
    assert (key["words"], key["held_by"]) == ("free", [])
    assert (item["words"], item["dots"], item["node"]) == ("not ended", "d-", "")


def test_an_item_that_waits_for_somebody_stands_at_the_stage_it_did_not_finish(site: Site) -> None:
    parked = ItemEnded(item_id="1", outcome=AWAITING_REVIEW, seconds=4.0)
    site.write_run([*UNDER_WAY[:6], parked], is_live=True)
    assert site.get(f"/api/runs/{RUN}")["items"][0]["dots"] == "d-h"


def test_waits_are_told_with_their_cause_and_coloured_in_the_timeline(site: Site) -> None:
    wait = ItemWaiting(item_id="1", cause="limited", seconds=0.5)
    site.write_run([*UNDER_WAY[:6], wait], is_live=True)
    item = site.get(f"/api/runs/{RUN}")["items"][0]
    assert (item["state"], item["words"], item["cause"]) == ("waiting", "waiting for a limit", "limited")
    assert item["dots"] == "d-w"
    blocks = site.get(f"/api/runs/{RUN}/timeline")["blocks"]
    assert [(block["kind"], block["start"], block["end"]) for block in blocks] == [
        ("start", 2.0, 3.0),
        ("node", 3.0, 4.0),
        ("node", 5.0, None),
        ("limited", 5.5, None),
    ]


def test_keys_cool_down_and_their_calls_are_counted(site: Site) -> None:
    site.write_run(
        [
            *UNDER_WAY,
            CallFinished(**CALL, seconds=1.0, outcome="rate_limited"),
            KeyCoolingDown(key_number=1, key_name="K1", seconds=1e9, provider="google", group="g"),
        ],
        is_live=True,
    )
    page = site.get(f"/api/runs/{RUN}")
    first = page["keys"][0]
    assert (first["state"], first["calls"], first["limited"], first["minutes"]) == ("cooling", 1, 1, [[0, 1, 1]])
    assert first["group"] == "g"
    assert page["strip"]["keys"]["cooling"] == 1


def test_what_is_learned_of_a_key_is_told_with_its_state(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_API_KEY", "AIza" + "Sy0123456789abcdefghijklmnopqrstuvw")
    credentials = load_credentials()
    (name,) = [spec.name for spec in credentials.specs]
    until = time.time() + 3600.0
    learned = {
        "kind": "out_of_quota",
        "until": until,
        "changed": time.time(),
        "learned": [["requests", 60.0, 15], ["input_tokens", 86400.0, 1_000_000]],
        "day": [["input_tokens", 86400.0, 2_500, until]],
        "felt": [3.0, False, time.time()],
    }
    outdated = {"felt": [9.0, False, time.time() - 7200.0]}
    LimitMemory().save(
        {name: {"models": {"m": learned, "old": outdated}}}, credentials.fingerprints(load_salt()), now=time.time()
    )
    limits = [
        "m: 15 requests per minute",
        "m: 1,000,000 input tokens per day, 2,500 of them used",
        "m: about 3 requests per minute, judging by what was refused",
    ]
    (key,) = site.get("/api/keys")["keys"]
    assert (key["state"], key["words"], key["limits"]) == ("cooling", "out of quota", limits)
    assert 3500 < key["until"] <= 3600
    assert key["limited"] is None
    site.write_run([UNDER_WAY[0], PreflightDone(models=("google:m",), keys=(name,)), *UNDER_WAY[2:6]], is_live=True)
    assert site.get(f"/api/runs/{RUN}")["keys"][0]["limits"] == limits


def test_a_key_that_a_run_uses_now_is_not_called_free(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_API_KEY", "AIza" + "Sy0123456789abcdefghijklmnopqrstuvw")
    (name,) = [spec.name for spec in load_credentials().specs]
    (free,) = site.get("/api/keys")["keys"]
    assert (free["words"], free["calls"], free["limited"]) == ("free", 0, None)
    call = {**CALL, "key_name": name}
    done = CallFinished(**call, seconds=1.0, outcome="ok", input_tokens=10, output_tokens=5)
    site.write_run([*UNDER_WAY[:6], CallStarted(**call), done, CallStarted(**call)], is_live=True)
    cools = KeyCoolingDown(
        key_number=1, key_name=name, seconds=90.0, provider="google", group="g", reason="slow down"
    )
    (used,) = site.get("/api/keys")["keys"]
    assert (used["words"], used["held_by"], used["calls"], used["tokens"]) == ("in use", ["LLD-1"], 1, 15)
    site.write_run([*UNDER_WAY[:6], cools], run_id=OTHER, is_live=True)
    (cooling,) = site.get("/api/keys")["keys"]
    assert (cooling["state"], cooling["held_by"], cooling["reason"]) == ("cooling", ["LLD-1"], "slow down")
    assert 80.0 < cooling["until"] <= 90.0
    site.let_go()


def test_the_last_line_is_the_items_own(site: Site) -> None:
    run_dir = site.write_run(UNDER_WAY, is_live=True)
    at = "2026-11-18T02:15:00.000Z"
    log = f"{at} attempt 1 started (pid 7)\n\x1b[32mreading 3 files\x1b[0m\n{at} >>> Executing: N1_design\n"
    (run_dir / log_name("1")).write_text(log)
    (run_dir / log_name("2")).write_text(f"{at} >>> Executing: N1_design\n")
    first, second, _ = site.get(f"/api/runs/{RUN}")["items"]
    assert first["last_line"] == "reading 3 files"
    assert second["last_line"] == ""
    assert "\x1b[32mreading" in site.get(f"/api/runs/{RUN}/log?id=1")["text"]


def test_as_many_places_can_be_asked_for_as_the_run_takes(site: Site) -> None:
    site.write_run([started("1")], is_live=True)
    assert site.get(f"/api/runs/{RUN}")["strip"]["parallel"]["most"] == 10
    many = RunStarted(workflow="lld", project_dir="/shop", items=("1",), parallel=40, pid=1)
    site.write_run([many], run_id=OTHER, is_live=True)
    assert site.get(f"/api/runs/{OTHER}")["strip"]["parallel"]["most"] == 40


def test_all_keys_cooling_needs_somebody(site: Site) -> None:
    cooling = [KeyCoolingDown(key_number=n, key_name=f"K{n}", seconds=1e9) for n in (1, 2)]
    site.write_run([*UNDER_WAY[:6], *cooling], is_live=True)
    needs = site.get(f"/api/runs/{RUN}")["needs"]
    assert needs[0]["kind"] == "keys"
    assert needs[0]["text"].startswith("all keys are cooling down; the next one opens in ")


def test_keys_whose_pace_is_used_up_are_not_called_free(site: Site) -> None:
    limited = PoolExhausted(kind="limited", seconds=40.0)
    run_dir = site.write_run([*UNDER_WAY[:-1], limited], is_live=True)
    page = site.get(f"/api/runs/{RUN}")
    assert page["strip"]["words"] == "Waiting for keys"
    assert (page["strip"]["keys"]["free"], page["strip"]["keys"]["cooling"]) == (0, 2)
    assert page["needs"][0]["text"].startswith("all keys are cooling down; the next one opens in ")
    site.write_more(run_dir, [PoolResumed(waited_seconds=40.0)])
    page = site.get(f"/api/runs/{RUN}")
    assert (page["strip"]["words"], page["strip"]["keys"]["free"], page["needs"]) == ("Running", 2, [])


def test_a_pause_names_who_and_why_and_resumes_by_a_button(site: Site) -> None:
    site.write_run([*UNDER_WAY, ControlTaken(act="pause", by="ada (ctl)", reason="lunch")], is_live=True)
    page = site.get(f"/api/runs/{RUN}", role=Role.CONTROL)
    assert (page["strip"]["words"], page["strip"]["detail"]) == ("Paused", "by ada (ctl): lunch")
    assert (page["needs"][0]["kind"], page["needs"][0]["actions"][0]["name"]) == ("paused", "resume")


def test_the_list_tells_of_a_live_run_what_its_own_page_does(site: Site) -> None:
    paid = CallFinished(**CALL, seconds=1.0, outcome="ok", cost_usd=0.25)
    run_dir = site.write_run([*UNDER_WAY, paid], is_live=True)
    told = ("words", "cost_usd", "is_live")
    assert [site.get("/api/home")["runs"][0][name] for name in told] == ["Running", 0.25, True]
    site.write_more(run_dir, [ControlTaken(act="pause", by="ada (ctl)", reason="lunch")])
    assert [site.get("/api/home")["runs"][0][name] for name in told] == ["Paused", 0.25, True]
    site.let_go()
    assert [site.get("/api/home")["runs"][0][name] for name in ("words", "is_live")] == ["Coordinator lost", False]


def test_a_damaged_record_shows_what_can_be_read_and_says_so(site: Site) -> None:
    run_dir = site.write_run(UNDER_WAY)
    site.append(run_dir, b'{"v":1,"seq":9,"type":"item_ended","item":5}\n\xff\xfe garbage\n{"half": ')
    page = site.get(f"/api/runs/{RUN}")
    assert page["strip"]["problem"] == "2 damaged lines of the record passed over"
    assert len(page["items"]) == 3


def test_records_of_a_later_version_are_passed_over_and_said(site: Site) -> None:
    run_dir = site.write_run(UNDER_WAY)
    site.append(run_dir, b'{"v":2,"seq":9,"time":"2026-11-18T02:00:09Z","run":"r","type":"run_ended"}\n')
    site.append(run_dir, b'{"v":1,"seq":10,"time":"2026-11-18T02:00:10Z","run":"r","type":"moon_phase_changed"}\n')
    strip = site.get(f"/api/runs/{RUN}")["strip"]
    assert strip["problem"] == "1 record of a later version not shown: update AgentOS to see them"
    assert strip["state"] == "lost"


def test_an_empty_record_says_what_happened(site: Site) -> None:
    run_dir = site.write_run([])
    (run_dir / "workflow-audit.jsonl").write_bytes(b"")
    page = site.get(f"/api/runs/{RUN}")
    assert page["notice"]["text"] == "This run ended before it put its items on record."
    assert site.get("/api/home")["runs"][0]["problem"] == "its record does not say what it was"


def test_two_thousand_items_are_one_answer_of_moderate_size(site: Site) -> None:
    ids = [f"item-{number}" for number in range(2000)]
    events: list[Event] = [started(*ids)]
    for item_id in ids[:50]:
        events += [
            ItemStarted(item_id=item_id, attempt=1, pid=1),
            ItemEnded(item_id=item_id, outcome=FAILED, seconds=1),
        ]
    site.write_run(events, is_live=True)
    answer = site.ask("GET", f"/api/runs/{RUN}")
    page = answer.json()
    assert (len(page["items"]), page["strip"]["pending"]) == (2000, 1950)
    assert len(answer.content) < 1_500_000


def test_a_reader_who_reconnects_gets_all_that_changed_since_and_nothing_else(site: Site) -> None:
    site.write_run(ENDED)
    (first_id, name, snapshot), (_, end, reason) = site.events(f"/api/runs/{RUN}/events")
    assert (name, end, reason) == ("snapshot", "end", {"reason": "done"})
    assert first_id == "12.0"
    assert [block["kind"] for block in snapshot["blocks"]] == ["start", "node", "node"]
    (_, name, patch), _ = site.events(f"/api/runs/{RUN}/events", headers={"Last-Event-ID": "9.0"})
    assert name == "patch"
    assert [item["id"] for item in patch["items"]] == ["2", "3"]
    assert "blocks" not in patch
    (_, name, _), _ = site.events(f"/api/runs/{RUN}/events?since=999")
    assert name == "snapshot"


def test_a_log_comes_with_the_stream_from_where_the_reader_is(site: Site) -> None:
    run_dir = site.write_run(ENDED)
    (run_dir / log_name("1")).write_bytes(b"one\ntwo\n")
    events = site.events(f"/api/runs/{RUN}/events?log=1&offset=4")
    assert [(each_id, data["text"]) for each_id, name, data in events if name == "log"] == [("12.8", "two\n")]
    again = site.events(f"/api/runs/{RUN}/events?log=1", headers={"Last-Event-ID": "12.8"})
    assert [name for _, name, _ in again] == ["patch", "end"]


def test_a_log_is_read_in_parts_and_from_its_end(site: Site) -> None:
    run_dir = site.write_run(ENDED)
    (run_dir / log_name("1")).write_bytes(b"first line\nsecond\x1b[31m red\x1b[0m\nthird")
    part = site.get(f"/api/runs/{RUN}/log?id=1&limit=15")
    assert (part["text"], part["next"], part["is_final"]) == ("first line\n", 11, False)
    rest = site.get(f"/api/runs/{RUN}/log?id=1&offset=11")
    assert rest["text"] == "second\x1b[31m red\x1b[0m\nthird"
    assert rest["is_final"] is True
    assert site.get(f"/api/runs/{RUN}/log?id=1&offset=-10")["text"] == "third"
    assert site.get(f"/api/runs/{RUN}/log?id=2")["text"] == ""


def test_a_log_that_is_a_link_or_no_file_is_not_read(site: Site, tmp_path: Path) -> None:
    run_dir = site.write_run(ENDED)
    (tmp_path / "secret").write_text("do not show")
    (run_dir / log_name("1")).symlink_to(tmp_path / "secret")
    (run_dir / log_name("2")).mkdir()
    for item in ("1", "2"):
        assert site.get(f"/api/runs/{RUN}/log?id={item}")["text"] == ""
    assert site.refused(f"/api/runs/{RUN}/log?id=../../{RUN}/1")[0] == 404
    assert site.refused(f"/api/runs/{RUN}/log")[0] == 400


def test_an_item_tells_its_attempts_nodes_and_calls(site: Site) -> None:
    events: list[Event] = [
        *UNDER_WAY,
        CallFinished(**CALL, seconds=1.0, outcome="rate_limited", waited_seconds=0.5),
        ItemRetried(item_id="1", attempt=1, reason="crashed"),
        ItemStarted(item_id="1", attempt=2, pid=8, resumed_after="N0_load"),
    ]
    site.write_run(events, is_live=True)
    page = site.get(f"/api/runs/{RUN}/item", params={"id": "1"}, role=Role.CONTROL)
    assert [(each["attempt"], each["reason"], each["resumed_after"]) for each in page["attempts"]] == [
        (1, "crashed", ""),
        (2, "", "N0_load"),
    ]
    assert [(call["words"], call["waited"], call["key"]) for call in page["calls"]] == [("rate-limited", 0.5, "K1")]
    assert [(node["node"], node["seconds"]) for node in page["nodes"]] == [("N0_load", 1.0), ("N1_design", 3.0)]
    assert [action["name"] for action in page["actions"]] == ["stop", "skip"]
    assert site.refused(f"/api/runs/{RUN}/item?id=nobody")[0] == 404


def test_a_wait_that_is_over_is_no_wait(site: Site) -> None:
    waits = [ItemWaiting(item_id="1", cause="busy"), ItemWaited(item_id="1", cause="busy", seconds=1.0)]
    site.write_run([*UNDER_WAY[:6], *waits], is_live=True)
    assert site.get(f"/api/runs/{RUN}")["items"][0]["words"] == "N1_design"


def test_history_compares_runs_and_finds_items_that_fail_now_and_then(site: Site) -> None:
    site.write_run(ENDED, with_summary=True)
    better = [
        started("1", "2"),
        ItemStarted(item_id="2", attempt=1, pid=1),
        NodeStarted(item_id="2", node="N0_load"),
        NodeFinished(item_id="2", node="N0_load", seconds=3.0),
        ItemEnded(item_id="2", outcome=APPROVED, seconds=4.0),
        ItemEnded(item_id="1", outcome=NEEDS_REVISION, seconds=4.0),
        RunEnded(counts={APPROVED: 1}, left=(), wall_seconds=4.0, item_seconds=8.0, working_seconds=8.0, exit_code=3),
    ]
    site.write_run(better, run_id=OTHER, with_summary=True)
    history = site.get("/api/history")
    assert [(row["run"], row["good"], row["tried"], row["success"]) for row in history["runs"]] == [
        (OTHER, 1, 2, 0.5),
        (RUN, 1, 3, 0.3333),
    ]
    assert [(row["label"], row["words"]) for row in history["flaky"]] == [("LLD-2", "failed in 1 of 2 runs")]
    assert [(row["node"], row["count"], row["longest"]) for row in history["nodes"]] == [("N0_load", 2, 3.0)]
    assert site.get("/api/history?workflow=issue")["runs"] == []
    compared = site.get(f"/api/compare?a={RUN}&b={OTHER}")
    assert compared["items"][0]["is_changed"] is True
    facts = {fact["name"]: fact["words"] for fact in compared["facts"]}
    assert facts["Wall time"] == "5.0s less"
    assert facts["Ended well"] == "the same"
    assert site.refused(f"/api/compare?a={RUN}&b=20200101-000000-000000")[0] == 404


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ({"act": "pause"}, 410),
        ({"act": "dance"}, 400),
        ({"act": "status"}, 400),
        ({"act": "retry"}, 400),
        ({"act": "parallel", "value": "3"}, 400),
        ({"act": "budget", "value": True}, 400),
        ({"act": "stop", "item": 7}, 400),
    ],
)
def test_acts_that_cannot_be_taken_are_refused_with_why(site: Site, said: dict[str, object], code: int) -> None:
    site.write_run(ENDED, with_summary=True)
    answer = site.post(f"/api/runs/{RUN}/control", said)
    assert answer.status_code == code
    assert answer.json()["error"]


def test_nothing_is_shown_that_redaction_masks(site: Site, own_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "sk-test-0123456789abcdefSECRET"
    monkeypatch.setenv("OPENAI_API_KEY", secret)
    fresh = Site(site.runs_dir)
    run_dir = fresh.write_run([started("1", titles=(f"with {secret}",)), *ENDED[2:]])
    (run_dir / log_name("1")).write_text(f"{secret}\n")
    texts = [
        fresh.ask("GET", path).text
        for path in (f"/api/runs/{RUN}", f"/api/runs/{RUN}/log?id=1", f"/api/runs/{RUN}/events?log=1")
    ]
    fresh.close()
    assert "with ****" in texts[0]
    assert [secret in text for text in texts] == [False, False, False]


def test_no_part_of_a_log_begins_or_ends_within_a_key(
    site: Site, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither one of the user's, which came after the log was written, nor one that only looks like a key."""
    keys = ("own-0123456789-secret", "ghp_" + "w9" * 20)
    monkeypatch.setenv("OPENAI_API_KEY", keys[0])
    fresh = Site(site.runs_dir)
    run_dir = fresh.write_run([started("1"), *ENDED[2:]])
    log = f"before {keys[0]} between {'x' * 60} {keys[1]} after\n"
    (run_dir / log_name("1")).write_text(log)
    shown = [fresh.get(f"/api/runs/{RUN}/log?id=1&offset={at}&limit=12")["text"] for at in range(len(log))]
    fresh.close()
    assert "before" in shown[0]
    for at, text in enumerate(shown):
        assert all(text[start : start + 5] not in key for key in keys for start in range(len(text) - 4)), (at, text)


def test_every_answer_is_strict_json(site: Site) -> None:
    broken = ItemEnded(item_id="1", outcome=FAILED, seconds=float("inf"), reason="\ud800 lone \x00 end")
    site.write_run([*UNDER_WAY, broken], is_live=True)

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    for path in (f"/api/runs/{RUN}", f"/api/runs/{RUN}/timeline", f"/api/runs/{RUN}/item?id=1", "/api/home"):
        assert json.loads(site.ask("GET", path).content, parse_constant=refuse)


def test_a_live_run_whose_socket_is_gone_refuses_an_act_in_words(site: Site) -> None:
    site.write_run(UNDER_WAY, is_live=True)
    answer = site.post(f"/api/runs/{RUN}/control", {"act": "pause"})
    assert answer.status_code == 409
    assert answer.json()["error"].startswith("The run cannot be reached: ")


def test_what_is_no_request_of_the_page_is_refused_in_words(site: Site) -> None:
    site.write_run(UNDER_WAY, is_live=True)
    assert site.refused("/api/nothing") == (404, {"error": "There is nothing here.", "hint": "", "command": ""})
    assert site.refused(f"/api/runs/{RUN}/log")[1]["error"] == "The request does not say which id."
    assert site.refused(f"/api/runs/{RUN}/log?id=1&offset=x")[1]["error"] == "offset is a whole number."
    assert site.post(f"/api/runs/{RUN}/control", ["pause"]).json()["error"] == "The request is not a JSON object."
    assert site.post(f"/api/runs/{RUN}/review", {"id": 1}).json()["error"] == "Item, answer and text must be strings."
    assert site.post(f"/api/runs/{RUN}/review", {"id": "1", "answer": "yes"}).status_code == 400
    assert (
        site.post(f"/api/runs/{RUN}/review", {"id": "1", "answer": "revise"}).json()["error"] == "Say what to change."
    )


def test_keys_that_cannot_be_read_are_said(site: Site, tmp_path: Path) -> None:
    (tmp_path / "agentos-home").mkdir(exist_ok=True)
    (tmp_path / "agentos-home" / "credentials.toml").write_text("not = = toml")
    told = site.get("/api/keys")
    assert told["keys"] == []
    assert told["notice"]["text"] == "The keys cannot be read."


def test_of_very_many_that_need_somebody_the_rest_is_a_number(site: Site) -> None:
    names = tuple(str(number) for number in range(230))
    failed = [ItemEnded(item_id=name, outcome=FAILED, seconds=1.0, reason="boom") for name in names]
    site.write_run([started(*names), *failed], is_live=True)
    needs = site.get(f"/api/runs/{RUN}", role=Role.CONTROL)["needs"]
    assert len(needs) == 201
    assert needs[-1]["text"].startswith("30 more items need you")
    assert sum(need["count"] for need in needs) == 230


def test_a_run_took_as_long_on_its_own_page_as_in_the_list_of_runs(site: Site) -> None:
    site.write_run(ENDED, with_summary=True)
    assert site.get(f"/api/runs/{RUN}")["strip"]["elapsed"] == 9.0
    assert site.get("/api/home")["runs"][0]["wall_seconds"] == 9.0


def test_nine_in_ten_steps_are_not_slower_than_the_slowest(site: Site) -> None:
    nodes = [NodeFinished(item_id="1", node="N1_design", seconds=float(seconds)) for seconds in (1, 2, 26, 31)]
    site.write_run([*ENDED[:6], *nodes, *ENDED[7:]], with_summary=True)
    (row,) = [row for row in site.get("/api/history")["nodes"] if row["node"] == "N1_design"]
    assert row["p90"] <= row["longest"] == 31.0

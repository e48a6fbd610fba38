"""No key, nor any part of one, in anything a run writes or in any process it starts, whatever its nodes do."""

from __future__ import annotations

import base64
import binascii
import os
import sqlite3
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import pytest
from harness import Sandbox, children_of, of_type, processes_with
from providers import PoolKey, provider

from agentos.engine.plan import Item, make_plan
from agentos.launch.launcher import Launcher
from agentos.settings import Settings
from agentos.workflows.registry import Workflow
from agentos.workflows.run_request import request_for

FILED = PoolKey(name="filed")
EXPORTED = PoolKey(name="exported", env="MY_SECOND_KEY")
UNUSED = PoolKey(name="unused", provider="openai")
"""No worker leases it: its model is not asked for."""
SHORTEST_PART = 8


def _needles(secret: str) -> set[bytes]:
    """Every part of 8 characters, and of what encoders make of the secret."""
    forms = {secret, quote(secret, safe=""), binascii.hexlify(secret.encode()).decode()}
    for shift in range(3):
        encoded = base64.b64encode(b"-" * shift + secret.encode()).decode()
        forms.add(encoded[4:-4])  # The ends depend on what stands beside it.
    length = SHORTEST_PART
    needles = {form[i : i + length].encode() for form in forms for i in range(len(form) - length + 1)}
    # Hex digits of eight characters may stand anywhere by chance; twice as many do not.
    digits = binascii.hexlify(secret.encode())
    return {n for n in needles if n not in digits} | {digits[i : i + 16] for i in range(len(digits) - 15)}


NEEDLES = _needles(FILED.secret) | _needles(EXPORTED.secret) | _needles(UNUSED.secret)


def _found_in(data: bytes) -> list[bytes]:
    return [needle for needle in NEEDLES if needle in data]


def _files(sandbox: Sandbox) -> list[Path]:
    """All a run may have written: the home but for the user's own key file, the project, what it printed."""
    found = [path for root in (sandbox.home, sandbox.project) for path in root.rglob("*") if path.is_file()]
    found += [*sandbox.root.glob("std*.txt"), *(sandbox.root / "recordings").rglob("*.json")]
    return [path for path in found if path.name != "credentials.toml"]


def _assert_clean(sandbox: Sandbox) -> None:
    files = _files(sandbox)
    dirty = {str(path): found for path in files if (found := _found_in(path.read_bytes() + os.fsencode(path)))}
    assert not dirty, dirty


def _descendants(pid: int) -> list[int]:
    children = children_of(pid)
    return [*children, *(below for child in children for below in _descendants(child))]


def _assert_processes_clean(sandbox: Sandbox, coordinator: int) -> int:
    """Command lines of all; the environment of all but the coordinator, which the user gave the key to."""
    below = {*_descendants(coordinator), *processes_with("AGENTOS_HOME", sandbox.home)} - {coordinator}
    for pid in (coordinator, *below):
        assert not _found_in(Path(f"/proc/{pid}/cmdline").read_bytes()), pid
    for pid in below:
        assert not _found_in(Path(f"/proc/{pid}/environ").read_bytes()), pid
    return len(below)


@pytest.mark.every_backend
def test_keys_that_nodes_spread_are_masked_in_everything_that_is_written(sandbox: Sandbox) -> None:
    environment = {"MY_SECOND_KEY": EXPORTED.secret, "AGENTOS_RECORD_DIR": str(sandbox.root / "recordings")}
    with provider(sandbox, FILED, EXPORTED, UNUSED) as server:
        sandbox.write_items(
            {"id": "good", "input": {}},
            {"id": "bad", "input": {"fails": True}},
            {"id": "shy", "input": {"asks": True}},
        )
        run = sandbox.start("--parallel", "3", graph="leaky", env=environment)
        for item in ("good", "bad", "shy"):
            sandbox.wait_for_note(f"{item} spread")
        run.wait_for_record("node_started", item="good", node="wait_to_be_looked_at")
        assert _assert_processes_clean(sandbox, run.pid) >= 4  # The fork server and three workers.
        _assert_clean(sandbox)  # With the databases of all three open.
        sandbox.release("seen")
        finished = run.wait()

    assert sandbox.outcomes() == {"good": "completed", "bad": "failed", "shy": "awaiting_review"}, finished.stdout
    assert finished.code == 1
    _assert_clean(sandbox)
    # What was masked was there: the test would be blind otherwise.
    assert "raw: ****" in finished.stdout
    assert b"****" in (sandbox.project / "out" / "good.txt").read_bytes()
    assert "****" in of_type(sandbox.records(), "item_ended", "bad")[0]["traceback"]
    assert "****" in of_type(sandbox.records(), "item_ended", "good")[0]["reason"]
    assert all(server.hits(name) for name in ("filed", "exported"))
    assert {path.stat().st_mode & 0o777 for path in sandbox.home.rglob("*.db*")} == {0o600}
    assert list((sandbox.root / "recordings").rglob("*.json"))


@pytest.mark.slow
def test_masked_state_is_still_readable_and_resumes(sandbox: Sandbox) -> None:
    with provider(sandbox, FILED):
        sandbox.write_items({"id": "bad", "input": {"fails": True}})
        sandbox.release("seen")
        first = sandbox.run(graph="leaky")
        second = sandbox.run(graph="leaky")

    assert (first.code, second.code) == (1, 1)
    assert "resuming after spread" in second.stdout
    _assert_clean(sandbox)
    (database,) = sandbox.home.glob("checkpoints/*/*.db")
    with sqlite3.connect(database) as connection:
        masked = connection.execute("SELECT count(*) FROM writes WHERE instr(value, '****') > 0").fetchone()[0]
    connection.close()
    assert masked > 0


def test_neither_a_worker_nor_what_it_is_forked_from_ever_holds_a_key(sandbox: Sandbox) -> None:
    """In the memory of a worker that has called models, in whatever way, is none of the pool's keys."""
    with provider(sandbox, FILED, UNUSED) as server:
        sandbox.write_items({"id": "a", "input": {"calls": 2, "tasks": {"finish": "wait seen"}}})
        run = sandbox.start(graph="callers")
        sandbox.wait_for_note("a finish start")
        workers = [pid for child in children_of(run.pid) for pid in children_of(child)]
        forkservers = [
            pid for pid in children_of(run.pid) if b"forkserver" in Path(f"/proc/{pid}/cmdline").read_bytes()
        ]
        assert workers
        assert forkservers
        held = {pid: _secrets_in_memory(pid) for pid in (*workers, *forkservers)}
        knows = _secrets_in_memory(run.pid)
        sandbox.release("seen")
        finished = run.wait()

    assert finished.code == 0, finished.stdout
    assert held == {pid: set() for pid in held}
    assert server.hits("filed") == 2
    assert knows  # The test would be blind otherwise.


def _secrets_in_memory(pid: int) -> set[str]:
    """Keys in what the process can write to, which is where everything is that it was told."""
    found: set[str] = set()
    secrets = (FILED.secret, UNUSED.secret)
    with Path(f"/proc/{pid}/maps").open() as maps, Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
        for line in maps:
            borders, mode, *_ = line.split()
            if not mode.startswith("rw") or "[v" in line:
                continue
            start, end = (int(border, 16) for border in borders.split("-"))
            memory.seek(start)
            with suppress(OSError):
                content = memory.read(end - start)
                found |= {secret for secret in secrets if secret.encode() in content}
    return found


def test_keys_of_the_environment_alone_reach_no_worker(sandbox: Sandbox) -> None:
    sandbox.write_items({"id": "a", "input": {}})
    finished = sandbox.run(graph="probe", env={"GEMINI_API_KEY": FILED.secret, "COPY_OF_IT": f"k={FILED.secret}"})

    assert finished.code == 0, finished.stdout
    assert not _found_in((sandbox.root / "a.json").read_bytes())
    _assert_clean(sandbox)


def test_what_a_command_gives_its_workers_in_confidence_is_masked_too(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENTOS_HOME", str(sandbox.home))
    token = "a-token-that-only-workers-may-know"
    item = Item(id="a", input={"tasks": {"n1": f"print here it is: {token}"}})
    workflow = Workflow("steps", "graphs/steps.py:graph")
    request = request_for(workflow, make_plan([item]), sandbox.project, Settings(), sandbox.environment)
    request = replace(request, search_dir=sandbox.project, secrets=[token], is_quiet=True)
    run_dir = Launcher(request).run().run_dir
    assert "here it is: " in (run_dir / "a.log").read_text()
    assert [path for path in run_dir.iterdir() if token in path.read_text()] == []

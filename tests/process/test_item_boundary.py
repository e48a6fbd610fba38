"""One item never ends the run: whatever it says, writes or leaves, it fails alone and the others go on."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

from harness import STOP_DEADLINE_SECONDS, Sandbox, eventually, of_type

from agentos.engine.messages import ItemDone, Proceed, encode
from agentos.keys.leases import Ask, LeaseAsk, LeaseReturn
from agentos.providers.evidence import Abandoned

NOBODYS_LEASE = LeaseReturn(fence=77, evidence=Abandoned())
NO_CALL = LeaseAsk(ticket=1, ask=Ask(provider="google", model="m", estimated_tokens=-1))
NO_FILE = ItemDone(outcome="completed", reason="", finished=[], outputs=["a\0b"])


def item(item_id: str, **values: Any) -> dict[str, Any]:
    if not isinstance(values.get("says", ""), str):
        values["says"] = encode(values["says"]).decode().strip()
    return {"id": item_id, "input": values}


def test_what_an_item_says_and_writes_can_end_that_item_alone(sandbox: Sandbox) -> None:
    sandbox.write_items(
        item("null", writes="a\0b"),
        item("device", writes="/dev/null"),
        item("first", writes="docs/same.md"),
        item("second", writes="docs/../docs/same.md"),
        item("noise", says="nothing that anybody understands", waits=True),
        item("orders", says=Proceed(), waits=True),
        item("forged-end", says=NO_FILE, leaves=True),
        item("no-call", says=NO_CALL, waits=True),
        item("nobodys-lease", says=NOBODYS_LEASE),
        item("fine"),
    )
    words = {
        "null": "null character",
        "device": "/dev/null: it is not a regular file",
        "second": "is the document of item first and stays so; second needs a path of its own",
        "noise": "its worker sent something that is not a message",
        "orders": "its worker sent something that is not a message",
        "forged-end": "null",
        "no-call": "AgentOS failed on this item: ValueError: a call that nobody can make",
    }
    good = dict.fromkeys(("first", "nobodys-lease", "fine"), "completed")

    first = sandbox.run(graph="forger")
    again = sandbox.run(graph="forger")

    for finished in (first, again):
        assert finished.code == 1, finished.stdout + finished.stderr
        assert finished.stderr == ""
    assert sandbox.outcomes() == dict.fromkeys(words, "failed") | good
    for item_id, expected in words.items():
        assert expected in sandbox.endings()[item_id]["reason"], item_id
    assert (sandbox.project / "docs/same.md").read_text() == "by first\n"
    assert [path.name for path in (sandbox.project / "docs").iterdir()] == ["same.md"]
    assert Path("/dev/null").is_char_device()
    # A key that nobody holds says nothing of the keys that there are.
    assert of_type(sandbox.records(), "parallelism_changed") == []


def test_a_checkpoint_that_cannot_be_removed_does_not_end_the_run(sandbox: Sandbox) -> None:
    """A folder in the place of a file can be removed by nobody, not even by root."""
    sandbox.write_items(
        {"id": "a", "input": {"tasks": {"n2": "wait go"}}},
        {"id": "b", "input": {"tasks": {"n2": "wait never"}}},
        {"id": "next", "input": {}},
    )
    run = sandbox.start("--parallel", "2")
    sandbox.wait_for_note("a n2 start")
    sandbox.wait_for_note("b n2 start")
    eventually(lambda: any("_next.db.peek.json" in name for name in sandbox.databases()), "a worker made ahead")
    for name in ("a", "next"):
        [database] = sandbox.home.glob(f"checkpoints/*/*_workflow_{name}.db")
        Path(f"{database}-journal").mkdir()
    sandbox.release("go")
    run.wait_for_record("item_ended", item="a")
    run.kill(signal.SIGINT)
    stopped = run.wait(STOP_DEADLINE_SECONDS)

    assert stopped.code == 130, stopped.stdout + stopped.stderr
    assert stopped.stderr == ""
    assert "a: cannot remove its checkpoint" in stopped.stdout
    assert sandbox.outcomes()["a"] == "completed"

"""Whom a run tells: the user's own command, with no key, never in the run's way, and nothing left of it."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

from harness import Sandbox, eventually, no_process_left
from providers import PoolKey, write_keys

_KEEPS = '#!/bin/sh\nenv > "$0.env"\ncat >> "$0.told"\n'


def _notify(sandbox: Sandbox, script: str, **settings: Any) -> Path:
    """A command of the user's own, and the setting that names it."""
    sandbox.home.mkdir(mode=0o700, exist_ok=True)
    program = sandbox.home / "tell.sh"
    program.write_text(script)
    program.chmod(0o755)
    lines = [f"{name} = {json.dumps(value)}" for name, value in {"command": [str(program)], **settings}.items()]
    own = sandbox.home / "agentos.toml"
    own.write_text("\n".join(["[notify]", *lines, ""]))
    own.chmod(0o600)
    return program


def _told(program: Path) -> list[dict[str, Any]]:
    path = program.with_suffix(".sh.told")
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_a_failed_item_and_the_end_are_told_with_the_log_and_without_keys(sandbox: Sandbox) -> None:
    key = PoolKey(name="alpha")
    write_keys(sandbox, key)
    program = _notify(sandbox, _KEEPS)
    sandbox.write_items(
        {
            "id": "bad",
            "input": {"tasks": {"n1": f"print the key is {key.secret}", "n2": "raise Invalid spec format"}},
        },
        {"id": "good"},
    )
    done = sandbox.run(env={"GOOGLE_API_KEY": key.secret, "MY_COPY": key.secret})
    assert done.code == 1
    failed, ended = _told(program)
    run_dir = sandbox.run_dirs()[0]
    assert (failed["reason"], failed["item"], failed["outcome"]) == ("failed", "bad", "failed")
    assert failed["text"] == "failed: Invalid spec format"
    assert (failed["run"], failed["log"]) == (run_dir.name, str(run_dir / "bad.log"))
    assert "the key is *****" in failed["log_tail"]
    assert (ended["reason"], ended["text"], ended["exit_code"]) == ("done", "1 completed, 1 failed", 1)
    environment = program.with_suffix(".sh.env").read_text()
    assert key.secret not in environment + json.dumps(failed)
    assert "GOOGLE_API_KEY" not in environment
    no_process_left(sandbox.home)


def test_only_what_was_asked_for_is_told(sandbox: Sandbox) -> None:
    program = _notify(sandbox, _KEEPS, on=["done"])
    sandbox.write_items({"id": "bad", "input": {"tasks": {"n1": "raise no"}}})
    sandbox.run()
    assert [each["reason"] for each in _told(program)] == ["done"]


def test_a_command_that_fails_is_one_warning_and_changes_nothing(sandbox: Sandbox) -> None:
    _notify(sandbox, "#!/bin/sh\necho no network >&2\nexit 7\n")
    sandbox.write_items(
        {"id": "bad", "input": {"tasks": {"n1": "raise no"}}},
        {"id": "later", "input": {"tasks": {"n1": "wait go"}}},
    )
    run = sandbox.start()
    run.wait_for_line("[COORDINATOR] Warning: nobody was notified: tell.sh exited with 7: no network")
    sandbox.release("go")
    done = run.wait()
    assert done.code == 1
    assert (done.stdout + done.stderr).count("nobody was notified") == 1


def test_a_failure_at_the_very_end_is_told_too(sandbox: Sandbox) -> None:
    _notify(sandbox, "#!/bin/sh\nexit 7\n", on=["done"])
    sandbox.write_items({"id": "good"})
    done = sandbox.run()
    assert done.code == 0
    assert "Warning: nobody was notified" in done.stderr


def test_a_command_that_hangs_holds_nobody_up_and_is_ended_by_ctrl_c(sandbox: Sandbox) -> None:
    program = _notify(sandbox, '#!/bin/sh\ntouch "$0.begun"\nsleep 600 & sleep 600\n')
    sandbox.write_items(
        {"id": "bad", "input": {"tasks": {"n1": "raise no"}}},
        {"id": "good"},
        {"id": "later", "input": {"tasks": {"n1": "wait go"}}},
    )
    run = sandbox.start()
    eventually(program.with_suffix(".sh.begun").exists, "the command is under way")
    run.wait_for_line("[good] completed")
    run.wait_for_record("node_started", item="later")
    run.kill(signal.SIGINT)
    assert run.wait().code == 130
    no_process_left(sandbox.home)


def test_a_project_cannot_name_a_command(sandbox: Sandbox) -> None:
    (sandbox.project / "agentos.toml").write_text('[notify]\ncommand = ["touch", "owned"]\n')
    sandbox.write_items({"id": "bad", "input": {"tasks": {"n1": "raise no"}}})
    done = sandbox.run()
    assert done.code == 2
    assert "agentos.toml, line 1: [notify] runs a command with your rights, so no project can set it." in done.stderr
    assert not list(sandbox.root.rglob("owned"))
    assert sandbox.run_dirs() == []

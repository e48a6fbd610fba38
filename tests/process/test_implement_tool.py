"""The twelve scenarios of LLD-137 for `tools/run_implement_from_lld.py`."""

from __future__ import annotations

import json
import re
import signal
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from backlog import MODEL, SECRETS, Author, serving
from designs import RECORDED, Designs, create
from harness import STOP_DEADLINE_SECONDS, Finished, Started, no_process_left
from test_cli_parallel_tools import load

TOOL = Path(__file__).parents[2] / "tools/run_implement_from_lld.py"


@pytest.fixture
def utils() -> ModuleType:
    return load("cli_parallel_utils")


@pytest.fixture
def tool(utils: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setenv("AGENTOS_HOME", str(tmp_path / "home"))
    return load("run_implement_from_lld")


def start(designs: Designs, *arguments: str, **choices: Any) -> Started:
    return designs.start_command(str(TOOL), *arguments, program=Path(sys.executable), **choices)


def run(designs: Designs, *arguments: str) -> Finished:
    return start(designs, *arguments).wait()


def test_010_020_030_flags_are_parsed(tool: ModuleType, utils: ModuleType) -> None:
    def config(*words: str) -> Any:
        return utils.create_parallel_config(tool.parse_args(["--all", *words]))

    assert [config(*words)["max_workers"] for words in ((), ("--parallel",), ("--parallel", "4"))] == [1, 3, 4]
    assert config("--dry-run")["dry_run"] is True


@pytest.mark.parametrize("value", ["-1", "0", "many", "1.5"])
def test_040_a_parallelism_that_is_none_is_a_usage_error(
    tool: ModuleType, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as raised:
        tool.parse_args(["--all", f"--parallel={value}"])
    assert raised.value.code == 2
    assert "--parallel" in capsys.readouterr().err


def test_050_a_dry_run_lists_tasks_and_executes_none(designs: Designs, tool: ModuleType) -> None:
    designs.add(1, 4, 5)
    done = run(designs, "--all", "--dry-run")
    assert done.code == 0
    assert done.lines[0] == "Dry run mode: 3 items, 1 at a time. Nothing is started or written."
    assert [line.split()[1] for line in done.lines[1:4]] == ["IMPL-1", "IMPL-4", "IMPL-5"]
    assert done.lines[6] == "Overlap: tally/words.py is changed by IMPL-4, IMPL-5"
    assert not designs.home.exists()
    assert json.loads(run(designs, "--all", "--dry-run", "--json").stdout)["count"] == 3
    tasks = tool.collect_pending_llds(designs.project / "docs/lld/active")
    assert [task["issue_id"] for task in tasks] == ["1", "4", "5"]


def test_060_070_100_110_120_four_tasks_at_two_one_of_them_failing(designs: Designs) -> None:
    designs.use_shell_tests()
    designs.add_greetings(1, 4, 8)
    designs.add(9)
    done = run(designs, "1", "4", "8", "9", "--parallel", "2", *RECORDED)
    assert done.code == 1
    assert "[COORDINATOR] 3 implemented, 1 failed (IMPL-9)" in done.lines
    of_the_run = done.lines[: next(n for n, line in enumerate(done.lines) if line.startswith("Testing 3 branches"))]
    assert all(re.match(r"\[(COORDINATOR|IMPL-[1489])\] ", line) for line in of_the_run)
    assert designs.git("branch", "--list", "--format=%(refname:short)", "agentos/*").split() == [
        "agentos/1",
        "agentos/4",
        "agentos/8",
    ]
    assert not list(designs.root.rglob("*.tmp"))
    assert run(designs, "--all", *RECORDED).stdout.startswith("Nothing to do. 3 designs skipped")


@pytest.mark.slow
def test_080_ctrl_c_ends_everything_in_time_and_the_same_command_goes_on(designs: Designs) -> None:
    slow = designs.project / "tests/test_slow.py"
    slow.write_text("import time\n\n\ndef test_slow():\n    time.sleep(120)\n")
    designs.git("add", ".")
    designs.git("commit", "--quiet", "-m", "A slow test")
    designs.add(1)
    started = start(designs, "--all", *RECORDED)
    started.wait_for_line(">>> Executing: N0_load")
    started.kill(signal.SIGINT)
    assert started.wait(STOP_DEADLINE_SECONDS).code == 130
    no_process_left(designs.home)
    slow.write_text("def test_slow():\n    pass\n")
    designs.git("commit", "--quiet", "--all", "-m", "A fast test")

    assert run(designs, "--all", *RECORDED).code == 0


@pytest.mark.slow
def test_090_two_keys_serve_four_workers(designs: Designs) -> None:
    asked: Counter[str] = Counter()

    def write(number: str, _title: str) -> str:
        """Tests first, then code: in the order a coder is asked."""
        asked[number] += 1
        if asked[number] == 1:
            test = f"from tally.add_{number} import add\n\n\ndef test_010_add():\n    assert add(1) == 1 + {number}"
            return create(f"tests/test_add_{number}.py", test)
        return create(f"tally/add_{number}.py", f"def add(value):\n    return value + {number}")

    for number in range(1, 5):
        files = [(f"tally/add_{number}.py", "Add"), (f"tests/test_add_{number}.py", "Add")]
        designs.design(number, f"Add {number}", files, [f"add(value) is {number} more"])
    designs.environment.pop("ANTHROPIC_API_KEY")
    with serving(Author(drafts=write), latency_seconds=0.05) as server:
        use_keys(designs, server.base_url("google"), SECRETS)
        done = run(designs, "--all", "--parallel", "4")
        hits = server.stats()["hits"]
    assert done.code == 0, done.stdout + done.stderr
    assert set(hits) == {"k1", "k2"}
    assert sum(hits.values()) == 12


def use_keys(designs: Designs, base_url: str, secrets: Sequence[str]) -> None:
    designs.home.mkdir(exist_ok=True)
    path = designs.home / "credentials.toml"
    path.write_text(
        "".join(
            f'[[key]]\nname = "k{n}"\nprovider = "google"\nsecret = "{secret}"\n\n'
            for n, secret in enumerate(secrets, start=1)
        )
    )
    path.chmod(0o600)
    designs.environment["AGENTOS_PROVIDERS__GOOGLE__BASE_URL"] = base_url
    designs.environment["AGENTOS_DRAFTER"] = designs.environment["AGENTOS_REVIEWER"] = MODEL

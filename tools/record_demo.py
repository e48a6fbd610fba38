"""Makes the demo's recordings: a stand-in provider gives written answers to the real commands, run with `--record`.

    python -m tools.record_demo unpack answers/    the recordings as files to read and edit
    python -m tools.record_demo record answers/    run the sample's backlog with them; replaces agentos/demo/recorded

Answers are `{workflow}/{item}/{node}.{call}.md`, or `.json` where a structure is asked for.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from agentos.demo import make_sample_project
from agentos.providers.provider import base_url_variable
from agentos.testing.provider_server import ProviderServer
from fakes.demo_answers import RECORDED_DIR, Author, indented, unpack

MODEL = "openai:written-by-hand"


def record(answers_dir: Path) -> None:
    """Raises CalledProcessError when a command does not end as the demo promises; the recordings then stay."""
    with (
        tempfile.TemporaryDirectory(prefix="record-demo-") as name,
        ProviderServer(reply=Author(answers_dir)) as server,
    ):
        work_dir = Path(name)
        make_sample_project(work_dir / "shelf")
        environment = os.environ | {
            "AGENTOS_HOME": str(work_dir / "home"),
            base_url_variable("openai"): server.base_url("openai"),
            # Answers are written for the sample as it is, not for what another item's branch makes of it.
            "AGENTOS_IMPLEMENTATION__STACKING": "no",
        }
        models = ("--parallel", "3", "--drafter", MODEL, "--reviewer", MODEL, "--record", str(work_dir / "recorded"))
        _run(
            ("agentos", "keys", "add", "stand-in", "--provider", "openai"),
            work_dir,
            environment,
            stdin="none-needed\n",
        )
        _run(("lld-workflow", "--all", *models), work_dir / "shelf", environment, expected=3)
        # 4 and 9 have no approved design, which is for a person here as well.
        _run(("agentos", "implement", "--all", *models), work_dir / "shelf", environment, expected=3)
        for path in (work_dir / "recorded").rglob("*.json"):
            _forget_request(path)
        shutil.rmtree(RECORDED_DIR)
        shutil.copytree(work_dir / "recorded", RECORDED_DIR)


def _run(
    command: tuple[str, ...], folder: Path, environment: dict[str, str], *, expected: int = 0, stdin: str = ""
) -> None:
    program = str(Path(sys.executable).with_name(command[0]))
    done = subprocess.run([program, *command[1:]], cwd=folder, env=environment, input=stdin, text=True, check=False)
    if done.returncode != expected:
        raise subprocess.CalledProcessError(done.returncode, command)


def _forget_request(path: Path) -> None:
    """Prompts hold the sample's files and the day's approvals: a demo needs the answers alone."""
    saved: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    del saved["request"]
    path.write_text(f"{indented(saved)}\n", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.record_demo", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("action", choices=("unpack", "record"))
    parser.add_argument("answers_dir", type=Path)
    options = parser.parse_args()
    (unpack if options.action == "unpack" else record)(options.answers_dir)
    return 0


if __name__ == "__main__":
    sys.exit(main())

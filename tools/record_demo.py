"""Makes the demo's recordings: a stand-in provider gives written answers to the real commands, run with `--record`.

    python -m tools.record_demo unpack answers/    the recordings as files to read and edit
    python -m tools.record_demo record answers/    run the sample's backlog with them; replaces agentos/demo/recorded

Answers are `{workflow}/{item}/{node}.{call}.md`, or `.json` where a structure is asked for.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from agentos.demo import make_sample_project
from agentos.providers.provider import base_url_variable
from fakes.provider_formats import Seen
from fakes.provider_server import ProviderServer

RECORDED_DIR = Path(__file__).resolve().parents[1] / "agentos" / "demo" / "recorded"
MODEL = "openai:written-by-hand"
# How the prompts of each node begin.
NODES = {
    "You are a senior engineer.": ("lld", "N1_design"),
    "You wrote the low-level design": ("lld", "N1_design"),
    "You review low-level designs": ("lld", "N3_review"),
    "You review test plans": ("implementation", "N1_test_plan"),
    "The test plan for issue": ("implementation", "N1_test_plan"),
    "You write the tests": ("implementation", "N2_scaffold_tests"),
    "You write the code": ("implementation", "N4_implement"),
}


class Author:
    """Answers each call with the file written for it."""

    def __init__(self, answers_dir: Path) -> None:
        self._answers_dir = answers_dir
        self._calls: Counter[str] = Counter()

    def __call__(self, seen: Seen) -> str:
        prompt = seen.conversation[0][1]
        workflow, node = next(place for beginning, place in NODES.items() if prompt.startswith(beginning))
        (item,) = re.findall(r"issue #(\w+), \"", prompt)[:1]
        name = f"{workflow}/{item}/{node}"
        self._calls[name] += 1
        path = self._answers_dir / f"{name}.{self._calls[name]}.{'json' if seen.schema else 'md'}"
        return path.read_text(encoding="utf-8")


def unpack(answers_dir: Path) -> None:
    for path in sorted(RECORDED_DIR.rglob("*.json")):
        saved = json.loads(path.read_text(encoding="utf-8"))
        target = answers_dir / path.relative_to(RECORDED_DIR)
        target.parent.mkdir(parents=True, exist_ok=True)
        if saved["structured"] is None:
            target.with_suffix(".md").write_text(saved["text"], encoding="utf-8")
        else:
            target.write_text(f"{_indented(json.loads(saved['structured']))}\n", encoding="utf-8")


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
        }
        models = ("--parallel", "3", "--drafter", MODEL, "--reviewer", MODEL, "--record", str(work_dir / "recorded"))
        _run(
            ("agentos", "keys", "add", "stand-in", "--provider", "openai"),
            work_dir,
            environment,
            stdin="none-needed\n",
        )
        _run(("lld-workflow", "--all", *models), work_dir / "shelf", environment, expected=3)
        _run(("agentos", "implement", "--all", *models), work_dir / "shelf", environment)
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
    path.write_text(f"{_indented(saved)}\n", encoding="utf-8")


def _indented(data: Any) -> str:
    return json.dumps(data, indent=2, ensure_ascii=False)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.record_demo", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("action", choices=("unpack", "record"))
    parser.add_argument("answers_dir", type=Path)
    options = parser.parse_args()
    (unpack if options.action == "unpack" else record)(options.answers_dir)
    return 0


if __name__ == "__main__":
    sys.exit(main())

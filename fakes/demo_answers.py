"""What the stand-in provider of the demo says: the recordings, as files to read and edit, given for each call."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

from agentos.testing.provider_formats import Seen

RECORDED_DIR = Path(__file__).resolve().parents[1] / "agentos" / "demo" / "recorded"
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
    """The recordings as files: `{workflow}/{item}/{node}.{call}.md`, or `.json` where a structure is asked for."""
    for path in sorted(RECORDED_DIR.rglob("*.json")):
        saved = json.loads(path.read_text(encoding="utf-8"))
        target = answers_dir / path.relative_to(RECORDED_DIR)
        target.parent.mkdir(parents=True, exist_ok=True)
        if saved["structured"] is None:
            target.with_suffix(".md").write_text(saved["text"], encoding="utf-8")
        else:
            target.write_text(f"{indented(json.loads(saved['structured']))}\n", encoding="utf-8")


def indented(data: Any) -> str:
    """As recordings and answers have it."""
    return json.dumps(data, indent=2, ensure_ascii=False)

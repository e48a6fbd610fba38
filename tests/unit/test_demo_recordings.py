"""The demo's recordings belong to the sample's issues, say who wrote them, and no two designs say the same."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from importlib import resources
from pathlib import Path

import pytest

from agentos.documents.issue import parse_issue
from agentos.documents.lld import Lld, parse_lld
from fakes.demo_answers import NODES

DEMO_DIR = Path(str(resources.files("agentos.demo")))
ISSUES = {int(path.name[:2]): path for path in (DEMO_DIR / "sample/docs/issues").glob("*.md")}


def recorded(number: int, call: str) -> dict[str, object]:
    saved = json.loads((DEMO_DIR / f"recorded/lld/{number}/{call}.json").read_text(encoding="utf-8"))
    assert isinstance(saved, dict)
    return saved


def designs() -> dict[int, Lld]:
    return {number: parse_lld(str(recorded(number, "N1_design.1")["text"])) for number in ISSUES}


def test_there_are_ten_issues_and_a_design_for_each() -> None:
    assert sorted(ISSUES) == list(range(1, 11))
    for number, design in designs().items():
        issue = parse_issue(ISSUES[number].read_text(encoding="utf-8"))
        assert design.issue == number
        assert design.title.endswith(issue.title)


def test_every_recording_says_that_it_was_written_by_hand_and_holds_no_prompt() -> None:
    for path in (DEMO_DIR / "recorded").rglob("*.json"):
        saved = json.loads(path.read_text(encoding="utf-8"))
        assert saved["model"] == "openai:written-by-hand", path
        assert "request" not in saved, path


def test_no_two_designs_share_a_requirement_a_scenario_or_what_a_file_is_changed_for() -> None:
    said = Counter(
        text
        for design in designs().values()
        for text in {
            *(requirement.text for requirement in design.requirements),
            *(scenario.expected for scenario in design.scenarios if len(scenario.expected) > 30),
            *(file.description for file in design.files if "test" not in file.path),
        }
    )
    assert [text for text, count in said.items() if count > 1] == []


@pytest.mark.parametrize("number", [1, 3, 6, 7, 10])
def test_a_review_that_asks_for_changes_names_what_is_wrong_and_the_revision_changes_it(number: int) -> None:
    review = json.loads(str(recorded(number, "N3_review.1")["structured"]))
    revision = json.loads(str(recorded(number, "N1_design.2")["structured"]))
    assert review["verdict"] == "revise"
    first = str(recorded(number, "N1_design.1")["text"])
    assert all(f"# {finding['section']}\n" in first for finding in review["findings"])
    assert all(section["text"].strip() not in first for section in revision["sections"])


def test_the_recorder_knows_the_prompts_of_every_node_that_asks_a_model() -> None:
    workflows = DEMO_DIR.parent / "workflows"
    prompts = [*workflows.glob("lld/prompts/*.md"), *workflows.glob("implementation/prompts/*.md")]
    for path in prompts:
        text = path.read_text(encoding="utf-8")
        # The description of a format is part of other prompts.
        if path.stem != "format":
            assert [beginning for beginning in NODES if text.startswith(beginning)], path


def test_the_example_of_the_samples_readme_runs(tmp_path: Path) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", (DEMO_DIR / "sample/README.md").read_text(), re.DOTALL)
    environment = {"PYTHONPATH": str(DEMO_DIR / "sample"), "PYTHONDONTWRITEBYTECODE": "1"}
    subprocess.run([sys.executable, "-c", example], cwd=tmp_path, env=environment, check=True)
    assert "Dune" in (tmp_path / "shelf.json").read_text()

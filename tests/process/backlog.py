"""A sandbox with a backlog: a small git project, issues and briefs, and a provider that drafts and reviews."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness import Finished, Sandbox, Started

from agentos.testing.provider_formats import Seen
from agentos.testing.provider_server import Key, ProviderServer

LLD_WORKFLOW = Path(sys.executable).with_name("lld-workflow")
ISSUE_WORKFLOW = Path(sys.executable).with_name("issue-workflow")
OFFLINE = ("--drafter", "offline", "--reviewer", "offline")
SECRETS = ("AIza-first-secret-000000000000000000000", "AIza-second-secret-00000000000000000000")
MODEL = "google:gemini-3.1-pro-preview"
_LABELLED = re.compile(r"\[(COORDINATOR|[A-Z]+-[\w-]+)\] ")


def issue_text(number: int, title: str = "") -> str:
    title = title or f"Add feature number {number}"
    return f"""# {title}

## User Story

As a user, I want feature {number}, so that my work takes fewer steps.

## Requirements

1. `feature_{number}(value)` returns the value plus {number}.
2. A value that is not a number is refused with a message that names it.

## Acceptance Criteria

- [ ] `feature_{number}(1)` returns {number + 1}.
"""


INVALID_ISSUE = "# Nothing\n"
"""A title and nothing else: no design can be written for it."""


class Backlog(Sandbox):
    """The installed workflow commands over a project of their own."""

    def __post_init__(self) -> None:
        super().__post_init__()
        (self.project / "src").mkdir()
        (self.project / "src/app.py").write_text("def feature(value: int) -> int:\n    return value\n")
        (self.project / "tests").mkdir()
        (self.project / "tests/test_app.py").write_text("def test_nothing() -> None: ...\n")
        author = ("-c", "user.name=a", "-c", "user.email=a@example.invalid", "-c", "commit.gpgsign=false")
        for arguments in (("init", "--quiet"), (*author, "commit", "--quiet", "--allow-empty", "-m", "Start")):
            subprocess.run(["git", *arguments], cwd=self.project, check=True, stdin=subprocess.DEVNULL)

    def add_issues(self, *numbers: int, text: Callable[[int], str] = issue_text) -> None:
        folder = self.project / "docs/issues"
        folder.mkdir(parents=True, exist_ok=True)
        for number in numbers:
            (folder / f"{number:03d}-feature.md").write_text(text(number))

    def add_brief(self, name: str, text: str = "") -> Path:
        folder = self.project / "ideas/active"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{name}.md"
        path.write_text(
            text
            or f"# Offer {name}\n\nReaders want {name} in the catalogue. It has a header line. It works offline.\n"
        )
        return path

    def commit_all(self, subject: str) -> None:
        """Everything there is, by somebody whom git need not know."""
        identity = ["-c", "user.name=A User", "-c", "user.email=user@example.com", "-c", "commit.gpgsign=false"]
        for command in (["add", "."], [*identity, "commit", "-qm", subject]):
            subprocess.run(["git", *command], cwd=self.project, check=True)

    def lld(self, *arguments: str, seconds: float = 90.0, **choices: Any) -> Finished:
        return self.start_lld(*arguments, **choices).wait(seconds)

    def start_lld(self, *arguments: str, **choices: Any) -> Started:
        return self.start_command(*arguments, program=LLD_WORKFLOW, **choices)

    def issue(self, *arguments: str, seconds: float = 90.0, **choices: Any) -> Finished:
        return self.start_issue(*arguments, **choices).wait(seconds)

    def start_issue(self, *arguments: str, **choices: Any) -> Started:
        return self.start_command(*arguments, program=ISSUE_WORKFLOW, **choices)

    def lld_path(self, item: int | str) -> Path:
        return self.project / f"docs/lld/active/LLD-{item}.md"

    def lineage(self, label: str) -> list[str]:
        """`001-issue.md` and so on, in order."""
        (folder,) = self.home.glob(f"lineage/*/{label}")
        return sorted(path.name for path in folder.iterdir())

    def lineage_text(self, label: str, kind: str) -> str:
        """The last document of a kind."""
        (folder,) = self.home.glob(f"lineage/*/{label}")
        return sorted(folder.glob(f"*-{kind}.*"))[-1].read_text()

    def use_keys(self, count: int, server: ProviderServer) -> None:
        """Keys in credentials.toml, each a quota group of its own, and the provider's address."""
        self.home.mkdir(exist_ok=True)
        path = self.home / "credentials.toml"
        path.write_text(
            "".join(
                f'[[key]]\nname = "k{n}"\nprovider = "google"\nsecret = "{secret}"\n\n'
                for n, secret in enumerate(SECRETS[:count], start=1)
            )
        )
        path.chmod(0o600)
        self.environment["AGENTOS_PROVIDERS__GOOGLE__BASE_URL"] = server.base_url("google")
        self.environment["AGENTOS_DRAFTER"] = self.environment["AGENTOS_REVIEWER"] = MODEL

    def left_over(self) -> list[str]:
        """Files that no ended item should leave in the project."""
        return [str(path) for path in self.project.rglob("*.tmp")]


def unlabelled(output: str) -> list[str]:
    """Lines of a run's output that nobody's label stands before."""
    return [line for line in output.splitlines() if not _LABELLED.match(line)]


def design(number: str, title: str, more: str = "") -> str:
    """A design that passes the check in a Backlog's project."""
    return f"""# {number} - Feature: {title}

## 1. Context & Goal
* **Issue:** #{number}
* **Objective:** {title}.
* **Status:** Draft

### Open Questions

None.

## 2. Proposed Changes

### 2.1 Files Changed

| File | Change Type | Description |
|------|-------------|-------------|
| `src/app.py` | Modify | The new function |

### 2.2 Logic Flow

1. Check the value, then add.
{more}
## 3. Requirements

1. The function returns the sum.

## 4. Alternatives Considered

None is simpler.

## 7. Security & Safety Considerations

Input is checked before use.

## 10. Verification & Testing

### 10.1 Test Scenarios

| ID | Scenario | Type | Input | Expected Output | Pass Criteria | Requirement |
|----|----------|------|-------|-----------------|---------------|-------------|
| 010 | Sum | Auto | 1 | 2 | The result equals 2 | 1 |

## 11. Risks & Mitigations

| Risk | Impact | Likelihood | Mitigation |
|------|--------|------------|------------|
| Overflow | Low | Low | Python integers grow |

## 12. Definition of Done

- [ ] All scenarios pass
"""


def written_issue(title: str) -> str:
    """An issue that passes the check."""
    return f"""# {title}

## User Story

As a reader, I want {title}, so that I find books sooner.

## Objective

{title}.

## UX Flow

### Scenario 1: Happy Path

1. The reader asks, the catalogue answers.

## Requirements

1. The export has one header line.

## Acceptance Criteria

- [ ] The first line of the export is the header.

## Definition of Done

- [ ] Tests are merged

## Out of Scope

- Other formats

## Testing Notes

Run the suite.
"""


APPROVAL = {"verdict": "approve", "summary": "Complete.", "findings": [], "answers": []}


def is_review(seen: Seen) -> bool:
    return "verdict" in json.dumps(seen.schema or {})


def is_patch(seen: Seen) -> bool:
    return "sections" in (seen.schema or {}).get("properties", {})


def subject(seen: Seen) -> tuple[str, str]:
    """The item's id and title, as the prompts name them. A re-ask is about the same as its first turn."""
    first = seen.conversation[0][1]
    match = re.search(r'issue #([\w-]+), "([^"]+)"', first) or re.search(r'(brief) (?:below, )?"([^"]+)"', first)
    assert match is not None, first[:300]
    return match[1], match[2]


@dataclass
class Author:
    """The provider's side of a workflow: writes, reviews, and counts what it was asked."""

    reviews: Callable[[str], Any] = lambda _item: APPROVAL
    patches: Callable[[str], Any] = lambda _item: {"sections": [], "note": ""}
    drafts: Callable[[str, str], str] = design
    asked: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(kind of call, item's id or title) to the number of calls."""
    before: Callable[[str, Seen], None] = lambda _kind, _seen: None

    def __call__(self, seen: Seen) -> str:
        number, title = subject(seen)
        item = title if number == "brief" else number
        kind = "review" if is_review(seen) else "patch" if is_patch(seen) else "draft"
        self.asked[kind, item] += 1
        self.before(kind, seen)
        if kind == "draft":
            return self.drafts(number, title) if number != "brief" else written_issue(title)
        answer = self.reviews(item) if kind == "review" else self.patches(item)
        return answer if isinstance(answer, str) else json.dumps(answer)


@contextmanager
def serving(author: Author, **config: Any) -> Iterator[ProviderServer]:
    keys = [Key(name=f"k{n}", secret=secret, group=f"k{n}") for n, secret in enumerate(SECRETS, start=1)]
    with ProviderServer(keys=keys, reply=author, accepts_unknown_keys=False, **config) as server:
        yield server

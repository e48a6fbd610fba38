"""Answers of the offline model for the issue workflow: plain, deterministic, good enough to be checked."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from agentos.llm import OfflineRequest, register_offline

_SENTENCE = re.compile(r"(?<=[.!])\s+")
_FEWEST_WORDS = 12


def register() -> None:
    register_offline("issue.draft", _draft)
    register_offline("issue.revise", _revise)
    register_offline("issue.review", _review)


def _draft(request: OfflineRequest) -> str:
    title = " ".join(str(request.data["title"]).split())
    wishes = _wishes(str(request.data["source_text"]))
    return _TEMPLATE.format(
        title=title,
        goal=title[:1].lower() + title[1:],
        objective=wishes[0],
        requirements="\n".join(f"{n}. {text}" for n, text in enumerate(wishes, start=1)),
        criteria="\n".join(f"- [ ] Shown by a test: {text}" for text in wishes),
    )


def _revise(request: OfflineRequest) -> Mapping[str, Any]:
    """A person's wish can be written down; what the brief leaves out stays open."""
    wishes = " ".join(str(request.data.get("wishes", "")).split())
    text = f"{_TESTING}\nAsked for in review: {wishes}"
    return {"sections": [{"heading": "Testing Notes", "text": text}] if wishes else [], "note": "offline revision"}


def _review(request: OfflineRequest) -> Mapping[str, Any]:
    words = str(request.data["source_text"]).split()
    findings = []
    if len(words) < _FEWEST_WORDS:
        text = "The brief is too short to tell what is wanted; its author has to say more."
        findings.append({"tier": "blocking", "section": "Requirements", "text": text})
    return {
        "verdict": "revise" if findings else "approve",
        "summary": "Too little to go on." if findings else "Clear and testable.",
        "findings": findings,
        "answers": [],
    }


def _wishes(brief: str) -> list[str]:
    lines = [
        line.strip(" -*#\t") for line in brief.splitlines() if line.strip() and not line.startswith(("#", "---"))
    ]
    sentences = [
        part.strip().rstrip(".!") for line in lines for part in _SENTENCE.split(line) if len(part.split()) > 2
    ]
    return [f"{sentence}." for sentence in sentences[:8]] or ["The wish of the brief is met, and a test shows it."]


_TESTING = "Run the project's test suite; every acceptance criterion has a test of its own.\n"
_TEMPLATE = (
    """# {title}

## User Story

As a user of this project,
I want to {goal},
so that I can do my work with fewer steps.

## Objective

{objective}

## UX Flow

### Scenario 1: Happy Path

1. The user asks for it through the existing interface.
2. The system does it and shows the result.

### Scenario 2: Invalid Input

1. The user gives input that is not valid.
2. The system says what is wrong, where, and how to fix it; nothing is changed.

## Requirements

{requirements}

## Acceptance Criteria

{criteria}

## Definition of Done

- [ ] Implementation and tests are merged
- [ ] The user documentation describes the change

## Out of Scope

- Changes to other parts of the project

## Testing Notes

"""
    + _TESTING
)

"""What a mechanical check reports: a rule, how grave it is, where, what is wrong, and how to fix it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """Errors stop a document, warnings deserve a look, infos are worth knowing."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing found in a document. `line` counts from 1."""

    rule: str
    severity: Severity
    line: int
    message: str
    fix: str
    question: str | None = None
    """The open question that it is about, if it is about one."""

    def words(self) -> str:
        """The finding in one line, for people and for the prompt that asks a model to mend it."""
        return f"{self.severity} {self.rule} {self.message} (fix: {self.fix})"


def errors(findings: Iterable[Finding]) -> list[Finding]:
    """The findings that stop a document."""
    return [finding for finding in findings if finding.severity is Severity.ERROR]


def in_order(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Findings by line, then rule; exact repetitions once."""
    return tuple(sorted(dict.fromkeys(findings), key=lambda finding: (finding.line, finding.rule, finding.message)))

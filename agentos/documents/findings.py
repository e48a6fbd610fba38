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

    def words(self) -> str:
        """The finding in one line, for people and for the prompt that asks a model to mend it."""
        return f"{self.severity} {self.rule} {self.message} (fix: {self.fix})"


RULES = {
    "DOC001": "the file can be read",
    "DOC002": "the file is text in UTF-8",
    "DOC003": "the file is not larger than a document can be",
    "DOC004": "every code fence and comment is closed",
    "LLD001": "the document has a title",
    "LLD002": "every required section is there and says something",
    "LLD003": "the issue number is given",
    "LLD004": "the issue number is the one expected",
    "LLD005": "the table of files names at least one file",
    "LLD006": "every path stays inside the repository",
    "LLD007": "files to modify or delete exist",
    "LLD008": "the folder of a file to add exists",
    "LLD009": "every file says what happens to it, once",
    "LLD010": "there is at least one requirement, and ids are unique",
    "LLD011": "there is at least one scenario, and ids are unique",
    "LLD012": "every requirement is covered by a scenario",
    "LLD013": "scenarios refer to requirements that exist",
    "LLD014": "criteria can be checked: no vague words",
    "LLD015": "no question is open",
    "LLD016": "nothing is left to be filled in",
    "LLD017": "no section was lost in a revision",
    "LLD018": "the status is known and agrees with itself",
    "LLD019": "an approved document is as it was approved",
    "ISS001": "the document has a title",
    "ISS002": "every section of the template is there and says something",
    "ISS003": "the user story says who, what and why",
    "ISS004": "there are requirements",
    "ISS005": "there are acceptance criteria",
    "ISS006": "criteria can be checked: no vague words",
    "ISS007": "nothing is left to be filled in",
    "ISS008": "every path stays inside the repository",
    "ISS009": "no section was lost in a revision",
    "ISS010": "no question is open",
}
"""Every rule id and what it asks for. Ids are never reused."""


def errors(findings: Iterable[Finding]) -> list[Finding]:
    """The findings that stop a document."""
    return [finding for finding in findings if finding.severity is Severity.ERROR]


def in_order(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Findings by line, then rule; exact repetitions once."""
    return tuple(sorted(dict.fromkeys(findings), key=lambda finding: (finding.line, finding.rule, finding.message)))

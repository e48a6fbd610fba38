"""What a node is given beside its state: settings, project, models, documents, clock.

Built in one place, `current`, which alone reads the environment and the folder a worker runs in.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from agentos import outputs
from agentos.clock import utc_now
from agentos.engine.plan import ITEM_VARIABLE
from agentos.environment import environment
from agentos.sandbox.passed_variables import reserved_variables
from agentos.settings import FROZEN_VARIABLE, Settings, load_settings, thaw
from agentos.workflows.document_paths import document_paths, lineage_dir
from agentos.workflows.lineage import Lineage
from agentos.workflows.prompts import render

ALLOW_UNAPPROVED_VARIABLE: Final = "AGENTOS_ALLOW_UNAPPROVED"
ALLOW_UNSANDBOXED_VARIABLE: Final = "AGENTOS_ALLOW_UNSANDBOXED"
FILE_VARIABLE: Final = "AGENTOS_FILE_ISSUES"
REPOSITORY_VARIABLE: Final = "GITHUB_REPOSITORY"


def _generate(prompt: Any, **options: Any) -> Any:
    from agentos.llm import generate  # noqa: PLC0415  Commands use the names above and call no model.

    return generate(prompt, **options)


def _masked(text: str) -> str:
    from agentos.llm.broker_choice import masked  # noqa: PLC0415  As above.

    return masked(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """One node's view of the world. Everything it reads or calls outside of its state is here."""

    project_dir: Path
    settings: Settings
    generate: Callable[..., Any] = _generate
    """`agentos.llm.generate`."""
    now: Callable[[], datetime] = utc_now
    allows_unapproved: bool = False
    """Whether designs that nobody approved are implemented all the same."""
    allows_unsandboxed: bool = False
    """Whether code is run although the machine has no sandbox for it."""
    mask: Callable[[str], str] = _masked
    """Hides the user's keys in a text, as far as this process knows them."""
    files_issues_in: str = ""
    """The GitHub repository that approved issues are filed in; empty when they are not."""
    reserved_variables: tuple[str, ...] = ()
    """Names of environment variables that tests get to see: the ports and names of a workstream."""

    def document_path(self, workflow: str, item_id: str) -> Path:
        """Where the item's document goes."""
        return document_paths(self.project_dir, self.settings, workflow, item_id)[0]

    def write_document(self, path: Path, text: str) -> None:
        """Keep a document until the item succeeds; then it appears at `path`."""
        outputs.write(path, text)

    def lineage(self, label: str) -> Lineage:
        return Lineage(lineage_dir(self.project_dir, self.settings, label))

    def history(self, label: str, after: int) -> History:
        """The item's lineage as a node sees it that starts after entry number `after`."""
        return History(self.lineage(label), after)

    def prompt(self, workflow: str, name: str, **values: str) -> str:
        """A prompt of the package, or the project's own of that name."""
        return render(workflow, name, self.project_dir, values)


class History:
    """What one node adds to its item's lineage. A node that runs again after a kill adds nothing twice."""

    def __init__(self, lineage: Lineage, after: int) -> None:
        self._lineage = lineage
        self._after = self.number = after
        """`number`: the last entry so far, which the next node starts after."""

    def record(self, kind: str, content: str) -> None:
        self.number = self._lineage.record(kind, content, after=self._after).number

    def keep_replaced(self, path: Path) -> None:
        """A document about to be replaced, which somebody may have edited, stays in the history."""
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return
        self.record("replaced", text)


def current() -> Context:
    """The context of a worker: it runs in the project's folder, with the settings its run was started with."""
    project_dir = Path.cwd()
    is_filing = environment().get(FILE_VARIABLE) == "1"
    return Context(
        project_dir=project_dir,
        settings=_settings(project_dir),
        allows_unapproved=environment().get(ALLOW_UNAPPROVED_VARIABLE) == "1",
        allows_unsandboxed=environment().get(ALLOW_UNSANDBOXED_VARIABLE) == "1",
        files_issues_in=environment().get(REPOSITORY_VARIABLE, "") if is_filing else "",
        reserved_variables=reserved_variables(environment()),
    )


def _settings(project_dir: Path) -> Settings:
    """A graph that somebody invokes in a process of their own has no run: there, what holds in the project now."""
    frozen = environment().get(FROZEN_VARIABLE)
    if frozen:
        return thaw(frozen)
    if ITEM_VARIABLE in environment():
        raise RuntimeError(f"A worker without the settings of its run: {FROZEN_VARIABLE} is not set.")
    return load_settings(project_dir)

"""`agentos ws rm` and `cleanup`: workstreams that go, and what goes with them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentos.cli.output import say, say_json
from agentos.cli.ws_tables import proposal_lines
from agentos.errors import AgentosError, ExitCode
from agentos.hints import Hint
from agentos.workflows.document_paths import document_paths
from agentos.workstreams.commands import ProjectWorkstreams, Removed
from agentos.workstreams.state import select_slugs


def remove(arguments: argparse.Namespace, project: ProjectWorkstreams) -> int:
    """Remove each one that can be; those that cannot are told with the reason and do not keep the others."""
    slugs = select_slugs(arguments.slugs, project.refreshed())
    attempts = []
    for attempt in _attempts(project, slugs, force=arguments.force):
        attempts.append(attempt)
        if attempt.removed is not None and not arguments.json:
            say(_removed_words(attempt.removed, project.project_dir) + _left_words(project, attempt.slug))
    if arguments.json:
        say_json([attempt.as_json() for attempt in attempts])
    return _worst(attempts)


def cleanup(arguments: argparse.Namespace, project: ProjectWorkstreams) -> int:
    """Say what is safe to remove and why the rest is kept; remove it if told to."""
    project.refreshed()
    proposals = project.proposals()
    removable = [each.slug for each in proposals if each.is_safe]
    attempts = list(_attempts(project, removable, force=False)) if arguments.apply else []
    removed = {attempt.slug for attempt in attempts if attempt.removed is not None}
    if arguments.json:
        say_json(
            [
                {"slug": each.slug, "is_safe": each.is_safe, "reason": each.reason, "removed": each.slug in removed}
                for each in proposals
            ]
        )
        return _worst(attempts)
    for line in proposal_lines(proposals, removed=removed if arguments.apply else None):
        say(line)
    if removable and not arguments.apply:
        say(f"Dry run. `{Hint.REMOVE_MERGED.line()}` removes them.")
    return _worst(attempts)


@dataclass(frozen=True, slots=True)
class _Attempt:
    """A removal that worked, or why it did not."""

    slug: str
    removed: Removed | None = None
    error: AgentosError | None = None

    def as_json(self) -> dict[str, Any]:
        removed = self.removed
        return {
            "slug": self.slug,
            "removed": removed is not None,
            "branch": removed.branch if removed else None,
            "tip": removed.tip if removed else None,
            "lost": removed.lost.words() if removed and removed.lost else None,
            "error": str(self.error) if self.error else None,
        }


def _attempts(project: ProjectWorkstreams, slugs: Sequence[str], *, force: bool) -> Iterable[_Attempt]:
    for slug in slugs:
        try:
            yield _Attempt(slug, removed=project.remove(slug, force=force))
        except AgentosError as error:
            sys.stderr.write(f"agentos: error: {error}\n")
            yield _Attempt(slug, error=error)


def _removed_words(removed: Removed, project_dir: Path) -> str:
    if removed.lost is None:
        return f"{removed.slug}: removed"
    lost = f"{removed.slug}: removed; lost: {removed.lost.words()}"
    if not removed.tip:
        return lost
    back = Hint.BRANCH_BACK.line(repository=project_dir, branch=removed.branch, commit=removed.tip[:12])
    return f"{lost} (`{back}` brings its commits back)"


def _left_words(project: ProjectWorkstreams, slug: str) -> str:
    """What it wrote into the user's checkout is the user's."""
    paths = document_paths(project.project_dir, project.settings, "lld", slug)
    left = [path.relative_to(project.project_dir).as_posix() for path in paths if path.is_file()]
    return f"; its design stays: {', '.join(left)}" if left else ""


def _worst(attempts: Iterable[_Attempt]) -> int:
    return max((attempt.error.exit_code for attempt in attempts if attempt.error), default=ExitCode.OK)

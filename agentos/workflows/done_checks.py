"""What items of our workflows made, and whether it is still there: the note that one is done counts only with it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from agentos.documents.approval import REHEARSER, Intact, document_hash, verify_approval
from agentos.documents.unapproved import Obstacle, read_unapproved
from agentos.engine.done_notes import Done, StillDone, always
from agentos.engine.plan import Item
from agentos.outcomes import APPROVED, IMPLEMENTED, NEEDS_REVISION, REHEARSED
from agentos.settings import Settings
from agentos.workflows.document_paths import document_paths
from agentos.workflows.implementation.records import has_code, read_attempt, read_record


def check_of(workflow: str, project_dir: Path, settings: Settings) -> StillDone:
    """How a registered workflow checks its notes."""
    checks: dict[str, Callable[[Item, Done], bool]] = {
        "lld": lambda item, done: _is_documented("lld", project_dir, settings, item, done),
        "issue": lambda item, done: _is_documented("issue", project_dir, settings, item, done),
        "implementation": lambda item, done: _is_implemented(
            project_dir, settings, item.id, item.input["lld_text"], done
        ),
        "pipeline": lambda item, done: _is_through(project_dir, settings, item, done),
    }
    check = checks.get(workflow)
    if check is None:
        return always
    worker = settings.models.who_reviews if workflow in ("lld", "issue") else settings.models.who_codes
    # What was rehearsed is still to be done by a run that works.
    return lambda item, done: (done.outcome != REHEARSED or worker == REHEARSER) and check(item, done)


def _is_documented(workflow: str, project_dir: Path, settings: Settings, item: Item, done: Done) -> bool:
    """The document is there, as the outcome says, for this very source. A rehearsal is done for rehearsals only."""
    wanted = item.input["source_hash"]
    for text in _texts(project_dir, settings, workflow, item.id):
        approval, mark = verify_approval(text), read_unapproved(text)
        if isinstance(approval, Intact) and approval.approval.issue_hash == wanted:
            if approval.approval.is_rehearsal:
                return done.outcome == REHEARSED and settings.models.who_reviews == REHEARSER
            return done.outcome == APPROVED
        is_its_own = mark is not None and mark.obstacle is not Obstacle.REVIEWER
        if done.outcome == NEEDS_REVISION and mark is not None and is_its_own and mark.issue_hash == wanted:
            return True
    return False


def _is_implemented(project_dir: Path, settings: Settings, item_id: str, lld_text: str, done: Done) -> bool:
    """Its branch is there with code, made from this very design. A rehearsal is done for rehearsals only."""
    read = {IMPLEMENTED: read_record, REHEARSED: read_record, NEEDS_REVISION: read_attempt}.get(done.outcome)
    record = read(project_dir, item_id) if read else None
    return (
        record is not None
        and (done.outcome != REHEARSED or settings.models.who_codes == REHEARSER)
        and record.document_hash == document_hash(lld_text)
        and has_code(project_dir, record)
    )


def _is_through(project_dir: Path, settings: Settings, item: Item, done: Done) -> bool:
    """Either stage may have been its last."""
    designs = [item.input["lld_text"]] if item.input["lld_text"] else _texts(project_dir, settings, "lld", item.id)
    if any(_is_implemented(project_dir, settings, item.id, text, done) for text in designs):
        return True
    return done.outcome == NEEDS_REVISION and _is_documented("lld", project_dir, settings, item, done)


def _texts(project_dir: Path, settings: Settings, workflow: str, item_id: str) -> list[str]:
    found = []
    for path in document_paths(project_dir, settings, workflow, item_id):
        try:
            found.append(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError):
            continue
    return found

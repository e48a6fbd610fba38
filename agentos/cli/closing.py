"""The last lines of a run: where its documents are, who is needed for what, and what comes next."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agentos.cli.output import shown
from agentos.cli.resume import command_line, options_text
from agentos.engine.checkpoints.protocol import ItemRef
from agentos.engine.plan import Item
from agentos.events import Event, ItemEnded, Listener
from agentos.hints import Hint
from agentos.outcomes import AWAITING_REVIEW, FAILED, NEEDS_REVISION
from agentos.reporters.wording import COORDINATOR
from agentos.settings import Settings
from agentos.text.output_prefixer import prefix_of
from agentos.text.words import counted, one_line
from agentos.workflows.document_paths import document_paths
from agentos.workflows.pending import Pending
from agentos.workflows.registry import WORKFLOWS, label_of

if TYPE_CHECKING:
    from agentos.cli.run_command import Work

MOST_ITEMS = 10
MOST_ENTRIES = 20
_NOUNS = {"lld": "design", "issue": "issue"}
_GOES_ALONG = ("models.drafter", "models.reviewer", "models.coder")
"""Options that the command of the next step takes too, and needs as much as this one did."""


class Endings:
    """Listens to a run and keeps how each item ended."""

    def __init__(self, listener: Listener | None = None) -> None:
        self._listener = listener
        self.by_item: dict[str, ItemEnded] = {}

    def __call__(self, event: Event) -> None:
        if isinstance(event, ItemEnded):
            self.by_item[event.item_id] = event
        if self._listener is not None:
            self._listener(event)


NamePath = Callable[[Path], str]
"""A file or folder as people read it: plain, or as a link."""


def closing_lines(work: Work, endings: Mapping[str, ItemEnded], name: NamePath = shown) -> list[str]:
    """What a person reads last."""
    ended = [(item, endings[item.id]) for item in work.plan.items if item.id in endings]
    done = [item.id for item, end in ended if end.outcome.is_done]
    parked = [item.id for item, end in ended if end.outcome == AWAITING_REVIEW]
    # What a graph of the user's own means by it, and where to mend it, only the user knows.
    is_ours = work.workflow.name in WORKFLOWS
    needy = [(item, end) for item, end in ended if end.outcome == NEEDS_REVISION and is_ours]
    return [
        *(f"{COORDINATOR} {text}" for text in (*_documents_words(work, done, name), *_next_words(work, done))),
        *_asking_lines(work, parked[:MOST_ITEMS]),
        *_answered_lines(work, [item.id for item, end in ended if end.outcome == FAILED][:MOST_ITEMS]),
        *(line for item, end in needy[:MOST_ITEMS] for line in _needy_lines(work, item, end, name)),
        *(f"{COORDINATOR} {text}" for text in _again_words(work, [item.id for item, _ in needy])),
    ]


def _documents_words(work: Work, done: Sequence[str], name: NamePath) -> list[str]:
    noun = _NOUNS.get(work.workflow.name)
    written = [path for item_id in done if (path := _document_path(work, item_id))] if noun else []
    if not noun or not written:
        return []
    read = Hint.SHOW_DOCUMENT.line(label=label_of(work.workflow.name, done[0]))
    folder = name(written[0].parent)
    # The folder may hold more, from earlier runs.
    if len(written) == 1:
        return [f"This run's {noun} is in {folder}. To read it: {read}"]
    return [f"This run's {counted(len(written), noun)} are in {folder}. To read one: {read}"]


def _document_path(work: Work, item_id: str) -> Path | None:
    paths = document_paths(work.project_dir, work.settings, work.workflow.name, item_id)
    return next((path for path in paths if path.is_file()), None)


def _next_words(work: Work, done: Sequence[str]) -> list[str]:
    if not done:
        return []
    options = options_text(work.arguments, _GOES_ALONG)
    match work.workflow.name:
        case "lld" if work.further is not None:
            able = _able_to_go_further(work, done)
            line = command_line(work.arguments, able, verb=work.resume_verb, **work.further)
            return [f"Next, from designs to code: {line}"] if able else []
        case name if name not in WORKFLOWS:
            return [f"Results of the graph: {Hint.SHOW_RESULTS.line()}"] if work.noun == "item" else []
        case name:
            step = next_step(name, work.project_dir, work.settings, options)
            return [f"Next, {step}"] if step else []


def next_step(workflow: str, project_dir: Path, settings: Settings, options: str) -> str:
    """What is made of the documents of a workflow, and how; empty where nothing can be."""
    match workflow:
        case "lld" if _has_commit(project_dir):
            return f"from designs to code: {Hint.IMPLEMENT_NEXT.line(options=options)}"
        case "issue" if settings.sources.issues == settings.documents.issues_dir:
            return f"from issues to designs: {Hint.DESIGN_NEXT.line(options=options)}"
        case _:
            return ""


def _able_to_go_further(work: Work, done: Sequence[str]) -> list[str]:
    """Those of the done items that do not build on open work outside of them."""
    from agentos.workflows.implementation.pending import without_unmet  # noqa: PLC0415  Few runs need it.

    items = tuple(item for item in work.plan.items if item.id in done)
    return [item.id for item in without_unmet(Pending(items, {}, ()), work.open_work, named=()).items]


def _has_commit(project_dir: Path) -> bool:
    """Whether branches can be made there."""
    from agentos.git.command import Git, GitError  # noqa: PLC0415  Few runs need it.

    try:
        return Git(project_dir).resolve("HEAD") is not None
    except GitError:
        return False


def _asking_lines(work: Work, parked: Sequence[str]) -> list[str]:
    if not parked:
        return []
    # Reads and answers documents too: a quarter of what a command loads, and most runs end without a question.
    from agentos.workflows.awaiting_review import waiting_items  # noqa: PLC0415

    waiting = {w.item_id: w for w in waiting_items(work.project_dir) if w.workflow == work.workflow.name}
    prefix = work.workflow.label_prefix
    return [f"{prefix_of(prefix + item_id)} {waiting[item_id].words}" for item_id in parked if item_id in waiting]


def _answered_lines(work: Work, failed: Sequence[str]) -> list[str]:
    """The same command would give the same answer again."""
    if not failed:
        return []
    from agentos.workflows.awaiting_review import waiting_item  # noqa: PLC0415  As above.

    found = (waiting_item(work.project_dir, ItemRef(work.workflow.name, item_id)) for item_id in failed)
    return [
        f"{prefix_of(item.label)} failed with the answer it was given. "
        f"To give another: {Hint.LOOK_AT_REVIEW.line(label=item.label)}"
        for item in found
        if item is not None and item.answer is not None
    ]


def _needy_lines(work: Work, item: Item, end: ItemEnded, name: NamePath) -> list[str]:
    """Why it needs somebody, every open question or finding, and the file to edit."""
    prefix = prefix_of(f"{work.workflow.label_prefix}{item.id}")
    place = _file_to_edit(work, item, name)
    if questions := _open_questions(item):
        heading = f"needs you: the issue leaves {counted(len(questions), 'question')} open. Answer in {place}:"
        return _listed(prefix, heading, questions)
    findings = _open_findings(work, item)
    reason = one_line(end.reason) or "it was not approved"
    heading = f"needs you: {reason}{'' if reason.endswith(('.', '?', '!')) else '.'} Change {place}"
    return _listed(prefix, f"{heading}:" if findings else heading, findings)


def _listed(prefix: str, heading: str, entries: Sequence[str]) -> list[str]:
    more = [f"{prefix}   and {len(entries) - MOST_ENTRIES} more"] if len(entries) > MOST_ENTRIES else []
    return [f"{prefix} {heading}", *(f"{prefix}   - {one_line(entry)}" for entry in entries[:MOST_ENTRIES]), *more]


def _file_to_edit(work: Work, item: Item, name: NamePath) -> str:
    """The issue or brief that a document is written from; the design that code is written from.

    Of a workstream, whose text is in no file, the design too, as it stands: a person's approval lets it go on.
    A person's own document is not written from its issue any more.
    """
    from agentos.documents.unapproved import is_a_persons  # noqa: PLC0415  Only for those who need it.

    if (design := _approved_design(work, item)) is not None:
        approve = Hint.APPROVE.line(label=label_of("lld", item.id))
        return f"{name(design)}, and approve it ({approve})"
    document = _document_path(work, item.id)
    if document is not None and is_a_persons(document.read_text(encoding="utf-8", errors="replace")):
        return name(document)
    origin = str(item.input.get("origin") or item.input.get("lld_path") or "")
    if "://" in origin:
        return one_line(origin)
    if (work.project_dir / origin).is_file() or document is None:
        return name(work.project_dir / origin) + _or_decide(work, item, document)
    approve = Hint.APPROVE.line(label=label_of(work.workflow.name, item.id))
    return f"{name(document)}, and approve it ({approve})"


def _or_decide(work: Work, item: Item, document: Path | None) -> str:
    """The mistake may be the draft's and not the issue's: a person may also take, edit or send back the draft."""
    if document is None or work.workflow.name not in _NOUNS or _open_questions(item):
        return ""
    return f", or decide ({Hint.LOOK_AT_REVIEW.line(label=label_of(work.workflow.name, item.id))})"


def _approved_design(work: Work, item: Item) -> Path | None:
    """What code was written from. Once it is changed nobody has approved it any more."""
    from agentos.documents.approval import Intact, verify_approval  # noqa: PLC0415  As above.

    if work.workflow.name not in ("implementation", "pipeline"):
        return None
    paths = document_paths(work.project_dir, work.settings, "lld", item.id)
    design = next((path for path in paths if path.is_file()), None)
    if design is None:
        return None
    found = verify_approval(design.read_text(encoding="utf-8", errors="replace"))
    return design if isinstance(found, Intact) else None


def _open_findings(work: Work, item: Item) -> list[str]:
    from agentos.documents.unapproved import open_findings  # noqa: PLC0415  Only for those who need it.

    document = _document_path(work, item.id)
    return open_findings(document.read_text(encoding="utf-8", errors="replace")) if document else []


def _open_questions(item: Item) -> list[str]:
    from agentos.documents.issue import parse_issue  # noqa: PLC0415  Compiles many patterns.

    text = item.input.get("source_text")
    questions = parse_issue(text).open_questions if isinstance(text, str) else ()
    return [question.text for question in questions if not question.resolved]


def _again_words(work: Work, ids: Iterable[str]) -> list[str]:
    needy = list(ids)
    if not needy:
        return []
    is_all = len(needy) > MOST_ITEMS and getattr(work.arguments, "all", False)
    ids = [] if is_all else needy
    changes: dict[str, object] = {"all": is_all}
    if getattr(work.arguments, "revise", None):
        # The document has been changed by then, as the person wished or otherwise.
        changes |= {"revise": None, "review_again": True}
    line = command_line(work.arguments, ids, verb=work.resume_verb, **changes)
    return [f"Then run: {line}"] if line else []

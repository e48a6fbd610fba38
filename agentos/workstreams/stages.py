"""Which stages a run takes workstreams through, and the items that workstreams become."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from agentos.documents.approval import REHEARSER, Absent, Intact, verify_approval
from agentos.documents.lines import LineKind
from agentos.documents.markdown import Document, parse
from agentos.documents.unapproved import is_a_persons
from agentos.engine.checkpoints import store_for
from agentos.engine.checkpoints.protocol import ItemRef, Standing
from agentos.engine.plan import Item, input_hash
from agentos.errors import UsageError
from agentos.hints import Hint
from agentos.settings import Settings
from agentos.sources.item import SourceItem, dependency_ids, priority_in, workstream_origin
from agentos.text.words import listed, one_line
from agentos.workflows import model_options
from agentos.workflows.document_paths import document_paths
from agentos.workflows.drafting.pending import item_of
from agentos.workflows.implementation.pending import design_item, why_implemented, without_unmet
from agentos.workflows.implementation.records import read_record
from agentos.workflows.item_names import item_named
from agentos.workflows.pending import Pending, Reason, ReasonKind, Skipped
from agentos.workflows.pipeline.pending import from_design, from_issue
from agentos.workflows.registry import WORKFLOWS, Workflow, label_of
from agentos.workstreams.registry import Registry
from agentos.workstreams.state import Workstream

DESIGN: Final = "DESIGN"
IMPLEMENTATION: Final = "IMPLEMENTATION"
STAGES: Final = (DESIGN, IMPLEMENTATION)
MODES: Final = {"execute": STAGES, "analyze": (DESIGN,)}
_WORKFLOW_OF: Final = {(DESIGN,): "lld", (IMPLEMENTATION,): "implementation", STAGES: "pipeline"}
_DESIGN_NODES: Final = "LLD."
_LONGEST_TITLE: Final = 200


@dataclass(frozen=True, slots=True)
class Route:
    """Stages in order and, if steps name any, the only nodes that may start."""

    stages: tuple[str, ...]
    nodes: frozenset[str] = frozenset()

    @property
    def completes(self) -> bool:
        """Whether a workstream that comes to the end of it is done."""
        return self.stages[-1] == IMPLEMENTATION

    def workflow(self) -> Workflow:
        """UsageError when this installation has no workflow for these stages."""
        name = _WORKFLOW_OF[self.stages]
        if name not in WORKFLOWS:
            raise UsageError(
                f"this version has no {name} workflow: use --mode analyze to design, or your own graph with --graph"
            )
        return WORKFLOWS[name]


def choose_route(mode: str, steps: Sequence[str], *, is_own_graph: bool = False) -> Route:
    """What `--mode` and `--steps` ask for (pure). Steps are stages, in any case, or names of nodes.

    Of our own workflows, a node means all nodes up to it. Raises UsageError for one that they do not have.
    """
    words = [word for step in steps for word in step.replace(",", " ").split()]
    stages = tuple(stage for stage in STAGES if stage in (word.upper() for word in words))
    nodes = [word for word in words if word.upper() not in STAGES]
    beyond = [stage for stage in stages if stage not in MODES[mode]]
    if beyond:
        raise UsageError(f"--mode {mode} has no {beyond[0]}: leave --steps out, or use --mode execute")
    route = Route(stages or MODES[mode], frozenset(nodes))
    return route if is_own_graph or not nodes else replace(route, nodes=_up_to(nodes, route.workflow().nodes))


def _up_to(names: Sequence[str], known: Sequence[str]) -> frozenset[str]:
    """The nodes from the first on to the furthest of those named. The stage before a name may be left out."""
    furthest = 0
    for name in names:
        found = [node for node in known if name in (node, node.rpartition(".")[2])]
        if len(found) != 1:
            problem = f"may be {listed(found)}" if found else "is neither a stage nor a node"
            raise UsageError(
                f"--steps: {one_line(name, 60)} {problem}. Stages: {', '.join(STAGES)}. Nodes: {', '.join(known)}."
            )
        furthest = max(furthest, known.index(found[0]))
    return frozenset(known[: furthest + 1])


def issue_text(workstream: Workstream) -> str:
    """The workstream's text as an issue. A few words are enough: they become title and body."""
    text = workstream.text.strip()
    document = parse(text)
    words = _below_front_matter(document)
    if words.startswith("# ") or "title" in document.front_matter:
        return text + "\n"
    front_matter = document.text.removesuffix(words)
    about = f"What workstream {workstream.slug} is for, as its author put it:"
    return f"{front_matter}# {title_of(text)}\n\n{about}\n\n{words}\n"


def title_of(text: str) -> str:
    first_line = next(iter(_below_front_matter(parse(text.strip())).splitlines()), "")
    return " ".join(first_line.lstrip("#").split())[:_LONGEST_TITLE]


def _below_front_matter(document: Document) -> str:
    below = (line for line in document.lines if line.kind is not LineKind.FRONT_MATTER and line.text.strip())
    first = next(below, None)
    return "" if first is None else document.text[first.start :]


@dataclass(frozen=True, slots=True)
class Found:
    """What there is to do for some workstreams, and for which of them there is nothing."""

    items: tuple[Item, ...]
    skipped: Skipped = ()
    """Slugs, and why."""
    warnings: tuple[str, ...] = ()

    def without_unmet(self, unfinished: Collection[str], named: Collection[str]) -> Found:
        """Without what builds on unfinished workstreams that are not part of it. UsageError if it was asked for."""
        able = without_unmet(Pending(self.items, {}, self.skipped), unfinished, named=named)
        return replace(self, items=able.items, skipped=able.skipped)


def find_work(
    workstreams: Iterable[Workstream],
    route: Route,
    project_dir: Path,
    settings: Settings,
    *,
    fresh: bool = False,
    named: Collection[str] = (),
) -> Found:
    """The items of a route. One that cannot take it is skipped with the reason; UsageError if it was asked for."""
    items: list[Item] = []
    skipped: list[tuple[str, Reason]] = []
    warnings: list[str] = []
    for workstream in workstreams:
        slug = workstream.slug
        if not workstream.text.strip():
            if (done := read_record(project_dir, slug)) is not None:
                kind = ReasonKind.REHEARSED_ON if done.is_rehearsal else ReasonKind.IMPLEMENTED
                skipped.append((slug, _to_complete(slug, Reason(kind, done.branch))))
                continue
            obstacle: Reason | None = _without_text(slug, project_dir, settings)
        else:
            found = _Documents(workstream, project_dir, settings)
            if not fresh and (reason := found.nothing_to_do(route)):
                skipped.append((slug, reason))
                continue
            obstacle = found.obstacle(route, fresh=fresh)
        if obstacle is None:
            items.append(found.item(route))
            warnings += found.replaced(route) if fresh else []
        elif slug in named:
            raise UsageError(f"{slug} {obstacle}")
        else:
            skipped.append((slug, obstacle))
    return Found(tuple(items), tuple(skipped), tuple(warnings))


def _to_complete(slug: str, reason: Reason) -> Reason:
    """With how to close it. A rehearsal brought nothing that could be complete."""
    if reason.kind is ReasonKind.REHEARSED_ON:
        return reason
    return replace(reason, further=f"`{Hint.COMPLETE_WORKSTREAM.line(slug=slug)}` closes it")


def _without_text(slug: str, project_dir: Path, settings: Settings) -> Reason:
    """A branch that was found in git. Where it has a design, the work on it is that of another command."""
    if any(path.is_file() for path in document_paths(project_dir, settings, "lld", slug)):
        continues = Hint.CONTINUE.line(workflow="implement", item=slug)
        return Reason(ReasonKind.NO_TEXT, further=f"it has a design, which `{continues}` works on")
    return Reason(ReasonKind.NO_TEXT, further=f"give it one with `{Hint.GIVE_TEXT.line(slug=slug)}`")


class _Documents:
    """A workstream's text as an issue, and its design, if there is one of this very text."""

    def __init__(self, workstream: Workstream, project_dir: Path, settings: Settings) -> None:
        self._workstream = workstream
        self._project_dir = project_dir
        self._settings = settings
        self._issue = item_of(as_issue(workstream))
        self._design = self._read_design()

    def nothing_to_do(self, route: Route) -> Reason | None:
        if self._design is None:
            return None
        if not route.completes:
            found = verify_approval(self._design.input["lld_text"])
            is_rehearsal = isinstance(found, Intact) and found.approval.is_rehearsal
            kind = ReasonKind.DESIGN_REHEARSED if is_rehearsal else ReasonKind.DESIGN_APPROVED
            return Reason(kind, further="--fresh designs it again")
        where = why_implemented(self._design, self._project_dir, self._settings)
        return _to_complete(self._workstream.slug, where) if where else None

    def obstacle(self, route: Route, *, fresh: bool) -> Reason | None:
        """Why the route cannot be taken."""
        if self._design is not None:
            return None if fresh or not self._was_designed_apart(route) else self._designed_apart()
        if route.stages == (DESIGN,) and not fresh and self._left_by_pipeline():
            continues = Hint.RUN_WORKSTREAM.line(slug=self._workstream.slug, options=self._models())
            return Reason(ReasonKind.PIPELINE_UNFINISHED, further=f"continue it first: {continues}")
        if DESIGN not in route.stages:
            return Reason(ReasonKind.NO_DESIGN, further="run it with --mode analyze first")
        path = document_paths(self._project_dir, self._settings, "lld", self._issue.id)[0]
        if fresh or not path.is_file() or self._is_cut_short(route):
            return None
        text = path.read_text(encoding="utf-8", errors="replace")
        if is_replaceable(text):
            return None
        shown = path.relative_to(self._project_dir).as_posix()
        if is_a_persons(text) and not isinstance(verify_approval(text), Intact):
            label = label_of("lld", self._issue.id)
            return Reason(ReasonKind.PERSONS_DESIGN, shown, f"decide with: {Hint.LOOK_AT_REVIEW.line(label=label)}")
        how = "move it away or choose another name for the workstream; --fresh replaces it"
        return Reason(ReasonKind.ANOTHERS_DESIGN, shown, how)

    def replaced(self, route: Route) -> list[str]:
        """What a person wrote that a fresh design replaces."""
        path = document_paths(self._project_dir, self._settings, "lld", self._issue.id)[0]
        if DESIGN not in route.stages or not path.is_file():
            return []
        if not is_a_persons(path.read_text(encoding="utf-8", errors="replace")):
            return []
        why = Reason(ReasonKind.REPLACES_PERSONS, path.relative_to(self._project_dir).as_posix())
        return [f"{self._workstream.slug}: {why}"]

    def _left_by_pipeline(self) -> Standing | None:
        """What a run of both stages left of this very text."""
        found = store_for(self._project_dir).peek(ItemRef(_WORKFLOW_OF[STAGES], self._issue.id))
        began = input_hash(from_issue(self._issue).input)
        return found if found and not found.is_untouched and found.input_hash == began else None

    def _was_designed_apart(self, route: Route) -> bool:
        """A run of both stages was cut short within its design, and would now stand against the one that is there."""
        left = self._left_by_pipeline() if route.stages == STAGES else None
        return left is not None and (left.resumes_after or "").startswith(_DESIGN_NODES)

    def _designed_apart(self) -> Reason:
        options = f" --steps {IMPLEMENTATION}{self._models()}"
        continues = Hint.RUN_WORKSTREAM.line(slug=self._workstream.slug, options=options)
        return Reason(ReasonKind.DESIGNED_APART, further=f"implement it: {continues}")

    def _models(self) -> str:
        return model_options.of_run(self._project_dir, self._settings.models)

    def _is_cut_short(self, route: Route) -> bool:
        return store_for(self._project_dir).exists(ItemRef(route.workflow().name, self._issue.id))

    def item(self, route: Route) -> Item:
        if route.stages == (DESIGN,):
            return self._issue
        base = {"AGENTOS_IMPLEMENTATION__BASE": self._workstream.base}
        return replace(self._starts_with(route), environment=base)

    def _starts_with(self, route: Route) -> Item:
        if route.stages == (IMPLEMENTATION,):
            assert self._design is not None  # Without one `obstacle` has said so.
            return self._design
        # A run that was cut short continues with what it began with, even if a design was written meanwhile.
        found = store_for(self._project_dir).peek(ItemRef(route.workflow().name, self._issue.id))
        issue = from_issue(self._issue)
        began_with_issue = found is not None and found.input_hash == input_hash(issue.input)
        return issue if self._design is None or began_with_issue else from_design(self._design)

    def _read_design(self) -> Item | None:
        for folder in (self._settings.documents.lld_done_dir, self._settings.documents.lld_dir):
            path = f"{folder}/LLD-{self._issue.id}.md"
            try:
                text = (self._project_dir / path).read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError):
                continue
            found = verify_approval(text)
            if not isinstance(found, Intact) or found.approval.issue_hash != self._issue.input["source_hash"]:
                continue
            if self._settings.models.who_reviews == REHEARSER or not found.approval.is_rehearsal:
                return design_item(self._issue.id, text, path, self._issue)
        return None


def as_issue(workstream: Workstream) -> SourceItem:
    """What the design of a workstream is written from."""
    text = issue_text(workstream)
    return SourceItem(
        id=workstream.slug,
        title=title_of(workstream.text),
        text=text,
        origin=workstream_origin(workstream.slug),
        priority=priority_in(text),
        depends_on=_dependencies(workstream.slug, text),
    )


def issues_named(project_dir: Path, names: Collection[str]) -> tuple[SourceItem, ...]:
    """The texts of the workstreams that somebody names, as issues. Reads files only."""
    top_dir = next(
        (folder for folder in (project_dir, *project_dir.parents) if (folder / ".git").exists()), project_dir
    )
    known = {slug: each for slug, each in Registry(top_dir).workstreams().items() if each.text.strip()}
    named = {item_named(name, known, dict) for name in names}
    return tuple(as_issue(each) for slug, each in known.items() if slug in named)


def _dependencies(slug: str, text: str) -> tuple[str, ...]:
    return tuple(name for name in dependency_ids(text) if name != slug)


def is_replaceable(design: str) -> bool:
    """Whether a design that is not for a workstream's text may make room for the one that is.

    Neither approved text nor what a person wrote is replaced unasked; a rehearsal is neither.
    """
    found = verify_approval(design)
    is_rehearsal = isinstance(found, Intact) and found.approval.is_rehearsal
    return is_rehearsal or (isinstance(found, Absent) and not is_a_persons(design))


def graph_items(workstreams: Iterable[Workstream], folder: str = "") -> list[Item]:
    """Items for a user's own graph: its state declares these keys, and its worker works in the worktree.

    `folder` is the project's in its repository.
    """
    return [
        Item(
            id=each.slug,
            input=_facts(each),
            priority=priority_in(each.text),
            depends_on=_dependencies(each.slug, each.text),
            work_dir=str(Path(str(each.path), folder)),
        )
        for each in workstreams
    ]


def _facts(workstream: Workstream) -> dict[str, Any]:
    return {
        "slug": workstream.slug,
        "text": workstream.text,
        "branch": workstream.branch,
        "base": workstream.base,
        "worktree": str(workstream.path),
    }
